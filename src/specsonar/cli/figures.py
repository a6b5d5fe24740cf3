"""`--format html` and `--figures DIR`: what needs the extra `report`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ..errors import InputError, UsageError
from ..extras import need_report
from .output import emit, replacing

if TYPE_CHECKING:
    from ..fingerprint import Fingerprint
    from ..render.charts import Figure

Command = TypeVar("Command", bound=Callable[..., Any])


def usable(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
    """Refuse what cannot be drawn before anything is recorded; a callback of click."""
    del context, parameter
    if value == "html" or isinstance(value, Path):
        need_report()
    return value


def figures_option(command: Command) -> Command:
    """Add --figures DIR."""
    return click.option(
        "--figures", type=click.Path(path_type=Path, file_okay=False), metavar="DIR", callback=usable,
        help="Also save each figure there as PNG and SVG.",
    )(command)  # fmt: skip


def emit_page(text: str, output: Path | None) -> None:
    """Save a page, or write it to stdout where that is no terminal.

    Raises
    ------
    UsageError : a page is about to fill a terminal.
    """
    if output is None and is_terminal():
        raise UsageError("a page of HTML is not for a terminal", "give -o report.html, or send stdout to a file")
    emit(text, output)


def is_terminal() -> bool:
    """Whether stdout is one."""
    return sys.stdout.isatty()


def save_figures(fingerprint: Fingerprint, folder: Path | None) -> None:
    """Those of a fingerprint, where a folder was named."""
    if folder is not None:
        from ..render.charts import figures
        from ..render.images import PALETTE

        save(figures(fingerprint, PALETTE), folder)


def save(drawn: Iterable[Figure], folder: Path) -> None:
    """Each figure as PNG and SVG in `folder`, which is made.

    Raises
    ------
    InputError : a file cannot be written.
    """
    from ..render.images import images

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make {str(folder)!r}: {error.strerror or error}", "choose another DIR") from error
    for name, content in images(drawn):
        with replacing(folder / name) as file:
            file.write(content)
