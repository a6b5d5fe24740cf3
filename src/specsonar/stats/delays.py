"""Laws of the delay of a token that crosses on its own, each with mean 0 and standard deviation 1, and one shape.

Normal (no shape); log-normal, shifted to mean 0 (shape: standard deviation of the logarithm; 0 is the normal law);
exponential blurred by a normal law (shape: its standard deviation over the mean of the exponential; infinity is the
normal law). The blur keeps the edge of the exponential smooth, so that its likelihood can be climbed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt
from numba import njit

FloatArray = npt.NDArray[np.float64]
NORMAL_KIND, LOGNORMAL_KIND, EXPONENTIAL_KIND = 0, 1, 2
NOWHERE = -1e300
"""Logarithm of a density that is zero."""


@njit(cache=True, nogil=True, error_model="numpy")
def log_density(u: float, kind: int, shape: float) -> tuple[float, float]:
    """Logarithm of the density at `u`, and minus its derivative (u itself under the normal law)."""
    if kind == LOGNORMAL_KIND:
        mean = math.exp(0.5 * shape * shape)
        sd = mean * math.sqrt(math.expm1(shape * shape))
        x = mean + sd * u
        if x <= 0.0:
            return NOWHERE, 0.0
        z = math.log(x) / shape
        return math.log(sd / (x * shape)) - 0.5 * z * z - 0.9189385332046727, sd / x * (1.0 + z / shape)
    if kind == EXPONENTIAL_KIND:
        sd = math.sqrt(1.0 + shape * shape)
        y = 1.0 + sd * u
        z = y / shape - shape
        if z > -6.0:
            below = 0.5 * math.erfc(-z * 0.7071067811865476)
            mills = math.exp(-0.5 * z * z) * 0.3989422804014327 / below
            log_below = math.log(below)
        else:  # Abramowitz and Stegun 26.2.12
            w = 1.0 / (z * z)
            series = 1.0 - w * (1.0 - 3.0 * w * (1.0 - 5.0 * w))
            mills = -z / series
            log_below = -0.5 * z * z - 0.9189385332046727 - math.log(-z) + math.log(series)
        return math.log(sd) + 0.5 * shape * shape - y + log_below, sd * (1.0 - mills / shape)
    return -0.5 * u * u - 0.9189385332046727, u


@dataclass(frozen=True, slots=True)
class DelayLaw:
    """A law by its kind and shape; see the module."""

    kind: int = NORMAL_KIND
    shape: float = 0.0

    @property
    def name(self) -> str:
        """In words."""
        return ("normal", "log-normal", "exponential")[self.kind]

    @property
    def skewed(self) -> bool:
        """Whether late tokens lie further out than early ones."""
        return self.kind != NORMAL_KIND

    def density(self, u: npt.ArrayLike) -> FloatArray:
        """Density at `u`, any shape."""
        logarithm = np.vectorize(lambda x: log_density(x, self.kind, self.shape)[0], otypes=[float])
        return np.asarray(np.exp(logarithm(u)), np.float64)

    def sample(self, n: int, rng: np.random.Generator) -> FloatArray:
        """`n` independent delays, shape (n,)."""
        if self.kind == LOGNORMAL_KIND:
            x = np.exp(self.shape * rng.standard_normal(n))
            mean = math.exp(0.5 * self.shape**2)
            return np.asarray((x - mean) / (mean * math.sqrt(math.expm1(self.shape**2))), np.float64)
        if self.kind == EXPONENTIAL_KIND:
            x = rng.standard_exponential(n) + self.shape * rng.standard_normal(n)
            return np.asarray((x - 1.0) / math.sqrt(1.0 + self.shape**2), np.float64)
        return rng.standard_normal(n)

    def information(self) -> tuple[float, float]:
        """Fisher information of one known delay about its location (1 under the normal law) and its log scale (2)."""
        return _facts(self.kind, self.shape)[:2]

    def core(self) -> tuple[float, float]:
        """Median, and the inverse of the density there: laws of different tails are alike where these agree."""
        return _facts(self.kind, self.shape)[2:]


@cache
def _facts(kind: int, shape: float) -> tuple[float, float, float, float]:
    # tails beyond 40 standard deviations hold nothing; 1e-3 resolves the blurred edge
    u = np.arange(-8.0, 40.0, 1e-3)
    value = np.array([log_density(x, kind, shape) for x in u])
    p = np.exp(value[:, 0])
    middle = int(np.searchsorted(p.cumsum(), 0.5 * p.sum()))
    mass, pull = p / p.sum(), value[:, 1]
    place, scale = (mass * pull**2).sum(), (mass * (u * pull - 1.0) ** 2).sum()
    return float(place), float(scale), float(u[middle]), float(1.0 / p[middle])


NORMAL: Final = DelayLaw()
