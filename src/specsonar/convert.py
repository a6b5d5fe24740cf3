"""A recording of any known format as a trace, as CSV or as Parquet."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np

from .arrow import pyarrow
from .errors import UsageError
from .trace import Trace

COLUMNS: Final = ("stream", "t_ns", "tokens", "read", "size")
"""Columns of CSV and Parquet: name of the stream, nanoseconds, tokens (-1: not said), socket read, bytes."""

TABLES: Final = (".csv", ".tsv", ".parquet")
TRACES: Final = (".jsonl", ".gz", ".zst")


def check_target(target: str | os.PathLike[str]) -> str:
    """The suffix of `target`, which says what to write.

    Raises
    ------
    UsageError : nothing is known by that suffix.
    """
    suffix = Path(target).suffix.lower()
    if suffix in (*TABLES, *TRACES):
        return suffix
    raise UsageError(
        f"cannot tell from {Path(target).name!r} what to write", "end the name in " + ", ".join((*TRACES, *TABLES))
    )


def write(trace: Trace, file: BinaryIO, suffix: str) -> None:
    """Write the events of `trace` as the table that `suffix` names, one of `TABLES`.

    Reports, settings and findings are in a trace only, which `tracefile.write` writes.

    Raises
    ------
    InputError : Parquet support is missing.
    """
    if suffix == ".parquet":
        _write_parquet(trace, file)
    else:
        file.writelines(_csv(trace, "\t" if suffix == ".tsv" else ","))


def _csv(trace: Trace, separator: str) -> Iterator[bytes]:
    out = io.StringIO()
    rows = csv.writer(out, delimiter=separator, lineterminator="\n")
    rows.writerow(COLUMNS)
    for name, columns in _columns(trace):
        rows.writerows((name, *row) for row in zip(*(c.tolist() for c in columns), strict=True))
        yield out.getvalue().encode()
        out.seek(0)
        out.truncate()
    yield out.getvalue().encode()


def _columns(trace: Trace) -> Iterator[tuple[str, tuple[np.ndarray[Any, Any], ...]]]:
    """For each stream a name of its own and its columns."""
    used: set[str] = set()
    for index, one in enumerate(trace.streams):
        name = one.name if one.name and one.name not in used else f"{one.name or 'stream'}:{index + 1}"
        used.add(name)
        yield name, (one.t_ns, one.tokens, one.read, one.size)


def _write_parquet(trace: Trace, file: BinaryIO) -> None:
    pa = pyarrow()
    schema = pa.schema([(COLUMNS[0], pa.dictionary(pa.int32(), pa.string())), *((c, pa.int64()) for c in COLUMNS[1:])])
    with pa.parquet.ParquetWriter(file, schema) as writer:
        for name, columns in _columns(trace):
            names = pa.DictionaryArray.from_arrays(pa.array(np.zeros(columns[0].size, np.int32)), pa.array([name]))
            writer.write_table(pa.Table.from_arrays([names, *map(pa.array, columns)], schema=schema))
