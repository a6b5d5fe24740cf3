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

RULES = ("one", "two", "free")
"""Laws of the hazards: one for all; one for the first position and one for the others (a service that drafts only
now and then); one for each."""


def law_size(rule: str, max_burst: int) -> int:
    """Free parameters of a law at M."""
    return max_burst - 1 if rule == "free" else min(1 if rule == "one" else 2, max_burst - 1)


@dataclass(frozen=True, slots=True)
class Choice(Generic[F]):
    """The chosen M.

    Attributes
    ----------
    fits : {rule: fit} at M.
    rule : the simplest of `RULES` that the score prefers.
    logliks : {M: best penalised log-likelihood of the laws}, for every M tried.
    """

    fits: dict[str, F]
    rule: str
    logliks: dict[int, float]

    @property
    def best(self) -> F:
        """The fit under the preferred law."""
        return self.fits[self.rule]

    @property
    def size(self) -> int:
        """Free parameters of the preferred law."""
        return law_size(self.rule, self.best.max_burst)


def choose(start: int, largest: int, steps: float, fit: Callable[[int, str], F], *, reach: int = 6) -> Choice[F]:
    """Climb from M = `start` to the M with the largest score.

    Parameters
    ----------
    start : a first guess, at least 2.
    largest : no M beyond this one.
    steps : about how many steps there are; the penalty is half of log(steps) for each free hazard.
    fit : (M, rule) -> fit.
    reach : how many M to look below a top before believing it.
    """
    cost = 0.5 * float(np.log(max(steps, 2.0)))
    tried: dict[int, dict[str, F]] = {}

    def scored(m: int, rule: str) -> float:
        return tried[m][rule].loglik - cost * law_size(rule, m)

    def score(m: int) -> float:
        if m not in tried:
            tried[m] = {"one": fit(m, "one")}
            # at M = 2 the laws are the same, at M = 3 the last two; the middle one lies between the others
            if m > 2:
                tried[m]["free"] = fit(m, "free")
            if m > 3 and tried[m]["free"].loglik > tried[m]["one"].loglik + cost:
                tried[m]["two"] = fit(m, "two")
        return max(scored(m, rule) for rule in tried[m])

    best = start
    for m in (start + 1, start + 2):
        if m <= largest and score(m) > score(best):
            best = m
        elif m > largest or score(m) < score(best) - 1.5 * cost:
            break
    for m in range(start - 1, max(1, start - 1 - reach), -1):
        if score(m) > score(best):
            best = m
        elif score(m) < score(best) - LARGEST_LEAD:
            break
    while best + 1 <= largest and score(best + 1) > score(best):
        best += 1
    score(best)
    fits = tried[best]
    rule = max(fits, key=lambda r: scored(best, r))
    return Choice({"free": fits["one"]} | fits, rule, {m: score(m) for m in sorted(tried)})


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
    return bool((1.0 - onward) ** full < (1.0 - level) / 2)
