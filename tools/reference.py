"""Pages of the reference that are made from the code: findings, command line, Python."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import click

import specsonar
from specsonar.cli.app import COMMANDS, cli
from specsonar.findings import CATALOGUE

_FAMILIES: Final = {
    "I": "the input",
    "Q": "the quality of the data",
    "V": "the verdict and its numbers",
    "S": "the server's own report",
    "C": "comparisons",
}
_ITEM: Final = re.compile(r"^(\w+(?:, \w+)*) :(?: (.*))?$")
_RULE: Final = re.compile(r"^-{3,}$")


def findings() -> str:
    """docs/reference/findings.md, from the catalogue."""
    lines = [
        "# Findings",
        "",
        "Made from `specsonar.findings.CATALOGUE` by `python tools/docs.py`; do not edit.",
        "`specsonar explain CODE` prints the same.",
        "",
        "| code | severity | title |",
        "|---|---|---|",
        *(f"| [{c}](#{c.lower()}) | {e.severity} | {e.title} |" for c, e in sorted(CATALOGUE.items())),
    ]
    for family, about in _FAMILIES.items():
        lines += ["", f"## {family}: {about}"]
        for code, entry in sorted(CATALOGUE.items()):
            if code.startswith(family):
                lines += ["", f"### {code}", "", f"**{entry.title}** ({entry.severity})", "", entry.what, ""]
                lines += [f"Why it matters: {entry.why}", "", f"What to do: {entry.do}"]
    return "\n".join(lines) + "\n"


class _Markdown(click.HelpFormatter):
    """What `--help` says, as Markdown instead of columns."""

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        """The usage line in a block of its own."""
        self.write(f"```text\n{prog} {args}\n```")

    def write_heading(self, heading: str) -> None:
        """A heading within a command."""
        self.write(f"**{heading}**\n")

    def write_paragraph(self) -> None:
        """An empty line, never two of them."""
        if self.buffer and not self.buffer[-1].endswith("\n\n") and self.buffer[-1] != "\n":
            self.write("\n")

    def write_text(self, text: str) -> None:
        """Paragraphs; those after click's mark for "as it is" go into a block."""
        for part in inspect.cleandoc(text).split("\n\n"):
            self.write("\n")
            verbatim = part.startswith("\b\n")
            self.write(f"```text\n{part[2:]}\n```\n" if verbatim else " ".join(part.split()) + "\n")

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        """A table."""
        self.write("\n| | |\n|---|---|\n")
        for name, meaning in rows:
            self.write(f"| `{_cell(name)}` | {_cell(meaning)} |\n")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def command_line() -> str:
    """docs/reference/cli.md, from the commands."""
    context = click.Context(cli, info_name="specsonar", **cli.context_settings)
    parts = [
        "# The command line",
        "",
        "Made from the commands by `python tools/docs.py`; do not edit. `specsonar COMMAND --help` prints the same.",
        "",
        _help(cli, context),
    ]
    for name in COMMANDS:
        command = cli.get_command(context, name)
        assert command is not None
        parts += ["", f"## {name}", "", _help(command, click.Context(command, context, name))]
    return "\n".join(parts) + "\n"


def _help(command: click.Command, context: click.Context) -> str:
    formatter = _Markdown()
    command.format_help(context, formatter)
    return formatter.getvalue().strip()


def python() -> str:
    """docs/reference/python.md, from the docstrings of what `specsonar` exports."""
    exported = {name: getattr(specsonar, name) for name in specsonar.__all__ if not name.startswith("_")}
    groups = {
        "Functions": [n for n, value in exported.items() if inspect.isroutine(value)],
        "Records": [n for n, v in exported.items() if inspect.isclass(v) and not issubclass(v, Exception)],
        "Errors": [n for n, v in exported.items() if inspect.isclass(v) and issubclass(v, Exception)],
    }
    lines = [
        "# Python",
        "",
        "Made from the docstrings of what the package exports by `python tools/docs.py`; do not edit.",
        "Everything is typed, and imported on first use.",
    ]
    for title, names in groups.items():
        lines += ["", f"## {title}"]
        for name in names:
            lines += ["", f"### {name}", "", *_described(name, exported[name])]
    return "\n".join(lines) + "\n"


def _described(name: str, value: Any) -> Iterator[str]:
    if inspect.isroutine(value):
        yield from ("```text", f"{name}{_signature(value)}", "```", "")
    yield from _prose(inspect.getdoc(value) or "")
    members = []
    for member, attribute in vars(value).items() if inspect.isclass(value) else ():
        about = inspect.getdoc(attribute)
        if member.startswith("_") or not about or not isinstance(attribute, property | classmethod | _FUNCTION):
            continue
        call = "" if isinstance(attribute, property) else _signature(getattr(value, member), bound=True)
        members.append(f"- `.{member}{call}`: {about.splitlines()[0]}")
    if members:
        yield from ("", "**Members**", "", *members)


_FUNCTION: Final = type(_described)


def _signature(function: Callable[..., Any], *, bound: bool = False) -> str:
    """The names, kinds and defaults of the parameters; types are told in the text and by an editor."""
    found = inspect.signature(function)
    names = [p.replace(annotation=inspect.Parameter.empty) for p in found.parameters.values()]
    if bound and names and names[0].name == "self":
        names = names[1:]
    return str(found.replace(parameters=names, return_annotation=inspect.Signature.empty))


def _prose(docstring: str) -> Iterator[str]:
    """Paragraphs, sections as bold words, "name : meaning" as lists, examples in a block."""
    lines = docstring.splitlines()
    example = listed = False
    inner = "  "
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        text = line.strip()
        if text.startswith(">>>") and not example:
            example = True
            yield "```pycon"
        elif example and not text:
            example = False
            yield "```"
        item = _ITEM.match(text)
        if _RULE.match(text):
            continue
        if example:
            yield line
        elif _RULE.match(below.strip()):
            listed = text in ("Parameters", "Attributes", "Raises")
            yield from (f"**{text}**", "")
        elif listed and item:
            nested = line.startswith(" ")
            inner = "    " if nested else "  "
            yield f"{inner[2:]}- `{item[1]}`: {item[2] or ''}".rstrip()
        elif listed and text and line.startswith(" "):
            yield inner + text
        else:
            yield line
    if example:
        yield "```"


GENERATED: Final[dict[Path, Callable[[], str]]] = {
    Path("docs/reference/findings.md"): findings,
    Path("docs/reference/cli.md"): command_line,
    Path("docs/reference/python.md"): python,
}
"""Pages that nobody edits, by what makes them."""
