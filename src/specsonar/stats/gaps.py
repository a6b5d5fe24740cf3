"""Gaps of pooled streams, prepared once for the models of an in-order link."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .result import Arrays

FloatArray = npt.NDArray[np.float64]

FINEST = 1e-7
"""Gaps below 100 ns are ties: no user-space clock separates them."""

LONGEST = 4096
"""Gaps in one piece. A longer stream is cut before a long gap, so that memory stays flat; one burst is lost a cut."""


@dataclass(frozen=True, slots=True, eq=False)
class Gaps:
    """All gaps of the streams, one after the other.

    Attributes
    ----------
    gap : shape (n,), seconds.
    zero : shape (n,), true where the gap is below the clock's tick.
    log : shape (n,), natural logarithm of the gap (of `FINEST` where it is zero).
    floor : shape (n,), the smallest spread of log gap that the tick allows near each gap.
    offsets : shape (pieces+1,), where each stream, or piece of a long stream, begins.
    tick : seconds; what the clock cannot separate.
    """

    gap: FloatArray
    zero: npt.NDArray[np.bool_]
    log: FloatArray
    floor: FloatArray
    offsets: npt.NDArray[np.int64]
    tick: float

    def __len__(self) -> int:
        return self.gap.size

    @property
    def log_jacobian(self) -> float:
        """What turns a log-density in log gap into one in seconds."""
        return -float(self.log[~self.zero].sum())


def tick_of(streams: Sequence[Arrays]) -> float:
    """The clock's tick in seconds: what the recorder says, or the common lattice of all times; 0.0 without one.

    A lattice is accepted when at least 20 positive gaps, of at least three different lengths, are multiples of the
    smallest one (and that is at least 50 us) to within 2%.
    """
    known = max((s.resolution for s in streams), default=0.0)
    if known > 0:
        return known
    gap = np.concatenate([np.diff(s.t) for s in streams]) if streams else np.empty(0)
    gap = gap[gap > FINEST]
    if gap.size < 20:
        return 0.0
    smallest = float(gap.min())
    ratio = gap / smallest
    whole = np.rint(ratio)
    lattice = smallest >= 50e-6 and np.unique(whole).size >= 3 and bool((np.abs(ratio - whole) < 0.02).all())
    return smallest if lattice else 0.0


def prepare(streams: Sequence[Arrays]) -> Gaps:
    """The gaps of `streams`, with ties and the clock's tick found."""
    tick = tick_of(streams)
    parts = [np.diff(s.t) for s in streams]
    gap = np.concatenate(parts) if parts else np.empty(0)
    zero = gap < max(FINEST, 0.5 * tick)
    safe = np.where(zero, FINEST, gap)
    return Gaps(
        gap=gap,
        zero=zero,
        log=np.log(safe),
        floor=np.where(zero, 0.02, np.maximum(0.02, 0.4 * tick / safe)),
        offsets=_pieces(parts),
        tick=tick,
    )


def _pieces(parts: Sequence[FloatArray]) -> npt.NDArray[np.int64]:
    """Where the streams begin, and where long ones are cut: before the longest gap among the next `LONGEST` / 8."""
    offsets = [0]
    begin = 0
    for gap in parts:
        end = begin + gap.size
        while end - offsets[-1] > LONGEST:
            at = offsets[-1] - begin + LONGEST - LONGEST // 8
            offsets.append(begin + at + int(np.argmax(gap[at : at + LONGEST // 8])))
        offsets.append(end)
        begin = end
    return np.array(offsets, np.int64)


def two_classes(values: FloatArray) -> float:
    """The border between two classes with the largest variance between them (Otsu 1979); `values` shape (n,).

    >>> 2.0 < two_classes(np.array([1.0, 1.1, 2.0, 9.0, 9.5])) < 9.0
    True
    """
    x = np.sort(values)
    n = x.size
    below = np.cumsum(x)
    k = np.arange(1, n)
    share = k / n
    between = share * (1 - share) * (below[:-1] / k - (below[-1] - below[:-1]) / (n - k)) ** 2
    i = int(np.argmax(between))
    return float((x[i] + x[i + 1]) / 2)


def cuts(gaps: Gaps) -> list[float]:
    """Candidate borders, in seconds, between gaps inside a burst and gaps between steps, most cautious first.

    No single rule finds the border in every stream: in-burst gaps range from zero to 10 ms when the server's threads
    hold every core, and steps without a draft are several times shorter than steps with one. So several are tried
    and the likelihood decides.
    """
    gap = gaps.gap
    if gap.size < 3 or not (gap > 0).any():
        return []
    log = np.log(np.maximum(gap, 5e-5))
    found = [float(np.exp(two_classes(log))), two_classes(np.minimum(gap, np.quantile(gap, 0.98)))]
    long = gap[gap > found[0]]
    if long.size:
        typical = float(np.median(long))
        found += [0.4 * typical, 0.15 * typical]
    inner = np.sort(np.log(np.maximum(gap, 2e-4)))[max(1, int(0.02 * gap.size)) : max(3, int(0.98 * gap.size))]
    if inner.size > 1:
        widest = int(np.argmax(np.diff(inner)))
        found.append(float(np.exp((inner[widest] + inner[widest + 1]) / 2)))
    result: list[float] = []
    for cut in found:
        if cut > 0 and all(abs(np.log(cut / other)) > 0.1 for other in result) and (gap > cut).any():
            result.append(cut)
    return result


def pauses(step: FloatArray, count: FloatArray | None = None) -> npt.NDArray[np.bool_]:
    """Which times of a step, shape (n,), are pauses without a pile of held-back steps behind them.

    >>> step = np.array([1.0] * 5 + [30.0] + [1.0] * 20 + [30.0, 0.0] + [1.0] * 5)
    >>> np.flatnonzero(pauses(step, np.where(step == 0, 29.0, 1.0))).tolist()
    [5]

    Parameters
    ----------
    count : shape (n,), how many steps came together at each of them; one each without it.
    """
    count = np.ones(step.size) if count is None else count
    pause = step > 8 * np.quantile(step, 0.9)
    usual = max(float(np.median(step)), 1e-9)
    for i in np.flatnonzero(pause):
        held = round(float(step[i]) / usual)
        behind = slice(i + 1, i + 1 + int(np.searchsorted(np.cumsum(count[i + 1 :]), held, "right")))
        pause[i] = count[behind][step[behind] < 0.25 * usual].sum() < 0.5 * held
    return pause
