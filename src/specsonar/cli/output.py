"""Where results go: stdout or a file, in one of the formats."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, TypeVar

import click

from ..errors import InputError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ..fingerprint import Fingerprint

Command = TypeVar("Command", bound=Callable[..., Any])

FORMATS: Final = ("text", "json", "markdown", "html")
_WIDEST: Final = 100


def output_options(*formats: str) -> Callable[[Command], Command]:
    """Add -o, --format (of `formats`) and, where JSON is among them, --json."""
    return lambda command: output_file(format_options(*formats)(command))


def format_options(*formats: str) -> Callable[[Command], Command]:
    """Add --format (of `formats`) and, where JSON is among them, --json."""

    def add(command: Command) -> Command:
        if "json" in formats:
            command = click.option("--json", "format_", flag_value="json", help="Short for --format json.")(command)
        return click.option(
            "--format", "format_", type=click.Choice(formats), default=formats[0], show_default=True,
            callback=_usable, help="What to print.",
        )(command)  # fmt: skip

    return add


def _usable(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
    """Refuse a page that cannot be drawn before anything is recorded."""
    from .figures import usable

    return usable(context, parameter, value)


def output_file(command: Command) -> Command:
    """Add -o FILE."""
    return click.option(
        "-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Write there instead of to stdout."
    )(command)


def present(fingerprint: Fingerprint, format_: str, output: Path | None, *, methods: bool = False) -> None:
    """Print or save `fingerprint` in a format of `FORMATS`, or its checks as "junit".

    `methods` says how the intervals were made, in text.
    """
    if format_ == "json":
        from ..render import json

        emit(json.render(fingerprint), output)
    elif format_ == "junit":
        from .gate import junit

        emit(junit(fingerprint), output)
    elif format_ == "html":
        from ..render import html
        from .figures import emit_page

        emit_page(html.render(fingerprint), output)
    elif format_ == "markdown":
        from ..render import markdown

        emit(markdown.render(fingerprint), output)
    else:
        from ..render import terminal

        emit(terminal.render(fingerprint, methods=methods, **look(output)), output)


def show(content: RenderableType, output: Path | None) -> None:
    """Print or save something that rich can draw."""
    from ..render import terminal

    emit(terminal.paint(content, **look(output)), output)


def as_csv(names: Sequence[str], table: Iterable[Sequence[Any]]) -> str:
    """Rows as CSV with a head; what is missing or not a number is left empty."""
    import csv

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([["" if value is None or value != value else value for value in row] for row in table])
    return text.getvalue()


def look(output: Path | None) -> dict[str, Any]:
    """Width, colour and encoding for text that goes to `output`; files get 80 plain columns of UTF-8."""
    if not _is_stdout(output):
        return {"width": 80, "colour": False, "encoding": "utf-8"}
    terminal = sys.stdout.isatty()
    return {
        "width": min(shutil.get_terminal_size().columns, _WIDEST) if terminal else 80,
        "colour": terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") not in ("dumb", "unknown"),
        "encoding": sys.stdout.encoding or "utf-8",
    }


def emit(text: str, output: Path | None) -> None:
    """Write `text` to `output`, or to stdout when that is None or "-"."""
    if _is_stdout(output):
        encoding = sys.stdout.encoding or "utf-8"
        with stdout_bytes() as file:
            file.write(text.encode(encoding, "replace"))
        return
    assert output is not None
    with replacing(output) as file:
        file.write(text.encode())


def _is_stdout(output: Path | None) -> bool:
    return output is None or str(output) == "-"


@contextlib.contextmanager
def stdout_bytes() -> Iterator[BinaryIO]:
    """stdout for bytes. Under PYTHONUNBUFFERED it is a raw file, whose `write` may take only a part."""
    sys.stdout.flush()
    plain = sys.stdout.buffer
    if not isinstance(plain, io.RawIOBase):
        yield plain
        plain.flush()
        return
    buffered = io.BufferedWriter(plain)
    yield buffered
    buffered.flush()
    buffered.detach()


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file that takes the place of `path` when all went well; until then `path` stays as it was.

    Raises
    ------
    InputError : the file cannot be written.
    """
    try:
        target = Path(os.path.realpath(path))
        if target.exists() and not stat.S_ISREG(target.stat().st_mode):
            with target.open("wb") as file:  # a device or a pipe cannot be replaced; a directory says so itself
                yield file
            return
        handle, name = tempfile.mkstemp(prefix=f".{target.name[:80]}.", dir=target.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                yield file
            os.chmod(name, _mode(target))
            os.replace(name, target)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name)
            raise
    except BrokenPipeError:
        raise
    except OSError as error:
        raise InputError(f"cannot write {str(path)!r}: {error.strerror or error}", "choose another -o FILE") from error


def _mode(target: Path) -> int:
    """The permissions that an ordinary write would leave."""
    if target.exists():
        return stat.S_IMODE(target.stat().st_mode)
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
