"""Intervals from an estimate and its standard error, on the scale on which they are symmetric; and dependence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, sqrt
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

FEW_STREAMS = 6
"""With at least this many streams, dependence inside streams is measured by the spread between them."""


def quantile(level: float, freedom: float = float("inf")) -> float:
    """Half-width of a symmetric interval in standard errors: normal, widened for few degrees of freedom.

    The widening is the Cornish-Fisher expansion of Student's t (Fisher and Cornish 1960), good to 1% from 4 on.

    >>> round(quantile(0.95), 2), round(quantile(0.95, 9), 2)
    (1.96, 2.26)
    """
    z = NormalDist().inv_cdf(0.5 + level / 2)
    n = max(freedom, 2.0)
    return z + (z**3 + z) / (4 * n) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * n * n)


def plain(value: float, se: float, level: float, freedom: float = float("inf")) -> tuple[float, float]:
    """Symmetric interval."""
    half = quantile(level, freedom) * se
    return value - half, value + half


def positive(value: float, se: float, level: float, freedom: float = float("inf"), floor: float = 0.0) -> tuple[float, float]:
    """Interval symmetric in log(value - floor): never below `floor`.

    >>> [round(x, 3) for x in positive(20.0, 0.1, 0.95)]
    [19.805, 20.197]
    """
    above = value - floor
    if above <= 0:
        return floor, floor + quantile(level, freedom) * se
    half = quantile(level, freedom) * se / above
    return floor + above * exp(-half), floor + above * exp(min(half, 50.0))


def share(value: float, se: float, level: float, freedom: float = float("inf")) -> tuple[float, float]:
    """Score interval of a proportion with the information of `se` (Wilson 1927): n = p (1-p) / se^2 trials.

    Stays inside (0, 1) and is not empty at 0 or 1.

    >>> [round(x, 3) for x in share(0.8, 0.018, 0.95)]
    [0.762, 0.833]
    """
    z = quantile(level, freedom)
    p = min(max(value, 1e-9), 1 - 1e-9)
    n = p * (1 - p) / se**2 if se > 0 else float("inf")
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return max(centre - half, 0.0), min(centre + half, 1.0)


def log_ratio(values: Sequence[float], errors: Sequence[float]) -> float:
    """Standard error of log(product or quotient) of independent estimates."""
    return sqrt(sum((e / v) ** 2 for v, e in zip(values, errors, strict=True) if v > 0))


@dataclass(frozen=True, slots=True)
class Dependence:
    """How much longer the intervals of burst means must be than if steps were independent.

    Attributes
    ----------
    lag_one : correlation of neighbouring bursts.
    significant : whether it differs from zero at about two standard errors.
    inflation : factor on the variance of the mean burst, at least 1.
    freedom : degrees of freedom of that variance.
    method : what was done, for the report.
    """

    lag_one: float
    significant: bool
    inflation: float
    freedom: float
    method: str


def dependence(bursts: Sequence[npt.NDArray[np.int64]]) -> Dependence:
    """Long-run variance of the bursts over their variance.

    From the spread between streams (cluster-robust, Liang and Zeger 1986) where there are `FEW_STREAMS` of them; else
    from the autocorrelation, as an AR(1) seen through noise: 1 + 2 r1 / (1 - phi) with phi = r2 / r1.

    Parameters
    ----------
    bursts : per stream, sizes in order, shape (r,).
    """
    series = [b.astype(np.float64) for b in bursts if b.size >= 3]
    n = sum(b.size for b in series)
    independent = Dependence(0.0, False, 1.0, float("inf"), "")
    if n < 20:
        return independent
    mean = sum(float(b.sum()) for b in series) / n
    rest = [b - mean for b in series]
    variance = sum(float(r @ r) for r in rest) / n
    if variance <= 0:
        return independent
    r1, r2 = (sum(float(r[k:] @ r[:-k]) for r in rest) / n / variance for k in (1, 2))
    if abs(r1) < 2.0 / sqrt(n):
        return Dependence(r1, False, 1.0, float("inf"), "")
    if len(series) >= FEW_STREAMS:
        k = len(series)
        between = sum(float(r.sum()) ** 2 for r in rest) * k / (k - 1)
        return Dependence(r1, True, max(between / (n * variance), 1.0), k - 1.0, f"spread between {k} streams")
    # r2/r1 is noisy: between what one lag alone says and a memory of some twenty steps
    phi = min(max(r2 / r1, abs(r1)), 0.95) if r1 > 0 else 0.0
    inflation = max(1 + 2 * r1 / (1 - phi), 1.0)
    return Dependence(r1, True, inflation, max(n / inflation, 3.0), "autocorrelation of the bursts")

