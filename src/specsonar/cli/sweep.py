"""`specsonar sweep`"""

from __future__ import annotations

import contextlib
import csv
import io
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .figures import emit_page, figures_option, save
from .output import emit, output_options, show
from .progress import progress
from .state import state_of, verbosity

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ..sweep import Executor, Row, Summary, Sweep


@click.command("sweep")
@click.option(
    "--preset", type=click.Choice(("article", "figure1")), required=True,
    help="article: the founding experiment; figure1: its first figure, clean beside 6 ms of jitter.",
)  # fmt: skip
@click.option("--reps", type=click.IntRange(1), metavar="N", default=10, show_default=True, help="Streams per row.")
@click.option("--seed", type=click.IntRange(0), metavar="N", default=0, show_default=True, help="Of all chance.")
@click.option("--jobs", type=click.IntRange(1), metavar="N", help="Processes.  [default: one per usable core]")
@click.option("--csv", "format_", flag_value="csv", help="Short for --format csv.")
@figures_option
@output_options("text", "json", "csv", "html")
@verbosity
@click.pass_context
def command(
    context: click.Context, preset: str, reps: int, seed: int, jobs: int | None, figures: Path | None, format_: str,
    output: Path | None,
) -> None:  # fmt: skip
    """Measure how well services can be recognised, setting by setting.

    Every row is a simulated service whose settings are known. The article's own figures stand beside its analyser,
    run again, and beside ours.
    """
    from .. import sweep

    with progress(state_of(context)) as report, pool(jobs or _cores()) as executor:
        result = sweep.run(preset, reps=reps, seed=seed, executor=executor or sweep.SERIAL, progress=report)
    if figures is not None:
        from ..render.images import PALETTE
        from ..render.pairs import sweep_figures

        save(sweep_figures(result, PALETTE), figures)
    if format_ == "json":
        from ..render import json

        emit(json.dumps(result.to_dict()), output)
    elif format_ == "html":
        from ..render import html

        emit_page(html.sweep(result), output)
    elif format_ == "csv":
        emit(_csv(result), output)
    else:
        show(_table(result), output)


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextlib.contextmanager
def pool(jobs: int) -> Iterator[Executor | None]:
    """Processes that leave Ctrl-C to their parent; None for a single job."""
    if jobs == 1:
        yield None
        return
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    pool = ProcessPoolExecutor(
        jobs, multiprocessing.get_context("spawn"), initializer=signal.signal,
        initargs=(signal.SIGINT, signal.SIG_IGN),
    )  # fmt: skip
    try:
        yield pool
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()


def _csv(result: Sweep) -> str:
    names, table = result.flat()
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([["" if value is None or value != value else value for value in row] for row in table])
    return text.getvalue()


def _table(result: Sweep) -> RenderableType:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
    table.add_column("\njitter", no_wrap=True)
    for quantity in ("M", "alpha", "step ms"):
        for source in ("article", "again", "ours"):
            head = f"{quantity}\n{source}" if source == "article" else f"\n{source}"
            table.add_column(head, justify="right", no_wrap=True, style="bold" if source == "ours" else "")
    table.add_column("M right\nagain", justify="right", no_wrap=True)
    table.add_column("\nours", justify="right", no_wrap=True, style="bold")
    for row in result.rows:
        table.add_row(*_cells(row))
    truth = ", ".join(dict.fromkeys(_truth(row) for row in result.rows))
    return Group(
        Text(f"Truth: {truth}; {result.rows[0].tokens} tokens a stream."),
        Text(f"again: the article's analyser, run again. Streams a row: {result.reps}, means shown.", style="dim"),
        Text(),
        table,
    )


def _truth(row: Row) -> str:
    return f"M={row.max_burst} alpha={row.alpha:g} step={row.step_ms:g} ms"


def _cells(row: Row) -> list[str]:
    said, again, ours = row.published, row.baseline, row.likelihood
    return [
        row.label,
        said.max_burst or "", _number(again.max_burst, 1), _number(ours.max_burst, 1),
        said.alpha or "", _number(again.alpha, 2), _number(ours.alpha, 2),
        said.step_ms or "", _number(again.step_ms, 1), _number(ours.step_ms, 2),
        _share(again), _share(ours),
    ]  # fmt: skip


def _number(value: float, places: int) -> str:
    text = f"{value:.{places}f}" if value == value else "-"
    return text.removeprefix("0") if places == 2 and text.startswith("0.") else text


def _share(summary: Summary) -> str:
    return f"{summary.exact * 100:.0f}%"
