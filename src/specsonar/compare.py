"""Two fingerprints side by side: what changed, acceptance or the step, and by how much.

    tokens/s = acceptance length / step, so log ratio of rates = log ratio of lengths - log ratio of steps.

The unit that chance works on is the stream: content, temperature and server state differ from one to the next. So the
standard errors come from the spread between streams (cluster-robust, Liang and Zeger 1986) wherever there are enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil, exp, log, log1p, sqrt
from typing import Any, Final

import numpy as np

from . import sentence
from .errors import InputError
from .findings import finding
from .fingerprint import (
    AUTOREGRESSIVE,
    CHANGED,
    EQUIVALENT,
    FAILED,
    HELD,
    SPECULATIVE,
    UNDETERMINED,
    Change,
    Check,
    Comparison,
    Estimate,
    Finding,
    Fingerprint,
)
from .stats import intervals

MARGIN: Final = 0.03
"""Relative difference up to which two services count as equivalent."""

SURE: Final = 0.99
"""Confidence at which a difference is called a change: one of two quantities, so 2% of false alarms in all."""

DECIDING: Final = ("tokens_per_s", "acceptance_length", "step_ms")
"""Quantities that a gate looks at."""

ALIKE: Final = ("model", "temperature", "max_tokens", "top_p", "workload", "dialect", "resolution_ns")
"""Conditions that must agree; an engine may change, for that is what people compare."""


@dataclass(frozen=True, slots=True)
class _Log:
    """Logarithm of a quantity on one side: value, standard error, degrees of freedom and how it was found."""

    value: float
    se: float
    freedom: float
    method: str


def compare(
    base: Fingerprint, candidate: Fingerprint, *, margin: float = MARGIN, level: float = 0.95,
    allow_mismatch: bool = False,
) -> Comparison:  # fmt: skip
    """What changed from `base` to `candidate`.

    Parameters
    ----------
    base, candidate : fingerprints of several streams each, where possible.
    margin : relative difference within which a quantity is equivalent.
    level : of the intervals. "changed" is said only where an interval of level `SURE` leaves out "no change".
    allow_mismatch : compare recordings made under different conditions all the same; a finding names them.

    Raises
    ------
    InputError : the recordings were made under different conditions.
    """
    notes: list[Finding] = []
    if differing := _mismatch(base, candidate):
        if not allow_mismatch:
            raise InputError(
                f"the recordings are unlike: {differing}", "record both alike, or compare with --allow-mismatch"
            )
        notes.append(finding("C001", differing))
    for name, side in (("base", base), ("candidate", candidate)):
        if side.verdict not in (SPECULATIVE, AUTOREGRESSIVE):
            notes.append(finding("C002", f"{name}: {side.verdict}"))
        elif side.streams < intervals.FEW_STREAMS:
            notes.append(finding("C003", f"{name}: {side.streams} stream{'' if side.streams == 1 else 's'}"))
    sides = (base, candidate)
    length = _change("acceptance_length", sides, _length, margin, level)
    step = _change("step_ms", sides, _step, margin, level)
    rate = _change("tokens_per_s", sides, _rate, margin, level)
    first = _change("first_token_ms", sides, lambda s: _each(s, "first_token_ms"), margin, level)
    jitter = _change("jitter_ms", sides, lambda s: _each(s, "spread_ms"), margin, level)
    verdict = _overall(length, step)
    needed = None
    if verdict == UNDETERMINED:
        open_ = [c for c in (length, step) if c is not None and c.verdict == UNDETERMINED and c.needed_streams]
        needed = max((c.needed_streams for c in open_ if c.needed_streams), default=None)
    found = Comparison(
        verdict=verdict, sentence="", tokens_per_s=rate, acceptance_length=length, step_ms=step, first_token_ms=first,
        jitter_ms=jitter, margin=margin, needed_streams=needed,
        needed_tokens=None if needed is None else needed * _tokens_a_stream(sides),
        findings=tuple(notes), base=base, candidate=candidate,
    )  # fmt: skip
    return replace(found, sentence=sentence.of_comparison(found), checks=tuple(_checks(found)))


def _overall(length: Change | None, step: Change | None) -> str:
    said = (length.verdict if length else UNDETERMINED, step.verdict if step else UNDETERMINED)
    if said == (CHANGED, CHANGED):
        return "both"
    if CHANGED in said:
        return "acceptance" if said[0] == CHANGED else "step"
    return EQUIVALENT if said == (EQUIVALENT, EQUIVALENT) else UNDETERMINED


def _change(
    name: str, sides: tuple[Fingerprint, Fingerprint], of: Callable[[Fingerprint], _Log | None], margin: float,
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
    return Change(
        name, exp(a.value), exp(b.value), exp(d), exp(low), exp(high), level, method, verdict, needed
    )  # fmt: skip


def _checks(found: Comparison) -> Iterator[Check]:
    """What a gate makes of it: it fails on a change for the worse whose size is beyond the margin.

    The rate is decided by its parts where both are known, so that it cannot be open when they are not. Waiting time
    and jitter belong to queue and path as much as to the decoder: they are told, and decide nothing.
    """
    for name, change in found.changes.items():
        if change is None:
            decides = name in DECIDING and (name == "tokens_per_s" or found.tokens_per_s is None)
            yield Check(name, UNDETERMINED if decides else None, "not to be seen on both sides")
            continue
        text = f"{sentence.percent(change)}, {change.verdict}"
        if name not in DECIDING:
            yield Check(name, None, text)
        elif change.verdict == EQUIVALENT or (name == "tokens_per_s" and found.verdict == EQUIVALENT):
            yield Check(name, HELD, f"{text} within {found.margin * 100:.3g}%")
        elif change.verdict == UNDETERMINED:
            more = f"; about {change.needed_streams} streams a side are needed" if change.needed_streams else ""
            yield Check(name, UNDETERMINED, text + more)
        elif change.better:
            yield Check(name, HELD, f"{text} for the better")
        elif abs(log(change.ratio)) > log1p(found.margin):
            yield Check(name, FAILED, f"{text} for the worse")
        else:
            yield Check(name, UNDETERMINED, f"{text} for the worse, by about the margin of {found.margin * 100:.3g}%")


def _length(side: Fingerprint) -> _Log | None:
    if side.acceptance_length is None:
        return None
    model = _from_estimate(side.acceptance_length)
    each = side.by_stream or ()
    if side.verdict == AUTOREGRESSIVE or len(each) < intervals.FEW_STREAMS:
        return model
    tokens, steps = np.array([[s.tokens, s.steps] for s in each]).T
    mean = tokens.sum() / max(steps.sum(), 1.0)
    return _clustered(tokens - mean * steps, float(tokens.sum()), side.acceptance_length.value, model)


def _step(side: Fingerprint) -> _Log | None:
    if side.step_ms is None:
        return None
    model = _from_estimate(side.step_ms)
    timed = [(s.steps, s.step_ms) for s in side.by_stream or () if s.step_ms is not None]
    if len(timed) < intervals.FEW_STREAMS:
        return model
    steps, step = np.array(timed).T
    mean = float((steps * step).sum() / steps.sum())
    return _clustered(steps * (step - mean), float((steps * step).sum()), side.step_ms.value, model)


def _rate(side: Fingerprint) -> _Log | None:
    """From length and step where they are known, so that the shares add up; else as it was seen."""
    length, step = _length(side), _step(side)
    if length is None or step is None:
        return _from_estimate(side.tokens_per_s)
    return _Log(
        length.value - step.value + log(1e3), sqrt(length.se**2 + step.se**2), min(length.freedom, step.freedom),
        "acceptance length over step",
    )  # fmt: skip


def _clustered(rest: Any, total: float, value: float, model: _Log | None) -> _Log:
    """Standard error of a log ratio of sums from what each stream misses; never below a tenth of the model's."""
    k = rest.size
    se = sqrt(float(rest @ rest) * k / (k - 1)) / max(total, 1e-12)
    least = 0.1 * model.se if model is not None else 0.0
    return _Log(log(value), max(se, least), k - 1.0, f"spread between {k} streams")


