"""Ratios of two recordings with their intervals.

The unit that chance works on is the stream: content, temperature and server state differ from one to the next. So the
standard errors come from the spread between streams (cluster-robust, Liang and Zeger 1986) wherever there are enough.
Where both sides were asked the same, what was asked is the unit: an easy prompt is easy on both sides, and only what
differs between the two answers to one prompt is chance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, exp, log, log1p, sqrt
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from .fingerprint import (
    AUTOREGRESSIVE,
    CHANGED,
    EQUIVALENT,
    UNDETERMINED,
    Change,
    Estimate,
    Fingerprint,
    StreamTotals,
)
from .stats import intervals
from .stats.needed import scaled

FloatArray = npt.NDArray[np.float64]

SURE: Final = 0.99
"""Confidence at which a difference is called a change: one of two quantities, so 2% of false alarms in all."""

_LARGEST: Final = 700.0
"""Logarithms above it have no number; only a damaged file has such values."""

_TRUSTED: Final = 0.1
"""A standard error from the spread is never below this share of the model's: few streams may agree by chance."""

Sum = Callable[[StreamTotals], tuple[float, float] | None]
"""What a stream adds to the numerator and the denominator of a ratio; None where it does not have it."""


@dataclass(frozen=True, slots=True)
class Log:
    """Logarithm of a quantity on one side: value, standard error, degrees of freedom and how it was found."""

    value: float
    se: float
    freedom: float
    method: str


@dataclass(frozen=True, slots=True)
class Difference:
    """A quantity of both sides.

    Attributes
    ----------
    base, candidate : logarithms.
    se, freedom, method : of their difference.
    streams : how many on each side, were both alike, give this standard error.
    """

    base: float
    candidate: float
    se: float
    freedom: float
    method: str
    streams: float


@dataclass(frozen=True, slots=True)
class Sides:
    """Base and candidate.

    Attributes
    ----------
    pairs : for each question that both were asked, the streams of the base and those of the candidate that answer it.
    alone : streams without a partner on the other side.
    """

    base: Fingerprint
    candidate: Fingerprint
    pairs: Sequence[tuple[Sequence[StreamTotals], Sequence[StreamTotals]]]
    alone: int

    @property
    def paired(self) -> bool:
        """Whether there are enough pairs to go by."""
        return len(self.pairs) >= intervals.FEW_STREAMS

    @property
    def alike(self) -> bool:
        """Whether both were asked the same, each question as often."""
        return not self.alone and all(len(a) == len(b) for a, b in self.pairs)


def sides(base: Fingerprint, candidate: Fingerprint) -> Sides:
    """Both sides, paired by what was asked where both recordings tell it."""
    told = [_by_name(side.by_stream or ()) for side in (base, candidate)]
    both = [name for name in told[0] if name in told[1]]
    alone = sum(len(streams) for each in told for streams in each.values())
    alone -= sum(len(each[name]) for each in told for name in both)
    return Sides(base, candidate, [(told[0][name], told[1][name]) for name in both], alone if all(told) else 0)


def _by_name(streams: Sequence[StreamTotals]) -> dict[str, list[StreamTotals]]:
    """The streams of each question whose name is known, in the order in which they came."""
    found: dict[str, list[StreamTotals]] = {}
    for one in streams:
        if one.question and one.steps > 0:
            found.setdefault(one.question, []).append(one)
    return found


