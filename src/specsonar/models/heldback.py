"""Events that hold text back until a character is complete: steps are read from times and counts together.

Where an event is sent only when a character is complete (llama.cpp, with scripts and emoji of several tokens a
character), events are neither tokens nor steps: some come right behind another of the same step, some steps send
nothing. The counts still say where the tokens are, and the gaps how many steps passed: `stats.heldback` sums over
every way in which they fit together. As an event of two steps must not be taken for one slow step, the pace of the
server is followed (`stats.pace`).

Without speculation a step is a token, and the gaps go with the counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..stats.bursts import mean_burst
from ..stats.heldback import most_probable, sweep
from ..stats.pace import TINY, local_modes, local_pace
from ..stats.result import Arrays, LayerFit
from ..stats.schedule import step_time
from ..stats.stepgaps import StepGaps, mode

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

MOST_STEPS = 12  # steps between two events that are told apart
MOST_BURST = 16
BEYOND = 4  # how far past the best M the likelihood is followed
UNEXPLAINED = 0.08
CLOSE = 0.05  # of a step: most that a typical gap inside a burst takes
FIRST_ROUNDS, ROUNDS = 15, 60  # of EM, from each start and from the best
STEADY = 4  # EM rounds before the pace is followed
CLEARLY = 10.0  # nats against bursts: a few quick steps look like them
DEEPER = 5.0  # and against each further position: where one step passes for two, a few bursts look longer
ENOUGH = 3000  # tokens on which the starting points are compared


def held_back(streams: Sequence[Arrays]) -> bool:
    """Whether events that follow another one at once are too many for pile-ups behind late packets.

    A pile-up has a long gap before it; an event of the same step has an ordinary one.
    """
    close = stray = 0
    for s in streams:
        if s.tokens is None or s.t.size < 4:
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
    pace: list[FloatArray]
    loglik: float

    @property
    def score(self) -> float:
        """Log-likelihood less what the hazards cost, and less `CLEARLY` and `DEEPER` with any."""
        free = 0.5 * float(np.log1p((self.went + self.stopped)[:-1]).sum())
        further = self.hazards.size - 1
        return self.loglik - free - (CLEARLY + DEEPER * further if self.hazards.size else 0.0)


def _density(gaps: FloatArray, pace: FloatArray, law: StepGaps, width: float, most: int) -> FloatArray:
    """Shape (n, most+1): m = 0 half-Cauchy of scale `width`, m >= 1 the law of steps, stretched by the pace."""
    out = np.empty((gaps.size, most + 1))
    out[:, 0] = _together(gaps, width)
    out[:, 1:] = law.density(gaps / pace, np.ones(gaps.size, np.int64), most).T / pace[:, None]
    return out


def _together(gaps: FloatArray, width: float) -> FloatArray:
    """Half-Cauchy density of the gaps between events that were sent at once."""
    result: FloatArray = 2.0 / (np.pi * width * (1.0 + (gaps / width) ** 2))
    return result


def _piled(counts: IntArray, gaps: FloatArray, pace: FloatArray, step: float) -> BoolArray:
    """Events right behind one that came late if every token is a step; shape (n,)."""
    tiny = gaps < TINY * step * pace
    late = gaps > (counts[1:] + 0.5) * step * pace
    ahead = np.maximum.accumulate(np.where(tiny, 0, np.arange(1, gaps.size + 1)))
    return np.asarray(tiny & (ahead > 0) & late[np.maximum(ahead - 1, 0)], np.bool_)


def _climb(
    counts: Sequence[IntArray],
    gaps: Sequence[FloatArray],
    hazards: FloatArray,
    law: StepGaps,
    width: float,
    rounds: int,
    pace: Sequence[FloatArray] | None = None,
    seen: int = 0,
) -> _Fit:
    """EM from a start; with `seen` > 0 hazards past the last position below `seen` stay equal to it.

    The pace is smoothed and not fitted, so that the likelihood may fall by a little at the end.
    """
    most = min(int(max(c[1:].max() for c in counts)), MOST_STEPS)
    every = np.concatenate(gaps)
    paces = [np.ones(g.size) for g in gaps] if pace is None else list(pace)
    last = -np.inf
    for turn in range(1, rounds + 1):
        went, stopped = np.zeros(hazards.size + 1), np.zeros(hazards.size + 1)
        steps, loglik = [], 0.0
        for c, g, q in zip(counts, gaps, paces, strict=True):
            expected = np.zeros((g.size, most + 1))
            density = _density(g, q, law, width, most)
            if hazards.size == 0:
                piled = _piled(c, g, q, law.step)
                density[piled] = 0.5 * (density[piled] + _together(g[piled], width)[:, None])
            loglik += sweep(c, density, np.append(hazards, 0.0), went, stopped, expected)
            steps.append(expected)
        stopped[-1] = max(stopped[-1] - len(counts), 0.0)  # the prefill's token counted as a full burst
        fit = _Fit(hazards, went, stopped, steps, law, width, paces, loglik)
        if not np.isfinite(loglik) or (loglik - last < 0.01 and turn > STEADY + 1):
            break
        last = loglik
        hazards = _ratio(went[:-1], stopped[:-1], seen)
        together = np.concatenate(steps)
        if turn >= STEADY:
            paces = [local_pace(g, q, s, law.step) for g, q, s in zip(gaps, paces, steps, strict=True)]
        relative = every / np.concatenate(paces)
        law = law.updated(relative, np.ones(every.size, np.int64), together[:, 1:].T, np.ones(every.size))
        order = np.argsort(every)
        mass = np.cumsum(together[order, 0])
        if mass[-1] > 0.5:
            typical = float(every[order][np.searchsorted(mass, mass[-1] / 2)])
            width = max(min(typical, CLOSE * law.step), 2e-5)
    return fit


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
    """Fit events of held-back text; parameters and result as in `models.counted.fit`, `extra["held_back"]` is 1.

    `extra["one_step"]` is the share of events that hold exactly one step.
    """
    del rng
    usable = [s for s in streams if s.tokens is not None and s.t.size > 2]
    counts = [np.asarray(s.tokens, np.int64) for s in usable]
    gaps = [np.maximum(np.diff(s.t), 0.0) for s in usable]
    resolution = max((s.resolution for s in usable), default=0.0)
    top = min(max_burst or MOST_BURST, MOST_BURST)
    part = max(int(np.searchsorted(np.cumsum([c.sum() for c in counts]), ENOUGH, "right")), 1)
    begun = [
        (_ascend(counts[:part], gaps[:part], *start, resolution, top, FIRST_ROUNDS)[0].score, *start)
        for start in _starts(counts[:part], gaps[:part])
    ]
    _, quantum, pace = max(begun, key=lambda b: b[0])
    if pace is not None and part < len(usable):
        pace = local_modes(gaps, quantum)
    one, by_burst = _ascend(counts, gaps, quantum, pace, resolution, top, ROUNDS)
    seen = one.hazards.size + 1
    by_burst = {m: v for m, v in by_burst.items() if m <= seen}
    for burst in range(seen + 1, seen + BEYOND + 1) if seen > 1 else ():
        more = np.append(one.hazards, np.full(burst - seen, one.hazards[-1])).clip(0.02, 0.98)
        by_burst[burst] = _climb(counts, gaps, more, one.gaps, one.width, 20, one.pace, seen).loglik
    return _report(one, by_burst, usable, counts, gaps, resolution)


def _starts(counts: Sequence[IntArray], gaps: Sequence[FloatArray]) -> list[tuple[float, list[FloatArray] | None]]:
    """Times of a step to begin with, each with a pace: the usual gap may hold one step, two, or one for each token."""
    every = np.concatenate(gaps)
    step = mode(every[every > TINY * np.quantile(every, 0.75)])
    token = float(every.sum()) / sum(float(c[1:].sum()) for c in counts)
    level = local_modes(gaps, step)
    return [(q, None) for q in (step, step / 2, 2 * step, token)] + [(step / k, level) for k in (1, 2, 3)]


def _ascend(
    counts: Sequence[IntArray],
    gaps: Sequence[FloatArray],
    step: float,
    pace: Sequence[FloatArray] | None,
    resolution: float,
    top: int,
    rounds: int,
) -> tuple[_Fit, dict[int, float]]:
    """M = 1, 2, ... until three in a row are worse: the fit with the best score, and all log-likelihoods."""
    floor = max(resolution / 2, 1e-6, 1e-4 * step)
    law = StepGaps(step, 0.0, 0.0, (0.1 * step) ** 2, 0.01, 0.02, floor=floor, sloped=False)
    width = 1e-4 + resolution
    best: _Fit | None = None
    by_burst: dict[int, float] = {}
    worse = 0
    hazards = np.zeros(0)
    for burst in range(1, top + 1):
        one = _climb(counts, gaps, hazards, law, width, rounds, pace)
        by_burst[burst] = one.loglik
        if best is None or one.score > best.score:
            best, worse = one, 0
        else:
            worse += 1
        if worse >= 3 and np.isfinite(best.score):
            break
        hazards = np.append(one.hazards, 0.6).clip(0.02, 0.98)
    assert best is not None
    return best, by_burst


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
        most_probable(c, _density(g, q, best.gaps, best.width, most), np.append(best.hazards, 0.0))[:-1]
        for c, g, q in zip(counts, gaps, best.pace, strict=True)
    )
    tokens = sum(float(c.sum()) - 1.0 for c in counts)
    steps = sum(float(m.sum()) for m in mean)
    length = mean_burst(best.hazards)
    sizes = best.stopped
    spread = (
        float(np.sqrt((sizes @ np.arange(1, burst + 1) ** 2) / max(sizes.sum(), 1.0) - length**2)) if burst > 1 else 0.0
    )
    # the scatter of bursts, and how many steps there were
    length_se = float(np.hypot(spread / np.sqrt(max(steps, 1.0)), length * np.sqrt(doubt) / max(steps, 1.0)))
    extra = {
        "steps": steps, "length": length, "length_se_iid": length_se,
        "merge_probability": 0.0, "merge_three": 0.0, "interval": 0.0, "held_back": 1.0, "late": best.gaps.tail,
        "piled": best.gaps.tiny, "per_token_s": 0.0, "tokens_per_step": tokens / max(steps, 1e-9),
        "within_s": best.width, "one_step": sum(float(s[:, 1].sum()) for s in best.steps) / sum(map(len, best.steps)),
    }  # fmt: skip
    return LayerFit(
        "counted", burst, by_burst, best.hazards, hazards_se, alpha, alpha_se, alpha_loglik, sizes, paths,
        time.step, time.step_se, time.step_sd, time.jitter, time.jitter_se, burst - 1 + 6, best.loglik, extra,
    )  # fmt: skip


def _one_alpha(best: _Fit, counts: Sequence[IntArray], gaps: Sequence[FloatArray], alpha: float, burst: int) -> float:
    """Log-likelihood with one alpha at the same gap law (EM from the pooled ratio)."""
    most = best.steps[0].shape[1] - 1
    densities = [_density(g, q, best.gaps, best.width, most) for g, q in zip(gaps, best.pace, strict=True)]
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