def _from_estimate(estimate: Estimate | None) -> _Log | None:
    """Back from an interval to a standard error on the logarithmic scale."""
    if estimate is None or estimate.value <= 0:
        return None
    low = max(estimate.low, 1e-3 * estimate.value)
    high = estimate.high if estimate.high is not None else estimate.value**2 / low
    width = log(max(high, low)) - log(low)
    return _Log(
        log(estimate.value), width / 2 / intervals.quantile(estimate.level), float("inf"), "interval of each recording"
    )


def _each(side: Fingerprint, name: str) -> _Log | None:
    """Geometric mean over the streams of what each of them has: waiting times and spreads are skewed."""
    values = np.array([v for s in side.by_stream or () if (v := getattr(s, name)) is not None and v > 0])
    if values.size < 3:
        return None
    logs = np.log(values)
    se = float(logs.std(ddof=1)) / sqrt(values.size)
    return _Log(float(logs.mean()), max(se, 1e-6), values.size - 1.0, f"spread between {values.size} streams")


def _mismatch(base: Fingerprint, candidate: Fingerprint) -> str:
    """What both recordings know and do not share, in words; "" when nothing."""
    a, b = base.conditions, candidate.conditions
    unlike = [f"{key} {a[key]!r} and {b[key]!r}" for key in ALIKE if key in a and key in b and a[key] != b[key]]
    return ", ".join(unlike)


def _tokens_a_stream(sides: Sequence[Fingerprint]) -> int:
    return round(max((s.tokens or s.events) / max(s.streams, 1) for s in sides))
