"""`specsonar explain [CODE]`"""

from __future__ import annotations

from dataclasses import asdict
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..findings import CATALOGUE
from .output import emit, output_options, show
from .state import verbosity

if TYPE_CHECKING:
    from rich.console import RenderableType


def _complete(_context: click.Context, _parameter: click.Parameter, start: str) -> list[str]:
    return [code for code in sorted(CATALOGUE) if code.startswith(start.upper())]


@click.command("explain")
@click.argument("code", required=False, shell_complete=_complete)
@output_options("text", "json")
@verbosity
@click.pass_context
def command(context: click.Context, code: str | None, format_: str, output: Path | None) -> None:
    """Say what a finding means and what to do about it.

    CODE stands beside every finding, for example I002. Without it all codes are listed.
    """
    if code is not None and code.upper() not in CATALOGUE:
        near = get_close_matches(code.upper(), sorted(CATALOGUE), n=3, cutoff=0.5)
        listed = f" Near: {', '.join(near)}." if near else " `specsonar explain` lists all."
        raise click.UsageError(f"no finding has the code {code!r}.{listed}", context)
    if format_ == "json":
        from ..render import json

        records = [_record(c) for c in sorted(CATALOGUE)] if code is None else _record(code.upper())
        emit(json.dumps(records), output)
    else:
        show(_listing() if code is None else _page(code.upper()), output)


def _record(code: str) -> dict[str, Any]:
    return {"code": code, **asdict(CATALOGUE[code])}


def _listing() -> RenderableType:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for column in ("code", "severity", "title"):
        table.add_column(column)
    for code in sorted(CATALOGUE):
        table.add_row(code, CATALOGUE[code].severity, CATALOGUE[code].title)
    return table


def _page(code: str) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    entry = CATALOGUE[code]
    parts: list[RenderableType] = [Text(f"{code}: {entry.title} ({entry.severity})", style="bold")]
    for head, text in (("What", entry.what), ("Why", entry.why), ("Do", entry.do)):
        parts += [Text(), Text.assemble((f"{head}: ", "bold"), text)]
    return Group(*parts)
