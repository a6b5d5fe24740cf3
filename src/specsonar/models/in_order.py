"""The in-order layer: explanations of the gaps by steps and bursts on a link that keeps the order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ..fingerprint import AUTOREGRESSIVE, FIXED_CHUNKS, IN_ORDER_LAYER, SPECULATIVE
from ..stats.bursts import law_penalty, oddity
from ..stats.gaps import Gaps, cuts, prepare
from ..stats.result import Arrays, LayerFit
from . import buffered, direct, draw, late
from .choose import Choice, choose
from .explanation import Explanation

FloatArray = npt.NDArray[np.float64]

_DIRECT_PLAIN, _DIRECT_RUNS, _LATE = 8.0, 16.0, 14.0
"""Free parameters of the gap laws; the burst law comes on top."""

_LARGEST_LATE = 24
"""The filter's cost grows with M; larger bursts than this are left to the run-length model."""

_SHAPE_TOKENS = 6000
"""The filter's laws are learnt from about this many tokens."""

_RIVAL_TOKENS = 24_000
"""Explanations are compared on about this many tokens, which decide everything; the winner is refitted to all."""

_REFIT_ROUNDS = 3

_HOPELESS = 100.0
"""Nats that a rough fit may stay behind another layer and still catch up."""


def explain(streams: Sequence[Arrays], *, beat: float = -np.inf) -> list[Explanation]:
    """Every explanation of the in-order layer, fitted; not sorted.

    Parameters
    ----------
    beat : log-likelihood that another layer reached; where a rough fit stays far below it, no finer one is made.
    """
    gaps = prepare(streams)
    part = _part(gaps, _RIVAL_TOKENS)
    found = _explain(part, beat if part is gaps else -np.inf)
    if part is gaps:
        return found
    best = max(found, key=lambda e: e.score(len(part)))
    if best.refit is None:
        return found
    return [replace(best, fit=best.refit(gaps)), *(e for e in found if e is not best)]


def _explain(gaps: Gaps, beat: float) -> list[Explanation]:
    found: list[Explanation] = []
    plain = direct.fit_plain(gaps)
    found.append(_plain_direct(gaps, plain))
    runs = direct.fit_runs(gaps)
    if runs is None:
        return found
    choice = _choose_direct(gaps, runs)
    found.append(_speculative_direct(gaps, choice))
    found.append(_fixed(gaps, choice))
    found += buffered.explain(gaps, runs.new, runs.hazards, runs.went, runs.stopped, runs.loglik, _DIRECT_RUNS)
    if _lateness_matters(gaps, choice.best):
        found += _late(gaps, beat)
    return found


def explain_plain(streams: Sequence[Arrays]) -> list[Explanation]:
    """Plain decoding alone, where it is known that every event is a step of one token."""
    gaps = prepare(streams)
    return [_plain_direct(gaps, direct.fit_plain(gaps))]


def _choose_direct(gaps: Gaps, runs: direct.DirectFit) -> Choice[direct.DirectFit]:
    seen = np.flatnonzero(runs.went[:-1] > 0.5)
    longest = int(seen[-1]) + 2 if seen.size else 2
    return choose(longest, runs.max_burst + 1, runs.new.sum(), lambda m, rule: direct.at(gaps, runs, m, rule))


def _plain_direct(gaps: Gaps, plain: direct.DirectFit) -> Explanation:
    def refit(whole: Gaps) -> LayerFit:
        again = direct.em(whole, plain.hazards, plain.inside, plain.between, rounds=_REFIT_ROUNDS)
        return _plain_layer(len(whole), again.loglik, *_step_moments(whole, again.new))

    return Explanation(
        AUTOREGRESSIVE, IN_ORDER_LAYER, plain.loglik, _DIRECT_PLAIN,
        _plain_layer(len(gaps), plain.loglik, *_step_moments(gaps, plain.new)),
        draw=lambda n, rng: draw.direct(plain.hazards, plain.inside, plain.between, n, rng), refit=refit,
    )  # fmt: skip


