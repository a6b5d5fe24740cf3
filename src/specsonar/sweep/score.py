"""How a method did in a cell: shares, biases and times, each with its interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ..fingerprint import SPECULATIVE
from ..stats import intervals
from .cells import QUANTITIES, Truth
from .methods import METHODS, Measured

LEVEL: Final = 0.95

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Value:
    """A figure with its interval; an end is nan where there were too few repetitions for one.

    Attributes
    ----------
    n : repetitions behind it.
    """

    value: float
    low: float
    high: float
    n: int

    def to_dict(self) -> dict[str, Any]:
        """Plain types; the interval's level is that of the sweep."""
        return {"value": self.value, "low": self.low, "high": self.high, "n": self.n}


@dataclass(frozen=True, slots=True)
class Quantity:
    """Estimates of one quantity over the repetitions in which the method gave it.

    Attributes
    ----------
    mean : of the estimates.
    bias : mean of estimate less truth. rmse : root of the mean square of that.
    coverage : share of intervals that hold the truth; None for a method without intervals.
    """

    mean: float
    bias: Value
    rmse: Value
    coverage: Value | None

    def to_dict(self) -> dict[str, Any]:
        """Plain types."""
        coverage = None if self.coverage is None else self.coverage.to_dict()
        return {"mean": self.mean, "bias": self.bias.to_dict(), "rmse": self.rmse.to_dict(), "coverage": coverage}


@dataclass(frozen=True, slots=True)
class Score:
    """One method in one cell.

    Attributes
    ----------
    repetitions : that were done. refused : of these, in which the method said nothing at all.
    failed : repetitions that could not be done. errors : why, each reason once.
    exact : share with the true M; None where there is no M to find, or the method gives none.
    right : share with the right verdict (for a method that only knows yes and no, whether speculation is on).
    false_alarm : share called speculative where it is not; None where it is, and for a method without verdicts.
    quantities : M, acceptance, length and step, where the service has them and the method gave one.
    seconds : median time of an analysis.
    sizes : mean number of steps of 1, 2... tokens; empty where they are not told.
    """

    repetitions: int
    refused: int
    failed: int
    errors: tuple[str, ...]
    exact: Value | None
    right: Value | None
    false_alarm: Value | None
    quantities: dict[str, Quantity]
    seconds: Value
    sizes: tuple[float, ...] = ()

    def mean(self, quantity: str) -> float:
        """Mean estimate of a quantity; nan where there is none."""
        return self.quantities[quantity].mean if quantity in self.quantities else math.nan

    def to_dict(self) -> dict[str, Any]:
        """Plain types; every quantity is there, null where it was not given."""
        known = {name: self.quantities.get(name) for name in QUANTITIES}
        return {
            "repetitions": self.repetitions,
            "refused": self.refused,
            "failed": self.failed,
            "errors": list(self.errors),
            "exact": _plain(self.exact),
            "right": _plain(self.right),
            "false_alarm": _plain(self.false_alarm),
            **{name: None if q is None else q.to_dict() for name, q in known.items()},
            "seconds": self.seconds.to_dict(),
            "sizes": list(self.sizes),
        }


def _plain(value: Value | None) -> dict[str, Any] | None:
    return None if value is None else value.to_dict()


def score(
    method: str, truth: Truth, measured: Sequence[Measured], failed: int = 0, errors: tuple[str, ...] = ()
) -> Score:
    """What the repetitions of one cell come to."""
    quantities = {}
    for name in QUANTITIES:
        if (found := _quantity(name, getattr(truth, name), measured)) is not None:
            quantities[name] = found
    verdicts = METHODS[method].verdicts
    exact = right = alarm = None
    if METHODS[method].burst and math.isfinite(truth.max_burst):
        exact = share([m.max_burst == truth.max_burst for m in measured])
    if verdicts != "none":
        right = share([_right(m.verdict, truth.verdict, verdicts) for m in measured])
        if truth.verdict != SPECULATIVE:
            alarm = share([m.verdict == SPECULATIVE for m in measured])
    return Score(
        len(measured), sum(bool(m.refused) for m in measured), failed, errors, exact, right, alarm, quantities,
        median([m.seconds for m in measured]), _sizes([m.sizes for m in measured if m.sizes]),
    )  # fmt: skip


def _right(said: str | None, true: str, verdicts: str) -> bool:
    if verdicts == "yes or no":
        return said is not None and (said == SPECULATIVE) == (true == SPECULATIVE)
    return said == true


def _quantity(name: str, true: float, measured: Sequence[Measured]) -> Quantity | None:
    values = np.array([getattr(m, name) for m in measured], np.float64)
    given = values[np.isfinite(values)]
    if not given.size or not math.isfinite(true):
        return None
    known = [m.intervals[name] for m in measured if name in m.intervals]
    held = share([low <= true and (high is None or true <= high) for low, high in known]) if known else None
    return Quantity(float(given.mean()), mean(given - true), root_mean_square(given - true), held)


def share(hits: Sequence[bool]) -> Value | None:
    """Share of hits with its Wilson interval; None without a trial."""
    if not hits:
        return None
    return Value(sum(hits) / len(hits), *intervals.hits(sum(hits), len(hits), LEVEL), len(hits))


def pooled(shares: Sequence[Value | None]) -> Value | None:
    """The share over all trials behind several shares; None without a trial."""
    known = [s for s in shares if s is not None]
    trials = sum(s.n for s in known)
    hits = sum(round(s.value * s.n) for s in known)
    return Value(hits / trials, *intervals.hits(hits, trials, LEVEL), trials) if trials else None


def mean(values: FloatArray) -> Value:
    """Mean with Student's interval.

    >>> mean(np.array([1.0, 2.0, 3.0])).value
    2.0
    """
    n = values.size
    if n < 2:
        return Value(float(values.mean()) if n else math.nan, math.nan, math.nan, n)
    se = float(values.std(ddof=1)) / math.sqrt(n)
    return Value(float(values.mean()), *intervals.plain(float(values.mean()), se, LEVEL, n - 1.0), n)


def root_mean_square(values: FloatArray) -> Value:
    """Root of the mean square; the interval is that of the mean square, symmetric in its logarithm."""
    square = mean(values**2)
    if square.n < 2:
        return Value(math.sqrt(square.value) if square.n else math.nan, math.nan, math.nan, square.n)
    se = float((values**2).std(ddof=1)) / math.sqrt(square.n)
    low, high = intervals.positive(square.value, se, LEVEL, square.n - 1.0)
    return Value(math.sqrt(square.value), math.sqrt(low), math.sqrt(high), square.n)


def median(values: Sequence[float]) -> Value:
    """Median with the interval between two order statistics, which holds whatever the law; nan below six values.

    >>> median([3.0, 1.0, 2.0]).value
    2.0
    """
    ordered = sorted(values)
    n = len(ordered)
    if not n:
        return Value(math.nan, math.nan, math.nan, 0)
    middle = float(np.median(ordered))
    # rank r from below and above: P(Binomial(n, 1/2) < r) is at most half of what the interval may miss
    rank, below = 0, 0.0
    while (below := below + math.comb(n, rank) / 2**n) <= (1 - LEVEL) / 2:
        rank += 1
    if not rank:
        return Value(middle, math.nan, math.nan, n)
    return Value(middle, ordered[rank - 1], ordered[n - rank], n)


def _sizes(counts: Sequence[tuple[float, ...]]) -> tuple[float, ...]:
    longest = max(map(len, counts), default=0)
    return tuple(np.mean([np.pad(c, (0, longest - len(c))) for c in counts], 0).tolist()) if counts else ()
