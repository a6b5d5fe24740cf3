"""`specsonar convert IN OUT`"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from .output import replacing
from .reading import reading_options
from .state import say, state_of, verbosity


@click.command("convert")
@click.argument("source", metavar="IN", type=click.Path(allow_dash=True))
@click.argument("target", metavar="OUT", type=click.Path(path_type=Path))
@reading_options
@verbosity
@click.pass_context
def command(context: click.Context, /, source: str, target: Path, **options: Any) -> None:
    """Write a recording of another tool as a trace, as CSV or as Parquet.

    The name of OUT says which: .jsonl (or .jsonl.gz, .jsonl.zst) is a trace and keeps everything, .csv, .tsv and
    .parquet hold a row per event. Parquet needs the extra "parquet".

    \b
    Examples:
      specsonar convert curl.txt curl.jsonl.zst
      specsonar convert recording.jsonl events.csv
    """
    from .. import tracefile
    from ..convert import TABLES, check_target, write
    from ..importers import read

    suffix = check_target(target)
    trace = read(source, **options)
    if suffix in TABLES:
        with replacing(target) as file:
            write(trace, file, suffix)
    else:
        tracefile.write(trace, target)
    for one in trace.findings:
        say(f"{one.code}: {one.message}")
    if state_of(context).verbose:
        count = len(trace.streams)
        say(f"{count} stream{'' if count == 1 else 's'}, {trace.events} events")
