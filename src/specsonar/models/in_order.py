"""The in-order layer: explanations of the gaps by steps and bursts on a link that keeps the order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from ..fingerprint import AUTOREGRESSIVE, BUFFERED, FIXED_CHUNKS, IN_ORDER_LAYER, SPECULATIVE
from ..stats import renewal
from ..stats.bursts import law_penalty, oddity
from ..stats.gaps import Gaps, pauses, prepare
from ..stats.result import Arrays, LayerFit
from . import buffered, direct, draw, in_order_late
from .choose import Choice, choose
from .explanation import Explanation
from .layers import PLAIN_PARAMETERS, REFIT_ROUNDS, burst_law, complete_bursts, part_of, plain_layer, two_times

FloatArray = npt.NDArray[np.float64]

_RUNS: Final = 16.0
"""Free parameters of the gap laws of bursts; the burst law comes on top."""

_RIVAL_TOKENS: Final = 24_000
"""Explanations are compared on about this many tokens, which decide everything; the winner is refitted to all."""


def explain(streams: Sequence[Arrays], *, beat: float = -np.inf) -> list[Explanation]:
    """Every explanation of the in-order layer, fitted; not sorted.

    Parameters
    ----------
    beat : log-likelihood that another layer reached; where a rough fit stays far below it, no finer one is made.
    """
    gaps = prepare(streams)
    part = part_of(gaps, _RIVAL_TOKENS)
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
    found += _irregular(gaps)
    runs = direct.fit_runs(gaps)
    if runs is None:
        return found
    choice = _choose_direct(gaps, runs)
    found.append(_speculative_direct(gaps, choice))
    found.append(_fixed(gaps, choice))
    if _lateness_matters(gaps, choice.best):
        found += in_order_late.explain(gaps, beat)
    # a buffer competes with the best account of the gaps, whichever filter that came from
    if choice.best.loglik >= max(e.loglik for e in found) or all(e.model != BUFFERED for e in found):
        found += buffered.explain(gaps, runs.new, runs.hazards, runs.went, runs.stopped, runs.loglik, _RUNS)
    return found


def explain_plain(streams: Sequence[Arrays]) -> list[Explanation]:
    """Plain decoding alone, where it is known that every event is a step of one token."""
    gaps = prepare(streams)
    return [_plain_direct(gaps, direct.fit_plain(gaps, known=True))]


def _choose_direct(gaps: Gaps, runs: direct.DirectFit) -> Choice[direct.DirectFit]:
    seen = np.flatnonzero(runs.went[:-1] > 0.5)
    longest = int(seen[-1]) + 2 if seen.size else 2
    return choose(longest, runs.max_burst + 1, runs.new.sum(), lambda m, rule: direct.at(gaps, runs, m, rule))


def _plain_direct(gaps: Gaps, plain: direct.DirectFit) -> Explanation:
    def refit(whole: Gaps) -> LayerFit:
        again = direct.em(whole, plain.hazards, plain.inside, plain.between, rounds=REFIT_ROUNDS)
        return plain_layer(len(whole), again.loglik, *_step_moments(whole, again.new))

    return Explanation(
        AUTOREGRESSIVE, IN_ORDER_LAYER, plain.loglik, PLAIN_PARAMETERS,
        plain_layer(len(gaps), plain.loglik, *_step_moments(gaps, plain.new)),
        draw=lambda n, rng: draw.direct(plain.hazards, plain.inside, plain.between, n, rng), refit=refit,
    )  # fmt: skip


def _irregular(gaps: Gaps) -> list[Explanation]:
    """Plain decoding with very irregular steps: independent gaps of one law with one hump.

    The shorter half of such gaps passes for bursts, so a law that has them all in one must be among the rivals. It
    pays for as many parameters as plain decoding, of which it is a variant.
    """
    best = max(renewal.fit(gaps), key=lambda law: law.loglik, default=None)
    if best is None:
        return []

    def times(n: int, rng: np.random.Generator) -> FloatArray:
        return np.concatenate(([0.0], np.cumsum(best.sample(n, rng))))

    def layer(part: Gaps) -> LayerFit:
        return plain_layer(len(part), best.loglik, *_step_moments(part, np.ones(len(part))))

    return [
        Explanation(AUTOREGRESSIVE, IN_ORDER_LAYER, best.loglik, PLAIN_PARAMETERS, layer(gaps), draw=times, refit=layer)
    ]


def _speculative_direct(gaps: Gaps, choice: Choice[direct.DirectFit]) -> Explanation:
    best = choice.best

    def refit(whole: Gaps) -> LayerFit:
        def again(rule: str) -> direct.DirectFit:
            at = choice.fits[rule]
            return direct.em(whole, at.hazards, at.inside, at.between, rule=rule, rounds=REFIT_ROUNDS)

        return _direct_layer(whole, replace(choice, fits={rule: again(rule) for rule in choice.fits}))

    return Explanation(
        SPECULATIVE, IN_ORDER_LAYER, best.loglik, _RUNS, _direct_layer(gaps, choice),
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
        parameters=int(_RUNS) + choice.size, loglik=best.loglik,
        bursts=tuple(complete_bursts(best.new, gaps, best.max_burst)), begins=best.new,
        extra={"length": len(gaps) / max(float(best.new.sum()), 1.0)} | two_times(gaps, best.new),
        **burst_law(one.hazards, free.hazards, free.went, free.stopped, one.loglik, at_alpha),
    )  # fmt: skip


def _fixed(gaps: Gaps, choice: Choice[direct.DirectFit]) -> Explanation:
    """Constant bursts: the most frequent size of the free fit."""
    free = choice.fits["free"]
    chunk = max(2, int(np.argmax(free.stopped)) + 1)
    fixed = direct.fixed(gaps, free, chunk)
    return Explanation(FIXED_CHUNKS, IN_ORDER_LAYER, fixed.loglik, _RUNS, None, {"chunk": float(chunk)})


def _step_moments(gaps: Gaps, new: FloatArray) -> tuple[float, float, float, float, float]:
    """Mean step, its standard error, the spread of single steps, and the jitter with its standard error, seconds.

    From one step's first token to the next one's. Pauses beyond eight times the 90th percentile are no steps, unless
    the steps that they held back come in a pile behind them: then the time is theirs.
    Delays are independent, so neighbouring gaps have covariance - jitter^2 (each delay enters two gaps); the variance
    of the mean is taken from the autocovariances up to lag 2 n^(1/3) (Newey and West 1987).
    """
    nothing = float("nan")
    parts = []
    for begin, end in zip(gaps.offsets[:-1], gaps.offsets[1:], strict=True):
        starts = np.cumsum(gaps.gap[begin:end])[new[begin:end] > 0.5]
        parts.append(np.diff(starts, prepend=0.0))
    step = np.concatenate(parts)
    if step.size < 2:
        return (nothing,) * 5
    step = step[~pauses(step)]
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


def _lateness_matters(gaps: Gaps, best: direct.DirectFit) -> bool:
    """Whether delays of the link show: neighbouring step gaps that trade time, outsized bursts, or hardly any burst.

    Or a part of the steps as short as the gaps inside bursts: it cuts long bursts into short ones, as no decoder does.
    """
    starts = np.flatnonzero(best.new > 0.5)
    if starts.size < 10:
        return True
    step = gaps.log[starts]
    step = np.clip(step, *np.quantile(step, [0.02, 0.98]))
    a, b = step[:-1] - step.mean(), step[1:] - step.mean()
    spread = float(step.var())
    trade = float((a * b).mean()) / spread if spread > 1e-12 else 0.0
    sizes = np.concatenate(complete_bursts(best.new, gaps, best.max_burst)) if len(gaps) else np.empty(0)
    outsized = sizes.size > 0 and (sizes >= sizes.max()).sum() <= 2
    rare = sizes.size > 0 and (sizes > 1).mean() < 0.1
    inner = gaps.gap[best.new < 0.5]
    law = best.between
    short = float(law.weight[law.mean < np.log(direct.SHORTEST_STEP) + law.mean.max()].sum()) > 0.02
    blurred = inner.size > 0 and float(np.mean(inner > 0.02 * np.exp(step.mean()))) > 0.15
    return trade < -0.1 or bool(outsized) or bool(rare) or short or blurred