def change(name: str, found: Difference | None, margin: float, level: float, sure: float = SURE) -> Change | None:
    """The ratio candidate / base of one quantity, "changed" at confidence `sure`; None where a side lacks it."""
    if found is None:
        return None
    d, se, freedom = found.candidate - found.base, found.se, found.freedom
    low, high = intervals.plain(d, se, level, freedom)
    least = intervals.quantile(sure, freedom) * se
    most = log1p(margin)
    verdict = EQUIVALENT if -most < low and high < most else CHANGED if abs(d) > least else UNDETERMINED
    needed = None
    if verdict == UNDETERMINED and se > 0:
        # either the interval shrinks into the margin, or away from no change, whichever comes first
        room = max(most - abs(d), abs(d) * intervals.quantile(level) / intervals.quantile(sure), 0.1 * most)
        more = scaled(1, intervals.quantile(level, freedom) * se, room)
        needed = ceil(found.streams * max(more, 1.1))
    values = [exp(min(x, _LARGEST)) for x in (found.base, found.candidate, d, low, high)]
    return Change(
        quantity=name, base=values[0], candidate=values[1], ratio=values[2], low=values[3], high=values[4],
        level=level, method=found.method, verdict=verdict, needed_streams=needed,
    )  # fmt: skip


def length_of(both: Sides) -> Difference | None:
    """Acceptance length."""

    def tokens(one: StreamTotals) -> tuple[float, float]:
        return one.tokens, one.steps

    plain = AUTOREGRESSIVE in (both.base.verdict, both.candidate.verdict)
    return _ratio(both, "acceptance_length", tokens, by_model=plain)


def step_of(both: Sides) -> Difference | None:
    """Time of a step, milliseconds."""

    def time(one: StreamTotals) -> tuple[float, float] | None:
        return None if one.step_ms is None else (one.steps * one.step_ms, one.steps)

    return _ratio(both, "step_ms", time)


def rate_of(both: Sides, length: Difference | None, step: Difference | None) -> Difference | None:
    """From length and step where they are known, so that the shares add up; else as it was seen."""
    if length is None or step is None:
        seen = [_from_estimate(side.tokens_per_s) for side in (both.base, both.candidate)]
        return _apart(both, *seen)
    se = sqrt(length.se**2 + step.se**2)
    streams = (length.streams * length.se**2 + step.streams * step.se**2) / max(se**2, 1e-300)
    return Difference(
        length.base - step.base + log(1e3), length.candidate - step.candidate + log(1e3),
        se, min(length.freedom, step.freedom), "acceptance length over step", streams,
    )  # fmt: skip


def each_of(both: Sides, name: str) -> Difference | None:
    """Geometric mean over the streams of what each of them has: waiting times and spreads are skewed."""
    if both.paired:
        logs = [[_logs(streams, name) for streams in pair] for pair in both.pairs]
        means = np.array([[x.mean() for x in pair] for pair in logs if all(x.size for x in pair)])
        if len(means) >= intervals.FEW_STREAMS:
            apart = means[:, 1] - means[:, 0]
            se = float(apart.std(ddof=1)) / sqrt(len(apart))
            base, candidate = map(float, means.mean(0))
            return Difference(base, candidate, max(se, 1e-6), len(apart) - 1.0, _by_question(len(apart)), len(apart))
    return _apart(both, *(_each(side, name) for side in (both.base, both.candidate)))


def _ratio(both: Sides, name: str, parts: Sum, *, by_model: bool = False) -> Difference | None:
    """A quantity that is a ratio of sums over the streams."""
    found = [_one(side, name, parts, by_model=by_model) for side in (both.base, both.candidate)]
    a, b = found
    if a is None or b is None:
        return None
    if by_model or not both.paired:
        return _apart(both, a, b)
    sums = np.array([[_mean(streams, parts) for streams in pair] for pair in both.pairs])
    sums = sums[np.isfinite(sums).all((1, 2))]
    if len(sums) < intervals.FEW_STREAMS:
        return _apart(both, a, b)
    n, d = sums[..., 0], sums[..., 1]
    ratio = n.sum(0) / d.sum(0)
    miss = np.diff((n - ratio * d) / n.sum(0))[:, 0]
    k = len(miss)
    models = [_from_estimate(getattr(side, name)) for side in (both.base, both.candidate)]
    least = _TRUSTED * sqrt(sum(m.se**2 for m in models if m is not None))
    se = max(sqrt(float(miss @ miss) * k / (k - 1)), least)
    # where only a part was asked of both, the sides are moved to what they were on that part
    moved = np.zeros(2) if both.alike else np.log(ratio) - [log(_whole(s, parts)) for s in (both.base, both.candidate)]
    return Difference(a.value + float(moved[0]), b.value + float(moved[1]), se, k - 1.0, _by_question(k), k)


