"""Tables that people make themselves: CSV, TSV, JSON, JSON lines or Parquet with a column of times.

    request_id,t,tokens
    0,0.066128,1
    0,0.086513,4

The columns are recognised by their names, or named by the user. The name of the time column may say its unit
(`t_ms`, `time (us)`) or that it holds gaps (`gap`, `itl_ms`). Times may be dates as ISO 8601 writes them. Without a
column of streams all rows are one stream.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, nan
from typing import Any, Final

import numpy as np

from ..bytefile import ByteFile
from ..errors import FormatError, InputError, UsageError
from ..findings import finding
from ..fingerprint import Finding
from ..trace import ASSUMED_ONE, COUNTED, ONE_EACH, UNKNOWN, IntArray, Stream, Trace, stream
from ..units import guess_unit, to_ns
from . import columns as tables
from .evenness import measured
from .plaintext import WORDS, check_times, relative, times_of
from .recording import in_order
from .values import Floats, iso_ns

NAME: Final = "table"
LOOKS: Final = "CSV, TSV, JSON or Parquet with a column of times (t, time, timestamp, gap...)"

TIME: Final = "time"
ROLES: Final = (TIME, "tokens", "stream")
"""What a column can be for."""

_NAMES: Final = {
    TIME: (
        "t", "time", "ts", "timestamp", "arrival", "arrivaltime", "receivedat", "received", "elapsed", "seconds", "gap",
        "gaps", "itl", "delta", "dt", "intertokenlatency", "interchunklatency",
    ),
    "tokens": ("tokens", "ntokens", "tokencount", "numtokens", "count", "n"),
    "stream": ("stream", "streamid", "request", "requestid", "req", "id", "session", "run"),
}  # fmt: skip
_GAPS: Final = frozenset({"gap", "gaps", "itl", "delta", "dt", "intertokenlatency", "interchunklatency"})
_UNITS: Final = {
    "s": "s", "sec": "s", "secs": "s", "seconds": "s", "ms": "ms", "msec": "ms", "millis": "ms", "us": "us",
    "µs": "us", "micros": "us", "ns": "ns", "nanos": "ns",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Heading:
    """A column's name, taken apart."""

    role: str
    unit: str | None
    gaps: bool


def sniff(head: bytes) -> float:
    """How much `head` looks like this format, 0 to 1: it names a column of times."""
    kind = tables.kind(head)
    if kind == tables.PARQUET:
        return 0.6
    known = [heading(name) for name in tables.names(head)]
    if not any(one is not None and one.role == TIME for one in known):
        return 0.0
    plain = len(known) == 2 and known[0] == Heading(TIME, None, False) and known[1] is not None
    # plain text reads times and tokens as well, but no decimal commas
    return 0.4 if plain and kind == tables.CSV and tables.first_row(head)[0] != ";" else 0.6


def heading(name: str) -> Heading | None:
    """What a column of that name is for; None when the name says nothing.

    >>> heading("Arrival Time (ms)")
    Heading(role='time', unit='ms', gaps=False)
    """
    words = [w for w in re.split(r"[^a-zµ0-9]+", name.strip().lower()) if w]
    unit = _UNITS.get(words[-1]) if len(words) > 1 else None
    plain = "".join(words[:-1] if unit else words)
    role = next((role for role, names in _NAMES.items() if plain in names), None)
    if role is None:
        return None
    return Heading(role, unit or ("s" if plain == "seconds" else None), plain in _GAPS)


def roles(names: Sequence[str], asked: Mapping[str, str] | None = None) -> dict[str, str]:
    """The column for each role, by their names or as `asked`.

    Raises
    ------
    UsageError : a column that was asked for is not there.
    """
    found: dict[str, str] = {}
    for role, column in (asked or {}).items():
        if column not in names:
            raise UsageError(f"there is no column {column!r}", f"the columns are {', '.join(names)[:200]}")
        found[role] = column
    for name in names:
        known = heading(name)
        if known is not None and known.role not in found and name not in found.values():
            found[known.role] = name
    return found


def parse_columns(text: str) -> dict[str, str]:
    """`time=T,tokens=N,stream=S` as a dictionary from role to column.

    Raises
    ------
    UsageError : it is not written like that.
    """
    asked: dict[str, str] = {}
    for part in text.split(","):
        role, mark, column = part.partition("=")
        if not mark or role.strip() not in ROLES or not column:
            raise UsageError(f"--columns cannot be read at {part!r}", "write time=NAME,tokens=NAME,stream=NAME")
        asked[role.strip()] = column.strip()
    return asked


