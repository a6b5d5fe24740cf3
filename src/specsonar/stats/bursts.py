"""The law of the burst: how many tokens come out of one step, and what complete bursts tell about it."""

from __future__ import annotations

from math import lgamma

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]


def pmf(hazards: npt.ArrayLike) -> FloatArray:
    """P(B = b) for b = 1..M, shape (M,), from conditional acceptances `hazards`, shape (M-1,).

    P(B = b) = (1 - a_b) prod_{j<b} a_j with a_M = 0 (Leviathan et al. 2023, section 3.1, per position).

    >>> a, m = 0.8, 4
    >>> p = pmf(np.full(m - 1, a))
    >>> bool(np.isclose(p @ np.arange(1, m + 1), (1 - a**m) / (1 - a)))
    True
    """
    a = np.append(np.asarray(hazards, np.float64), 0.0)
    reach = np.concatenate(([1.0], np.cumprod(a[:-1])))
    result: FloatArray = reach * (1.0 - a)
    return result


def mean_burst(hazards: npt.ArrayLike) -> float:
    """E[B] = 1 + sum_j prod_{i<=j} a_i, tokens per step (the acceptance length).

    >>> round(mean_burst([0.8, 0.8, 0.8]), 3), mean_burst([])
    (2.952, 1.0)
    """
    return float(1.0 + np.cumprod(np.asarray(hazards, np.float64)).sum())


def mean_slope(hazards: FloatArray) -> FloatArray:
    """d E[B] / d a_j = sum_{k>=j} prod_{i<=k, i!=j} a_i, shape (M-1,).

    >>> mean_slope(np.array([0.5, 0.25]))
    array([1.25, 0.5 ])
    """
    out = np.zeros(len(hazards))
    for j in range(len(hazards)):
        rest = np.concatenate(([1.0], hazards[:j], hazards[j + 1 :]))
        out[j] = np.cumprod(rest)[j:].sum()
    return out


def continued_stopped(bursts: npt.ArrayLike, max_burst: int) -> tuple[FloatArray, FloatArray]:
    """Steps that went on past position j, and that stopped at j, for j = 1..M-1; two arrays of shape (M-1,).

    >>> continued_stopped([1, 2, 4, 4], 4)
    (array([3., 2., 2.]), array([1., 1., 0.]))
    """
    b = np.asarray(bursts, np.int64)
    j = np.arange(1, max_burst)[:, None]
    return (b > j).sum(1).astype(np.float64), (b == j).sum(1).astype(np.float64)


def oracle_alpha(bursts: npt.ArrayLike, max_burst: int) -> float:
    """Maximum-likelihood alpha from complete bursts: continued / (continued + stopped); nan without a draft."""
    went, stopped = continued_stopped(bursts, max_burst)
    total = went.sum() + stopped.sum()
    return float(went.sum() / total) if total else float("nan")


def oracle_se(alpha: float, max_burst: int, steps: int) -> float:
    """Standard error of the oracle: sqrt(alpha (1-alpha) / (steps * sum_{j=0}^{M-2} alpha^j)).

    >>> round(oracle_se(0.8, 4, 203), 3), round(oracle_se(0.6, 8, 244), 3)
    (0.018, 0.02)
    """
    return float(np.sqrt(alpha * (1 - alpha) / (steps * (alpha ** np.arange(max_burst - 1)).sum())))


def law_penalty(went: npt.ArrayLike, stopped: npt.ArrayLike, rule: str) -> float:
    """What fitting the hazards cost: maximum of the bursts' log-likelihood less its mean over uniform hazards, nats.

    For w continued and s stopped at a common hazard the mean is the beta function B(w+1, s+1). Inside (0, 1) this is
    about half of log(w+s), as in Schwarz 1978; at hazards of 0 or 1, where that approximation fails, it is log(w+s+1).

    Parameters
    ----------
    went, stopped : shape (M-1,), for j = 1..M-1. rule : "one", "two" or "free", how the positions share hazards.

    >>> round(law_penalty([99.0], [0.0], "one"), 3), round(float(np.log(100)), 3)
    (4.605, 4.605)
    """
    w, s = np.asarray(went, np.float64), np.asarray(stopped, np.float64)
    shared = {"one": 0, "two": 1, "free": w.size}[rule]
    groups = [(float(a), float(b)) for a, b in zip(w[:shared], s[:shared], strict=True)]
    if shared < w.size:
        groups.append((float(w[shared:].sum()), float(s[shared:].sum())))
    total = 0.0
    for a, b in groups:
        a, b = max(a, 0.0), max(b, 0.0)
        n = a + b
        best = (a * np.log(a / n) if a > 0 else 0.0) + (b * np.log(b / n) if b > 0 else 0.0)
        total += best - (lgamma(a + 1) + lgamma(b + 1) - lgamma(n + 2))
    return float(total)


ODD = 50.0
"""Nats against drafts that are never rejected at first and mostly rejected later; see `oddity`."""


def oddity(went: npt.ArrayLike, stopped: npt.ArrayLike) -> float:
    """`ODD` where no burst of one token was seen although a later position mostly ends the burst; else 0.0.

    A draft's first token is the easiest to get wrong at least sometimes: acceptance by position is level, or rises, in
    every published and recorded law. What collects tokens (buffers, intervals) makes the opposite: nothing below a
    size, little above it. The amount is finite, so that enough data overrule it (a server can be told to accept just
    so).

    Parameters
    ----------
    went, stopped : shape (M-1,), bursts that continued past, and that stopped at, j = 1..M-1.

    >>> oddity([100, 10], [0, 90]), oddity([80, 64], [20, 16]), oddity([100], [0])
    (50.0, 0.0, 0.0)
    """
    w, s = np.asarray(went, np.float64), np.asarray(stopped, np.float64)
    n = w + s
    if w.size < 2 or n[0] < 20 or s[0] > 0.005 * n[0] + 0.5:
        return 0.0
    later = n[1:] >= 10
    return ODD if bool((later & (w[1:] < 0.5 * n[1:])).any()) else 0.0
