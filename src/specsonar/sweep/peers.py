"""Estimators of other fields on arrival times, kept as plain as their users know them."""

from __future__ import annotations

import logging
import warnings
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from ..stats.baseline import run_lengths

FloatArray = npt.NDArray[np.float64]

BINS_PER_DECADE: Final = 10
VOID: Final = 0.7
APART: Final = 2
"""Bins between two peaks of a histogram, at least."""

SHORTEST_S: Final = 1e-6
"""Gaps below count as this long: a logarithm needs some floor, and no clock of a client tells more."""


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """Runs of short gaps.

    Attributes
    ----------
    bursting : whether the method sees bursts at all.
    lengths : events of each run, events on their own included, shape (r,).
    step_s : median time between the beginnings of neighbouring runs, seconds; of neighbouring events without bursts.
    """

    bursting: bool
    lengths: npt.NDArray[np.int64]
    step_s: float


def _runs(times: list[FloatArray], starts: list[npt.NDArray[np.bool_]], bursting: bool) -> Runs:
    lengths = np.concatenate([run_lengths(s) for s in starts]) if starts else np.zeros(0, np.int64)
    begins = [t[np.concatenate(([True], s))] for t, s in zip(times, starts, strict=True)]
    steps = np.concatenate([np.diff(b) for b in begins]) if begins else np.zeros(0)
    return Runs(bursting and lengths.size > 0, lengths, float(np.median(steps)) if steps.size else float("nan"))


def _every(times: list[FloatArray]) -> list[npt.NDArray[np.bool_]]:
    return [np.ones(t.size - 1, bool) for t in times]


def log_isi(times: list[FloatArray]) -> Runs:
    """Runs of intervals below the logISI threshold (Pasquale et al. 2010, doi:10.1007/s10827-009-0175-1).

    The histogram of log10 intervals, 10 bins a decade and smoothed, has a peak of intervals inside bursts and others
    of intervals between them. The threshold lies at the lowest point between the first and the first later peak from
    which it is parted by a void parameter of at least .7: one less the height of that point over the geometric mean of
    both peaks. Without such a pair there are no bursts.

    Two things are other than for neurons, whose scale is fixed: the peak inside bursts lies below the mean interval
    (not below 100 ms), and runs of any length count (not of three spikes on), for a step may give a single token.

    Parameters
    ----------
    times : arrival times of each stream, seconds.
    """
    gaps = np.concatenate([np.diff(t) for t in times]) if times else np.zeros(0)
    limit = isi_threshold(gaps)
    if limit is None:
        return _runs(times, _every(times), False)
    return _runs(times, [np.diff(t) >= limit for t in times], True)


def isi_threshold(gaps: FloatArray) -> float | None:
    """The threshold of `log_isi` for intervals in seconds; None where the histogram has no void."""
    if gaps.size < 3 or gaps.mean() <= 0:
        return None
    log = np.log10(np.maximum(gaps, SHORTEST_S))
    first, last = np.floor(log.min() * BINS_PER_DECADE) - 1, np.floor(log.max() * BINS_PER_DECADE) + 2
    edges = np.arange(first, last + 1) / BINS_PER_DECADE
    height = np.convolve(np.histogram(log, edges)[0] / gaps.size, (0.25, 0.5, 0.25), "same")
    peaks = _peaks(height)
    inside = [p for p in peaks if edges[p] < np.log10(gaps.mean())]
    if not inside:
        return None
    first_peak = max(inside, key=lambda p: height[p])
    for peak in (p for p in peaks if p > first_peak):
        valley = first_peak + int(np.argmin(height[first_peak : peak + 1]))
        if 1 - height[valley] / np.sqrt(height[first_peak] * height[peak]) >= VOID:
            return float(10 ** ((edges[valley] + edges[valley + 1]) / 2))
    return None


def _peaks(height: FloatArray) -> list[int]:
    """Local maxima, the higher one of two that are closer than `APART`."""
    from scipy.signal import find_peaks

    return [int(p) for p in find_peaks(height, distance=APART)[0]]


def gaussian_hmm(times: list[FloatArray], seed: int) -> Runs:
    """Runs of the state of short gaps in a Gaussian HMM of two states on log gaps, by its Viterbi path.

    hmmlearn with its own starting values and settings. Bursts are seen where two states are better than one by BIC.

    Parameters
    ----------
    times : arrival times of each stream, seconds.
    seed : for hmmlearn's starting values.
    """
    from hmmlearn.hmm import GaussianHMM

    gaps = [np.log(np.maximum(np.diff(t), SHORTEST_S)) for t in times]
    if sum(g.size for g in gaps) < 10:
        return _runs(times, _every(times), False)
    seen, lengths = np.concatenate(gaps).reshape(-1, 1), [g.size for g in gaps]
    logging.getLogger("hmmlearn").setLevel(logging.ERROR)  # it tells of every fit that has not converged
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # and of every one that ends at a border
        one, two = (GaussianHMM(n, random_state=seed, n_iter=100).fit(seen, lengths) for n in (1, 2))
        better = two.bic(seen, lengths) < one.bic(seen, lengths)
        path = two.predict(seen, lengths)
    if not better:
        return _runs(times, _every(times), False)
    long = path == int(np.argmax(two.means_[:, 0]))
    return _runs(times, np.split(long, np.cumsum(lengths)[:-1]), True)
