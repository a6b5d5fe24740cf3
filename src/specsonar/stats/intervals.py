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

    The widening is the Cornish-Fisher expansion of Student's t (Fisher and Cornish 1960), good to 2% at 95% from 4 on.

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


def positive(
    value: float, se: float, level: float, freedom: float = float("inf"), floor: float = 0.0
) -> tuple[float, float]:
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

    Stays inside (0, 1); the caller keeps p off 0 and 1 where se > 0.

    >>> [round(x, 3) for x in share(0.8, 0.018, 0.95)]
    [0.762, 0.833]
    """
    z = quantile(level, freedom)
    p = min(max(value, 1e-9), 1 - 1e-9)
    n = p * (1 - p) / se**2 if se > 0 else float("inf")
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return max(centre - half, 0.0), min(centre + half, 1.0)


def hits(found: int, trials: int, level: float) -> tuple[float, float]:
    """Score interval of the share `found` / `trials` (Wilson 1927); at 0 and 1 its end is exact there.

    >>> [round(x, 3) for x in hits(9, 10, 0.95)], [round(x, 3) for x in hits(0, 10, 0.95)]
    ([0.596, 0.982], [0.0, 0.278])
    """
    z = quantile(level)
    p = found / trials
    centre = (p + z * z / (2 * trials)) / (1 + z * z / trials)
    half = z / (1 + z * z / trials) * sqrt(p * (1 - p) / trials + z * z / (4 * trials * trials))
    return (0.0 if found == 0 else centre - half), (1.0 if found == trials else centre + half)


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


def dependence(series: Sequence[FloatArray], model_variance: float) -> Dependence:
    """Long-run variance of a step-by-step quantity over the variance that the model gives it.

    From the spread between streams (cluster-robust, Liang and Zeger 1986) where there are `FEW_STREAMS` of them; else
    from the autocorrelation, as an AR(1) seen through noise: 1 + 2 r1 / (1 - phi) with phi = r2 / r1. Neither is used
    unless neighbours correlate at about two standard errors.

    Parameters
    ----------
    series : per stream, the quantity in order less its mean over all streams, shape (r,).
    model_variance : of one step, under the fitted law.
    """
    rest = [r for r in series if r.size >= 3]
    n = sum(r.size for r in rest)
    variance = sum(float(r @ r) for r in rest) / max(n, 1)
    if n < 20 or variance <= 0 or model_variance <= 0:
        return Dependence(0.0, False, 1.0, float("inf"), "")
    misfit = max(variance / model_variance, 1.0)
    r1, r2 = (sum(float(r[k:] @ r[:-k]) for r in rest) / n / variance for k in (1, 2))
    if abs(r1) < 2.0 / sqrt(n):
        return Dependence(r1, False, misfit, float("inf"), "")
    if len(rest) >= FEW_STREAMS:
        k = len(rest)
        between = sum(float(r.sum()) ** 2 for r in rest) * k / (k - 1)
        return Dependence(r1, True, max(between / (n * model_variance), 1.0), k - 1.0, f"spread between {k} streams")
    # r2/r1 is noisy: between what one lag alone says and a memory of some ten steps
    phi = min(max(r2 / r1, abs(r1)), 0.9) if r1 > 0 else 0.0
    long_run = max(1 + 2 * r1 / (1 - phi), 1.0)
    return Dependence(r1, True, misfit * long_run, max(n / long_run, 3.0), "autocorrelation of the bursts")
