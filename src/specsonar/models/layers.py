"""What the models of the in-order link share: parts of the data, runs and bursts, and the record of a fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ..fingerprint import IN_ORDER_LAYER
from ..stats.gaps import Gaps
from ..stats.result import LayerFit

FloatArray = npt.NDArray[np.float64]

PLAIN_PARAMETERS: Final = 8
"""Free parameters of the gap laws of plain decoding."""

REFIT_ROUNDS: Final = 3
"""EM rounds of the winner on all data, from the laws that a part of them gave."""

_FEW: Final = 20
"""Steps of each kind below which their times are not compared."""

_ALIKE: Final = 1.5
"""Ratio of their median times up to which single-token steps count as steps like the others."""


def part_of(gaps: Gaps, tokens: int) -> Gaps:
    """Some of the streams, spread over all of them, with about `tokens` gaps; all when there are not many more."""
    pieces = gaps.offsets.size - 1
    if len(gaps) <= 1.5 * tokens or pieces < 2:
        return gaps
    kept = np.unique(np.linspace(0, pieces - 1, max(1, int(pieces * tokens / len(gaps)))).astype(int))
    where = np.concatenate([np.arange(gaps.offsets[k], gaps.offsets[k + 1]) for k in kept])
    sizes = np.diff(gaps.offsets)[kept]
    offsets = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
    return Gaps(gaps.gap[where], gaps.zero[where], gaps.log[where], gaps.floor[where], offsets, gaps.tick)


def complete_bursts(new: FloatArray, gaps: Gaps, max_burst: int) -> list[npt.NDArray[np.int64]]:
    """Complete bursts of each piece under the posterior: without the prefill's token and the burst cut at the end.

    Larger ones than M are steps that a stall piled up; which is which is not known, and they are left out.
    """
    sizes = []
    for begin, end in zip(gaps.offsets[:-1], gaps.offsets[1:], strict=True):
        whole = np.diff(np.flatnonzero(new[begin:end] > 0.5))
        sizes.append(whole[whole <= max_burst].astype(np.int64))
    return sizes


def run_lengths(gaps: Gaps, cut: float) -> npt.NDArray[np.int64]:
    """Tokens between neighbouring gaps above the cut."""
    return np.diff(np.flatnonzero(gaps.gap > cut))


def plain_layer(
    steps: int, loglik: float, step: float, se: float, sd: float, jitter: float, jitter_se: float
) -> LayerFit:
    """The record of a fit with M = 1."""
    none = float("nan")
    return LayerFit(
        layer=IN_ORDER_LAYER, max_burst=1, loglik_by_burst={1: loglik}, hazards=np.empty(0), hazards_se=np.empty(0),
        alpha=none, alpha_se=none, alpha_loglik=none, burst_counts=np.array([float(steps)]), bursts=(),
        step_s=step, step_se=se, step_sd=sd, jitter_s=jitter, jitter_se=jitter_se,
        parameters=PLAIN_PARAMETERS, loglik=loglik,
    )  # fmt: skip


def burst_law(
    one: FloatArray,
    free: FloatArray,
    went: FloatArray,
    stopped: FloatArray,
    one_loglik: float,
    at_alpha: Callable[[float], float],
) -> dict[str, Any]:
    """The fields of a LayerFit that describe the burst law.

    The standard error of alpha is from the curvature of the log-likelihood; those of the hazards from their expected
    trials, widened by the share of information that the hidden steps cost alpha.
    """
    alpha = float(one[0]) if one.size > 1 else float("nan")
    trials = np.maximum(went[:-1] + stopped[:-1], 1e-9)
    complete = float(np.sqrt(alpha * (1 - alpha) / trials.sum()))
    se = curvature_se(at_alpha, alpha, complete)
    loss = max(se / complete, 1.0) if complete > 0 else 1.0
    hazards = free[:-1]
    return {
        "hazards": hazards,
        "hazards_se": loss * np.sqrt((hazards * (1 - hazards) + 0.5 / trials) / trials),
        "alpha": alpha,
        "alpha_se": se,
        "alpha_loglik": one_loglik,
        "burst_counts": stopped.copy(),
    }


def curvature_se(loglik: Callable[[float], float], at: float, guess: float) -> float:
    """1 / sqrt(-l'') from second differences of `loglik` around `at`; `guess` sets the distance and is the fallback."""
    h = float(np.clip(guess, 1e-6, 0.45 * min(at, 1 - at) if 0 < at < 1 else guess))
    middle, up, down = (loglik(x) for x in (at, at + h, at - h))
    second = (up - 2 * middle + down) / h**2
    return float(1 / np.sqrt(-second)) if second < 0 and np.isfinite(second) else guess


def two_times(gaps: Gaps, new: FloatArray) -> dict[str, float]:
    """Median times of the single-token steps and of the others (seconds) where they differ, and the former's share."""
    plain, drafted = [], []
    for begin, end in zip(gaps.offsets[:-1], gaps.offsets[1:], strict=True):
        starts = np.flatnonzero(new[begin:end] > 0.5)
        single = np.diff(starts) == 1
        step = gaps.gap[begin:end][starts[:-1]]
        plain.append(step[single])
        drafted.append(step[~single])
    one, more = np.concatenate(plain), np.concatenate(drafted)
    if min(one.size, more.size) < _FEW:
        return {}
    plain_s, drafted_s = float(np.median(one)), float(np.median(more))
    if max(plain_s, drafted_s) <= _ALIKE * min(plain_s, drafted_s):
        return {}
    return {"plain_s": plain_s, "drafted_s": drafted_s, "plain_share": one.size / (one.size + more.size)}
