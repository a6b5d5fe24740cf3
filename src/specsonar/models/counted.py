"""Events that say how many tokens they carry: bursts are read from the counts, steps from the gaps, jitter or not.

Rivals, fitted to the same counts and gaps and compared by penalised likelihood:

    steps      one event is one step; its time may grow with its tokens, and a step without a draft may have its own time;
    merged     an event holds one, two or three steps (the sender lagged): about as many step times, and the counts add up;
    interval   an event is sent at the first step end with N tokens or more waiting (a stream interval under speculation).

Events cut loose from steps, where the server holds text back, are in `heldback`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from ..stats import counted as law
from ..stats.bursts import mean_burst, pmf
from ..stats.result import Arrays, LayerFit
from ..stats.schedule import step_time
from ..stats.stepgaps import StepGaps, mode

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

LAYER = "counted"
MERGES = 3  # most steps in one merged event
INTERVAL_MOST = 64
BEYOND = 4  # how far past the largest burst the likelihood is followed
CELLS = 20_000  # from this many events on, equal counts with nearly equal gaps are held once


@dataclass(frozen=True, slots=True, eq=False)
class _Data:
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
class _Rival:
    """One way of grouping steps, fitted at its best M; loglik and score include the gaps."""

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
    events: law.Events
    law: law.Law
    fit: law.CountFit
    interval: int = 0


def _gather(streams: Sequence[Arrays]) -> _Data:
    counts, gaps, last, ends, n = [], [], [], [], 0
    for s in streams:
        tokens = np.ones(s.t.size, np.int64) if s.tokens is None else s.tokens
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
        return _Data(c, g, np.array(ends), np.array(last, np.int64), np.arange(n), c, g, np.ones(n))
    fine = max(float(np.median(g)), 1e-6) / 64
    key = c * 100_000 + np.minimum(np.log1p(g / fine) * 64, 99_999).astype(np.int64)
    _, first, cell, times = np.unique(key, return_index=True, return_inverse=True, return_counts=True)
    centre = np.bincount(cell, g) / times
    return _Data(c, g, np.array(ends), np.array(last, np.int64), cell, c[first], centre, times.astype(np.float64))


def fit(streams: Sequence[Arrays], *, max_burst: int | None = None, rng: np.random.Generator | None = None) -> LayerFit:
    """Fit the counted layer to streams that share the service.

    Parameters
    ----------
    streams : arrival times with token counts; the first event of each is the prefill's, the last may be cut.
    max_burst : largest M to consider; None for no limit.
    rng : unused, here because every layer has it.

    Returns
    -------
    LayerFit
        `loglik_by_burst` goes on past the largest burst seen, with the acceptance of its last position: a flat end means that M is
        only known from below. `extra` has steps (all, the last ones included), length and length_se (acceptance length, standard error
        from the bursts' own dependence), length_se_iid, dependence (variance ratio), merge_probability (share of events that hold
        several steps), merge_three, interval (N or 0), held_back (0 or 1), late (share of stalls and slow steps), piled (share behind
        them), and with two step times plain_s and plain_share (among events of one token).
    """
    del rng
    data = _gather(streams)
    resolution = max((s.resolution for s in streams), default=0.0)
    rivals = _rivals(data, max_burst, resolution)
    best = max(rivals, key=lambda r: r.score)
    return _report(best, data, streams, resolution)


def _rivals(data: _Data, max_burst: int | None, resolution: float) -> list[_Rival]:
    floor = max(resolution / 2, 1e-6)
    most = int(max(data.counts.max(initial=1), data.last.max(initial=1)))
    limit = most if max_burst is None else max_burst
    rivals = []
    if most <= limit:
        rivals.append(_steps(data, floor))
    inner = int(data.counts.max(initial=1))
    if data.counts.size >= 8 and inner > 1:
        rivals.append(_merged(data, floor, min(inner, limit)))
        low = int(data.counts.min())
        if 1 < low < inner and low <= INTERVAL_MOST:
            rivals += [_interval(data, floor, n, limit) for n in range(low, max(low - 3, 1), -1) if inner - n + 1 <= limit]
    if not rivals:
        rivals.append(_steps(data, floor))
    return [r for r in rivals if np.isfinite(r.loglik)] or [_steps(data, floor)]


def _start(gaps: FloatArray, floor: float) -> StepGaps:
    busy = gaps[gaps > 0.1 * np.median(gaps)] if gaps.size else gaps
    step = max(mode(busy), 1e-9) if busy.size else max(floor, 1e-9)
    return StepGaps(step, 0.0, (0.1 * step) ** 2, (0.05 * step) ** 2, floor=max(floor, 1e-4 * step))


def _at_risk_penalty(sizes: FloatArray) -> float:
    """Half the logarithm of the steps that each hazard was learnt from: what a free hazard costs."""
    reach = np.cumsum(sizes[::-1])[::-1][:-1]
    return float(0.5 * np.log1p(reach).sum())


def _steps(data: _Data, floor: float) -> _Rival:
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

    def bernoulli(c: FloatArray, s: FloatArray) -> float:
        a = np.divide(c, c + s, out=np.zeros_like(c), where=c + s > 0)
        inside = (c > 0) & (s > 0)
        return float((c[inside] * np.log(a[inside]) + s[inside] * np.log1p(-a[inside])).sum())

    loglik = gap_loglik + bernoulli(passed, stopped)
    total, ends = passed.sum(), stopped.sum()
    alpha = float(total / (total + ends)) if total + ends else float("nan")
    by_burst = {most: loglik}
    if most > 1:
        c, s = passed[-1:], stopped[-1:]
        loss = bernoulli(c, s + sizes[-1:]) - bernoulli(c, s)
        by_burst |= {most + k: loglik + loss for k in range(1, BEYOND + 1)}
    count_penalty = float(0.5 * np.log1p(passed + stopped).sum())
    one = bernoulli(np.array([total]), np.array([ends])) - 0.5 * np.log1p(total + ends) if most > 1 else 0.0
    extra = 2 if gaps.plain_share > 0 else 0
    score = gap_loglik + max(bernoulli(passed, stopped) - count_penalty, one) - 0.5 * (6 + extra) * np.log1p(n)
    density = gaps.density(data.cell_gaps, data.cell_counts, 1)
    events = law.Events(data.cell_counts, density, data.times)
    fitted = law.CountFit(hazards, np.ones(1), np.ones((1, data.times.size)), sizes, loglik)
    alpha_loglik = gap_loglik + bernoulli(np.array([total]), np.array([ends])) if most > 1 else float("nan")
    return _Rival(
        "steps", most, hazards, by_burst, alpha, alpha_loglik, loglik, score, most - 1 + 6 + extra, sizes, gaps, events, law.merged, fitted
    )  # fmt: skip


def _single_gaps(data: _Data, floor: float) -> StepGaps:
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
    start = StepGaps(step, 0.0, (0.1 * step) ** 2, (0.05 * step) ** 2, plain=plain, plain_share=0.7, floor=max(floor, 1e-4 * step))
    two, second = climb(start)
    return second if two - loglik > np.log1p(data.counts.size) + 3.0 else best


def _climb(data: _Data, floor: float, build: law.Law, most: int, burst: int, start: StepGaps, weights: FloatArray) -> tuple[StepGaps, law.CountFit]:
    """Gap law and counts together at a generous M."""
    gaps = start
    fitted = None
    hazards = np.full(burst - 1, 0.6)
    for _ in range(15):
        events = law.Events(data.cell_counts, gaps.density(data.cell_gaps, data.cell_counts, most), data.times)
        fitted = law.maximise(events, build, hazards, weights, law.free(burst), rounds=3)
        if not np.isfinite(fitted.loglik):
            break
        hazards, weights = fitted.hazards, fitted.weights
        gaps = gaps.updated(data.cell_gaps, data.cell_counts, fitted.steps, data.times)
    assert fitted is not None
    return gaps, fitted


def _choose(name: str, data: _Data, build: law.Law, gaps: StepGaps, most: int, bursts: range, weights: FloatArray, interval: int) -> _Rival:
    """Best M of `bursts` by penalised likelihood, free hazards and one alpha each."""
    shares = interval == 0
    events = law.Events(data.cell_counts, gaps.density(data.cell_gaps, data.cell_counts, most), data.times)
    n = data.times.sum()
    fixed = 0.5 * (6 + (most - 1 if shares else 0)) * np.log1p(n)
    by_burst: dict[int, float] = {}
    best: tuple[float, int, law.CountFit, law.CountFit] | None = None
    for burst in bursts:
        start = np.full(burst - 1, 0.7)
        one = law.maximise(events, build, start, weights, law.common(burst))
        if not np.isfinite(one.loglik):
            continue
        every = law.maximise(events, build, np.clip(one.hazards, 0.02, 0.98), one.weights, law.free(burst))
        by_burst[burst] = every.loglik
        alpha_cost = 0.5 * np.log1p(np.cumsum(one.sizes[::-1])[1:].sum()) if burst > 1 else 0.0
        score = max(every.loglik - _at_risk_penalty(every.sizes), one.loglik - alpha_cost) - fixed
        if best is None or score > best[0]:
            best = (score, burst, every, one)
    if best is None:
        nothing = law.CountFit(np.zeros(0), weights, np.zeros((most, n_cells(data))), np.zeros(1), -np.inf)
        return _Rival(name, 1, np.zeros(0), {}, np.nan, np.nan, -np.inf, -np.inf, 0, np.zeros(1), gaps, events, build, nothing, interval)
    score, burst, every, one = best
    by_burst = {m: v for m, v in by_burst.items() if m <= burst}
    for m in range(burst + 1, burst + BEYOND + 1) if burst > 1 else ():
        start = np.append(every.hazards, np.full(m - burst, every.hazards[-1])).clip(0.02, 0.98)
        by_burst[m] = law.maximise(events, build, start, every.weights, law.tied(m, burst)).loglik
    alpha = float(one.hazards[0]) if burst > 1 else float("nan")
    return _Rival(
        name, burst, every.hazards, by_burst, alpha, one.loglik if burst > 1 else float("nan"), every.loglik, score,
        burst - 1 + 6 + (most - 1 if shares else 0), every.sizes, gaps, events, build, every, interval,
    )  # fmt: skip


def n_cells(data: _Data) -> int:
    """Columns of the compressed data."""
    return data.times.size


def _merged(data: _Data, floor: float, top: int) -> _Rival:
    weights = np.array([0.9, 0.08, 0.02])
    gaps, fitted = _climb(data, floor, law.merged, MERGES, top, _start(data.gaps, floor), weights)
    seen = np.flatnonzero(fitted.sizes > 0.05)
    high = int(seen.max(initial=0)) + 1 if np.isfinite(fitted.loglik) else top
    low = max(-(-top // MERGES), 1, high - 8)
    return _choose("merged", data, law.merged, gaps, MERGES, range(low, max(high, low) + 1), np.clip(fitted.weights, 0.01, None), 0)


def _passage(p: FloatArray, weights: FloatArray, n_max: int, *, interval: int) -> law.Grouping:
    del weights
    return law.passage(p, interval, n_max)


def _interval(data: _Data, floor: float, interval: int, limit: int) -> _Rival:
    """Stream interval: the quantum of the gaps is found by trying how many steps a typical gap may hold."""
    build = partial(_passage, interval=interval)
    top = int(data.counts.max()) - interval + 1
    typical = max(float(np.median(data.gaps)), 1e-9)
    shares = np.full(interval, 1.0 / interval)
    best: tuple[StepGaps, law.CountFit] | None = None
    for steps in range(1, interval + 1):
        step = typical / steps
        start = StepGaps(step, 0.0, (0.02 * step) ** 2, (0.07 * step) ** 2, floor=max(floor, 1e-4 * step))
        trial = _climb(data, floor, build, interval, top, start, shares)
        if best is None or trial[1].loglik > best[1].loglik:
            best = trial
    assert best is not None
    return _choose("interval", data, build, best[0], interval, range(top, top + 1), shares, interval)


def _report(best: _Rival, data: _Data, streams: Sequence[Arrays], resolution: float) -> LayerFit:
    """Uncertainties, the most probable bursts of each stream and the step time."""
    shares = best.name == "merged"
    k = best.fit.steps.shape[0]
    order = np.arange(1.0, k + 1)
    mean = order @ best.fit.steps
    spread = (order**2) @ best.fit.steps - mean**2
    if best.burst > 1:
        matrix, one = _informations(best, data, shares)
        covariance = np.linalg.pinv(matrix)
        hazards_se = np.sqrt(np.maximum(np.diag(covariance), 0.0))
        alpha_se = float(1.0 / np.sqrt(one)) if one > 0 else float("nan")
    else:
        covariance, hazards_se, alpha_se = np.zeros((0, 0)), np.zeros(0), float("nan")
    each = mean[data.cell]
    parts = np.split(each, data.ends[:-1]) if data.ends.size else []
    whole = [(s.t[:-1], m) for s, m in zip(streams, parts, strict=True) if m.size]
    time = step_time([t for t, _ in whole], [m for _, m in whole], float(spread @ data.times), resolution)
    bursts = _likeliest(best, data)
    length = mean_burst(best.hazards)
    gradient = _length_gradient(best.hazards)
    iid = float(np.sqrt(max(gradient @ covariance @ gradient, 0.0)))
    dependence = _dependence(bursts)
    tail_steps = sum(max(1.0, round(float(s.t[-1] - s.t[-2]) / best.gaps.step)) if k > 1 else 1.0 for s in streams if s.t.size > 1)
    extra = {
        "steps": float(each.sum()) + tail_steps,
        "length": length,
        "length_se": iid * float(np.sqrt(dependence)),
        "length_se_iid": iid,
        "dependence": dependence,
        "merge_probability": float(best.fit.weights[1:].sum()) if shares else 0.0,
        "merge_three": float(best.fit.weights[2:].sum()) if shares else 0.0,
        "interval": float(best.interval),
        "held_back": 0.0,
        "late": best.gaps.tail,
        "piled": best.gaps.tiny,
        "per_token_s": best.gaps.slope,
    }
    if best.gaps.plain_share > 0:
        extra |= {"plain_s": best.gaps.plain, "plain_share": best.gaps.plain_share}
    return LayerFit(
        LAYER, best.burst, dict(sorted(best.by_burst.items())), best.hazards, hazards_se, best.alpha, alpha_se, best.alpha_loglik,
        best.sizes, bursts, time.step, time.step_se, time.step_sd, time.jitter, time.jitter_se, best.parameters, best.loglik, extra,
    )  # fmt: skip


def _informations(best: _Rival, data: _Data, shares: bool) -> tuple[FloatArray, float]:
    """Observed information of the free hazards, shape (M-1, M-1), and of the one alpha."""
    if best.name == "steps":
        went = (data.last[:, None] > np.arange(1, best.burst)).sum(0)
        at_risk = np.cumsum(best.sizes[::-1])[::-1][:-1] + went
        a = np.clip(best.hazards, 0.5 / (at_risk + 1.0), 1.0 - 0.5 / (at_risk + 1.0))
        return np.diag(at_risk / (a * (1.0 - a))), float(at_risk.sum() / (best.alpha * (1.0 - best.alpha))) if 0 < best.alpha < 1 else 0.0
    matrix = law.information(best.events, best.law, best.fit, law.free(best.burst), shares=shares)
    if not 0 < best.alpha < 1:
        return matrix, 0.0
    groups = law.common(best.burst)
    one = law.maximise(best.events, best.law, np.full(best.burst - 1, best.alpha), best.fit.weights, groups)
    return matrix, float(law.information(best.events, best.law, one, groups, shares=shares)[0, 0])


def _length_gradient(hazards: FloatArray) -> FloatArray:
    """d E[B] / d a_j = sum_{i >= j} prod_{l <= i, l != j} a_l, shape (M-1,)."""
    gradient = np.empty(hazards.size)
    for j in range(hazards.size):
        others = hazards.copy()
        others[j] = 1.0
        gradient[j] = np.cumprod(others)[j:].sum()
    return gradient


def _dependence(bursts: Sequence[IntArray]) -> float:
    """Long-run variance of the bursts over their variance, at least 1 (Newey and West 1987, lag 2 n^(1/3))."""
    sizes = [b.astype(np.float64) for b in bursts if b.size > 1]
    n = sum(b.size for b in sizes)
    if n < 20:
        return 1.0
    centre = sum(float(b.sum()) for b in sizes) / n
    rest = [b - centre for b in sizes]
    variance = sum(float(r @ r) for r in rest)
    if variance <= 0:
        return 1.0
    lags = int(2 * (n / len(sizes)) ** (1 / 3))
    total = 1.0
    for lag in range(1, lags + 1):
        total += 2 * (1 - lag / (lags + 1)) * sum(float(r[lag:] @ r[:-lag]) for r in rest if r.size > lag) / variance
    return max(total, 1.0)


def _likeliest(best: _Rival, data: _Data) -> tuple[IntArray, ...]:
    """Most probable sizes of the complete steps, per stream."""
    if best.name == "steps":
        return tuple(np.split(data.counts, data.ends[:-1])) if data.ends.size else ()
    order = best.fit.steps.argmax(0) + 1
    p = pmf(best.hazards)
    known: dict[tuple[int, int], IntArray] = {}
    result = []
    for events in np.split(np.arange(data.counts.size), data.ends[:-1]):
        sizes = []
        for i in events:
            key = (int(order[data.cell[i]]), int(data.counts[i]))
            if key not in known:
                known[key] = law.likeliest(p, *key, below=best.interval or None)
            sizes.append(known[key])
        result.append(np.concatenate(sizes) if sizes else np.zeros(0, np.int64))
    return tuple(result)