def _plain_layer(
    steps: int, loglik: float, step: float, se: float, sd: float, jitter: float, jitter_se: float
) -> LayerFit:
    """The record of a fit with M = 1."""
    none = float("nan")
    return LayerFit(
        layer=IN_ORDER_LAYER, max_burst=1, loglik_by_burst={1: loglik}, hazards=np.empty(0), hazards_se=np.empty(0),
        alpha=none, alpha_se=none, alpha_loglik=none, burst_counts=np.array([float(steps)]), bursts=(),
        step_s=step, step_se=se, step_sd=sd, jitter_s=jitter, jitter_se=jitter_se,
        parameters=int(_DIRECT_PLAIN), loglik=loglik,
    )  # fmt: skip


def _speculative_direct(gaps: Gaps, choice: Choice[direct.DirectFit]) -> Explanation:
    best = choice.best

    def refit(whole: Gaps) -> LayerFit:
        def again(rule: str) -> direct.DirectFit:
            at = choice.fits[rule]
            return direct.em(whole, at.hazards, at.inside, at.between, rule=rule, rounds=_REFIT_ROUNDS)

        return _direct_layer(whole, replace(choice, fits={rule: again(rule) for rule in choice.fits}))

    return Explanation(
        SPECULATIVE, IN_ORDER_LAYER, best.loglik, _DIRECT_RUNS, _direct_layer(gaps, choice),
        draw=lambda n, rng: draw.direct(best.hazards, best.inside, best.between, n, rng),
        penalty=law_penalty(best.went[:-1], best.stopped[:-1], choice.rule) + oddity(best.went[:-1], best.stopped[:-1]),
        refit=refit,
    )  # fmt: skip


def _direct_layer(gaps: Gaps, choice: Choice[direct.DirectFit]) -> LayerFit:
    best, free, one = choice.best, choice.fits["free"], choice.fits["one"]
    step, se, sd, jitter, jitter_se = _step_moments(gaps, best.new)

    def at_alpha(alpha: float) -> float:
        hazards = np.append(np.full(best.max_burst - 1, alpha), 0.0)
        return direct.em(gaps, hazards, best.inside, best.between, rule="fixed", rounds=1).loglik

    return LayerFit(
        layer=IN_ORDER_LAYER, max_burst=best.max_burst, loglik_by_burst=choice.logliks,
        step_s=step, step_se=se, step_sd=sd, jitter_s=jitter, jitter_se=jitter_se,
        parameters=int(_DIRECT_RUNS) + choice.size, loglik=best.loglik, bursts=tuple(_sizes(best.new, gaps, best.max_burst)),
        extra={"length": len(gaps) / max(float(best.new.sum()), 1.0)},
        **_burst_law(one.hazards, free.hazards, free.went, free.stopped, one.loglik, at_alpha),
    )  # fmt: skip


def _fixed(gaps: Gaps, choice: Choice[direct.DirectFit]) -> Explanation:
    """Constant bursts: the most frequent size of the free fit."""
    free = choice.fits["free"]
    chunk = max(2, int(np.argmax(free.stopped)) + 1)
    fixed = direct.fixed(gaps, free, chunk)
    return Explanation(FIXED_CHUNKS, IN_ORDER_LAYER, fixed.loglik, _DIRECT_RUNS, None, {"chunk": float(chunk)})


