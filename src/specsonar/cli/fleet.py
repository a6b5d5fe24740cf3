"""`specsonar fleet DIR_OR_GLOB`"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import UsageError
from .figures import emit_page, figures_option, save
from .output import emit, look, output_options, show
from .progress import progress
from .reading import reading_options
from .share import Share, level_option
from .state import say, state_of, verbosity

if TYPE_CHECKING:
    from ..fleet import Fleet


@click.command("fleet")
@click.argument("sources", nargs=-1, required=True, metavar="DIR_OR_GLOB...")
@click.option(
    "--by", metavar="NAME,...", default="model,endpoint,day", show_default=True,
    help="What streams are grouped by; groups are compared along the last. Columns, or day, hour, file.",
)  # fmt: skip
@click.option(
    "--sample", type=click.IntRange(1), metavar="N", default=200, show_default=True,
    help="Most streams of a group that its fingerprint is made of.",
)  # fmt: skip
@click.option("--each", is_flag=True, help="A fingerprint of every stream, too: .02 to .3 s each.")
@click.option("--seed", type=click.IntRange(0), metavar="N", default=0, show_default=True, help="Of the sample.")
@click.option(
    "--margin", type=Share(), metavar="P%", default="3%", show_default=True,
    help="Relative difference within which two groups are equivalent.",
)  # fmt: skip
@level_option
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), metavar="DIR",
    help="Tables as Parquet, and what was done: the same command goes on from there.",
)  # fmt: skip
@click.option("--sql", metavar="QUERY", help="Print what DuckDB answers; tables: groups, streams, drift.")
@click.option(
    "--executor", metavar="WHERE", default="processes", show_default=True,
    help="processes, serial, or dask://HOST:PORT.",
)  # fmt: skip
@click.option("--jobs", type=click.IntRange(1), metavar="N", help="Processes.  [default: one per usable core]")
@reading_options
@figures_option
@output_options("text", "json", "html")
@verbosity
@click.pass_context
def command(
    context: click.Context, /, sources: tuple[str, ...], by: str, out: Path | None, sql: str | None, format_: str,
    output: Path | None, figures: Path | None, **options: Any,
) -> None:  # fmt: skip
    """Fingerprint many recorded streams by model, endpoint and day, and tell what drifted.

    DIR_OR_GLOB is a directory, a glob in quotation marks, files, or a URL of fsspec (s3://, gs://, https://, zip://);
    it holds Parquet tables (columns like stream, t_ns, tokens, model, endpoint) or recordings of any format that
    specsonar knows. Every group gets a fingerprint, from a sample of its streams; every stream is measured by the law
    of its group. Memory does not depend on the number of streams.

    \b
    specsonar fleet recordings/ --out result/
    specsonar fleet 's3://logs/2026-11-*/*.parquet' --by endpoint,day
    specsonar fleet recordings/ --sql "SELECT day, acceptance_length FROM groups"
    """
    from ..fleet import fleet, tables

    state = state_of(context)
    parquet = output is not None and output.suffix == ".parquet"
    if sql is not None and (format_ != "text" or parquet):
        raise UsageError("--sql prints a table of its own", "leave out --format, and end the name of -o otherwise")
    with _folder(out, needed=sql is not None) as folder, progress(state) as report:
        try:
            found = fleet(sources, by=by.split(","), out=folder, progress=report, **options)
        except KeyboardInterrupt:
            if out is not None:
                say(f"what was done is kept in {out}; the same command goes on from there")
            raise
        answer = None if sql is None or folder is None else tables.ask(folder, sql)
    if figures is not None:
        from ..render.fleet import figures as drawn
        from ..render.images import PALETTE

        save(drawn(found, PALETTE), figures)
    if answer is not None:
        _table(*answer, output)
    elif parquet and output is not None:
        tables.write_groups(found, output)
    else:
        _present(found, format_, output)


@contextlib.contextmanager
def _folder(out: Path | None, *, needed: bool) -> Iterator[Path | None]:
    """Where the tables go; somewhere for the time being where only a question needs them."""
    if out is not None or not needed:
        yield out
        return
    with tempfile.TemporaryDirectory(prefix="specsonar.") as folder:
        yield Path(folder)


def _present(found: Fleet, format_: str, output: Path | None) -> None:
    from ..render import fleet as rendered

    if format_ == "json":
        from ..render import json

        emit(json.dumps(found.to_dict()), output)
    elif format_ == "html":
        emit_page(rendered.page(found), output)
    else:
        emit(rendered.text(found, **look(output)), output)


def _table(names: list[str], rows: list[tuple[Any, ...]], output: Path | None) -> None:
    from rich.table import Table
    from rich.text import Text

    from ..render.rows import clean

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for k, name in enumerate(names):
        numbers = all(isinstance(row[k], int | float) for row in rows if row[k] is not None)
        table.add_column(clean(name), justify="right" if numbers else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(_cell(value)) for value in row))
    show(table, output)


def _cell(value: Any) -> str:
    from ..render.rows import clean

    return "" if value is None else f"{value:.6g}" if isinstance(value, float) else clean(str(value))
