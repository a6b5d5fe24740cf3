"""Samplers beside the densities: event times of a fitted model, for the check of its fit."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..stats.bursts import pmf
from ..stats.gaplaw import GapLaw
from ..stats.result import LayerFit
from .late import Grid, Parameters

FloatArray = npt.NDArray[np.float64]


def gaps_of(law: GapLaw, n: int, rng: np.random.Generator) -> FloatArray:
    """n gaps of a law, seconds, shape (n,)."""
    share = np.concatenate((law.weight, [law.tail, law.zero]))
    kind = rng.choice(share.size, size=n, p=share / share.sum())
    core = np.minimum(kind, law.mean.size - 1)
    log = law.mean[core] + law.sd[core] * rng.standard_normal(n)
    log = np.where(kind == law.mean.size, law.low + law.width * rng.random(n), log)
    gap = np.exp(np.minimum(log, law.cap))
    return np.where(kind == law.mean.size + 1, 0.0, gap)


def bursts(hazards: npt.ArrayLike, tokens: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Burst sizes, enough for `tokens` tokens; `hazards` of shape (M-1,)."""
    p = pmf(hazards)
    sizes = rng.choice(p.size, size=tokens, p=p / p.sum()) + 1
    return sizes[: int(np.searchsorted(np.cumsum(sizes), tokens)) + 1].astype(np.int64)


def direct(hazards: FloatArray, inside: GapLaw, between: GapLaw, tokens: int, rng: np.random.Generator) -> FloatArray:
    """Event times of the run-length model, seconds; shape about (tokens,)."""
    sizes = bursts(hazards[:-1], tokens, rng)
    gap = gaps_of(inside, int(sizes.sum()), rng)
    gap[np.cumsum(sizes) - sizes] = gaps_of(between, sizes.size, rng)
    return np.concatenate(([0.0], np.cumsum(gap)))


def late(p: Parameters, grid: Grid, tokens: int, rng: np.random.Generator) -> FloatArray:
    """Event times on an in-order link with delays, seconds; shape about (tokens,)."""
    sizes = bursts(p.hazards[:-1], tokens, rng)
    step = np.maximum(p.step + p.step_sd * rng.standard_normal(sizes.size), 0.05 * p.step)
    stray = rng.random(sizes.size) < p.stray
    step = np.where(stray, rng.random(sizes.size) * 4 * p.step, step)
    ready = np.repeat(np.cumsum(step), sizes)
    mass = np.maximum(p.weights @ grid.density, 0.0)
    count = ready.size if p.per_token else sizes.size
    delay = (rng.choice(mass.size, size=count, p=mass / mass.sum()) + rng.random(count)) * grid.delta
    due = ready + (delay if p.per_token else np.repeat(delay, sizes))
    behind = gaps_of(p.inside, due.size, rng)
    # each token comes when it is due, or right behind its predecessor
    start = due - np.concatenate(([0.0], np.cumsum(behind[1:])))
    arrival: FloatArray = np.maximum.accumulate(start) + np.concatenate(([0.0], np.cumsum(behind[1:])))
    return np.concatenate(([0.0], arrival)) if arrival[0] > 0 else arrival


def independent(fit: LayerFit, tokens: int, rng: np.random.Generator) -> FloatArray:
    """Sorted event times with a delay of its own for each token, seconds."""
    sizes = bursts(fit.hazards, tokens, rng)
    ends = np.cumsum(np.maximum(fit.step_s + fit.step_sd * rng.standard_normal(sizes.size), 0.05 * fit.step_s))
    ready = np.repeat(ends, sizes)
    times: FloatArray = np.sort(ready + fit.jitter_s * fit.delay_law.sample(ready.size, rng))
    return np.asarray(times - times[0])
