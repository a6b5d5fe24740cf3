"""The period of a comb from unordered points: the Rayleigh statistic, pooled over streams with phases of their own.

For steps at tau + r s and Gaussian delays of spread sigma the power P(f) = |sum_i exp(2 pi i f t_i)|^2 / n has mean
1 + n R^2 at f = 1/s, R = exp(-2 pi^2 (sigma/s)^2), and is exponential with mean at most 1 elsewhere (Rayleigh 1880;
Mardia and Jupp 2000, section 6.3). Tokens per step lie in 1..M, so only periods between 1/rate and M/rate are looked
at.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
LONGEST = 1 << 22  # bins of the largest transform; longer streams are cut in pieces


def token_rate(times: Sequence[FloatArray]) -> float:
    """Tokens per second, pooled: gaps over elapsed time.

    >>> token_rate([np.arange(5) * 0.5])
    2.0
    """
    span = sum(float(t[-1] - t[0]) for t in times)
    return sum(len(t) - 1 for t in times) / span if span > 0 else float("inf")


def periodogram(times: Sequence[FloatArray], low: float, high: float) -> tuple[FloatArray, FloatArray]:
    """Frequencies (Hz) between `low` and `high` and the summed power of the streams there; shapes (k,).

    Binned (8 bins to the shortest period, corrected for the bin's own response) and transformed, 4 times
    oversampled: O(n log n).

    >>> f, p = periodogram([np.arange(64) * 0.02 + 0.003], 30.0, 70.0)
    >>> bool(abs(f[p.argmax()] - 50) < 0.2), bool(p.max() > 60)
    (True, True)
    """
    width = 1.0 / (8.0 * high)
    span = max(float(t[-1] - t[0]) for t in times)
    piece = min(span, width * LONGEST / 4)
    size = 1 << int(np.ceil(np.log2(max(4.0 * piece / width, 64.0))))
    frequency = np.arange(size // 2 + 1) / (size * width)
    keep = (frequency >= low) & (frequency <= high)
    power = np.zeros(int(keep.sum()))
    for t in times:
        for part in np.split(t, np.searchsorted(t, np.arange(t[0] + piece, t[-1], piece))):
            if len(part):
                counts = np.bincount(((part - part[0]) / width).astype(np.int64), minlength=1)
                power += np.abs(np.fft.rfft(counts, size)[keep]) ** 2 / len(part)
    f = frequency[keep]
    return f, power / np.sinc(f * width) ** 2


def peaks(frequency: FloatArray, power: FloatArray, most: int) -> tuple[FloatArray, FloatArray]:
    """The `most` highest local maxima, highest first, each moved to the top of the parabola through three points."""
    if len(power) < 3:
        return frequency[:most], power[:most]
    left, mid, right = power[:-2], power[1:-1], power[2:]
    at = np.flatnonzero((mid >= left) & (mid > right))
    at = at[np.argsort(-mid[at])][:most]
    bend = left[at] - 2 * mid[at] + right[at]
    shift = np.where(bend < 0, 0.5 * (left[at] - right[at]) / np.where(bend < 0, bend, 1.0), 0.0)
    return frequency[at + 1] + shift * (frequency[1] - frequency[0]), mid[at]


def phase(t: FloatArray, step: float) -> float:
    """Time of the tooth next to the middle of the stream, for teeth `step` apart.

    >>> round(phase(np.arange(11) * 0.02 + 0.003, 0.02), 6)
    0.103
    """
    middle = 0.5 * float(t[0] + t[-1])
    turn = np.angle(np.exp(2j * np.pi * (t - middle) / step).sum())
    return middle + float(turn) * step / (2 * np.pi)


def spread_from_power(power: float, streams: int, tokens: int) -> float:
    """sigma / s that gives the peak its height: inverse of power = streams + tokens R^2, kept within .01 and .55.

    >>> round(spread_from_power(1 + 600 * np.exp(-4 * np.pi**2 * 0.3**2), 1, 600), 3)
    0.3
    """
    r2 = min(max((power - streams) / tokens, 1e-5), 0.996)
    return float(np.clip(np.sqrt(-np.log(r2)) / (2 * np.pi), 0.01, 0.55))


def needed_tokens(spread: float, evidence: float = 15.0) -> float:
    """Tokens for the comb to stand out at sigma/s = `spread`: n R^2 >= evidence.

    >>> round(needed_tokens(0.30)), round(needed_tokens(0.40))
    (524, 8305)
    """
    return float(evidence * np.exp(min(4 * np.pi**2 * spread**2, 600.0)))


def needed_for_burst(spread: float, clear: float = 50.0) -> float:
    """Tokens, of all streams together, for M to be found by likelihood in 9 of 10 recordings: n R >= `clear`.

    Measured, for spreads from .3 to .4 (`benchmarks/limits.py --rows tokens pooled`). The likelihood uses what the scan
    of `needed_tokens`, which asks for n R^2, leaves: at least one token comes from every step and at most M.

    >>> round(needed_for_burst(0.30)), round(needed_for_burst(0.35)), round(needed_for_burst(0.40))
    (295, 561, 1176)
    """
    return float(clear * np.exp(min(2 * np.pi**2 * spread**2, 600.0)))
