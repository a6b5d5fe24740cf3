"""Ratios of two recordings with their intervals.

The unit that chance works on is the stream: content, temperature and server state differ from one to the next. So the
standard errors come from the spread between streams (cluster-robust, Liang and Zeger 1986) wherever there are enough.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, exp, log, log1p, sqrt
from typing import Any, Final

import numpy as np

from .fingerprint import AUTOREGRESSIVE, CHANGED, EQUIVALENT, UNDETERMINED, Change, Estimate, Fingerprint
from .stats import intervals

SURE: Final = 0.99
"""Confidence at which a difference is called a change: one of two quantities, so 2% of false alarms in all."""

_LARGEST: Final = 700.0
"""Logarithms above it have no number; only a damaged file has such values."""


@dataclass(frozen=True, slots=True)
class Log:
    """Logarithm of a quantity on one side: value, standard error, degrees of freedom and how it was found."""

    value: float
    se: float
    freedom: float
    method: str


def change(
    name: str, sides: tuple[Fingerprint, Fingerprint], of: Callable[[Fingerprint], Log | None], margin: float,
    level: float,
) -> Change | None:  # fmt: skip
    """The ratio candidate / base of one quantity; None where a side does not have it."""
    a, b = of(sides[0]), of(sides[1])
    if a is None or b is None:
        return None
    d = b.value - a.value
    se = sqrt(a.se**2 + b.se**2)
    # Welch 1947
    freedom = se**4 / max(a.se**4 / a.freedom + b.se**4 / b.freedom, 1e-300) if se > 0 else float("inf")
    low, high = intervals.plain(d, se, level, freedom)
    sure = intervals.quantile(SURE, freedom) * se
    most = log1p(margin)
    verdict = EQUIVALENT if -most < low and high < most else CHANGED if abs(d) > sure else UNDETERMINED
    method = a.method if a.method == b.method else f"{a.method}; {b.method}"
    needed = None
    if verdict == UNDETERMINED and se > 0:
        # either the interval shrinks into the margin, or away from no change, whichever comes first
        room = max(most - abs(d), abs(d) * intervals.quantile(level) / intervals.quantile(SURE), 0.1 * most)
        more = (intervals.quantile(level, freedom) * se / room) ** 2
        needed = ceil(max(s.streams for s in sides) * max(more, 1.1))
    values = [exp(min(x, _LARGEST)) for x in (a.value, b.value, d, low, high)]
    return Change(
        quantity=name, base=values[0], candidate=values[1], ratio=values[2], low=values[3], high=values[4],
        level=level, method=method, verdict=verdict, needed_streams=needed,
    )  # fmt: skip


def length_of(side: Fingerprint) -> Log | None:
    """Acceptance length."""
    if side.acceptance_length is None:
        return None
    model = _from_estimate(side.acceptance_length)
    each = side.by_stream or ()
    if side.verdict == AUTOREGRESSIVE or len(each) < intervals.FEW_STREAMS:
        return model
    tokens, steps = np.array([[s.tokens, s.steps] for s in each]).T
    mean = tokens.sum() / max(steps.sum(), 1.0)
    return _clustered(tokens - mean * steps, float(tokens.sum()), side.acceptance_length.value, model)


def step_of(side: Fingerprint) -> Log | None:
    """Time of a step, milliseconds."""
    if side.step_ms is None:
        return None
    model = _from_estimate(side.step_ms)
    timed = [(s.steps, s.step_ms) for s in side.by_stream or () if s.step_ms is not None]
    if len(timed) < intervals.FEW_STREAMS:
        return model
    steps, step = np.array(timed).T
    mean = float((steps * step).sum() / steps.sum())
    return _clustered(steps * (step - mean), float((steps * step).sum()), side.step_ms.value, model)


def rate_of(side: Fingerprint) -> Log | None:
    """From length and step where they are known, so that the shares add up; else as it was seen."""
    length, step = length_of(side), step_of(side)
    if length is None or step is None:
        return _from_estimate(side.tokens_per_s)
    return Log(
        length.value - step.value + log(1e3), sqrt(length.se**2 + step.se**2), min(length.freedom, step.freedom),
        "acceptance length over step",
    )  # fmt: skip


def _clustered(rest: Any, total: float, value: float, model: Log | None) -> Log:
    """Standard error of a log ratio of sums from what each stream misses; never below a tenth of the model's."""
    k = rest.size
    se = sqrt(float(rest @ rest) * k / (k - 1)) / max(total, 1e-12)
    least = 0.1 * model.se if model is not None else 0.0
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


def each_of(side: Fingerprint, name: str) -> Log | None:
    """Geometric mean over the streams of what each of them has: waiting times and spreads are skewed."""
    values = np.array([v for s in side.by_stream or () if (v := getattr(s, name)) is not None and v > 0])
    if values.size < 3:
        return None
    logs = np.log(values)
    se = float(logs.std(ddof=1)) / sqrt(values.size)
    return Log(float(logs.mean()), max(se, 1e-6), values.size - 1.0, f"spread between {values.size} streams")
