"""Rival ways of grouping steps into events with token counts: one step, a few merged steps, the steps of an interval.

Each is fitted to the same counts and gaps; `score` is the log-likelihood less what its parameters cost, and the best
score wins. A free hazard costs half the logarithm of the steps that it was learnt from, so that rare long bursts are
not dear.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt

from ..stats import counted as law
from ..stats.bursts import mean_burst
from ..stats.counted import CountFit, Events, Law
from ..stats.result import Arrays
from ..stats.stepgaps import StepGaps, mode

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

TWO_TIMES = 8.0  # nats against two step times: merges of plain steps look like them
SURE_STEP = 12.0  # lead in nats of a time of the step over others; a busy machine's steps lie on false combs
CHARACTER = 4  # most tokens in an event that waits for a whole character
MERGES = 3  # most steps in one merged event
INTERVAL_MOST = 64
BEYOND = 4  # how far past the largest burst the likelihood is followed
CELLS = 20_000  # from this many events on, equal counts with nearly equal gaps are held once


@dataclass(frozen=True, slots=True, eq=False)
class Data:
    """Complete events of all streams (first and last left out), the last ones apart, and the same in cells."""

    counts: IntArray
    gaps: FloatArray
    ends: IntArray  # where each stream's events end in `counts`
    last: IntArray  # count of each stream's last event
    cell: IntArray  # of each event
    cell_counts: IntArray
    cell_gaps: FloatArray
    times: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Rival:
    """One way of grouping steps, fitted at its best M; loglik and score include the gaps.

    `doubt` is the standard deviation of the acceptance length over other times of a step that may be the right one.
    """

    name: str
    burst: int
    hazards: FloatArray
    by_burst: dict[int, float]
    alpha: float
    alpha_loglik: float
    loglik: float
    score: float
    parameters: int
    sizes: FloatArray
    gaps: StepGaps
    events: Events
    build: Law
    fit: CountFit
    interval: int = 0
    doubt: float = 0.0


def with_tokens(streams: Sequence[Arrays]) -> list[Arrays]:
    """The streams without events that carry no token: their time belongs to the event after them."""
    kept = []
    for s in streams:
        full = None if s.tokens is None else s.tokens > 0
        if full is None or s.tokens is None or full.all():
            kept.append(s)
        else:
            kept.append(Arrays(s.t[full], s.tokens[full], s.resolution))
    return kept


def gather(streams: Sequence[Arrays]) -> Data:
    """Inner events of all streams; beyond `CELLS` of them, like ones share a cell."""
    counts, gaps, last, ends, n = [], [], [], [], 0
    for s in streams:
        tokens = np.ones(s.t.size, np.int64) if s.tokens is None else np.asarray(s.tokens, np.int64)
        inner = tokens[1:-1]
        counts.append(inner)
        gaps.append(np.maximum(np.diff(s.t)[:-1], 0.0))
        if tokens.size > 1:
            last.append(int(tokens[-1]))
        n += inner.size
        ends.append(n)
    c = np.concatenate(counts) if counts else np.zeros(0, np.int64)
    g = np.concatenate(gaps) if gaps else np.zeros(0)
    if n <= CELLS:
        return Data(c, g, np.array(ends), np.array(last, np.int64), np.arange(n), c, g, np.ones(n))
    fine = max(float(np.median(g)), 1e-6) / 64
    key = c * 100_000 + np.minimum(np.log1p(g / fine) * 64, 99_999).astype(np.int64)
    _, first, cell, times = np.unique(key, return_index=True, return_inverse=True, return_counts=True)
    centre = np.bincount(cell, g) / times
    return Data(c, g, np.array(ends), np.array(last, np.int64), cell, c[first], centre, times.astype(np.float64))


def fit_rivals(data: Data, max_burst: int | None, resolution: float) -> list[Rival]:
    """Every way of grouping that could have made these counts, fitted; `max_burst` None leaves M open."""
    floor = max(resolution / 2, 1e-6)
    most = int(max(data.counts.max(initial=1), data.last.max(initial=1)))
    limit = most if max_burst is None else max_burst
    rivals = []
    if most <= limit:
        rivals.append(_steps(data, floor))
    inner = int(data.counts.max(initial=1))
    if data.counts.size >= 8 and inner > 1:
        together = _merged(data, floor, min(inner, limit))
        rivals += [together] if together else []
        low = int(data.counts.min())
        if 1 < low < inner and low <= INTERVAL_MOST:
            nearby = range(low, max(low - 3, 1), -1) if data.counts.size < 30 else (low,)
            rivals += [_interval(data, floor, n) for n in nearby if inner - n + 1 <= limit]
    if not rivals:
        rivals.append(_steps(data, floor))
    return [r for r in rivals if np.isfinite(r.loglik)] or [_steps(data, floor)]


def _start(gaps: FloatArray, floor: float) -> StepGaps:
    busy = gaps[gaps > 0.1 * np.median(gaps)] if gaps.size else gaps
    step = max(mode(busy), 1e-9) if busy.size else max(floor, 1e-9)
    return StepGaps(step, 0.0, (0.1 * step) ** 2, (0.05 * step) ** 2, floor=max(floor, 1e-4 * step))


def _bernoulli(went: npt.ArrayLike, stopped: npt.ArrayLike) -> float:
    """Log-likelihood at the maximum, a = went / (went + stopped), summed over positions."""
    c, s = np.atleast_1d(np.asarray(went, np.float64)), np.atleast_1d(np.asarray(stopped, np.float64))
    inside = (c > 0) & (s > 0)
    c, s = c[inside], s[inside]
    return float((c * np.log(c) + s * np.log(s) - (c + s) * np.log(c + s)).sum())


def _complete_score(sizes: FloatArray) -> float:
    """Penalised log-likelihood of steps of known sizes, shape (M,).

    The best of free hazards, one alpha, and free hazards with one alpha for the positions that fewer than 5 steps
    reached. A free hazard costs half the logarithm of the steps it is learnt from.
    """
    reach = np.cumsum(sizes[::-1])[::-1]
    went, stopped = reach[1:], sizes[:-1]
    if went.size == 0:
        return 0.0
    scores = []
    for head in {0, int((reach[:-1] >= 5).sum()), went.size}:
        c = np.append(went[:head], went[head:].sum())
        s = np.append(stopped[:head], stopped[head:].sum())
        scores.append(_bernoulli(c, s) - 0.5 * float(np.log1p(c + s).sum()))
    return max(scores)


def _steps(data: Data, floor: float) -> Rival:
    """One event, one step: counts give the hazards in closed form, the last count of a stream from below only."""
    n = data.times.sum()
    most = int(max(data.counts.max(initial=1), data.last.max(initial=1)))
    sizes = np.bincount(data.counts, minlength=most + 1)[1:].astype(np.float64)
    went = (data.last[:, None] > np.arange(1, most)).sum(0)
    reach = np.cumsum(sizes[::-1])[::-1]
    passed, stopped = reach[1:] + went, sizes[:-1]
    hazards = np.divide(passed, passed + stopped, out=np.zeros(most - 1), where=passed + stopped > 0)
    gaps = _single_gaps(data, floor)
    gap_loglik = float(data.times @ np.log(gaps.density(data.cell_gaps, data.cell_counts, 1)[0])) if n else 0.0

    loglik = gap_loglik + _bernoulli(passed, stopped)
    total, ends = passed.sum(), stopped.sum()
    alpha = float(total / (total + ends)) if total + ends else float("nan")
    by_burst = {most: loglik}
    if most > 1:
        c, s = passed[-1:], stopped[-1:]
        loss = _bernoulli(c, s + sizes[-1:]) - _bernoulli(c, s)
        by_burst |= {most + k: loglik + loss for k in range(1, BEYOND + 1)}
    extra = 2 if gaps.plain_share > 0 else 0
    rare = TWO_TIMES if gaps.plain_share > 0 else 0.0
    inner = int(data.counts.max(initial=1))
    score = gap_loglik + _complete_score(sizes[:inner]) - 0.5 * (6 + extra) * np.log1p(n) - rare
    density = gaps.density(data.cell_gaps, data.cell_counts, 1)
    events = Events(data.cell_counts, density, data.times)
    fitted = CountFit(hazards, np.ones(1), np.ones((1, data.times.size)), sizes, loglik)
    alpha_loglik = gap_loglik + _bernoulli(total, ends) if most > 1 else float("nan")
    return Rival(
        "steps", most, hazards, by_burst, alpha, alpha_loglik, loglik, score, most - 1 + 6 + extra, sizes, gaps,
        events, law.merged, fitted,
    )  # fmt: skip


def tokens_score(data: Data, resolution: float, most: int | None) -> float:
    """Score of plain decoding whose events wait for whole characters: every token is a step; -inf where it is not.

    The counts are free, as under single steps. That a step with drafts may take as long as its tokens one by one
    speaks against it as much as two step times do.

    Parameters
    ----------
    most : tokens in an event beyond which it is no character that was waited for; None for any.
    """
    limit, most = most, int(data.counts.max(initial=1))
    if data.counts.size < 8 or (limit is not None and most > limit) or data.counts.min() == most:
        return -np.inf
    g, times, each = data.cell_gaps, data.times, data.cell_counts
    steps = (each == np.arange(1, most + 1)[:, None]).astype(np.float64)
    ones = np.ones(each.size, np.int64)
    step = max(float(data.gaps.sum() / data.counts.sum()), 1e-9)
    floor = max(resolution / 2, 1e-6, 1e-4 * step)
    gaps = StepGaps(step, 0.0, (0.1 * step) ** 2, (0.05 * step) ** 2, floor=floor, sloped=False)
    for _ in range(25):
        gaps = gaps.updated(g, ones, steps, times)
    density = (gaps.density(g, ones, most) * steps).sum(0)
    sizes = np.bincount(data.counts, minlength=most + 1)[1:].astype(np.float64)
    return float(times @ np.log(density)) + _complete_score(sizes) - 3.0 * float(np.log1p(times.sum())) - TWO_TIMES


def _single_gaps(data: Data, floor: float) -> StepGaps:
    """Gap law of single steps, with a second step time for steps without a draft when that is clearly better."""
    if data.counts.size == 0:
        return _start(data.gaps, floor)
    g, n, times = data.cell_gaps, data.cell_counts, data.times
    ones = np.ones((1, n.size))

    def climb(start: StepGaps) -> tuple[float, StepGaps]:
        for _ in range(25):
            start = start.updated(g, n, ones, times)
        return float(times @ np.log(start.density(g, n, 1)[0])), start

    loglik, best = climb(_start(data.gaps, floor))
    single, longer = data.gaps[data.counts == 1], data.gaps[data.counts > 1]
    if min(single.size, longer.size) < 8:
        return best
    step, plain = mode(longer), mode(single)
    if plain > 0.8 * step or plain < 0.02 * step or step <= 0:
        return best
    start = StepGaps(
        step,
        0.0,
        (0.1 * step) ** 2,
        (0.05 * step) ** 2,
        plain=plain,
        plain_share=0.7,
        floor=max(floor, 1e-4 * step),
        sloped=False,
    )
    two, second = climb(start)
    apart = second.plain < 0.85 * second.step
    return second if apart and two - loglik > np.log1p(data.counts.size) + 3.0 else best


def _climb(
    data: Data,
    build: Law,
    most: int,
    burst: int,
    start: StepGaps,
    weights: FloatArray,
    rounds: int = 15,
    alpha: float = 0.6,
    hazards: FloatArray | None = None,
) -> tuple[StepGaps, CountFit]:
    """Gap law and counts together at a generous M."""
    gaps = start
    fitted = None
    hazards = np.full(burst - 1, alpha) if hazards is None else hazards
    for _ in range(rounds):
        events = Events(data.cell_counts, gaps.density(data.cell_gaps, data.cell_counts, most), data.times)
        fitted = law.maximise(events, build, hazards, weights, law.free(burst), rounds=3)
        if not np.isfinite(fitted.loglik):
            break
        hazards, weights = fitted.hazards, fitted.weights
        gaps = gaps.updated(data.cell_gaps, data.cell_counts, fitted.steps, data.times)
    assert fitted is not None
    return gaps, fitted


def choose(
    name: str, events: Events, build: Law, gaps: StepGaps, bursts: range, weights: FloatArray, interval: int = 0
) -> Rival:
    """Best M of `bursts` by penalised likelihood, free hazards and one alpha each."""
    shares = interval == 0
    most = events.density.shape[0]
    n = events.times.sum()
    fixed = 0.5 * (6 + (most - 1 if shares else 0)) * np.log1p(n)
    by_burst: dict[int, float] = {}
    best: tuple[float, int, CountFit, CountFit] | None = None
    for burst in bursts:
        start = np.full(burst - 1, 0.7)
        one = law.maximise(events, build, start, weights, law.common(burst))
        if not np.isfinite(one.loglik):
            continue
        every = law.maximise(events, build, np.clip(one.hazards, 0.02, 0.98), one.weights, law.free(burst))
        by_burst[burst] = every.loglik
        alone = np.cumsum(every.sizes[::-1])[::-1]
        cost = _bernoulli(alone[1:], every.sizes[:-1]) - _complete_score(every.sizes)
        alpha_cost = 0.5 * np.log1p(np.cumsum(one.sizes[::-1])[1:].sum()) if burst > 1 else 0.0
        score = max(every.loglik - cost, one.loglik - alpha_cost) - fixed
        if best is None or score > best[0]:
            best = (score, burst, every, one)
    if best is None:
        nothing = CountFit(np.zeros(0), weights, np.zeros_like(events.density), np.zeros(1), -np.inf)
        nan = float("nan")
        return Rival(
            name, 1, np.zeros(0), {}, nan, nan, -np.inf, -np.inf, 0, np.zeros(1), gaps, events, build, nothing, interval
        )  # fmt: skip
    score, burst, every, one = best
    by_burst = {m: v for m, v in by_burst.items() if m <= burst}
    for m in range(burst + 1, burst + BEYOND + 1) if burst > 1 else ():
        start = np.append(every.hazards, np.full(m - burst, every.hazards[-1])).clip(0.02, 0.98)
        by_burst[m] = law.maximise(events, build, start, every.weights, law.tied(m, burst)).loglik
    alpha = float(one.hazards[0]) if burst > 1 else float("nan")
    return Rival(
        name, burst, every.hazards, by_burst, alpha, one.loglik if burst > 1 else float("nan"), every.loglik, score,
        burst - 1 + 6 + (most - 1 if shares else 0), every.sizes, gaps, events, build, every, interval,
    )  # fmt: skip


def _merged(data: Data, floor: float, top: int) -> Rival | None:
    weights = np.array([0.9, 0.08, 0.02])
    gaps, fitted = _climb(data, law.merged, MERGES, top, _start(data.gaps, floor), weights)
    if fitted.weights[1:].sum() * data.times.sum() < 0.3:  # nothing merged: single steps say the same with less
        return None
    seen = np.flatnonzero(fitted.sizes > 0.05)
    high = int(seen.max(initial=0)) + 1 if np.isfinite(fitted.loglik) else top
    low = max(-(-top // MERGES), 1, high - 8)
    events = Events(data.cell_counts, gaps.density(data.cell_gaps, data.cell_counts, MERGES), data.times)
    weights = np.clip(fitted.weights, 0.01, None)
    return choose("merged", events, law.merged, gaps, range(low, max(high, low) + 1), weights)


def _alpha_of(mean: float, burst: int) -> float:
    """The one alpha with E[B] = `mean` at M = `burst`, within .05 and .95."""
    grid = np.linspace(0.05, 0.95, 91)
    lengths = (1.0 - grid**burst) / (1.0 - grid)
    return float(np.interp(mean, lengths, grid))


def _passage(p: FloatArray, weights: FloatArray, n_max: int, *, interval: int) -> law.Grouping:
    del weights
    return law.passage(p, interval, n_max)


def _interval(data: Data, floor: float, interval: int) -> Rival:
    """Stream interval: the quantum of the gaps is found by trying how many steps a typical gap may hold."""
    build = partial(_passage, interval=interval)
    top = int(data.counts.max()) - interval + 1
    typical = max(float(np.median(data.gaps)), 1e-9)
    shares = np.full(interval, 1.0 / interval)
    rate = float(data.counts.sum() / max(data.gaps.sum(), 1e-9))  # tokens per second
    fewest = max(interval // top, 1)
    quanta = np.unique(np.rint(np.linspace(fewest, interval, min(interval - fewest + 1, 24))).astype(np.int64))
    starts = []
    for steps in np.append(quanta, 0.5 * (quanta[1:] + quanta[:-1])):
        step = typical / float(steps)
        gaps = StepGaps(step, 0.0, (0.02 * step) ** 2, (0.07 * step) ** 2, floor=max(floor, 1e-4 * step))
        starts.append(_climb(data, build, interval, top, gaps, shares, rounds=3, alpha=_alpha_of(rate * step, top)))
    starts.sort(key=lambda trial: -trial[1].loglik)
    near = [s for s in starts if s[1].loglik > starts[0][1].loglik - 2 * SURE_STEP]
    trials = [_climb(data, build, interval, top, gaps, shares, hazards=begun.hazards) for gaps, begun in near]
    gaps, found = max(trials, key=lambda trial: trial[1].loglik)
    lengths = [mean_burst(f.hazards) for _, f in trials if f.loglik > found.loglik - SURE_STEP]
    events = Events(data.cell_counts, gaps.density(data.cell_gaps, data.cell_counts, interval), data.times)
    rival = choose("interval", events, build, gaps, range(top, top + 1), shares, interval)
    return replace(rival, doubt=float(np.std(lengths)))
