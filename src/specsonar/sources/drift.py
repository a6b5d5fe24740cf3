"""Acceptance that drifts between easy and hard stretches: a log-odds AR(1) per step, and its long-run law."""

from __future__ import annotations

from functools import lru_cache
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import UsageError
from .service import Service

FloatArray = npt.NDArray[np.float64]

_Z = np.linspace(-6.0, 6.0, 241)
_WEIGHT: FloatArray = np.exp(-_Z * _Z / 2) / np.exp(-_Z * _Z / 2).sum()


def odds(hazards: FloatArray, shift: float | FloatArray) -> FloatArray:
    """Acceptances whose log-odds are moved by `shift`, broadcast against `hazards` of shape (..., M-1)."""
    with np.errstate(divide="ignore", over="ignore"):
        result: FloatArray = 1.0 / (1.0 + np.exp(-(np.log(hazards) - np.log1p(-hazards) + shift)))
    return result


def latent(rng: np.random.Generator, n: int, persistence: float, last: float | None) -> FloatArray:
    """`n` further values of a stationary AR(1) with unit variance, shape (n,); `last` is the value before them."""
    noise = rng.standard_normal(n)
    if n == 0:
        return noise
    noise[1 if last is None else 0 :] *= np.sqrt(1.0 - persistence**2)
    start = noise[0] if last is None else persistence * last + noise[0]
    values = accumulate(noise[1:].tolist(), lambda z, e: persistence * z + e, initial=float(start))
    return np.fromiter(values, np.float64, n)


def reach(service: Service, *, after: bool = False) -> FloatArray:
    """P(B > j) over all steps, j = 1..M-1, shape (M-1,): drifting acceptance and steps without a draft included."""
    a = service.hazards(after=after)
    if service.correlation and a.size:
        shift, spread = calibrate(tuple(a.tolist()), service.correlation, service.persistence)
        further = _WEIGHT @ np.cumprod(odds(a, (shift + spread * _Z)[:, None]), axis=1)
    else:
        further = np.cumprod(a)
    result: FloatArray = service.draft_probability * further
    return result


def long_run_reach(service: Service) -> FloatArray:
    """P(B > j), j = 1..M-1, over the steps of a long stream, both sides of a change in acceptance included.

    A change happens at a share of the tokens; the share of the steps follows from the tokens per step on each side.
    """
    before = reach(service)
    if service.acceptance_after is None:
        return before
    after = reach(service, after=True)
    steps = np.array([service.change_at / (1 + before.sum()), (1 - service.change_at) / (1 + after.sum())])
    steps /= steps.sum()
    mixed: FloatArray = steps[0] * before + steps[1] * after
    return mixed


def hazards_of(further: FloatArray) -> FloatArray:
    """P(B > j | B >= j) from P(B > j); 0 where position j is never reached. Shapes (M-1,)."""
    arrive = np.concatenate(([1.0], further[:-1])) if further.size else further
    hazards: FloatArray = np.divide(further, arrive, out=np.zeros_like(further), where=arrive > 0)
    return hazards.round(12)


def pooled(further: npt.NDArray[np.floating[Any]]) -> float:
    """Positions that went on, over positions reached: what the mean hazard of complete bursts tends to."""
    arrive = 1.0 + further[:-1].sum()
    return round(float(further.sum() / arrive), 12)


@lru_cache(maxsize=256)
def calibrate(hazards: tuple[float, ...], correlation: float, persistence: float) -> tuple[float, float]:
    """Shift and spread of the log-odds that give the accepted counts the wanted lag-1 correlation.

    With z an AR(1) of unit variance, the acceptances of a step are sigmoid(logit(a_j) + shift + spread z). The
    shift keeps the pooled hazard (continued over reached) of the long run at that of `hazards`; the spread is
    found by bisection, the moments by summation over a grid of z, the pair (z, z') being bivariate normal.

    Returns
    -------
    (shift, spread), both in units of log-odds.

    Raises
    ------
    UsageError : no spread gives so high a correlation with this `persistence`.
    """
    a = np.asarray(hazards, np.float64)
    goal = pooled(np.cumprod(a))
    odd = 2.0 * np.arange(1, a.size + 1) + 1.0
    step = np.exp(-((_Z[None, :] - persistence * _Z[:, None]) ** 2) / (2 * (1 - persistence**2)))
    step /= step.sum(1, keepdims=True)

    def shifted(spread: float) -> tuple[float, FloatArray]:
        low, high = -60.0, 60.0
        for _ in range(50):
            shift = (low + high) / 2
            each: FloatArray = np.cumprod(odds(a, (shift + spread * _Z)[:, None]), axis=1, dtype=np.float64)
            low, high = (shift, high) if pooled(_WEIGHT @ each) < goal else (low, shift)
        return shift, each

    def lag1(each: FloatArray) -> float:
        mean = 1.0 + each.sum(1)
        further: FloatArray = _WEIGHT @ each
        centre = 1.0 + further.sum()
        variance = 1.0 + odd @ further - centre**2
        return float((_WEIGHT * mean) @ (step @ mean) - centre**2) / float(variance)

    low, high = 0.0, 12.0
    if lag1(shifted(high)[1]) < correlation:
        raise UsageError(
            f"correlation = {correlation} cannot be reached with persistence = {persistence}",
            "raise persistence towards 1, or ask for less correlation",
        )
    for _ in range(40):
        spread = (low + high) / 2
        shift, each = shifted(spread)
        low, high = (spread, high) if lag1(each) < correlation else (low, spread)
    return shift, spread
