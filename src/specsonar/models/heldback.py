"""Events that hold text back until a character is complete: steps are read from times and counts together.

Where an event is sent only when a character is complete (llama.cpp, with scripts and emoji of several tokens a
character), events are neither tokens nor steps: some come right behind another of the same step, some steps send
nothing. The counts still say where the tokens are, and the gaps how many steps passed: `stats.heldback` sums over
every way in which they fit together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..stats.bursts import mean_burst
from ..stats.heldback import most_probable, sweep
from ..stats.result import Arrays, LayerFit
from ..stats.schedule import step_time
from ..stats.stepgaps import StepGaps, mode

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

MOST_STEPS = 12  # steps between two events that are told apart
MOST_BURST = 16
BEYOND = 4  # how far past the best M the likelihood is followed
UNEXPLAINED = 0.08


def held_back(streams: Sequence[Arrays]) -> bool:
    """Whether events that follow another one at once are too many for pile-ups behind late packets.

    A pile-up has a long gap before it; an event of the same step has an ordinary one.
    """
    close = stray = 0
    for s in streams:
        if s.tokens is None or s.t.size < 4 or (s.tokens[1:-1] <= 1).all():
            continue
        gaps = np.diff(s.t)
        busy = gaps[gaps > 0.1 * np.quantile(gaps, 0.75)]
        if busy.size == 0:
            continue
        step = mode(busy)
        tiny = gaps < 0.1 * step
        run_start = np.flatnonzero(tiny & ~np.append(False, tiny[:-1]))
        run_end = np.flatnonzero(tiny & ~np.append(tiny[1:], False)) + 1
        ordinary = (run_start > 0) & (gaps[np.maximum(run_start - 1, 0)] < 1.5 * step)
        stray += int((run_end - run_start)[ordinary].sum())
        close += gaps.size
    return stray >= 8 and stray > UNEXPLAINED * close


@dataclass(frozen=True, slots=True, eq=False)
class _Fit:
    hazards: FloatArray
    went: FloatArray
    stopped: FloatArray
    steps: list[FloatArray]
    gaps: StepGaps
    width: float
    loglik: float


def _density(gaps: FloatArray, law: StepGaps, width: float, most: int) -> FloatArray:
    """Shape (n, most+1): m = 0 half-Cauchy of scale `width`, m >= 1 the law of steps."""
    out = np.empty((gaps.size, most + 1))
    out[:, 0] = 2.0 / (np.pi * width * (1.0 + (gaps / width) ** 2))
    out[:, 1:] = law.density(gaps, np.ones(gaps.size, np.int64), most).T
    return out


def _climb(
    counts: Sequence[IntArray],
    gaps: Sequence[FloatArray],
    hazards: FloatArray,
    law: StepGaps,
    width: float,
    rounds: int,
    seen: int = 0,
) -> _Fit:
    """EM from a start; with `seen` > 0 hazards past the last position below `seen` stay equal to it."""
    most = min(int(max(c[1:].max() for c in counts)), MOST_STEPS)
    every = np.concatenate(gaps)
    last = -np.inf
    while True:
        went, stopped = np.zeros(hazards.size + 1), np.zeros(hazards.size + 1)
        steps, loglik = [], 0.0
        for c, g in zip(counts, gaps, strict=True):
            expected = np.zeros((g.size, most + 1))
            loglik += sweep(c, _density(g, law, width, most), np.append(hazards, 0.0), went, stopped, expected)
            steps.append(expected)
        stopped[-1] = max(stopped[-1] - len(counts), 0.0)  # the prefill's token counted as a full burst
        rounds -= 1
        if not np.isfinite(loglik) or loglik - last < 1e-3 or rounds < 1:
            return _Fit(hazards, went, stopped, steps, law, width, loglik)
        last = loglik
        hazards = _ratio(went[:-1], stopped[:-1], seen)
        together = np.concatenate(steps)
        law = law.updated(every, np.ones(every.size, np.int64), together[:, 1:].T, np.ones(every.size))
        order = np.argsort(every)
        mass = np.cumsum(together[order, 0])
        if mass[-1] > 0.5:
            width = max(float(every[order][np.searchsorted(mass, mass[-1] / 2)]), 2e-5)


def _ratio(went: FloatArray, stopped: FloatArray, seen: int) -> FloatArray:
    """Hazards went / (went + stopped), pooled from position seen - 1 on where `seen` > 0; shape (M-1,)."""
    if seen > 1:
        groups = np.minimum(np.arange(went.size), seen - 2)
        went = np.asarray(np.bincount(groups, went, went.size)[groups], np.float64)
        stopped = np.asarray(np.bincount(groups, stopped, stopped.size)[groups], np.float64)
    known = went + stopped
    result: FloatArray = np.divide(went, known, out=np.zeros_like(known), where=known > 1e-9)
    return result


def fit(streams: Sequence[Arrays], *, max_burst: int | None = None, rng: np.random.Generator | None = None) -> LayerFit:
    """Fit events of held-back text; parameters and result as in `models.counted.fit`, `extra["held_back"]` is 1."""
    del rng
    usable = [s for s in streams if s.tokens is not None and s.t.size > 2]
    counts = [np.asarray(s.tokens, np.int64) for s in usable]
    gaps = [np.maximum(np.diff(s.t), 0.0) for s in usable]
    every = np.concatenate(gaps)
    resolution = max((s.resolution for s in usable), default=0.0)
    step = mode(every[every > 0.1 * np.quantile(every, 0.75)])
    floor = max(resolution / 2, 1e-6, 1e-4 * step)
    best: tuple[float, _Fit, dict[int, float]] | None = None
    for quantum in (step, step / 2, 2 * step):
        law = StepGaps(quantum, 0.0, 0.0, (0.1 * quantum) ** 2, 0.01, 0.02, floor=floor, sloped=False)
        score, one, by_burst = _ascend(counts, gaps, law, 1e-4 + resolution, min(max_burst or MOST_BURST, MOST_BURST))
        if best is None or score > best[0]:
            best = (score, one, by_burst)
    assert best is not None
    one = best[1]
    seen = one.hazards.size + 1
    by_burst = {m: v for m, v in best[2].items() if m <= seen}
    for burst in range(seen + 1, seen + BEYOND + 1) if seen > 1 else ():
        start = np.append(one.hazards, np.full(burst - seen, one.hazards[-1])).clip(0.02, 0.98)
        by_burst[burst] = _climb(counts, gaps, start, one.gaps, one.width, 20, seen).loglik
    return _report(one, by_burst, usable, counts, gaps, resolution)


def _ascend(
    counts: Sequence[IntArray], gaps: Sequence[FloatArray], law: StepGaps, width: float, top: int
) -> tuple[float, _Fit, dict[int, float]]:
    """M = 1, 2, ... until three in a row are worse: best penalised score, its fit, and all log-likelihoods."""
    best: tuple[float, _Fit] | None = None
    by_burst: dict[int, float] = {}
    worse = 0
    hazards = np.zeros(0)
    for burst in range(1, top + 1):
        one = _climb(counts, gaps, hazards, law, width, 60)
        by_burst[burst] = one.loglik
        score = one.loglik - 0.5 * float(np.log1p((one.went + one.stopped)[:-1]).sum())
        if best is None or score > best[0]:
            best, worse = (score, one), 0
        else:
            worse += 1
        if worse >= 3 and np.isfinite(best[0]):
            break
        hazards = np.append(one.hazards, 0.6).clip(0.02, 0.98)
    assert best is not None
    return best[0], best[1], by_burst


def _report(
    best: _Fit,
    by_burst: dict[int, float],
    streams: Sequence[Arrays],
    counts: Sequence[IntArray],
    gaps: Sequence[FloatArray],
    resolution: float,
) -> LayerFit:
    """Step time, most probable bursts, and standard errors as if the expected steps had been seen."""
    burst = best.hazards.size + 1
    risk = (best.went + best.stopped)[:-1]
    hazards_se = np.sqrt(best.hazards * (1 - best.hazards) / np.maximum(risk, 1e-9))
    went, stopped = float(best.went[:-1].sum()), float(best.stopped[:-1].sum())
    alpha = went / (went + stopped) if burst > 1 and went + stopped > 0 else float("nan")
    alpha_se = float(np.sqrt(alpha * (1 - alpha) / (went + stopped))) if burst > 1 else float("nan")
    alpha_loglik = float("nan")
    if burst > 1:
        alpha_loglik = _one_alpha(best, counts, gaps, alpha, burst)
    order = np.arange(best.steps[0].shape[1])
    mean = [s @ order for s in best.steps]
    doubt = sum(float(((s @ order**2) - m**2).sum()) for s, m in zip(best.steps, mean, strict=True))
    time = step_time([s.t for s in streams], mean, doubt, resolution)
    most = order.size - 1
    paths = tuple(
        most_probable(c, _density(g, best.gaps, best.width, most), np.append(best.hazards, 0.0))[:-1]
        for c, g in zip(counts, gaps, strict=True)
    )
    tokens = sum(float(c.sum()) - 1.0 for c in counts)
    steps = sum(float(m.sum()) for m in mean)
    length = mean_burst(best.hazards)
    sizes = best.stopped
    spread = (
        float(np.sqrt((sizes @ np.arange(1, burst + 1) ** 2) / max(sizes.sum(), 1.0) - length**2)) if burst > 1 else 0.0
    )
    extra = {
        "steps": steps, "length": length, "length_se_iid": float(spread / np.sqrt(max(steps, 1.0))),
        "merge_probability": 0.0, "merge_three": 0.0, "interval": 0.0, "held_back": 1.0, "late": best.gaps.tail,
        "piled": best.gaps.tiny, "per_token_s": 0.0, "tokens_per_step": tokens / max(steps, 1e-9),
        "within_s": best.width,
    }  # fmt: skip
    return LayerFit(
        "counted", burst, by_burst, best.hazards, hazards_se, alpha, alpha_se, alpha_loglik, sizes, paths,
        time.step, time.step_se, time.step_sd, time.jitter, time.jitter_se, burst - 1 + 6, best.loglik, extra,
    )  # fmt: skip


def _one_alpha(best: _Fit, counts: Sequence[IntArray], gaps: Sequence[FloatArray], alpha: float, burst: int) -> float:
    """Log-likelihood with one alpha at the same gap law (EM from the pooled ratio)."""
    most = best.steps[0].shape[1] - 1
    densities = [_density(g, best.gaps, best.width, most) for g in gaps]
    last = -np.inf
    for _ in range(50):
        went, stopped, loglik = np.zeros(burst), np.zeros(burst), 0.0
        hazards = np.append(np.full(burst - 1, alpha), 0.0)
        for c, d in zip(counts, densities, strict=True):
            loglik += sweep(c, d, hazards, went, stopped, np.zeros_like(d))
        if loglik - last < 1e-3:
            break
        last = loglik
        alpha = float(went[:-1].sum() / max((went[:-1] + stopped[:-1]).sum(), 1e-9))
    return float(loglik)