def _burst_law(
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
        "hazards_se": loss * np.sqrt(np.maximum(hazards * (1 - hazards), 0.25 / trials) / trials),
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


def _step_moments(gaps: Gaps, new: FloatArray) -> tuple[float, float, float, float, float]:
    """Mean step, its standard error, the spread of single steps, and the jitter with its standard error, seconds.

    From the gaps that start steps. Pauses beyond eight times the 90th percentile are stalls of the path, not steps.
    Delays are independent, so neighbouring gaps have covariance - jitter^2 (each delay enters two gaps); the variance
    of the mean is taken from the autocovariances up to lag 2 n^(1/3) (Newey and West 1987).
    """
    nothing = float("nan")
    at = np.flatnonzero(new > 0.5)
    if at.size < 2:
        return (nothing,) * 5
    step = gaps.gap[at]
    step = step[step <= 8 * np.quantile(step, 0.9)]
    n = step.size
    mean = float(step.mean())
    rest = step - mean
    variance = float(rest @ rest) / max(n - 1, 1)
    lags = min(int(2 * n ** (1 / 3)), n - 1)
    covariance = [float(rest[k:] @ rest[:-k]) / n for k in range(1, lags + 1)]
    long_run = variance + 2 * sum((1 - k / (lags + 1)) * c for k, c in enumerate(covariance, 1))
    jitter = float(np.sqrt(max(-covariance[0], 0.0))) if covariance else 0.0
    jitter_se = variance / float(np.sqrt(n)) / max(2 * jitter, float(np.sqrt(variance) * n**-0.25), 1e-12)
    se = float(np.sqrt(max(long_run, 0.1 * variance) / n))
    return mean, se, float(np.sqrt(variance)), jitter, jitter_se


def _sizes(new: FloatArray, gaps: Gaps, max_burst: int) -> list[npt.NDArray[np.int64]]:
    """Complete bursts of each piece under the posterior: without the prefill's token and the burst cut at the end.

    Larger ones than M are steps that a stall piled up; which is which is not known, and they are left out.
    """
    sizes = []
    for begin, end in zip(gaps.offsets[:-1], gaps.offsets[1:], strict=True):
        whole = np.diff(np.flatnonzero(new[begin:end] > 0.5))
        sizes.append(whole[whole <= max_burst].astype(np.int64))
    return sizes


def _lateness_matters(gaps: Gaps, best: direct.DirectFit) -> bool:
    """Whether delays of the link show: neighbouring step gaps that trade time, outsized bursts, or hardly any burst."""
    starts = np.flatnonzero(best.new > 0.5)
    if starts.size < 10:
        return True
    step = gaps.log[starts]
    step = np.clip(step, *np.quantile(step, [0.02, 0.98]))
    a, b = step[:-1] - step.mean(), step[1:] - step.mean()
    spread = float(step.var())
    trade = float((a * b).mean()) / spread if spread > 1e-12 else 0.0
    sizes = np.concatenate(_sizes(best.new, gaps, best.max_burst)) if len(gaps) else np.empty(0)
    outsized = sizes.size > 0 and (sizes >= sizes.max()).sum() <= 2
    rare = sizes.size > 0 and (sizes > 1).mean() < 0.1
    inner = gaps.gap[best.new < 0.5]
    blurred = inner.size > 0 and float(np.mean(inner > 0.02 * np.exp(step.mean()))) > 0.15
    return trade < -0.1 or bool(outsized) or bool(rare) or blurred


def _late(gaps: Gaps, beat: float) -> list[Explanation]:
    """The lateness filter with one delay a step, with one delay a token where bursts are blurred, and M = 1."""
    borders = cuts(gaps)
    step = float(np.median(gaps.gap[gaps.gap > borders[0]]))
    grid = late.make_grid(gaps, step)
    part = _part(gaps, _SHAPE_TOKENS)
    part_grid = late.make_grid(part, step, late.COARSE)
    blurred = float(np.mean((part.gap > 0.02 * step) & (part.gap < 0.5 * step))) > 0.1
    found: list[Explanation] = []
    if np.median(_run_lengths(part, borders[0])) > _LARGEST_LATE:
        return found
    starts = [
        _start_late(part, part_grid, borders if blurred else borders[:1], per_token=per_token)
        for per_token in ((False, True) if blurred else (False,))
    ]
    wide = max((w for w in starts if w is not None), key=lambda w: w.loglik, default=None)
    if wide is not None and part is gaps and wide.loglik < beat - _HOPELESS:
        return found
    if wide is not None:
        found += _speculative_late(gaps, grid, part, part_grid, wide)
    cut = borders[0]
    start = late.initial(part, part_grid, cut, step, 1, per_token=False)
    plain = late.em(part, part_grid, start, rounds=25, tolerance=0.2)
    if wide is not None:
        other = late.em(part, part_grid, late.at(wide.parameters, 1), rounds=25, tolerance=0.2)
        plain = max(plain, other, key=lambda fit: fit.loglik)
    if np.isfinite(plain.loglik):
        plain = late.em(gaps, grid, plain.parameters, rounds=_final_rounds(gaps))
        found.append(_plain_late(gaps, grid, plain))
    return found


def _fixed_late(gaps: Gaps, grid: late.Grid, bursts: late.LateFit) -> Explanation:
    """Constant bursts of the most frequent size, on a link with delays."""
    chunk = max(2, int(np.argmax(bursts.stopped)) + 1)
    hazards = np.append(np.full(chunk - 1, 1.0 - direct.SLIP), 0.0)
    fixed = late.em(gaps, grid, replace(bursts.parameters, hazards=hazards), rule="fixed", rounds=6)
    return Explanation(FIXED_CHUNKS, IN_ORDER_LAYER, fixed.loglik, _LATE, None, {"chunk": float(chunk)})


def _part(gaps: Gaps, tokens: int) -> Gaps:
    """Some of the streams, spread over all of them, with about `tokens` gaps; all when there are not many more."""
    pieces = gaps.offsets.size - 1
    if len(gaps) <= 1.5 * tokens or pieces < 2:
        return gaps
    kept = np.unique(np.linspace(0, pieces - 1, max(1, int(pieces * tokens / len(gaps)))).astype(int))
    where = np.concatenate([np.arange(gaps.offsets[k], gaps.offsets[k + 1]) for k in kept])
    sizes = np.diff(gaps.offsets)[kept]
    offsets = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
    return Gaps(gaps.gap[where], gaps.zero[where], gaps.log[where], gaps.floor[where], offsets, gaps.tick)


def _final_rounds(gaps: Gaps) -> int:
    """Rounds on the fine grid over all data: the laws are learnt already, more data need fewer."""
    return 15 if len(gaps) <= 2 * _SHAPE_TOKENS else 5


def _start_late(part: Gaps, grid: late.Grid, borders: list[float], *, per_token: bool) -> late.LateFit | None:
    """Free hazards with room to spare, from the most likely of several borders between short and long gaps."""
    best: late.LateFit | None = None
    for cut in borders:
        runs = _run_lengths(part, cut)
        guess = int(np.clip(np.quantile(runs, 0.9) if runs.size else 2, 2, _LARGEST_LATE))
        step = float(np.median(part.gap[part.gap > cut]))
        start = late.initial(part, grid, cut, step, guess + 2, per_token=per_token)
        found = late.em(part, grid, start, rounds=5 if len(borders) > 1 else 25, tolerance=0.2)
        if np.isfinite(found.loglik) and (best is None or found.loglik > best.loglik):
            best = found
    if best is not None and len(borders) > 1:
        best = late.em(part, grid, best.parameters, rounds=20, tolerance=0.2)
    return best


def _run_lengths(gaps: Gaps, cut: float) -> npt.NDArray[np.int64]:
    """Tokens between neighbouring gaps above the cut."""
    return np.diff(np.flatnonzero(gaps.gap > cut))


def _speculative_late(
    gaps: Gaps, grid: late.Grid, part: Gaps, part_grid: late.Grid, wide: late.LateFit
) -> list[Explanation]:
    """Bursts on a link with delays, and the same bursts explained by a buffer."""
    trials = wide.went + wide.stopped
    open_ = np.flatnonzero(wide.went[:-1] > np.maximum(1.0, 0.02 * trials[:-1]))
    guess = int(open_[-1]) + 2 if open_.size else 2
    base = wide.parameters

    def fit(m: int, rule: str) -> late.LateFit:
        return late.em(part, part_grid, late.at(base, m), rule=rule, rounds=8)

    choice = choose(guess, guess + 8, trials.sum(), fit, reach=3)
    rough = late.em(gaps, grid, choice.best.parameters, rule=choice.rule, rounds=_final_rounds(gaps))
    final = late.em(gaps, grid, late.polished(gaps, grid, rough.parameters), rule=choice.rule, rounds=4)
    p = final.parameters

    def refit(whole: Gaps) -> LayerFit:
        again_grid = late.make_grid(whole, p.step)
        again = late.em(whole, again_grid, late.on(p, again_grid), rule=choice.rule, rounds=_REFIT_ROUNDS)
        return _late_layer(whole, again_grid, again, choice)

    speculative = Explanation(
        SPECULATIVE, IN_ORDER_LAYER, final.loglik, _LATE, _late_layer(gaps, grid, final, choice),
        draw=lambda n, rng: draw.late(p, grid, n, rng),
        penalty=law_penalty(final.went[:-1], final.stopped[:-1], choice.rule) + oddity(final.went[:-1], final.stopped[:-1]),
        refit=refit,
    )  # fmt: skip
    return [
        speculative,
        _fixed_late(gaps, grid, final),
        *buffered.explain(gaps, final.new, p.hazards, final.went, final.stopped, final.loglik, _LATE),
    ]


def _late_layer(gaps: Gaps, grid: late.Grid, final: late.LateFit, choice: Choice[late.LateFit]) -> LayerFit:
    """The record of the filter's fit. Hazards free of each other come from the final expectations: one more M-step."""
    p = final.parameters
    one = p.hazards if choice.rule == "one" else choice.fits["one"].parameters.hazards
    if choice.rule != "one":
        trials = final.went[:-1] + final.stopped[:-1]
        one = np.append(np.full(one.size - 1, final.went[:-1].sum() / trials.sum()), 0.0)
    free = direct.updated_hazards(p.hazards, final.went, final.stopped, "free")

    def at_alpha(alpha: float) -> float:
        hazards = np.append(np.full(p.hazards.size - 1, alpha), 0.0)
        return late.evaluate(gaps, grid, replace(p, hazards=hazards), smooth=False)[0]

    def at_step(step: float) -> float:
        return late.evaluate(gaps, grid, replace(p, step=step), smooth=False)[0]

    steps = max(float(final.new.sum()), 1.0)
    return LayerFit(
        layer=IN_ORDER_LAYER, max_burst=final.max_burst, loglik_by_burst=choice.logliks,
        step_s=final.mean_step, step_se=curvature_se(at_step, p.step, p.step_sd / np.sqrt(steps)),
        step_sd=p.step_sd, jitter_s=final.jitter, jitter_se=final.jitter / float(np.sqrt(2 * steps)),
        parameters=int(_LATE) + choice.size, loglik=final.loglik, bursts=tuple(_sizes(final.new, gaps, final.max_burst)),
        extra={"per_token": float(p.per_token), "stray": p.stray, "length": len(gaps) / steps},
        **_burst_law(one, free, final.went, final.stopped, choice.fits["one"].loglik, at_alpha),
    )  # fmt: skip


def _plain_late(gaps: Gaps, grid: late.Grid, plain: late.LateFit) -> Explanation:
    p = plain.parameters

    def layer(n: int, fit: late.LateFit) -> LayerFit:
        root = float(np.sqrt(n))
        q = fit.parameters
        return _plain_layer(
            n, fit.loglik, fit.mean_step, q.step_sd / root, q.step_sd, fit.jitter, fit.jitter / root / float(np.sqrt(2))
        )

    def refit(whole: Gaps) -> LayerFit:
        again_grid = late.make_grid(whole, p.step)
        return layer(len(whole), late.em(whole, again_grid, late.on(p, again_grid), rounds=_REFIT_ROUNDS))

    return Explanation(
        AUTOREGRESSIVE, IN_ORDER_LAYER, plain.loglik, _LATE - 1, layer(len(gaps), plain),
        draw=lambda n, rng: draw.late(p, grid, n, rng), refit=refit,
    )  # fmt: skip
