"""Gaps that are independent and follow one law with one hump: the least that a decoder can be.

Each law has a shape and a scale, fitted by maximum likelihood: log-normal, Weibull and gamma (the exponential is a
special case of the last two). Seen as log gap, none of them has a second hump, which bursts have.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import erfc, exp, lgamma, log, pi, sqrt

import numpy as np
import numpy.typing as npt

from .gaps import FINEST, Gaps

FloatArray = npt.NDArray[np.float64]

_SHAPES = (0.05, 5_000.0)
"""Shapes looked at; beyond them a law is a power law, or has no spread."""


@dataclass(frozen=True, slots=True)
class Renewal:
    """A fitted law of independent gaps.

    Attributes
    ----------
    name : "log-normal", "Weibull" or "gamma".
    loglik : nats; density of the gaps in seconds, probability of a gap below the clock's tick.
    shape, scale : of the law; the scale in seconds.
    sample : (n, generator) -> n gaps, seconds.
    """

    name: str
    loglik: float
    shape: float
    scale: float
    sample: Callable[[int, np.random.Generator], FloatArray]


def fit(gaps: Gaps) -> list[Renewal]:
    """Every law, fitted to the gaps; empty when they are all alike."""
    x = gaps.gap[~gaps.zero]
    if x.size < 2 or x.max() < x.min() * (1 + 1e-6):
        return []
    ties = int(gaps.zero.sum())
    tick = max(FINEST, 0.5 * gaps.tick)
    return [law(x, ties, tick) for law in (_log_normal, _weibull, _gamma)]


def _log_normal(x: FloatArray, ties: int, tick: float) -> Renewal:
    y = np.log(x)
    mean, sd = float(y.mean()), float(y.std())
    dense = -float(y.sum()) - x.size * (0.5 + log(sd * sqrt(2 * pi)))
    below = 0.5 * erfc((mean - log(tick)) / (sd * sqrt(2)))
    return Renewal(
        "log-normal", dense + _tied(ties, below), sd, exp(mean), lambda n, rng: rng.lognormal(mean, sd, n)
    )  # fmt: skip


def _weibull(x: FloatArray, ties: int, tick: float) -> Renewal:
    y = np.log(x)
    top = float(y.max())
    z = y - top  # so that no power overflows

    def dense(k: float) -> float:
        power = float(np.exp(k * z).mean())  # (scale / largest gap)^k at the best scale
        return float(x.size * (log(k) - log(power) - 1.0) + ((k - 1) * z).sum() - x.size * top)

    k = _best(dense)
    scale = exp(top) * float(np.exp(k * z).mean()) ** (1 / k)
    below = -np.expm1(-((tick / scale) ** k))
    return Renewal(
        "Weibull", dense(k) + _tied(ties, float(below)), k, scale, lambda n, rng: scale * rng.weibull(k, n)
    )  # fmt: skip


def _gamma(x: FloatArray, ties: int, tick: float) -> Renewal:
    mean, log_mean = float(x.mean()), float(np.log(x).mean())

    def dense(k: float) -> float:
        return x.size * ((k - 1) * log_mean - k - k * log(mean / k) - lgamma(k))

    k = _best(dense)
    scale = mean / k
    below = exp(min(k * log(tick / scale) - lgamma(k + 1), 0.0))  # first term of the series: the tick is short
    return Renewal("gamma", dense(k) + _tied(ties, below), k, scale, lambda n, rng: rng.gamma(k, scale, n))


def _tied(ties: int, below: float) -> float:
    return ties * log(max(below, 1e-300)) if ties else 0.0


def _best(loglik: Callable[[float], float]) -> float:
    """The shape with the largest likelihood, by golden section over its logarithm."""
    low, high = log(_SHAPES[0]), log(_SHAPES[1])
    ratio = (sqrt(5) - 1) / 2
    a, b = high - ratio * (high - low), low + ratio * (high - low)
    at_a, at_b = loglik(exp(a)), loglik(exp(b))
    while high - low > 1e-6:
        if at_a > at_b:
            high, b, at_b = b, a, at_a
            a = high - ratio * (high - low)
            at_a = loglik(exp(a))
        else:
            low, a, at_a = a, b, at_b
            b = low + ratio * (high - low)
            at_b = loglik(exp(b))
    return exp(0.5 * (low + high))
