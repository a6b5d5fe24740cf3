"""Numbers, times and lists of them as other tools write them; None for what they should not be."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeGuard

import msgspec
import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

LATEST: Final = 4e9
"""Seconds; later times are not times."""

_LATEST_NS: Final = 1 << 61
_FLOATS: Final = msgspec.json.Decoder(list[float])


def floats(raw: bytes) -> Floats | None:
    """A JSON list of finite numbers of seconds, shape (n,); None when it is something else."""
    try:
        return _sensible(_FLOATS.decode(raw))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def row_of(value: object) -> Floats | None:
    """The same for a list that is decoded already."""
    try:
        return _sensible(msgspec.convert(value, list[float]))
    except (msgspec.ValidationError, OverflowError):
        return None


def _sensible(numbers: list[float]) -> Floats | None:
    values = np.array(numbers, np.float64)
    return values if values.size == 0 or np.abs(values).max() < LATEST else None


def decoded(raw: bytes) -> Any:
    """Any JSON value; None when it is not JSON."""
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def number_at(values: object, index: int) -> float | None:
    """Element `index` of a list when it is a sensible number, else None."""
    if not isinstance(values, list) or index >= len(values):
        return None
    value = values[index]
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < LATEST:
        return None
    return float(value)


def count_at(values: object, index: int, most: int = 1 << 31) -> int | None:
    """Element `index` of a list when it is a positive whole number up to `most`, else None."""
    if not isinstance(values, list) or index >= len(values):
        return None
    value = values[index]
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= most else None


def is_ns(value: object) -> TypeGuard[int]:
    """Whether `value` can be a time in nanoseconds."""
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < _LATEST_NS


def nanoseconds(seconds: float | None) -> int | None:
    """A time in seconds as integer nanoseconds."""
    return None if seconds is None else round(seconds * 1e9)


def iso_ns(text: object) -> int | None:
    """Nanoseconds since the epoch of a date and time as ISO 8601 writes it; None when it is none.

    Without a zone it is taken as UTC: only differences matter.

    >>> iso_ns("1970-01-01T00:00:01.000000002Z")
    1000000002
    """
    if not isinstance(text, str) or not 10 < len(text) < 50:
        return None
    fraction = re.search(r"(?<=[.,])\d+", text)
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        micro = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    except (ValueError, OverflowError):
        return None
    nano = micro * 1000 + int((fraction.group() if fraction else "").ljust(9, "0")[6:9])
    return nano if is_ns(nano) else None


def since(times_ns: npt.ArrayLike, start_ns: int) -> Floats:
    """Seconds from `start_ns` to each of `times_ns`."""
    after: Floats = (np.asarray(times_ns, np.int64) - start_ns).astype(np.float64) * 1e-9
    return after
