"""Expectations about one service, stated beforehand: "k=8", "acceptance>=0.7", "step_ms<=25".

An expectation is held or failed when the whole interval lies on one side of its bound, and undetermined otherwise. A
two-sided interval of 95% makes each of these answers wrong in at most 2.5% of the recordings.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, inf, isfinite
from typing import Final

from .errors import UsageError
from .fingerprint import (
    AUTOREGRESSIVE,
    FAILED,
    HELD,
    SPECULATIVE,
    UNDETERMINED,
    VERDICTS,
    Check,
    Estimate,
    Fingerprint,
)

_WRITTEN: Final = re.compile(r"\s*([a-zA-Z_0-9]+)\s*(>=|<=|==|=|>|<)\s*([^\s<>=]+)\s*")

SIZES: Final = {"k": 1, "max_burst": 0}
"""Whole numbers, and how many smaller than M they may be: a step of k drafts gives k tokens, or k + 1 with a bonus."""

MEASURED: Final = {
    "acceptance": ("acceptance_rate", ""),
    "acceptance_rate": ("acceptance_rate", ""),
    "acceptance_length": ("acceptance_length", " tokens a step"),
    "step_ms": ("step_ms", " ms"),
    "jitter_ms": ("jitter_ms", " ms"),
    "tokens_per_s": ("tokens_per_s", " tokens/s"),
    "efficiency": ("efficiency", ""),
}
"""Quantities with intervals: the field of a Fingerprint, and the unit."""

QUANTITIES: Final = (*SIZES, *MEASURED, "verdict")

DYING: Final = 0.5
"""Acceptance of the first draft token below which most drafts end there."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """One expectation: `quantity` `sign` `bound`, as it was written in `text`."""

    text: str
    quantity: str
    sign: str
    bound: float | str


def parse(text: str) -> Expectation:
    """An expectation from what a user wrote.

    Raises
    ------
    UsageError : it is none, or names no quantity of `QUANTITIES`.
    """
    found = _WRITTEN.fullmatch(text)
    if not found:
        raise UsageError(
            f"{text!r} is no expectation",
            'write it as k=8, "acceptance>=0.7" or "step_ms<=25", in quotes for the shell',
        )
    name, sign, said = found.groups()
    sign = "=" if sign == "==" else sign
    if name not in QUANTITIES:
        raise UsageError(f"{text!r}: no quantity is called {name!r}", f"quantities: {', '.join(QUANTITIES)}")
    if name == "verdict":
        if sign != "=" or said not in VERDICTS:
            raise UsageError(f"{text!r} is no verdict", f"verdict= one of {', '.join(VERDICTS)}")
        return Expectation(text.strip(), name, sign, said)
    return Expectation(text.strip(), name, *_bound(text, name, sign, said))


def _bound(text: str, name: str, sign: str, said: str) -> tuple[str, float]:
    try:
        bound = float(said)
    except ValueError:
        bound = float("nan")
    if not isfinite(bound) or bound < 0:
        raise UsageError(f"{text!r}: {said!r} is no number", f"for example {name}{sign}8")
    if name in SIZES:
        if bound != int(bound):
            raise UsageError(f"{text!r}: {name} is a whole number", f"for example {name}{sign}{int(bound)}")
        if sign in ("<", ">"):
            bound += 1 if sign == ">" else -1
    elif sign == "=":
        raise UsageError(
            f"{text!r}: a measured quantity is never equal to a number", f"use {name}>={said} or {name}<={said}"
        )
    return {"<": "<=", ">": ">="}.get(sign, sign), bound


def checked(found: Fingerprint, expectations: Sequence[Expectation]) -> Fingerprint:
    """`found` with the answers to `expectations` as its checks."""
    return replace(found, checks=tuple(check(found, one) for one in expectations))


def check(found: Fingerprint, expected: Expectation) -> Check:
    """The answer to one expectation."""
    if expected.quantity == "verdict":
        verdict, message = _verdict(found, str(expected.bound))
    elif expected.quantity in SIZES:
        verdict, message = _size(found, expected)
    else:
        verdict, message = _measured(found, expected)
    return Check(expected.text, verdict, message)


def _verdict(found: Fingerprint, wanted: str) -> tuple[str, str]:
    if found.verdict == wanted:
        return HELD, found.sentence
    return (UNDETERMINED if found.verdict == UNDETERMINED else FAILED), f"it is {found.verdict}: {found.sentence}"


def _measured(found: Fingerprint, expected: Expectation) -> tuple[str, str]:
    name, unit = MEASURED[expected.quantity]
    estimate: Estimate | None = getattr(found, name)
    if estimate is None and name == "acceptance_rate" and found.verdict == AUTOREGRESSIVE:
        estimate = _nothing_accepted(found)
    if estimate is None:
        return UNDETERMINED, f"not to be seen: {found.sentence}"
    bound = float(expected.bound)
    above = estimate.low >= bound
    below = estimate.high is not None and estimate.high <= bound
    text = _said(estimate, unit)
    if above and below:
        return HELD, text
    if above or below:
        return (HELD if above == (expected.sign == ">=") else FAILED), text
    return UNDETERMINED, f"{text}{_more(found, estimate, bound)}"


def _nothing_accepted(found: Fingerprint) -> Estimate:
    """Of plain decoding: no draft token was accepted in so many steps (the rule of three)."""
    steps = max(found.steps or found.events, 1)
    return Estimate(0.0, 0.0, min(3.0 / steps, 1.0), 0.95, f"none accepted in {steps} steps")


def _said(estimate: Estimate, unit: str) -> str:
    high = "open" if estimate.high is None else f"{estimate.high:.4g}"
    return f"{estimate.value:.4g}{unit} [{estimate.low:.4g}, {high}], {_level(estimate)} interval"


def _level(estimate: Estimate) -> str:
    return f"{estimate.level * 100:.4g}%"


def _more(found: Fingerprint, estimate: Estimate, bound: float) -> str:
    """About how many tokens would clear the bound: a width shrinks with the square root of their number."""
    tokens = found.tokens or found.events
    if estimate.high is None or not tokens:
        return "; one end of it is open: more tokens are needed"
    from .stats.needed import scaled  # brings numpy, which reading expectations does without

    half, away = (estimate.high - estimate.low) / 2, abs(estimate.value - bound)
    if away < 0.1 * half:
        return "; it lies at the bound itself, which no recording settles"
    return f"; about {ceil(1.2 * scaled(tokens, half, away)):,} tokens are needed, these are {tokens:,}"


def _size(found: Fingerprint, expected: Expectation) -> tuple[str, str]:
    """M against a configured k: both conventions count as right, for they cannot be told apart from outside."""
    burst, wanted, slack = found.max_burst, float(expected.bound), SIZES[expected.quantity]
    if burst is None or found.verdict not in (SPECULATIVE, AUTOREGRESSIVE):
        return UNDETERMINED, f"the largest burst is not to be seen: {found.sentence}"
    low, high = burst.low, inf if burst.high is None else burst.high
    text = _effective(found, burst, wanted, slack == 1)
    if found.verdict == AUTOREGRESSIVE:
        low, high, slack, text = 1.0 - slack, 1.0 - slack, 0, _plain(found, wanted, slack == 1)
    # from M - slack to M it may be, for any M between low and high
    every = {"=": low >= wanted >= high - slack, ">=": low >= wanted, "<=": high - slack <= wanted}[expected.sign]
    some = {"=": low - slack <= wanted <= high, ">=": high >= wanted, "<=": low - slack <= wanted}[expected.sign]
    return (HELD if every else UNDETERMINED if some else FAILED), text


def _plain(found: Fingerprint, wanted: float, drafts: bool) -> str:
    most = _nothing_accepted(found).high
    if not drafts:
        return "M = 1: one token a step"
    if wanted == 0:
        return f"one token a step: at most {most:.2%} of first draft tokens can have been accepted"
    return (
        f"configured {wanted:.0f}, effective 0: one token a step. Speculation is off, or drafts die at the first "
        f"position, where at most {most:.2%} are accepted"
    )


def _effective(found: Fingerprint, burst: Estimate, wanted: float, drafts: bool) -> str:
    m = int(burst.value)
    if not drafts:
        seen = f"M = {m}"
    elif m in (wanted, wanted + 1):
        return f"M = {m}: k = {m - 1} with a bonus token, {m} without; {_sureness(found, burst)}"
    else:
        least = "at least " if burst.high is None and wanted > m else ""
        seen = f"configured {wanted:.0f}, effective {least}{m - 1} (with a bonus token; {m} without)"
    return f"{seen}; {_sureness(found, burst)}{_by_position(found)}"


def _sureness(found: Fingerprint, burst: Estimate) -> str:
    """How sure a largest burst is: what would have been seen if there were larger ones."""
    m, sizes, rate = int(burst.value), found.burst_sizes, found.acceptance_rate
    full = sizes.counts[m - 1] if sizes is not None and len(sizes.counts) >= m else 0.0
    if burst.high is None:
        often = "once" if round(full) == 1 else f"{full:.0f} times"
        return f"more may be hidden: a burst of {m} was seen only {often}, and more tokens may show larger ones"
    expected = full * rate.value if rate is not None else 0.0
    return (
        f"{_level(burst)} sure: {full:.0f} bursts of {m} and none larger, where about {expected:.0f} would have "
        "gone on if longer drafts were checked"
    )


def _by_position(found: Fingerprint) -> str:
    """Whether drafts die at the first position."""
    each = found.acceptance_by_position
    if not each:
        return ""
    first = each[0]
    text = f"the first draft token is accepted in {first.value:.0%} of the steps"
    if first.high is not None and first.high < DYING:
        return f"; drafts die at the first position: {text}"
    return f"; drafts do not die at the first position: {text}" if first.low > DYING else f"; {text}"
