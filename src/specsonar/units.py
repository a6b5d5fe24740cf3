"""Time units: integer nanoseconds in records, float seconds in mathematics, milliseconds in reports."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from .errors import InputError, UsageError

NS: Final[dict[str, int]] = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
"""Nanoseconds in one of each unit that can be named on the command line."""

# Median gaps between tokens lie between some 0.2 ms and some 10 s. Each unit owns the decades of magnitude in
# which a typical inter-token gap would be written with it.
_MAGNITUDE: Final = (("s", 0.0, 2.0), ("ms", 2.0, 2_000.0), ("us", 2_000.0, 2_000_000.0), ("ns", 2_000_000.0, np.inf))


def ns_per(unit: str) -> int:
    """Nanoseconds in one `unit`.

    Raises
    ------
    UsageError : the unit is not one of s, ms, us, ns.
    """
    try:
        return NS[unit]
    except KeyError:
        raise UsageError(f"unknown time unit {unit!r}", "use one of s, ms, us, ns") from None


def guess_unit(times: npt.NDArray[np.float64]) -> str:
    """The unit in which arrival `times`, shape (n,), were probably written, from the size of a typical gap.

    A typical gap is the mean of the positive gaps below their 99th percentile: the median is zero where most
    tokens come in bursts, and the plain mean follows a single stall.

    >>> guess_unit(np.array([0.0, 0.02, 0.04, 0.0601]))
    's'
    >>> guess_unit(np.array([0.0, 20.0, 40.1, 60.0]))
    'ms'
    """
    gaps = np.diff(times)
    gaps = gaps[gaps > 0]
    if gaps.size == 0:
        return "s"
    typical = float(gaps[gaps <= np.quantile(gaps, 0.99)].mean())
    return next(unit for unit, low, high in _MAGNITUDE if low <= typical < high)


def to_ns(times: npt.NDArray[np.float64], unit: str) -> npt.NDArray[np.int64]:
    """Absolute times in `unit`, shape (n,), as integer nanoseconds since the first of them.

    Counting from the first value keeps nanoseconds exact even for times since the epoch in seconds.

    Raises
    ------
    UsageError : unknown unit.
    InputError : a value is not finite, or the span does not fit 64 bits.
    """
    scale = ns_per(unit)
    if times.size == 0:
        return np.empty(0, np.int64)
    if not np.isfinite(times).all():
        bad = int(np.flatnonzero(~np.isfinite(times))[0])
        raise InputError(f"time number {bad + 1} is {times[bad]}, not a finite number", "remove or repair that line")
    relative: npt.NDArray[np.float64] = (times - times[0]) * scale
    if np.abs(relative).max() > 9e18:
        raise InputError("the times span more than 292 years in this unit", "check --unit")
    return np.rint(relative).astype(np.int64)
