"""`specsonar sweep`"""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from ..errors import UsageError
from .figures import emit_page, figures_option, save
from .output import as_csv, emit, output_options, replacing, show, stdout_bytes
from .progress import progress
from .state import say, state_of, verbosity
from .workers import executor_options

if TYPE_CHECKING:
    from ..sweep import Plan, Sweep

PRESETS: Final = ("article", "figure1", "jitter-law", "long-tail", "sample-size", "nulls")
METHODS: Final = ("baseline", "likelihood", "guidellm", "logisi", "hmm")
_LONG_S: Final = 30.0


def _knobs(_context: click.Context, _parameter: click.Parameter, start: str) -> list[str]:
    from ..sweep.grid import KNOBS

    return [f"{name}=" for name in KNOBS if name.startswith(start)]


@click.command("sweep")
@click.option(
    "--preset", type=click.Choice(PRESETS),
    help="article: the founding experiment; figure1: its first figure; jitter-law: accuracy over jitter/step and "
    "tokens; long-tail: heavy delays and stalls; sample-size: how many tokens it takes; nulls: false alarms.",
)  # fmt: skip
@click.option(
    "--vary",
    multiple=True,
    metavar="KNOB=VALUES",
    shell_complete=_knobs,
    help="A knob with its values or its range; repeatable.",
)
@click.option(
    "--set",
    "fixed",
    multiple=True,
    metavar="KNOB=VALUE",
    shell_complete=_knobs,
    help="A knob for all services; repeatable.",
)
@click.option(
    "--grid", type=click.Path(path_type=Path), metavar="FILE",
    help="The same from a TOML file, with tables [vary] and [set]; flags come on top.",
)  # fmt: skip
@click.option(
    "--method", "methods", multiple=True, type=click.Choice(METHODS),
    help="What to compare; repeatable.  [default: the preset's, or baseline and likelihood]",
)  # fmt: skip
@click.option(
    "--reps", type=click.IntRange(1), metavar="N", help="Repetitions of each service.  [default: the preset's, or 10]"
)
@click.option("--seed", type=click.IntRange(0), metavar="N", help="Of all chance.  [default: 0]")
@click.option(
    "--store", type=click.Path(path_type=Path, file_okay=False), metavar="DIR",
    help="Keep finished work there, and go on from what is there.",
)  # fmt: skip
@click.option("--refresh", is_flag=True, help="Compute again what is in the store.")
@executor_options
@click.option("--csv", "format_", flag_value="csv", help="Short for --format csv.")
@figures_option
@output_options("text", "json", "csv", "parquet", "html")
@verbosity
@click.pass_context
def command(
    context: click.Context, preset: str | None, vary: tuple[str, ...], fixed: tuple[str, ...], grid: Path | None,
    methods: tuple[str, ...], reps: int | None, seed: int | None, store: Path | None, refresh: bool, executor: str,
    jobs: int | None, figures: Path | None, format_: str, output: Path | None,
) -> None:  # fmt: skip
    """Measure how well services can be recognised, setting by setting.

    Services whose settings are known are simulated over and over, and analysed by this package, by the founding
    article's analyser and by estimators of other fields: how often is M right, how far off is the rest, how often do
    the intervals hold the truth, how often is speculation seen where there is none, and how long does it take?

    Any knob of `specsonar simulate` can vary, by its name; so can tokens, streams, world, layer (in-order, independent,
    counted), and the delay by its spread: sigma (share of the step) or jitter (ms), with its law and shape. Values
    are written a,b,c or from:to:step (from:to:x2 doubles), and a;b where they have commas themselves.

    \b
    Examples:
      specsonar sweep --preset article
      specsonar sweep --vary sigma=0:0.4:0.1 --set layer=independent --store cells
      specsonar sweep --vary law=gauss,exponential --set sigma=0.3 --reps 50
      specsonar sweep --preset nulls --method logisi --format html -o nulls.html
      specsonar sweep --grid sweep.toml --executor dask://10.0.0.1:8786
    """
    from ..executors import opened
    from ..sweep import running

    if format_ == "parquet":
        _parquet_possible(output)
    plan = _planned(preset, vary, fixed, grid, methods, reps, seed)
    state = state_of(context)

    def announce(stored: int, missing: int, seconds: float) -> None:
        if seconds > _LONG_S and not state.quiet:
            known = f", {stored} are in the store" if stored else ""
            say(f"{len(plan.cells)} services, {missing} pieces of work{known}: about {_duration(seconds)}")

    try:
        with progress(state) as report, opened(executor, jobs=jobs) as workers:
            result = running.carried_out(
                plan, workers, store=store, refresh=refresh, progress=report, announce=announce
            )
    except KeyboardInterrupt:
        if store is not None:
            say(f"what was finished is in {str(store)!r}: the same command goes on from there")
        raise
    if not state.quiet:
        _tell(result, store)
    _deliver(result, format_, output, figures, verbose=state.verbose)


