"""Which policies are tried, and how strong: in steps, so that they mean the same for every service."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from ..sources.defences import DELAY, SCATTER, Policy
from ..sources.laws import Delay

MEAN_STEPS: Final = (0.1, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0)
"""Mean delays of the grid `delay`."""

LENGTHS: Final = (300, 600, 1200)
"""Tokens of an answer in the grid `delay`."""

REPS: Final = {"frontier": 8, "delay": 6}
"""Trials a row: two to three minutes on two cores."""

WAYS: Final = ((DELAY, "exponential"), (DELAY, "uniform"), (SCATTER, "exponential"), (SCATTER, "uniform"))
ASKED: Final = ((DELAY, "exponential"), (SCATTER, "exponential"), (SCATTER, "uniform"))
"""Random delays of the grid `delay`; a queue with uniform delays lies between the first and the last."""

_SHORT: Final = (0.1, 0.2, 0.4, 1.0)


def frontier(step_ms: float, token_ms: float) -> tuple[Policy, ...]:
    """Every kind of policy at several strengths; `token_ms` is the mean time of a token."""
    made = [Policy(), *(random(kind, law, part * step_ms) for kind, law in WAYS for part in _SHORT)]
    made += [Policy("pace", period_ms=round(part * token_ms, 4)) for part in (0.9, 1.0, 1.25)]
    made += [Policy("batch", period_ms=round(part * step_ms, 4)) for part in (1.0, 2.0, 5.0)]
    made += [Policy("split"), Policy(pad=512), Policy(pad=2048)]
    return (*made, Policy("split", pad=512), Policy("batch", period_ms=round(5 * step_ms, 4), pad=8192))


def delay(step_ms: float, token_ms: float) -> tuple[Policy, ...]:
    """The founding article's open question: random delays from a tenth of the step to a whole one."""
    del token_ms
    return (Policy(), *(random(kind, law, part * step_ms) for kind, law in ASKED for part in MEAN_STEPS))


PRESETS: Final[dict[str, Callable[[float, float], tuple[Policy, ...]]]] = {"frontier": frontier, "delay": delay}


def random(kind: str, law: str, mean_ms: float) -> Policy:
    """A random delay with that mean."""
    return Policy(kind, Delay(law, round(mean_ms * (2 if law == "uniform" else 1), 4)))


def mean_ms(law: Delay) -> float:
    """Mean of a delay law, milliseconds; inf where it has none."""
    match law.law:
        case "uniform":
            return law.scale_ms / 2
        case "lognormal":
            return law.scale_ms * math.exp(law.shape**2 / 2)
        case "pareto":
            return law.scale_ms * law.shape / (law.shape - 1) if law.shape > 1 else math.inf
        case _:
            return law.scale_ms


def way(policy: Policy) -> str:
    """What a policy does, without its strength."""
    named = f"{policy.kind}={policy.law.law}" if policy.kind in (DELAY, SCATTER) else policy.kind
    return f"{named}+pad" if policy.pad and policy.kind != "none" else "pad" if policy.pad else named


def strength(policy: Policy, step_ms: float) -> float:
    """Mean delay or period in steps; nan where a policy has none."""
    if policy.law.active:
        return mean_ms(policy.law) / step_ms
    return policy.period_ms / step_ms if policy.period_ms else math.nan


def lengths(preset: str) -> tuple[int, ...]:
    """Tokens of an answer where nobody says."""
    return LENGTHS if preset == "delay" else (600,)
