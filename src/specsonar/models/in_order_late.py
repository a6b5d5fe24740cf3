"""The in-order layer with delays on the link: the lateness filter's explanations of the gaps."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from ..fingerprint import AUTOREGRESSIVE, FIXED_CHUNKS, IN_ORDER_LAYER, SPECULATIVE
from ..stats.bursts import law_penalty, oddity
from ..stats.gaps import Gaps, cuts
from ..stats.result import LayerFit
from . import buffered, direct, draw, late
from .choose import Choice, choose
from .explanation import Explanation
from .layers import REFIT_ROUNDS, burst_law, complete_bursts, curvature_se, part_of, plain_layer, run_lengths, two_times

_PARAMETERS: Final = 14.0
"""Free parameters of the filter's laws; the burst law comes on top."""

_LARGEST: Final = 24
"""The filter's cost grows with M; larger bursts than this are left to the run-length model."""

_SHAPE_TOKENS: Final = 6000
"""The filter's laws are learnt from about this many tokens."""

_HOPELESS: Final = 50.0
"""Nats that a rough fit may stay behind another explanation and still catch up; three times that after few rounds."""

_CONSTANT: Final = 0.8
"""Share of the steps that must have one size before constant bursts are worth a fit."""


def explain(gaps: Gaps, beat: float) -> list[Explanation]:
    """The lateness filter with one delay a step, with one delay a token where bursts are blurred, and M = 1."""
    borders = cuts(gaps)
    step = float(np.median(gaps.gap[gaps.gap > borders[0]]))
    grid = late.make_grid(gaps, step)
    part = part_of(gaps, _SHAPE_TOKENS)
    part_grid = late.make_grid(part, step, late.COARSE)
    blurred = float(np.mean((part.gap > 0.02 * step) & (part.gap < 0.5 * step))) > 0.1
    found: list[Explanation] = []
    beat = beat if part is gaps else -np.inf
    lengths = run_lengths(part, borders[0])
    if lengths.size and np.median(lengths) > _LARGEST:
        return found
    starts = [
        _start_late(part, part_grid, borders if blurred else borders[:1], beat, per_token=per_token)
        for per_token in ((False, True) if blurred else (False,))
    ]
    wide = max((w for w in starts if w is not None), key=lambda w: w.loglik, default=None)
    if wide is not None and wide.loglik < beat - _HOPELESS:
        return found
    if wide is not None:
        found += _speculative_late(gaps, grid, part, part_grid, wide)
    starts_plain = [late.initial(part, part_grid, borders[0], step, 1, per_token=False)]
    if wide is not None:
        starts_plain.append(late.at(wide.parameters, 1))
    plain = max((late.em(part, part_grid, p, rounds=6) for p in starts_plain), key=lambda fit: fit.loglik)
    if np.isfinite(plain.loglik) and (wide is None or plain.loglik > wide.loglik - 3 * _HOPELESS):
        plain = late.em(part, part_grid, plain.parameters, rounds=20, tolerance=0.2)
        plain = late.em(gaps, grid, late.on(plain.parameters, grid), rounds=_final_rounds(gaps))
        found.append(_plain_late(gaps, grid, plain))
    return found


