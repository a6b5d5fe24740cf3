"""Which M: the likelihood at each M under one alpha and under free hazards, penalised by what each had to fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

LARGEST_LEAD = 40.0
"""Nats behind the best at which smaller M are no longer worth a look."""


class Fitted(Protocol):
    """What every layer's fit has."""

    @property
    def loglik(self) -> float:
        """Nats."""

    @property
    def max_burst(self) -> int:
        """M."""


F = TypeVar("F", bound=Fitted)


@dataclass(frozen=True, slots=True)
class Choice(Generic[F]):
    """The chosen M.

    Attributes
    ----------
    one, free : the fits at M under one alpha and under free hazards.
    one_alpha : whether one alpha is enough (twice the lead of the free hazards below the penalty).
    logliks : {M: best penalised log-likelihood of the two laws}, for every M tried.
    """

    one: F
    free: F
    one_alpha: bool
    logliks: dict[int, float]

    @property
    def best(self) -> F:
        """The fit under the simpler law that suffices."""
        return self.one if self.one_alpha else self.free


def choose(
    start: int, largest: int, steps: float, fit: Callable[[int, str], F], *, reach: int = 6
) -> Choice[F]:
    """Climb from M = `start` to the M with the largest score.

    Parameters
    ----------
    start : a first guess, at least 2.
    largest : no M beyond this one.
    steps : about how many steps there are; the penalty is half of log(steps) for each free hazard.
    fit : (M, "one" | "free") -> fit.
    reach : how many M to look below a top before believing it.
    """
    cost = 0.5 * float(np.log(max(steps, 2.0)))
    tried: dict[int, tuple[F, F]] = {}

    def score(m: int) -> float:
        if m not in tried:
            tried[m] = (fit(m, "one"), fit(m, "free"))
        one, free = tried[m]
        return max(one.loglik - cost, free.loglik - cost * (m - 1))

    best = start
    for m in (start + 1, start + 2):
        if m <= largest and score(m) > score(best):
            best = m
    for m in range(start - 1, max(1, start - 1 - reach), -1):
        if score(m) > score(best):
            best = m
        elif score(m) < score(best) - LARGEST_LEAD:
            break
    while best + 1 <= largest and score(best + 1) > score(best):
        best += 1
    one, free = tried[best]
    enough = best == 2 or free.loglik - cost * (best - 1) <= one.loglik - cost
    return Choice(one, free, enough, {m: score(m) for m in sorted(tried)})


def full_burst_bound(hazards: FloatArray, full: float, level: float) -> bool:
    """Whether `full` complete bursts of the largest size bound M from above at this level.

    If a burst of M could have gone on, each of the `full` bursts would have done so with about the last hazard; the
    chance that none did must be small.

    Parameters
    ----------
    hazards : shape (M-1,), without the closing zero.
    """
    if hazards.size == 0 or full <= 0:
        return False
    # positions further out are reached by fewer bursts: lean on the smaller of the last and the mean hazard
    onward = min(float(hazards[-1]), float(hazards.mean()))
    return (1.0 - onward) ** full < (1.0 - level) / 2
