"""evalscope perf `benchmark_data.db`: an SQLite table with the gaps between chunks of each request, seconds.

The column `response_messages` holds pickled Python objects, which can run any code when they are loaded. It is never
read.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from typing import Any, Final

from ..bytefile import ByteFile
from ..errors import FormatError
from ..trace import Trace
from .gather import Gathered
from .refusals import refuse_gaps
from .values import count_at, floats, nanoseconds, number_at

NAME: Final = "evalscope perf"
LOOKS: Final = "a binary SQLite database of `evalscope perf`, benchmark_data.db"

_MAGIC: Final = b"SQLite format 3\0"
_QUERY: Final = (
    "SELECT start_time, inter_token_latencies, success, first_chunk_latency, completion_tokens FROM result ORDER BY"
    " rowid"
)
_STEPS: Final = 1_000_000
"""Instructions of SQLite's machine per row; a query of one plain table needs a few dozen."""


def sniff(head: bytes) -> float:
    """How much `head` looks like this format, 0 to 1."""
    return 0.95 if head.startswith(_MAGIC) and b"inter_token_latencies" in head else 0.0


def read(source: ByteFile, *, unit: str | None = None, gaps: bool = False) -> Trace:
    """Read each request as a stream.

    Raises
    ------
    UsageError : `gaps` was asked for. FormatError : the database is damaged.
    """
    refuse_gaps(gaps)
    gathered = Gathered(source)
    with source.on_disk() as path:
        for number, row in enumerate(_rows(path, source.name), 1):
            start, each, success, first, total = row
            seconds = floats(each.encode()) if isinstance(each, str) else None
            if not success:
                gathered.failed += 1
            elif seconds is None or (not seconds.size and first is None):
                gathered.skip(f"request {number}")
            else:
                gathered.add_gaps(
                    seconds,
                    first_s=number_at([first], 0),
                    start_ns=nanoseconds(number_at([start], 0)),
                    total=count_at([total], 0),
                    meta={"client": NAME},
                )
    return gathered.trace()


def _rows(path: str, name: str) -> Iterator[tuple[Any, ...]]:
    try:
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as database:
            database.execute("PRAGMA trusted_schema = OFF")
            kind = database.execute("SELECT type FROM sqlite_master WHERE name = 'result'").fetchone()
            if kind != ("table",):  # a view could make the query run without end
                raise FormatError(f"{name} has no table 'result'", "this is not a database of evalscope perf")
            rows = database.execute(_QUERY)
            while True:
                database.set_progress_handler(lambda: 1, _STEPS)
                row = rows.fetchone()
                if row is None:
                    return
                yield row
    except (sqlite3.Error, UnicodeDecodeError, OverflowError):  # their words may quote the file
        raise FormatError(f"{name} is a damaged SQLite database", "copy it again") from None
