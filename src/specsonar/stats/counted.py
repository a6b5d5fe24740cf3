"""Token counts of events that hold one step, a few merged steps, or the steps of a fixed interval: exact laws and EM.

Event i carries n_i tokens and ends m_i >= 1 steps after the event before it; its gap g_i tells about m_i. With the law
of the burst p_b, b = 1..M, a table Q[m, n] = P(m steps and n tokens) covers both ways of grouping steps:

    merged steps       Q[m, n] = w_m p^{*m}(n),                    w_m = share of events that hold m steps;
    interval of N      Q[m, n] = sum_{k<N} p^{*(m-1)}(k) p(n-k),   n >= N: first passage of the sum of bursts.

The likelihood of an event is sum_m Q[m, n_i] G[m, i], G[m, i] the density of its gap given m steps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numba import njit

from .bursts import pmf

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Grouping:
    """How steps are grouped into events.

    Attributes
    ----------
    joint : shape (K, n_max+1); joint[m-1, n] = P(m steps and n tokens).
    split : shape (K, n_max+1, M); expected steps of size b among the m steps of an event of n tokens.
    """

    joint: FloatArray
    split: FloatArray


@njit(cache=True, nogil=True)
def powers(p: FloatArray, steps: int, n_max: int) -> FloatArray:
    """P(sum of m bursts = n), shape (steps+1, n_max+1), m = 0..steps; `p` is P(B = 1..M).

    >>> powers(np.array([0.5, 0.5]), 2, 4)[2]
    array([0.  , 0.  , 0.25, 0.5 , 0.25])
    """
    out = np.zeros((steps + 1, n_max + 1))
    out[0, 0] = 1.0
    for m in range(1, steps + 1):
        for n in range(m, n_max + 1):
            for b in range(1, min(p.size, n) + 1):
                out[m, n] += p[b - 1] * out[m - 1, n - b]
    return out


@njit(cache=True, nogil=True)
def _merged(p: FloatArray, weights: FloatArray, n_max: int) -> tuple[FloatArray, FloatArray]:
    steps, size = weights.size, p.size
    sums = powers(p, steps, n_max)
    joint = np.zeros((steps, n_max + 1))
    split = np.zeros((steps, n_max + 1, size))
    for m in range(1, steps + 1):
        for n in range(m, n_max + 1):
            joint[m - 1, n] = weights[m - 1] * sums[m, n]
            if sums[m, n] > 0.0:
                for b in range(1, min(size, n) + 1):
                    split[m - 1, n, b - 1] = m * p[b - 1] * sums[m - 1, n - b] / sums[m, n]
    return joint, split


@njit(cache=True, nogil=True)
def _passage(p: FloatArray, interval: int, n_max: int) -> tuple[FloatArray, FloatArray]:
    size = p.size
    waiting = powers(p, interval, n_max)
    joint = np.zeros((interval, n_max + 1))
    split = np.zeros((interval, n_max + 1, size))
    for m in range(1, interval + 1):
        for n in range(interval, n_max + 1):
            for last in range(max(n - interval + 1, 1), min(size, n) + 1):
                before = n - last  # tokens waiting before the last step, fewer than the interval
                joint[m - 1, n] += p[last - 1] * waiting[m - 1, before]
                split[m - 1, n, last - 1] += p[last - 1] * waiting[m - 1, before]
                if m > 1:
                    for b in range(1, min(size, before) + 1):  # one of the m-1 exchangeable steps before the last
                        split[m - 1, n, b - 1] += (m - 1) * p[last - 1] * p[b - 1] * waiting[m - 2, before - b]
            if joint[m - 1, n] > 0.0:
                split[m - 1, n] /= joint[m - 1, n]
    return joint, split


def merged(p: FloatArray, weights: FloatArray, n_max: int) -> Grouping:
    """Events that hold m steps with probability `weights[m-1]`, independent of the bursts.

    split = m p_b p^{*(m-1)}(n-b) / p^{*m}(n): each of the m exchangeable steps.

    >>> g = merged(np.array([0.5, 0.5]), np.array([0.9, 0.1]), 4)
    >>> g.joint[:, 2], g.split[1, 3]
    (array([0.45 , 0.025]), array([1., 1.]))
    """
    return Grouping(*_merged(p, weights, n_max))


def passage(p: FloatArray, interval: int, n_max: int) -> Grouping:
    """Events sent at the first step end at which `interval` tokens or more are waiting (first passage).

    >>> g = passage(np.array([0.5, 0.5]), 2, 3)
    >>> g.joint
    array([[0.  , 0.  , 0.5 , 0.  ],
           [0.  , 0.  , 0.25, 0.25]])
    """
    return Grouping(*_passage(p, interval, n_max))


@dataclass(frozen=True, slots=True, eq=False)
class Events:
    """Counts of events and what their gaps say; equal ones can be held once.

    Attributes
    ----------
    counts : shape (n,), tokens.
    density : shape (K, n); G[m-1, i], density of the gap of event i given m steps.
    times : shape (n,), how many events each column stands for.
    """

    counts: IntArray
    density: FloatArray
    times: FloatArray

    @property
    def n_max(self) -> int:
        """Largest count."""
        return int(self.counts.max(initial=1))


@dataclass(frozen=True, slots=True, eq=False)
class CountFit:
    """The law of the burst and of the grouping, at the maximum of the likelihood.

    Attributes
    ----------
    hazards : shape (M-1,).
    weights : shape (K,); mean share of events with m steps.
    steps : shape (K, n); P(event i holds m steps | data).
    sizes : shape (M,); expected number of steps of each size.
    loglik : sum_i log sum_m Q[m, n_i] G[m, i].
    """

    hazards: FloatArray
    weights: FloatArray
    steps: FloatArray
    sizes: FloatArray
    loglik: float


Law = Callable[[FloatArray, FloatArray, int], Grouping]
"""Hazard law p, shares w and the largest count -> table; `merged`, or `passage` with its interval filled in."""


def free(burst: int) -> IntArray:
    """Groups of hazards, shape (M-1,): every position its own."""
    return np.arange(burst - 1)


def common(burst: int) -> IntArray:
    """Groups of hazards: one alpha for all positions."""
    return np.zeros(burst - 1, np.int64)


def tied(burst: int, seen: int) -> IntArray:
    """Groups of hazards for M = `burst` when the largest step seen is `seen`: beyond it acceptance stays as it was.

    >>> tied(6, 4)
    array([0, 1, 2, 2, 2])
    """
    return np.minimum(np.arange(burst - 1), max(seen - 2, 0))


def ratio(sizes: FloatArray, groups: IntArray) -> FloatArray:
    """Hazards continued / (continued + stopped), shape (M-1,), from steps of each size, (M,), pooled over `groups`.

    >>> ratio(np.array([1.0, 1.0, 2.0]), free(3)), ratio(np.array([1.0, 1.0, 2.0]), common(3))
    (array([0.75      , 0.66666667]), array([0.71428571, 0.71428571]))
    """
    if groups.size == 0:
        return np.zeros(0)
    reach = np.cumsum(sizes[::-1])[::-1]
    went = np.bincount(groups, reach[1:], groups.size)[groups]
    at_risk = np.bincount(groups, reach[:-1], groups.size)[groups]
    result: FloatArray = np.divide(went, at_risk, out=np.zeros_like(went), where=at_risk > 0)
    return result


def _expect(events: Events, table: Grouping) -> tuple[float, FloatArray, FloatArray]:
    """Log-likelihood, P(m | data) of shape (K, n), expected steps of each size of shape (M,)."""
    each = table.joint[:, events.counts] * events.density
    total = each.sum(0)
    loglik = float(events.times @ np.log(total)) if total.min(initial=1.0) > 0 else -np.inf
    steps = each / np.where(total > 0, total, 1.0)
    k, width = table.joint.shape
    cell = (np.arange(k)[:, None] * width + events.counts).ravel()
    held = np.bincount(cell, (steps * events.times).ravel(), k * width)
    return loglik, steps, held @ table.split.reshape(k * width, -1)


def maximise(
    events: Events,
    law: Law,
    hazards: FloatArray,
    weights: FloatArray,
    groups: IntArray,
    *,
    rounds: int = 300,
    tolerance: float = 1e-4,
) -> CountFit:
    """Expectation-maximisation from a start; hazards of one group stay equal.

    An impossible start (a count that no number of steps can reach) returns with log-likelihood -inf.
    """
    last = -np.inf
    n_max, n = events.n_max, events.times.sum()
    while True:
        loglik, steps, sizes = _expect(events, law(pmf(hazards), weights, n_max))
        rounds -= 1
        if not np.isfinite(loglik) or loglik - last < tolerance or rounds < 1:
            return CountFit(hazards, weights, steps, sizes, loglik)
        last = loglik
        hazards, weights = ratio(sizes, groups), (steps @ events.times) / n


def information(events: Events, law: Law, fit: CountFit, groups: IntArray, *, shares: bool) -> FloatArray:
    """Observed information of the hazards, shape (G, G) for G groups, with free shares of m profiled out.

    Central differences of the exact score (Louis 1982)
    d log L / d a_j = E[continued_j | data] / a_j - E[stopped_j | data] / (1 - a_j).
    Hazards within .001 of 0 or 1 are moved there first.
    """
    g = int(groups.max(initial=-1)) + 1
    first = np.searchsorted(groups, np.arange(g))
    theta = np.clip(fit.hazards[first], 1e-3, 1 - 1e-3)
    open_shares = np.flatnonzero(fit.weights[1:] > 1e-5) + 1 if shares else np.array([], np.int64)
    theta = np.concatenate((theta, fit.weights[open_shares]))

    def score(x: FloatArray) -> FloatArray:
        a = x[:g][groups]
        w = fit.weights.copy()
        if shares:
            w[1:] = 0.0
            w[open_shares] = x[g:]
            w[0] = 1.0 - x[g:].sum()
        _, steps, sizes = _expect(events, law(pmf(a), w, events.n_max))
        reach = np.cumsum(sizes[::-1])[::-1]
        slope: FloatArray = np.zeros(g)
        np.add.at(slope, groups, reach[1:] / a - (reach[:-1] - reach[1:]) / (1.0 - a))
        if open_shares.size == 0:
            return slope
        held = steps @ events.times
        return np.concatenate((slope, held[open_shares] / w[open_shares] - held[0] / w[0]))

    matrix = np.empty((theta.size, theta.size))
    for j in range(theta.size):
        h = 1e-4 * min(theta[j], 1.0 - theta[j])
        up, down = theta.copy(), theta.copy()
        up[j] += h
        down[j] -= h
        matrix[j] = (score(down) - score(up)) / (2 * h)
    matrix = (matrix + matrix.T) / 2
    if open_shares.size == 0:
        return matrix
    cross = matrix[:g, g:]
    profiled: FloatArray = matrix[:g, :g] - cross @ np.linalg.pinv(matrix[g:, g:]) @ cross.T
    return profiled


def likeliest(p: FloatArray, steps: int, tokens: int, below: int | None = None) -> IntArray:
    """Most probable sizes of `steps` bursts that sum to `tokens`, shape (steps,); `below`: partial sums stay under it.

    >>> likeliest(np.array([0.5, 0.1, 0.4]), 2, 4)
    array([1, 3])
    """
    with np.errstate(divide="ignore"):
        log_p = np.log(p)
    best = np.full((steps + 1, tokens + 1), -np.inf)
    came = np.zeros((steps + 1, tokens + 1), np.int64)
    best[0, 0] = 0.0
    for m in range(1, steps + 1):
        before = best[m - 1].copy()
        if below is not None:
            before[below:] = -np.inf
        for b in range(min(p.size, tokens), 0, -1):
            trial = before[: tokens + 1 - b] + log_p[b - 1]
            better = trial > best[m, b:]
            best[m, b:][better] = trial[better]
            came[m, b:][better] = b
    if not np.isfinite(best[steps, tokens]):
        return np.zeros(0, np.int64)
    sizes = np.empty(steps, np.int64)
    for m in range(steps, 0, -1):
        sizes[m - 1] = came[m, tokens]
        tokens -= int(sizes[m - 1])
    return sizes
