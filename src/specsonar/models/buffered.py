"""Plain decoding behind a buffer: what arrives together is what was produced since the last flush.

A timer, a buffer of bytes, a proxy, or a client that reads in blocks makes bursts that look like speculation. But the
number of tokens delivered then follows the clock: N(t) stays within a bounded distance of t / s, while under
speculation it walks away from every straight line. So the sizes are predicted by a local-level model (Harvey 1989):

    N_r = A_r / s + level_r + e_r,   level_r = level_{r-1} + w_r,   Var(e) >= 1/12 (whole tokens)

and the rest, the law of the gaps between flushes, is the same as for speculation.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..fingerprint import BUFFERED, IN_ORDER_LAYER
from ..stats.gaps import Gaps
from .explanation import Explanation

FloatArray = npt.NDArray[np.float64]

FEWEST = 1.5
"""Tokens a flush, on average, below which a buffer would make no difference to anybody."""

_LEVEL = np.geomspace(1e-4, 30.0, 18)
_NOISE = np.concatenate(([1 / 12], 1 / 12 + np.geomspace(0.02, 30.0, 12)))


def explain(
    gaps: Gaps, new: FloatArray, hazards: FloatArray, went: FloatArray, stopped: FloatArray, loglik: float,
    parameters: float,
) -> list[Explanation]:  # fmt: skip
    """The buffered explanation: the gaps of a fitted burst model, and sizes from the clock; none with few flushes.

    Parameters
    ----------
    new, hazards, went, stopped, loglik : of the burst model; its log-likelihood less that of the bursts is kept.
    parameters : free parameters of its gap laws.
    """
    flushes: list[FloatArray] = []
    sizes: list[FloatArray] = []
    for begin, end in zip(gaps.offsets[:-1], gaps.offsets[1:], strict=True):
        start = np.flatnonzero(new[begin:end] > 0.5)
        if start.size < 3:
            continue
        at = np.cumsum(gaps.gap[begin:end])[start]
        flushes.append(at[:-1])
        sizes.append(np.diff(start).astype(np.float64))
    flushed = sum(s.size for s in sizes)
    if flushed < 8 or sum(float(s.sum()) for s in sizes) < FEWEST * flushed:
        return []
    walk, pace = sizes_loglik(flushes, sizes)
    gap = np.concatenate([np.diff(f) for f in flushes if f.size > 1])
    period = float(np.median(gap))
    steady = bool(np.mean(np.abs(gap / period - np.rint(gap / period)) < 0.02) > 0.9)
    return [
        Explanation(
            BUFFERED, IN_ORDER_LAYER, loglik - burst_loglik(hazards, went, stopped) + walk, parameters + 3.0, None,
            {"flush_s": period if steady else float("nan"), "pace_s": pace},
        )
    ]  # fmt: skip


def burst_loglik(hazards: FloatArray, went: FloatArray, stopped: FloatArray) -> float:
    """Log-probability of the bursts themselves: sum went log a + stopped log(1 - a)."""
    a = np.clip(hazards[:-1], 1e-12, 1 - 1e-12)
    return float(went[:-1] @ np.log(a) + stopped[:-1] @ np.log1p(-a))


def sizes_loglik(flushes: list[FloatArray], sizes: list[FloatArray]) -> tuple[float, float]:
    """Log-likelihood of the sizes given the flush times under the local-level model, and the production time.

    Parameters
    ----------
    flushes : per stream, shape (r,), seconds; what arrives at flush r is what was produced before it.
    sizes : per stream, shape (r,), tokens.

    Returns
    -------
    nats, the maximum over a grid of the two variances (Kalman filter, diffuse start), and seconds per token.
    """
    span = sum(float(f[-1] - f[0]) for f in flushes if f.size > 1)
    tokens = sum(float(s[1:].sum()) for s in sizes)
    pace = span / max(tokens, 1.0)
    level, noise = (v.ravel() for v in np.meshgrid(_LEVEL, _NOISE))
    total = np.zeros(level.size)
    for at, size in zip(flushes, sizes, strict=True):
        observed = np.cumsum(size) - (at - at[0]) / pace
        mean = np.full(level.size, observed[0])
        variance = noise.copy()
        for y in observed[1:]:
            variance = variance + level
            spread = variance + noise
            miss = y - mean
            total -= 0.5 * (np.log(2 * np.pi * spread) + miss * miss / spread)
            gain = variance / spread
            mean = mean + gain * miss
            variance = variance * (1 - gain)
        # the first size fixes the level; any law would have had to say it
        total -= np.log(max(float(size.max()), 1.0))
    return float(total.max()), pace