def read(
    source: ByteFile, *, unit: str | None = None, gaps: bool = False, columns: Mapping[str, str] | None = None
) -> Trace:
    """Read all rows; each value of the stream column is a stream.

    Parameters
    ----------
    columns : from role (`time`, `tokens`, `stream`) to the name of a column.

    Raises
    ------
    UsageError : a column is not there. InputError : the times cannot be used. FormatError : it is no table.
    LimitError : too many rows.
    """
    chosen: dict[str, str] = {}

    def choose(names: list[str]) -> list[str]:
        chosen.update(roles(names, columns))
        if TIME not in chosen:
            raise FormatError(
                f"{source.name} has no column that is known to hold times, only {', '.join(names)[:200]}",
                "name it: --columns time=NAME",
            )
        return list(dict.fromkeys(chosen.values()))

    table = tables.read(source, choose)
    known = heading(chosen[TIME])
    gaps = gaps or (known is not None and known.gaps)
    times = table[chosen[TIME]]
    labels = table[chosen["stream"]] if "stream" in chosen else [source.name] * len(times)
    if gaps:
        _begin_at_zero(times, labels)
    values, given = _numbers(source.name, times, from_first=not gaps)
    unit = unit or given or (known.unit if known else None)
    tokens = _counts(source.name, table[chosen["tokens"]]) if "tokens" in chosen else None
    with np.errstate(over="ignore", invalid="ignore"):  # absurd numbers are refused where they are turned into times
        return _trace(source.name, values, tokens, labels, unit, gaps)


def _begin_at_zero(gaps: list[Any], labels: list[Any]) -> None:
    """The first event of a stream has no gap before it; `diff` leaves a hole there."""
    seen = set()
    for row, label in enumerate(labels):
        if label not in seen and (gaps[row] is None or str(gaps[row]).lower() in ("", "nan")):
            gaps[row] = 0
        seen.add(label)


def _numbers(name: str, column: list[Any], *, from_first: bool) -> tuple[Floats, str | None]:
    """The column as numbers, counted from the first one if asked, and its unit where the values tell it."""
    if not column:
        raise InputError(f"{name} has no rows", "record again; nothing was written")
    dates = iso_ns(column[0]) is not None
    if not from_first and (dates or isinstance(column[0], tables.Moment)):
        raise UsageError(f"--gaps is for numbers, and {name} has points in time")
    cells = [str(iso_ns(v) if dates else v).strip().encode() for v in column]
    try:
        values: Floats | None = relative(cells, cells[0] if from_first else b"0")
    except (ValueError, ArithmeticError):
        values = None
    if values is not None and np.isfinite(values).all():
        return values, "ns" if dates or isinstance(column[-1], tables.Nanoseconds) else None
    bad = int(np.argmin([_is_number(c) for c in cells] if values is None else np.isfinite(values)))
    raise InputError(
        f"row {bad + 1} of {name} has {str(column[bad])[:40]!r} for a time",
        "a time is a number, or date and time as ISO 8601 writes them; repair or remove that row",
    )


def _is_number(text: bytes) -> bool:
    try:
        return isfinite(float(text))
    except ValueError:
        return False


def _counts(name: str, column: list[Any]) -> IntArray:
    """Token counts; -1 for what is empty."""
    counts = np.full(len(column), UNKNOWN)
    for row, value in enumerate(column):
        if value is None or value == "":
            continue
        try:
            count = float(value)
        except (TypeError, ValueError):
            count = nan
        if not count.is_integer() or not -1 <= count < 1e15:
            raise InputError(f"row {row + 1} of {name} has {str(value)[:20]!r} for a token count", "use a whole number")
        counts[row] = int(count)
    return counts


def _trace(
    name: str, values: Floats, tokens: IntArray | None, labels: list[Any], unit: str | None, gaps: bool
) -> Trace:
    """A stream for each label, in the order in which they appear."""
    notes: list[Finding] = []
    rows: dict[str, list[int]] = {}
    for row, label in enumerate(labels):
        rows.setdefault(str(label), []).append(row)
    pieces = [(label, values[mine], None if tokens is None else tokens[mine]) for label, mine in rows.items()]
    if gaps:
        pieces = [
            (label, times_of(piece, name, with_first=counts is None and piece[0] > 0), counts)
            for label, piece, counts in pieces
        ]
    else:
        for _, piece, _ in pieces:
            check_times(piece)
    if unit is None:
        unit = guess_unit(np.sort(max((piece for _, piece, _ in pieces), key=len)))
        notes.append(finding("I002", f"{name}: the times were taken as {WORDS[unit]}"))
    streams, falling = [], 0
    for label, piece, counts in pieces:
        # to_ns counts from the first value; the streams of a table share a clock, unless they are gaps
        shared = to_ns(piece if gaps else np.concatenate(([0.0], piece)), unit)[0 if gaps else 1 :]
        made, fell = in_order(_stream(shared, counts, label if len(pieces) > 1 else name, unit))
        streams.append(made)
        falling += fell
    if falling:
        notes.append(finding("I003", f"{name}: {falling} times were earlier than the one before"))
    return measured(name, streams, notes)


def _stream(t_ns: IntArray, counts: IntArray | None, label: str, unit: str) -> Stream:
    if counts is None or bool((counts < 0).all()):
        source = ASSUMED_ONE
    else:
        source = ONE_EACH if bool((counts == 1).all()) else COUNTED
    return stream(t_ns, counts, name=label, count_source=source, meta={"unit": unit})
