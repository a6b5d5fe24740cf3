"""In-order link without delay: a gap between two steps is the time of the step (run-length hidden Markov model).

The time of a step has a free law (several modes: steps with and without a draft; a tail: slow steps), and so have
the gaps inside a burst, below half of a short step. Right for servers one hop away; fast enough to scan every M.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ..stats import gaplaw
from ..stats.gaps import Gaps, cuts, two_classes
from ..stats.runs import forward_backward

FloatArray = npt.NDArray[np.float64]

LARGEST_BURST = 160
_TINY = 1e-12

SHORTEST_STEP = 0.1
"""Shortest step of plain decoding, in long steps."""

CLOSE_TOGETHER = 0.15
"""Most that a typical gap inside a burst may take of a typical step."""

SLIP = 1e-8
"""Probability of a short burst under fixed chunks: so small that one in the middle of a stream speaks against them."""


@dataclass(frozen=True, slots=True, eq=False)
class DirectFit:
    """A run-length model at one M.

    Attributes
    ----------
    loglik : nats, density of the gaps in seconds.
    hazards : shape (M,), a_M = 0.
    inside, between : laws of the gaps inside a burst and between steps.
    new : shape (n,), posterior probability that a gap starts a step.
    went, stopped : shape (M,), expected bursts that continued past, or ended at, each position.
    """

    loglik: float
    hazards: FloatArray
    inside: gaplaw.GapLaw
    between: gaplaw.GapLaw
    new: FloatArray
    went: FloatArray
    stopped: FloatArray

    @property
    def max_burst(self) -> int:
        """M."""
        return self.hazards.size


def _start(gaps: Gaps, cut: float) -> tuple[gaplaw.GapLaw, gaplaw.GapLaw]:
    """Laws on both sides of a cut; nothing above half of a short step can lie inside a burst."""
    short = gaps.gap <= cut
    cap = float(np.log(0.5 * np.quantile(gaps.gap[~short], 0.05))) if cut > 0 else np.inf
    inside = gaplaw.initial(gaps.log[short], gaps.zero[short], 2, 0.002, cap=cap, most_tail=0.3)
    between = gaplaw.initial(gaps.log[~short], gaps.zero[~short], 3, 0.02, most_tail=0.2)
    if np.isfinite(cap):
        top = between.low + between.width
        # a last step without a draft is several times shorter than the others
        low = min(between.low, cap - float(np.log(5.0)))
        between = replace(between, low=low, width=max(top - low, 0.1))
    return inside, between


def em(
    gaps: Gaps,
    hazards: FloatArray,
    inside: gaplaw.GapLaw,
    between: gaplaw.GapLaw,
    *,
    rule: str = "free",
    rounds: int = 40,
    tolerance: float = 0.01,
) -> DirectFit:
    """Expectation-maximisation from a starting point.

    Parameters
    ----------
    hazards : shape (M,), a_M = 0; the starting point.
    rule : one of `choose.RULES`, or "fixed" (the hazards stay).
    """
    m = hazards.size
    n = len(gaps)
    new, went, stopped = np.zeros(n), np.zeros(m), np.zeros(m)
    last = -np.inf
    loglik = last
    for turn in range(rounds):
        loglik = forward_backward(
            inside.density(gaps.log, gaps.zero) + _TINY,
            between.density(gaps.log, gaps.zero) + _TINY,
            gaps.offsets, hazards, new, went, stopped,
        )  # fmt: skip
        if not loglik - last > tolerance or turn == rounds - 1:
            break
        last = loglik
        hazards = updated_hazards(hazards, went, stopped, rule)
        inside = inside.updated(gaps.log, gaps.zero, 1.0 - new, gaps.floor)
        between = between.updated(gaps.log, gaps.zero, new, gaps.floor)
    return DirectFit(loglik + gaps.log_jacobian, hazards, inside, between, new, went, stopped)


def updated_hazards(hazards: FloatArray, went: FloatArray, stopped: FloatArray, rule: str) -> FloatArray:
    """The M-step of the burst law: continued / (continued + stopped), pooled over positions as the rule says."""
    if rule == "fixed" or hazards.size == 1:
        return hazards
    trials = went[:-1] + stopped[:-1]
    value = np.where(trials > 1e-9, went[:-1] / np.maximum(trials, 1e-9), 0.5)
    shared = {"one": 0, "two": 1, "free": value.size}[rule]
    value[shared:] = went[shared:-1].sum() / max(trials[shared:].sum(), _TINY)
    return np.append(np.clip(value, 1e-9, 1 - 1e-9), 0.0)


def fit_plain(gaps: Gaps, *, known: bool = False) -> DirectFit:
    """M = 1: every gap is a step; `known` where that is not in question, and the law of the steps is free.

    Steps scatter, but not down to a tenth of the long ones: shorter gaps are left to the tail. A law with a mode at
    a burst's inner gaps and one at the step would imitate geometric bursts without saying so.
    """
    if known:
        return em(gaps, np.zeros(1), *_start(gaps, 0.0))
    gap = gaps.gap
    border = two_classes(np.minimum(gap, np.quantile(gap, 0.98)))
    long = float(np.median(gap[gap > border])) if (gap > border).any() else float(gap.max())
    lowest = float(np.log(SHORTEST_STEP * long))
    steps = (gaps.log >= lowest) & ~gaps.zero
    inside, between = _start(gaps, 0.0)
    between = replace(gaplaw.initial(gaps.log[steps], gaps.zero[steps], 3, 0.02, most_tail=0.2), floor=lowest)
    low = float(gaps.log.min()) - 0.1
    between = replace(between, low=low, width=max(between.low + between.width - low, 0.1))
    return em(gaps, np.zeros(1), inside, between)


def fit_runs(gaps: Gaps) -> DirectFit | None:
    """Free hazards with room for every burst there is, from the best of several cuts; None without short gaps."""
    rough: list[DirectFit] = []
    for cut in cuts(gaps):
        longest = _longest_run(gaps, cut)
        if longest < 2 or longest > LARGEST_BURST:
            continue
        inside, between = _start(gaps, cut)
        start = np.append(np.full(longest, 0.6), 0.0)
        rough.append(em(gaps, start, inside, between, rounds=10))
    # the likelier ones go on: after ten rounds the order hardly changes any more
    found: list[DirectFit] = []
    for f in sorted((f for f in rough if np.isfinite(f.loglik)), key=lambda f: -f.loglik):
        if _apart(again := em(gaps, f.hazards, f.inside, f.between, rounds=30)):
            found.append(again)
        if len(found) == 2:
            break
    return max(found, key=lambda f: f.loglik, default=None)


def _apart(fit: DirectFit) -> bool:
    """Whether the gaps inside bursts are of another kind than steps, and not the shorter half of one kind.

    Independent gaps of any one law are a mixture of their short and long ones, and that is the same as bursts without
    a largest size.
    """
    inside = fit.inside.median if fit.inside.zero < 0.5 else 0.0
    return inside < CLOSE_TOGETHER * fit.between.median


def _longest_run(gaps: Gaps, cut: float) -> int:
    """Tokens of the longest run without a gap above the cut, in any stream."""
    longest = 0
    for begin, end in zip(gaps.offsets[:-1], gaps.offsets[1:], strict=True):
        border = np.flatnonzero(gaps.gap[begin:end] > cut)
        edges = np.concatenate(([-1], border, [end - begin]))
        longest = max(longest, int(np.diff(edges).max()))
    return longest


def at(gaps: Gaps, base: DirectFit, max_burst: int, rule: str) -> DirectFit:
    """The model at another M or with another law, started from `base`."""
    free = base.hazards[:-1]
    start = np.append(free, np.full(max_burst, free[-1] if free.size else 0.5))[: max_burst - 1]
    hazards = np.append(np.clip(start, 0.02, 0.98), 0.0)
    return em(gaps, hazards, base.inside, base.between, rule=rule, rounds=15)


def fixed(gaps: Gaps, base: DirectFit, chunk: int) -> DirectFit:
    """Constant bursts of `chunk` tokens, with probability `SLIP` of a short one: the rival "fixed-chunks"."""
    hazards = np.append(np.full(chunk - 1, 1.0 - SLIP), 0.0)
    return em(gaps, hazards, base.inside, base.between, rule="fixed", rounds=10)
