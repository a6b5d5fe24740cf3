"""A Comparison for the terminal and as Markdown: the sentence, one row a quantity, what is missing, findings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ..fingerprint import CHANGED, EQUIVALENT, UNDETERMINED, Change, Comparison, Fingerprint
from . import markdown
from .rows import NONE, basis, clean, conclusion, percent
from .terminal import check_lines, finding_lines, method_lines, paint

HEADS: Final = ("quantity", "base", "candidate", "change", "interval", "verdict")

SHOWN: Final = {
    "tokens_per_s": ("tokens/s", "", 1),
    "acceptance_length": ("acceptance length", "", 2),
    "step_ms": ("step time", " ms", 2),
    "first_token_ms": ("first token", " ms", 0),
    "jitter_ms": ("step spread", " ms", 2),
}
"""Name, unit and decimals of each quantity."""

_STYLE: Final = {CHANGED: "yellow", EQUIVALENT: "green", UNDETERMINED: "cyan"}


def rows(comparison: Comparison) -> list[tuple[str, ...]]:
    """One row a quantity, as strings in the order of `HEADS`."""
    return [_row(*SHOWN[name], change) for name, change in comparison.changes.items()]


def _row(name: str, unit: str, places: int, change: Change | None) -> tuple[str, ...]:
    name = f"{name},{unit}" if unit else name
    if change is None:
        return (name, NONE, NONE, NONE, NONE, "not known")
    value, low, high = (round(x, 1) + 0.0 for x in change.percent)  # never "-0.0"
    sides = (f"{x:.{places}f}" for x in (change.base, change.candidate))
    return (name, *sides, f"{value:+.1f}%", f"{low:+.1f}% to {high:+.1f}%", change.verdict)


def needed(comparison: Comparison) -> str:
    """What would settle an open question; "" when none is open."""
    if comparison.needed_streams is None:
        return ""
    return (
        f"about {comparison.needed_streams:,} streams a side ({comparison.needed_tokens:,} tokens) would settle "
        "what is undetermined"
    )


def level(comparison: Comparison) -> str:
    """The level that the intervals share."""
    return percent(next((c.level for c in comparison.changes.values() if c is not None), 0.95))


def sides(comparison: Comparison) -> Iterator[str]:
    """What each side rests on, one line each."""
    for name, side in (("base", comparison.base), ("candidate", comparison.candidate)):
        yield f"{name}: {' | '.join([*_inputs(side), *basis(side)])}"


def _inputs(side: Fingerprint) -> list[str]:
    names = [clean(str(one.get("name", ""))) for one in side.provenance.get("inputs", ()) if isinstance(one, dict)]
    return [f"{names[0]} and {len(names) - 1} more" if len(names) > 2 else ", ".join(names)] if names else []


def text(
    comparison: Comparison, *, gate: bool = False, methods: bool = False, width: int = 80, colour: bool = False,
    encoding: str = "utf-8",
) -> str:  # fmt: skip
    """`comparison` as text that ends with a newline.

    `gate` tells what decided, `methods` how the intervals were made. See `terminal.render` for the rest.
    """
    return paint(Group(*_parts(comparison, gate, methods)), width=width, colour=colour, encoding=encoding)


def _parts(comparison: Comparison, gate: bool, methods: bool) -> Iterator[RenderableType]:
    yield Text(clean(comparison.sentence), style="bold")
    yield Text()
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for head in HEADS:
        left = head in ("quantity", "verdict")
        title = f"{level(comparison)} interval" if head == "interval" else head
        table.add_column(title, justify="left" if left else "right", no_wrap=head != "verdict")
    for *cells, verdict in rows(comparison):
        table.add_row(*map(Text, cells), Text(verdict, style=_STYLE.get(verdict, "dim")))
    yield table
    if methods:
        yield Text()
        yield from method_lines(
            (SHOWN[name][0], change.method) for name, change in comparison.changes.items() if change is not None
        )
    if gate:
        yield Text()
        yield from check_lines(comparison.checks)
    if comparison.needed_streams is not None:
        yield Text()
        yield Text(needed(comparison))
    if comparison.findings:
        yield Text()
        yield from (part for f in comparison.findings for part in finding_lines(f))
    yield Text()
    for line in sides(comparison):
        yield Text(line, style="dim")


def as_markdown(comparison: Comparison, *, gate: bool = False) -> str:
    """`comparison` as Markdown for a comment or a job summary; `gate` puts what it says above."""
    return "\n".join(_lines(comparison, gate)) + "\n"


def _lines(comparison: Comparison, gate: bool) -> Iterator[str]:
    if gate:
        yield f"### specsonar gate: {conclusion(comparison.checks)}"
        yield ""
    yield f"**{markdown.escape(comparison.sentence)}**"
    yield ""
    yield f"| quantity | base | candidate | change | {level(comparison)} interval | verdict |"
    yield "| --- | ---: | ---: | ---: | --- | --- |"
    for row in rows(comparison):
        yield f"| {' | '.join(map(markdown.escape, row))} |"
    if gate:
        yield ""
        yield from markdown.check_lines(comparison.checks)
    if comparison.needed_streams is not None:
        yield ""
        yield markdown.escape(needed(comparison)) + "."
    if comparison.findings:
        yield ""
        yield from markdown.finding_lines(comparison.findings)
    yield ""
    yield "<br>".join(map(markdown.escape, sides(comparison)))
