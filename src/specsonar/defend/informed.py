"""Observers who know the policy. Simple ones: what they learn is the least that such an observer can."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ..sources.defences import BATCH, PACE, SCATTER, SPLIT, Policy
from ..stats.baseline import alpha_from_mean
from .grids import mean_ms

FloatArray = npt.NDArray[np.float64]

_WIDER: Final = 1.0
"""Variance of the tokens in a batch that plain decoding does not reach: its batches differ by a token at the edges."""

_DELAYS: Final = 10.0
_TOKENS: Final = 30.0
"""A window is at least as long as so many mean delays, and as so many tokens."""

_FEWEST: Final = 5
"""Windows below which nothing is said."""

_SCATTER: Final = 0.25
"""Variance over mean of the tokens in long windows: less with plain decoding, Var(B) / E[B] with drafts."""


class Guess(NamedTuple):
    """What an observer says; nan for what he cannot tell."""

    speculative: bool
    max_burst: float = math.nan
    alpha: float = math.nan
    step_ms: float = math.nan


def observe(policy: Policy, streams: Sequence[FloatArray]) -> Guess | None:
    """What one who knows `policy` makes of arrival times, each of shape (n,), milliseconds; None without such a one."""
    if policy.kind == SCATTER:
        return _windows(policy, streams)
    if policy.kind == BATCH:
        return _batches(policy, streams)
    if policy.kind == PACE:
        return _places(policy, streams)
    if policy.kind == SPLIT:
        return _split(streams)
    return None


def _batches(policy: Policy, streams: Sequence[FloatArray]) -> Guess:
    """The tokens of a batch: those of plain decoding are as many as steps fit in, those of speculation scatter."""
    counts = []
    for t in streams:
        place = np.rint((t - t[0]) / policy.period_ms).astype(np.int64)
        counts.append(np.bincount(place)[1:-1])  # the first holds the first token, the last is cut
    all_counts = np.concatenate(counts)
    return Guess(bool(all_counts.size > 1 and all_counts.var() > _WIDER))


def _windows(policy: Policy, streams: Sequence[FloatArray]) -> Guess:
    """Tokens in windows too long for the delay to matter: with drafts they scatter as the tokens of steps do."""
    counts = []
    for t in streams:
        window = max(_DELAYS * mean_ms(policy.law), _TOKENS * float(t[-1]) / t.size)
        counts.append(np.bincount((t / max(window, 1e-9)).astype(np.int64))[1:-1])
    all_counts = np.concatenate(counts)
    return Guess(bool(all_counts.size >= _FEWEST and all_counts.var() > _SCATTER * all_counts.mean()))


def _places(policy: Policy, streams: Sequence[FloatArray]) -> Guess:
    """Places between tokens: most follow each other, and then some are left out, as no plain decoder leaves them."""
    between = np.concatenate([np.rint(np.diff(t) / policy.period_ms) for t in streams])
    low, middle, high = np.percentile(between, (1, 50, 99))
    return Guess(bool(middle == low and high - low > 1))


def _split(streams: Sequence[FloatArray]) -> Guess:
    """Gaps are the step over its tokens, so the longest over the shortest is M, where steps of one token occur."""
    gaps = np.concatenate([np.diff(t[1:]) for t in streams])
    shortest, longest = np.percentile(gaps, (10, 99))
    if shortest <= 0:
        return Guess(False)
    burst = float(np.rint(longest / shortest))
    if burst < 2:
        return Guess(False, 1.0, math.nan, float(np.median(gaps)))
    # a gap of step/B belongs to a step of B tokens: as many steps as the gaps have shares of one
    step = float(np.median(gaps[gaps > longest * 0.75]))
    mean = gaps.size / float((gaps / step).sum())
    return Guess(True, burst, alpha_from_mean(mean, int(burst)), step)