def _start_late(
    part: Gaps, grid: late.Grid, borders: list[float], beat: float, *, per_token: bool
) -> late.LateFit | None:
    """Free hazards with room to spare, from the most likely of several borders between short and long gaps."""
    best: late.LateFit | None = None
    for cut in borders:
        runs = run_lengths(part, cut)
        guess = int(np.clip(np.quantile(runs, 0.9) if runs.size else 2, 2, _LARGEST))
        step = float(np.median(part.gap[part.gap > cut]))
        start = late.initial(part, grid, cut, step, guess + 2, per_token=per_token)
        found = late.em(part, grid, start, rounds=5 if len(borders) > 1 else 25, tolerance=0.2)
        if np.isfinite(found.loglik) and (best is None or found.loglik > best.loglik):
            best = found
    if best is not None and len(borders) > 1 and best.loglik > beat - 3 * _HOPELESS:
        best = late.em(part, grid, best.parameters, rounds=20, tolerance=0.2)
    return best


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
    rough = late.em(gaps, grid, late.on(choice.best.parameters, grid), rule=choice.rule, rounds=_final_rounds(gaps))
    final = late.em(gaps, grid, late.polished(gaps, grid, rough.parameters), rule=choice.rule, rounds=4)
    p = final.parameters
    went, stopped = final.went[:-1], final.stopped[:-1]

    def refit(whole: Gaps) -> LayerFit:
        again_grid = late.make_grid(whole, p.step)
        again = late.em(whole, again_grid, late.on(p, again_grid), rule=choice.rule, rounds=REFIT_ROUNDS)
        return _late_layer(whole, again_grid, again, choice)

    speculative = Explanation(
        SPECULATIVE, IN_ORDER_LAYER, final.loglik, _PARAMETERS, _late_layer(gaps, grid, final, choice),
        draw=lambda n, rng: draw.late(p, grid, n, rng),
        penalty=law_penalty(went, stopped, choice.rule) + oddity(went, stopped),
        refit=refit,
    )  # fmt: skip
    constant = final.stopped.max() > _CONSTANT * final.stopped.sum()
    return [
        speculative,
        *([_fixed_late(gaps, grid, final)] if constant else []),
        *buffered.explain(gaps, final.new, p.hazards, final.went, final.stopped, final.loglik, _PARAMETERS),
    ]


def _fixed_late(gaps: Gaps, grid: late.Grid, bursts: late.LateFit) -> Explanation:
    """Constant bursts of the most frequent size, on a link with delays."""
    chunk = max(2, int(np.argmax(bursts.stopped)) + 1)
    hazards = np.append(np.full(chunk - 1, 1.0 - direct.SLIP), 0.0)
    fixed = late.em(gaps, grid, replace(bursts.parameters, hazards=hazards), rule="fixed", rounds=6)
    return Explanation(FIXED_CHUNKS, IN_ORDER_LAYER, fixed.loglik, _PARAMETERS, None, {"chunk": float(chunk)})


def _late_layer(gaps: Gaps, grid: late.Grid, final: late.LateFit, choice: Choice[late.LateFit]) -> LayerFit:
    """The record of the filter's fit. Hazards free of each other come from the final expectations: one more M-step."""
    p = final.parameters
    one = p.hazards if choice.rule == "one" else direct.updated_hazards(p.hazards, final.went, final.stopped, "one")
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
        parameters=int(_PARAMETERS) + choice.size, loglik=final.loglik,
        bursts=tuple(complete_bursts(final.new, gaps, final.max_burst)), begins=final.new,
        extra={"per_token": float(p.per_token), "stray": p.stray, "length": len(gaps) / steps}
        | two_times(gaps, final.new),
        **burst_law(one, free, final.went, final.stopped, choice.fits["one"].loglik, at_alpha),
    )  # fmt: skip


def _plain_late(gaps: Gaps, grid: late.Grid, plain: late.LateFit) -> Explanation:
    p = plain.parameters

    def layer(n: int, fit: late.LateFit) -> LayerFit:
        root = float(np.sqrt(n))
        q = fit.parameters
        return plain_layer(
            n, fit.loglik, fit.mean_step, q.step_sd / root, q.step_sd, fit.jitter, fit.jitter / root / float(np.sqrt(2))
        )

    def refit(whole: Gaps) -> LayerFit:
        again_grid = late.make_grid(whole, p.step)
        return layer(len(whole), late.em(whole, again_grid, late.on(p, again_grid), rounds=REFIT_ROUNDS))

    return Explanation(
        AUTOREGRESSIVE, IN_ORDER_LAYER, plain.loglik, _PARAMETERS - 1, layer(len(gaps), plain),
        draw=lambda n, rng: draw.late(p, grid, n, rng), refit=refit,
    )  # fmt: skip


def _final_rounds(gaps: Gaps) -> int:
    """Rounds on the fine grid over all data: the laws are learnt already, more data need fewer."""
    return 15 if len(gaps) <= 2 * _SHAPE_TOKENS else 5
