"""`specsonar show FILE`"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from .output import emit, output_options, show
from .reading import reading_options
from .state import state_of, verbosity

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ..show import Contents, StreamView

_LISTED: Final = 20
"""Streams that are listed one by one; -v lists all."""


@click.command("show")
@click.argument("file", metavar="FILE", type=click.Path(allow_dash=True))
@reading_options
@output_options("text", "json")
@verbosity
@click.pass_context
def command(context: click.Context, /, file: str, format_: str, output: Path | None, **options: Any) -> None:
    """Say what is in a recording, before anything is inferred from it.

    Format, streams, events, span, token counts and where they come from, and what the reader noticed. Of a file
    without arrival times it tells what it holds instead.

    \b
    Examples:
      specsonar show trace.txt
      specsonar show recording.jsonl.zst --json
    """
    from ..show import show as read

    found = read(file, **options)
    if format_ == "json":
        from ..render import json

        emit(json.dumps(found.to_dict()), output)
    else:
        from rich.console import Group

        show(Group(*_parts(found, _LISTED if not state_of(context).verbose else len(found.streams))), output)


def _parts(found: Contents, listed: int) -> Iterator[RenderableType]:
    from rich.text import Text

    from ..render.rows import clean

    events = sum(one.events for one in found.streams)
    plural = "" if len(found.streams) == 1 else "s"
    yield Text(f"{clean(found.format)}: {len(found.streams)} stream{plural}, {events:,} events", style="bold")
    if found.streams:
        yield Text()
        file = clean(str(found.inputs[0]["name"])) if found.inputs else ""
        yield _table(found.streams[:listed], file)
        if len(found.streams) > listed:
            yield Text(f"and {len(found.streams) - listed:,} more; -v lists all", style="dim")
    if ticks := sorted({one.tick_s for one in found.streams if one.tick_s}):
        yield Text()
        yield Text(f"clock: ticks of {' and '.join(map(_tick, ticks))}")
    for title, values in (("holds", found.holds), ("server says", _report(found))):
        if values:
            said = ", ".join(f"{clean(str(k)).replace('_', ' ')} {clean(_said(v))}" for k, v in values.items())
            yield Text()
            yield Text(f"{title}: {said}")
    if found.findings:
        yield Text()
    for one in found.findings:
        yield Text(f"{one.code} {clean(one.message)}", style="yellow" if one.severity == "warning" else "cyan")
        if one.hint:
            yield Text(f"     {clean(one.hint)}", style="dim")


def _report(found: Contents) -> dict[str, Any]:
    report = found.server_report or next((s.server_report for s in found.streams if s.server_report), None) or {}
    return {k: v for k, v in report.items() if v is not None}


def _table(streams: tuple[StreamView, ...], file: str) -> RenderableType:
    """A row a stream. Many readers name streams after the `file`, which is known here and would fill the line."""
    from rich.table import Table
    from rich.text import Text

    from ..render.rows import NONE, clean

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("stream", overflow="fold")
    for column in ("events", "tokens", "span s", "first ms", "median gap ms"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("counts", overflow="fold")
    for one in streams:
        tokens = NONE if one.tokens is None else f"{one.tokens:,}"
        name = clean(one.name).removeprefix(f"{file}:")
        cells = (name, f"{one.events:,}", tokens, f"{one.span_s:.3f}", _ms(one.first_s), _ms(one.median_gap_s))
        table.add_row(*(Text(c) for c in (*cells, clean(one.count_source))))
    return table


def _ms(seconds: float | None) -> str:
    from ..render.rows import NONE

    return NONE if seconds is None else f"{seconds * 1e3:.4g}"


def _tick(seconds: float) -> str:
    """A tick of a clock in the unit that needs no fraction."""
    scale, unit = next((s, u) for s, u in ((1, "s"), (1e3, "ms"), (1e6, "us"), (1e9, "ns")) if seconds * s > 0.999)
    return f"{seconds * scale:.4g} {unit}"


def _said(value: object) -> str:
    if isinstance(value, list | tuple):
        return " ".join(map(_said, value))
    return f"{value:.4g}" if isinstance(value, float) else str(value)
