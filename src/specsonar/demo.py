"""A blind test on oneself: hide a random service, listen to it, compare the answer with the truth."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from .fingerprint import Estimate, Fingerprint
from .fit import fingerprint
from .sources.service import Service
from .sources.simulate import random_service, simulate

TOKENS: Final = 1_200


@dataclass(frozen=True, slots=True)
class Check:
    """One quantity, hidden and inferred.

    Attributes
    ----------
    quantity, truth, answer, interval : for people.
    right : whether the truth lies in the interval (or is the verdict); None when no answer was given.
    """

    quantity: str
    truth: str
    answer: str
    interval: str
    right: bool | None


@dataclass(frozen=True, slots=True)
class Demo:
    """A hidden service and what was found out about it."""

    seed: int
    tokens: int
    service: Service
    answer: Fingerprint
    checks: tuple[Check, ...]


def run(seed: int, *, tokens: int = TOKENS, progress: Callable[[float, str], None] | None = None) -> Demo:
    """Draw a service from `seed`, simulate `tokens` tokens of it, analyse them without the truth, and compare."""
    service = random_service(np.random.default_rng(seed))
    trace = simulate(service, tokens=tokens, seed=seed)
    truth = trace.streams[0].truth
    assert truth is not None
    answer = fingerprint(trace.without_truth(), seed=seed, progress=progress)
    return Demo(seed, tokens, service, answer, tuple(compare(truth, answer)))


def compare(truth: Mapping[str, Any], answer: Fingerprint) -> list[Check]:
    """Row by row, what `truth` says and what `answer` says."""
    verdict = truth["verdict"]
    checks = [Check("verdict", verdict, answer.verdict, "", _same(answer.verdict, verdict))]
    for quantity, true, found, places in (
        ("max burst M", truth["max_burst"], answer.max_burst, 0),
        ("acceptance length", truth["acceptance_length"], answer.acceptance_length, 2),
        ("acceptance rate", truth["alpha"], answer.acceptance_rate, 2),
        ("step time, ms", truth["step_ms"], answer.step_ms, 2),
    ):
        if true is not None:
            checks.append(_check(quantity, float(true), found, places))
    return checks


def _same(answer: str, truth: str) -> bool | None:
    return None if answer == "undetermined" != truth else answer == truth


def _check(quantity: str, truth: float, found: Estimate | None, places: int) -> Check:
    shown = f"{truth:.{places}f}"
    if found is None:
        return Check(quantity, shown, "-", "", None)
    low = f"{found.low:.{places}f}"
    shown_high = "or more" if found.high is None else f"to {found.high:.{places}f}"
    interval = low if shown_high == f"to {low}" else f"{low} {shown_high}"
    # What is told to so many places cannot be wrong by less than half of the last one.
    slack = 0.5 * 10.0**-places if found.high == found.low else 0.0
    right = found.low - slack <= truth and (found.high is None or truth <= found.high + slack)
    return Check(quantity, shown, f"{found.value:.{places}f}", interval, right)