def _by_question(pairs: int) -> str:
    return f"spread between the answers to {pairs} prompts that both were asked"


def _mean(streams: Sequence[StreamTotals], parts: Sum) -> FloatArray:
    """What the answers to one question add, on average; nan where one does not have it."""
    sums = np.array([parts(one) or (np.nan, np.nan) for one in streams], np.float64)
    return np.asarray(sums.mean(0), np.float64)


def _whole(side: Fingerprint, parts: Sum) -> float:
    """The ratio over all streams of a side."""
    n, d = np.array([x for one in side.by_stream or () if (x := parts(one)) is not None]).sum(0)
    return float(n / d)


def _one(side: Fingerprint, name: str, parts: Sum, *, by_model: bool) -> Log | None:
    """A side by itself: the value of the fit, its standard error from the streams where there are enough."""
    estimate: Estimate | None = getattr(side, name)
    model = _from_estimate(estimate)
    sums = np.array([x for one in side.by_stream or () if (x := parts(one)) is not None])
    if estimate is None or by_model or len(sums) < intervals.FEW_STREAMS:
        return model
    n, d = sums.T
    return _clustered(n - n.sum() / max(d.sum(), 1.0) * d, float(n.sum()), estimate.value, model)


def _apart(both: Sides, a: Log | None, b: Log | None) -> Difference | None:
    """Two sides that know nothing of each other (Welch 1947)."""
    if a is None or b is None:
        return None
    se = sqrt(a.se**2 + b.se**2)
    freedom = se**4 / max(a.se**4 / a.freedom + b.se**4 / b.freedom, 1e-300) if se > 0 else float("inf")
    method = a.method if a.method == b.method else f"{a.method}; {b.method}"
    # a variance falls with the streams of its own side
    alone = a.se**2 * both.base.streams + b.se**2 * both.candidate.streams
    return Difference(a.value, b.value, se, freedom, method, alone / max(se**2, 1e-300))


def _clustered(rest: Any, total: float, value: float, model: Log | None) -> Log:
    """Standard error of a log ratio of sums from what each stream misses."""
    k = rest.size
    se = sqrt(float(rest @ rest) * k / (k - 1)) / max(total, 1e-12)
    least = _TRUSTED * model.se if model is not None else 0.0
    return Log(log(value), max(se, least), k - 1.0, f"spread between {k} streams")


def _from_estimate(estimate: Estimate | None) -> Log | None:
    """Back from an interval to a standard error on the logarithmic scale."""
    if estimate is None or estimate.value <= 0:
        return None
    low = max(estimate.low, 1e-3 * estimate.value)
    high = estimate.high if estimate.high is not None else estimate.value**2 / low
    width = log(max(high, low)) - log(low)
    return Log(
        log(estimate.value), width / 2 / intervals.quantile(estimate.level), float("inf"), "interval of each recording"
    )


def _logs(streams: Sequence[StreamTotals], name: str) -> FloatArray:
    """Logarithms of what the streams have."""
    values = [v for s in streams if (v := getattr(s, name)) is not None and v > 0]
    return np.asarray(np.log(values), np.float64)


def _each(side: Fingerprint, name: str) -> Log | None:
    logs = _logs(side.by_stream or (), name)
    if logs.size < 3:
        return None
    se = float(logs.std(ddof=1)) / sqrt(logs.size)
    return Log(float(logs.mean()), max(se, 1e-6), logs.size - 1.0, f"spread between {logs.size} streams")
