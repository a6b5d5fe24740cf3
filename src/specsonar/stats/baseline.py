"""The founding article's analyser: split the gaps in two, call every run of short gaps a burst.

Kept as it was published, so that anything better can be measured against it. It needs no model and no
optimiser; it breaks when delays blur the border between the two kinds of gaps, and one stall is enough.
Times are seconds everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

ITERATIONS: Final = 40
PERCENTILE: Final = 95.0
_BISECTIONS: Final = 60


@dataclass(frozen=True, slots=True, eq=False)
class Baseline:
    """What the article's analyser says about one stream.

    Attributes
    ----------
    max_burst : 95th percentile of the run lengths, rounded; the article's k (no bonus token, so k = M).
    alpha : acceptance that gives the mean run length under `max_burst`; nan where max_burst is 1.
    step_s : centre of the long gaps, seconds.
    short_s : centre of the short gaps, seconds.
    bursts : shape (r,), run lengths in order of arrival.
    """

    max_burst: int
    alpha: float
    step_s: float
    short_s: float
    bursts: IntArray


def two_means(values: FloatArray, iterations: int = ITERATIONS) -> tuple[float, float]:
    """Centres of two clusters of `values`, shape (n,): Lloyd's iteration from the smallest and the largest value.

    >>> two_means(np.array([0.0, 1.0, 9.0, 11.0]))
    (0.5, 10.0)
    """
    low, high = float(values.min()), float(values.max())
    for _ in range(iterations):
        is_low = values < (low + high) / 2
        if not is_low.any():
            break
        low, high = float(values[is_low].mean()), float(values[~is_low].mean())
    return low, high


def run_lengths(starts: npt.NDArray[np.bool_]) -> IntArray:
    """Run lengths of a sequence of n events, from n-1 flags that say whether the next event starts a run.

    >>> run_lengths(np.array([False, True, True, False, False]))
    array([2, 1, 3])
    """
    edges = np.flatnonzero(np.concatenate(([True], starts, [True])))
    return np.diff(edges)


def alpha_from_mean(mean: float, max_burst: int) -> float:
    """Acceptance alpha with E[B] = (1 - alpha^M) / (1 - alpha) = `mean`, by bisection; nan where M is 1.

    A mean outside [1, M] gives the nearer end, 0 or 1.

    >>> round(alpha_from_mean(2.952, 4), 3), alpha_from_mean(4.2, 4)
    (0.8, 1.0)
    """
    if max_burst < 2:
        return float("nan")
    if mean <= 1.0:
        return 0.0
    if mean >= max_burst:
        return 1.0
    low, high = 0.0, 1.0
    powers = np.arange(max_burst)
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if (middle**powers).sum() < mean:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def analyse(times: FloatArray) -> Baseline:
    """Burst law and step time of one stream, the article's way.

    Parameters
    ----------
    times : shape (n,), n >= 2, seconds, not decreasing, one token each.

    Raises
    ------
    ValueError : fewer than two times.
    """
    if times.size < 2:
        raise ValueError("the baseline needs at least two arrival times")
    gaps = np.diff(times)
    short, long = two_means(gaps)
    bursts = run_lengths(gaps >= (short + long) / 2)
    max_burst = int(np.rint(np.percentile(bursts, PERCENTILE)))
    return Baseline(max_burst, alpha_from_mean(float(bursts.mean()), max_burst), long, short, bursts)
