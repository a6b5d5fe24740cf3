"""Plain text: one arrival time per line, an optional second column with token counts, `#` comments.

    # seconds  tokens
    0.066128   1
    0.086513   4

Columns are separated by blanks, a tab, a comma or a semicolon. With `gaps=True` the values are the times between
events instead; n values are then n + 1 events, or n events where each has a token count of its own.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

import numpy as np
import numpy.typing as npt

from ..bytefile import ByteFile
from ..errors import InputError, LimitError
from ..findings import finding
from ..fingerprint import Finding
from ..trace import ASSUMED_ONE, COUNTED, ONE_EACH, Trace, stream
from ..units import guess_unit, to_ns
from .evenness import measured

NAME: Final = "plain text"
LOOKS: Final = "one arrival time per line, optionally a token count after it"
MAX_EVENTS: Final = 20_000_000

_NUMBER: Final = rb"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?"
_WORD: Final = re.compile(rb"[-+]?(?:nan|inf(?:inity)?)$", re.IGNORECASE)
_ROW: Final = re.compile(rb"(?:%s|[-+]?(?:nan|inf(?:inity)?))(?: .*)?$" % _NUMBER, re.IGNORECASE | re.DOTALL)
_SEPARATORS: Final = bytes.maketrans(b",;\t", b"   ")

# Floats hold 2**53 exactly; from here on nanoseconds would be lost, and decimals are used.
_LARGE: Final = 4e6

# A column whose values fall this often is no column of arrival times. Independent delays of nearly half a step
# reach 0.4, a column of gaps 0.3 to 0.5; what separates them is that times grow over the file and gaps do not.
_FALLING: Final = 0.5
_FALLING_GAPS: Final = 0.1


def sniff(head: bytes) -> float:
    """How much `head` looks like this format, 0 to 1: its first row must be numbers."""
    rows = _rows(head.translate(_SEPARATORS))
    if rows and _is_heading(rows[0]):
        rows = rows[1:]
    if not rows:
        return 0.1 if head.lstrip().startswith(b"#") else 0.0
    return 0.5 if _ROW.match(rows[0]) else 0.0


def read(source: ByteFile, *, unit: str | None = None, gaps: bool = False) -> Trace:
    """Read one stream.

    Parameters
    ----------
    source : the file.
    unit : s, ms, us or ns; guessed (finding I002) when None.
    gaps : the values are times between events.

    Raises
    ------
    InputError : a line is not a number, not finite, or the column does not look like arrival times.
    LimitError : too many lines.
    """
    values, counts = _columns(source, from_first=not gaps)
    findings: list[Finding] = []
    with np.errstate(over="ignore", invalid="ignore"):
        if gaps:
            values = times_of(values, source.name, with_first=counts is None)
        else:
            check_times(values)
        if unit is None:
            unit = guess_unit(np.sort(values))
            findings.append(finding("I002", f"{source.name}: the times were taken as {WORDS[unit]}"))
        times = to_ns(values, unit)
    falling = int((np.diff(times) < 0).sum())
    if falling:
        order = np.argsort(times, kind="stable")
        times, counts = times[order], None if counts is None else counts[order]
        findings.append(
            finding("I003", f"{source.name}: {falling} of {times.size} times were earlier than the one before")
        )
    single = counts is not None and bool((counts == 1).all())
    made = stream(
        times,
        counts,
        name=source.name,
        count_source=ASSUMED_ONE if counts is None or (counts < 0).all() else ONE_EACH if single else COUNTED,
        meta={"unit": unit},
    )
    return measured(source.name, [made], findings)


WORDS: Final = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
"""What each unit is called."""


def _columns(source: ByteFile, *, from_first: bool) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64] | None]:
    """Values, counted from the first one if asked, and token counts where the file has them."""
    first: bytes | None = None
    values: list[npt.NDArray[np.float64]] = []
    counts: list[npt.NDArray[np.float64]] = []
    lines = events = 0
    for block in source.blocks():
        text = block.translate(_SEPARATORS)
        rows = _rows(text)
        heading = first is None and bool(rows) and _is_heading(rows[0])
        if rows := rows[heading:]:
            if first is None:
                first = rows[0].split()[0] if from_first else b"0"
                _check_decimals(block, source.name)
            columns = _parse(rows, first)
            if columns is None:
                raise _complaint(source.name, text, lines, skip=int(heading))
            values.append(columns[0])
            counts.append(columns[1])
        lines += text.count(b"\n")
        events += len(rows)
        if events > MAX_EVENTS:
            raise LimitError(f"{source.name} has more than {MAX_EVENTS:,} lines", "split the file")
    if not values:
        raise InputError(f"{source.name} holds no times", "one arrival time per line is expected")
    tokens = np.concatenate(counts)
    known = np.isfinite(tokens)
    return np.concatenate(values), np.where(known, tokens, -1).astype(np.int64) if known.any() else None


def _rows(text: bytes) -> list[bytes]:
    """Rows with content, comments removed."""
    lines = text.split(b"\n")
    if b"#" in text:
        lines = [line.split(b"#", 1)[0] for line in lines]
    return [row for line in lines if (row := line.strip())]


def _is_heading(row: bytes) -> bool:
    """Words instead of numbers in the first row are the names of the columns."""
    cell = row.split()[0]
    return cell[:1].isalpha() and not _WORD.match(cell)


def _parse(rows: list[bytes], first: bytes) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]] | None:
    """Both columns, the second NaN where it is missing; None when a row is not as it should be."""
    cells = b"\n".join(rows).split()
    if len(cells) == len(rows):
        times, told = cells, [b"nan"] * len(rows)
    elif len(cells) == 2 * len(rows) and all(b" " in row for row in rows):
        times, told = cells[::2], cells[1::2]
    else:
        each = [row.split() for row in rows]
        if max(map(len, each)) > 2:
            return None
        times, told = [c[0] for c in each], [c[1] if len(c) > 1 else b"nan" for c in each]
    try:
        values = relative(times, first)
        counts = np.fromiter(map(float, told), np.float64, len(told))
    except (ValueError, ArithmeticError):
        return None
    known = counts[~np.isnan(counts)]
    whole = bool(((known == np.floor(known)) & (known >= -1) & (known < 1e15)).all())
    if not np.isfinite(values).all() or not whole:
        return None
    return values, counts


def relative(cells: list[bytes], first: bytes) -> npt.NDArray[np.float64]:
    """Numbers minus the number `first`, exact to the nanosecond also for times since the epoch.

    Raises
    ------
    ValueError, ArithmeticError : a cell is no number.
    """
    origin = float(first)
    if abs(origin) > _LARGE and np.isfinite(origin):
        exact = Decimal(first.decode())
        return np.array([float(Decimal(c.decode()) - exact) for c in cells])
    with np.errstate(invalid="ignore", over="ignore"):
        return np.fromiter(map(float, cells), np.float64, len(cells)) - origin


def _complaint(name: str, text: bytes, lines_before: int, *, skip: int) -> InputError:
    """Which row of `text` is wrong, and how; `skip` rows at its begin are a heading."""
    for number, line in enumerate(text.split(b"\n"), lines_before + 1):
        row = line.split(b"#", 1)[0].strip()
        if not row:
            continue
        if skip:
            skip = 0
            continue
        cells = row.split()
        shown = row[:40].decode(errors="replace")
        where = f"line {number} of {name}"
        if _WORD.match(cells[0]):
            return InputError(f"{where} is {shown!r}, not a finite number", "remove or repair that line")
        if not re.fullmatch(_NUMBER, cells[0]):
            return InputError(f"{where} is {shown!r}, not a time", "one number per line is expected")
        if not np.isfinite(float(cells[0])):
            return InputError(f"{where} is {shown!r}, too large a number", "remove or repair that line")
        if len(cells) > 2:
            return InputError(
                f"{where} has {len(cells)} columns",
                "a time and, at most, a token count are expected on a line; of a table, name the columns (or give their"
                " numbers): --columns time=NAME",
            )
        if len(cells) == 2 and not re.fullmatch(rb"-1|\+?\d{1,15}(?:\.0*)?", cells[1]):
            return InputError(
                f"{where} has {cells[1][:20].decode(errors='replace')!r} for a token count", "use a whole number"
            )
    return InputError(f"{name} cannot be read as numbers", "one arrival time per line is expected")


def times_of(gaps: npt.NDArray[np.float64], name: str, *, with_first: bool) -> npt.NDArray[np.float64]:
    """Times from gaps; `with_first` adds the event before the first gap, at zero."""
    if gaps.min() < 0:
        bad = int(np.argmin(gaps))
        raise InputError(f"gap number {bad + 1} of {name} is negative", "without --gaps the values are arrival times")
    times = np.cumsum(gaps)
    return np.concatenate(([0.0], times)) if with_first else times


def _check_decimals(block: bytes, name: str) -> None:
    """Refuse decimal commas: 0,066 would be read as time 0 with 66 tokens."""
    if b"." not in block and all(re.fullmatch(rb"-?\d+,\d{3,}", row) for row in _rows(block)):
        raise InputError(f"{name} seems to have decimal commas", "write decimal points")


def check_times(values: npt.NDArray[np.float64]) -> None:
    """Refuse a column that cannot be arrival times."""
    if values.size < 3:
        return
    falling = float((np.diff(values) < 0).mean())
    grows = float(np.corrcoef(np.arange(values.size), values)[0, 1]) if values.std() > 0 else 1.0
    if falling > 0.9 and grows < -0.5:
        raise InputError("the times run backwards", "sort the lines; if they are times between events, give --gaps")
    if falling > _FALLING or (values.size >= 8 and falling >= _FALLING_GAPS and grows < 0.5):
        raise InputError(
            f"these look like gaps, not arrival times: {falling:.0%} of the values are smaller than the one before",
            "give --gaps if they are times between events",
        )