def _planned(
    preset: str | None, vary: tuple[str, ...], fixed: tuple[str, ...], grid: Path | None, methods: tuple[str, ...],
    reps: int | None, seed: int | None,
) -> Plan:  # fmt: skip
    from ..sweep import grid as grids
    from ..sweep import running

    if preset is not None:
        if vary or fixed or grid is not None:
            raise UsageError("a preset has a grid of its own", "leave out --preset, or --vary, --set and --grid")
        return running.planned(preset, methods=methods or None, reps=reps, seed=seed or 0)
    if not (vary or fixed or grid is not None):
        raise UsageError("nothing to sweep", "give --preset, --vary KNOB=VALUES or --grid FILE")
    known = grids.parse(vary, fixed)
    if grid is not None:
        known = grids.merged(grids.read(grid), known)
    return running.planned(
        None, known.cells(), methods=methods or known.methods, reps=known.reps if reps is None else reps,
        seed=(known.seed or 0) if seed is None else seed,
    )  # fmt: skip


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} minutes" if seconds < 5_400 else f"{seconds / 3600:.1f} hours"


def _tell(result: Sweep, store: Path | None) -> None:
    """Where the figures come from, and what is missing."""
    work = result.work
    for path in work.damaged:
        say(f"computed again, for the file was damaged: {path}")
    if store is not None or work.failed:
        all_ = work.stored + work.computed + work.failed
        kept = f"{work.stored} from the store, " if store is not None else ""
        say(f"{all_} pieces of work: {kept}{work.computed} computed, {work.failed} failed")
    for reason in dict.fromkeys(e for row in result.rows for s in row.scores.values() for e in s.errors):
        say(f"failed: {reason}")
    if work.failed and store is not None:
        say("the same command tries these again")


def _deliver(result: Sweep, format_: str, output: Path | None, figures: Path | None, *, verbose: bool) -> None:
    if figures is not None:
        from ..render.images import PALETTE
        from ..render.maps import sweep_figures

        save(sweep_figures(result, PALETTE), figures)
    if format_ == "json":
        from ..render import json

        emit(json.dumps(result.to_dict()), output)
    elif format_ == "html":
        from ..render import html

        emit_page(html.sweep(result), output)
    elif format_ == "csv":
        emit(as_csv(*result.flat()), output)
    elif format_ == "parquet":
        _save_parquet(result, output)
    else:
        from ..render import tables

        show(tables.sweep(result, details=verbose), output)


def _parquet_possible(output: Path | None) -> None:
    from ..arrow import pyarrow

    pyarrow()
    if output is None and sys.stdout.isatty():
        raise UsageError("Parquet is not for a terminal", "give -o FILE.parquet, or send stdout to a file")


def _save_parquet(result: Sweep, output: Path | None) -> None:
    from ..arrow import pyarrow

    arrow: Any = pyarrow()
    names, rows = result.flat()
    columns = {name: [row[i] for row in rows] for i, name in enumerate(names)}
    mixed = {
        name for name, values in columns.items() if len({type(v) for v in values if v is not None} - {int, float}) > 1
    }
    table = arrow.table(
        {n: [None if v is None else str(v) for v in c] if n in mixed else c for n, c in columns.items()}
    )
    buffer = io.BytesIO()
    arrow.parquet.write_table(table, buffer)
    if output is None or str(output) == "-":
        with stdout_bytes() as file:
            file.write(buffer.getvalue())
    else:
        with replacing(output) as file:
            file.write(buffer.getvalue())
