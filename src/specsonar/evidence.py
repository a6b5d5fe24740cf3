"""What the answer rests on, to be looked at: arrivals with their steps, folded times, the rivals, likelihood over M."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from .fingerprint import COUNTED_LAYER, INDEPENDENT_LAYER, Alternative
from .models.explanation import Explanation, weights
from .pictures import Arrivals, Histogram, Profile
from .stats import period
from .stats.result import Arrays, LayerFit

FloatArray = npt.NDArray[np.float64]

_STREAMS: Final = 8
"""Streams whose beginnings are kept."""

_TOKENS: Final = 1200
"""Tokens kept of all of them together."""

_PHASES: Final = 40
"""Bars over one step."""

_GAPS: Final = 24
"""Bars of gaps, besides the one that begins at zero."""

_SIMULATED: Final = 40_000
"""Tokens of the simulation that tells what a fit expects of the gaps: enough for half a percent of the largest bar."""

_BOUNDED: Final = 1e4
"""Odds beyond these are not spelled out."""


def rivals(found: Sequence[Explanation], observations: int) -> tuple[Alternative, ...]:
    """Every model that was tried, in its best layer, best first, with its share of the evidence."""
    shares = weights(list(found), observations)
    best = {model: max((e for e in found if e.model == model), key=lambda e: e.score(observations)) for model in shares}
    ranked = sorted(best.values(), key=lambda e: -e.score(observations))
    return tuple(_rival(e, ranked, shares[e.model], observations) for e in ranked)


def _rival(e: Explanation, ranked: Sequence[Explanation], share: float, observations: int) -> Alternative:
    top = ranked[0]
    if top.layer == COUNTED_LAYER:
        # the counts decide; the scores of the losers are formal
        reason = "what the token counts show" if e is top else "ruled out by the token counts"
        return Alternative(e.model, share, 0.0 if e is top else None, e.layer, reason)
    behind = top.score(observations) - e.score(observations)
    if e is top:
        lead = behind if len(ranked) < 2 else top.score(observations) - ranked[1].score(observations)
        reason = f"the likeliest, by {lead:.1f} nats" if len(ranked) > 1 else "the only one that could be fitted"
        return Alternative(e.model, share, 0.0, e.layer, reason)
    odds = f"{np.exp(behind):,.1f}" if behind < np.log(_BOUNDED) else "more than 10,000"
    reason = f"{behind:.1f} nats behind: the times are {odds} times less likely"
    price = (e.parameters - top.parameters) * 0.5 * np.log(max(observations, 2)) + e.penalty - top.penalty
    if behind > 0 and price > 0.5 * behind:
        reason += f", {min(price, behind):.1f} nats of it for its larger freedom"
    return Alternative(e.model, share, behind, e.layer, reason)


def profile(fit: LayerFit | None) -> Profile | None:
    """Log-likelihood over M, with the penalty of the layer; None where only one was tried."""
    if fit is None:
        return None
    known = {m: x for m, x in sorted(fit.loglik_by_burst.items()) if np.isfinite(x)}
    if len(known) < 2:
        return None
    top = max(known.values())
    return Profile(tuple(known), tuple(float(x - top) for x in known.values()))


def gaps(best: Explanation | None, arrays: Sequence[Arrays]) -> Histogram | None:
    """Gaps in milliseconds on logarithmic edges, after a first bar from zero for ties and the shortest gaps.

    With them goes what the best explanation expects, from its law or from a simulation of it. A buffer or a pacer has
    neither.
    """
    gap = np.concatenate([np.diff(a.t) for a in arrays]) * 1e3 if arrays else np.empty(0)
    positive = gap[gap > 1e-4]
    if positive.size == 0:
        return None
    high = float(positive.max()) * 1.001
    low = min(max(float(positive.min()), high * 1e-5) * 0.999, high / 1.01)
    edges = np.concatenate(([0.0], np.geomspace(low, high, _GAPS)))
    counts, _ = np.histogram(gap, edges)
    law = _expected(best, edges * 1e-3)
    fitted = None if law is None else tuple((law * gap.size).tolist())
    return Histogram(tuple(edges.tolist()), tuple(counts.astype(np.float64).tolist()), fitted)


def _expected(best: Explanation | None, edges: FloatArray) -> FloatArray | None:
    """Share of the gaps in each bar."""
    if best is None:
        return None
    if best.fit is not None and best.fit.gaps_below is not None:
        return np.diff(best.fit.gaps_below(edges))
    if best.draw is None:
        return None
    made = np.diff(best.draw(_SIMULATED, np.random.default_rng(0)))
    counts, _ = np.histogram(made, edges)
    return np.asarray(counts / made.size, np.float64)


def phases(fit: LayerFit | None, arrays: Sequence[Arrays]) -> Histogram | None:
    """Events folded at the step, each stream around its own tooth, in milliseconds; None without a step."""
    if fit is None or not np.isfinite(fit.step_s) or fit.step_s <= 0:
        return None
    step = fit.step_s
    folded = [
        np.mod(a.t[1:] - period.phase(a.t[1:], step) + 0.5 * step, step) - 0.5 * step for a in arrays if a.t.size > 2
    ]
    if not folded:
        return None
    edges = np.linspace(-0.5 * step, 0.5 * step, _PHASES + 1)
    counts, _ = np.histogram(np.concatenate(folded), edges)
    fitted = None
    if fit.layer == INDEPENDENT_LAYER and _keeps_time(fit):
        fitted = tuple((_wrapped(edges, fit, step) * counts.sum()).tolist())
    return Histogram(tuple((edges * 1e3).tolist()), tuple(counts.astype(np.float64).tolist()), fitted)


def _keeps_time(fit: LayerFit) -> bool:
    return fit.step_sd <= 0


def _wrapped(edges: FloatArray, fit: LayerFit, step: float) -> FloatArray:
    """Probability of each bar under the delay's law folded at the step, around its mean direction as the events are."""
    u = np.linspace(-6.0, 30.0, 7_201)
    mass = fit.delay_law.density(u)
    delay = max(fit.jitter_s, 1e-9) * u
    middle = float(np.angle((mass * np.exp(2j * np.pi * delay / step)).sum())) * step / (2 * np.pi)
    folded = np.mod(delay - middle + 0.5 * step, step) - 0.5 * step
    return np.asarray(np.histogram(folded, edges, weights=mass / mass.sum())[0], np.float64)


def arrivals(fit: LayerFit | None, arrays: Sequence[Arrays]) -> tuple[Arrivals, ...]:
    """The beginnings of the first few streams, with the steps that the fit sees in them."""
    most = max(_TOKENS // max(min(len(arrays), _STREAMS), 1), 1)
    begins = _begins(fit, arrays)
    shown = []
    for k, a in enumerate(arrays[:_STREAMS]):
        kept = most if a.tokens is None else max(int(np.searchsorted(np.cumsum(a.tokens), most, "right")), 1)
        t = a.t[:kept]
        steps = places = None
        if begins is not None:
            new = begins[k][: t.size - 1]
            steps = t[1:][new]
            places = None if a.tokens is not None else _places(new)
        elif fit is not None and fit.layer == INDEPENDENT_LAYER and _keeps_time(fit) and a.t.size > 2:
            first = np.mod(period.phase(a.t[1:], fit.step_s), fit.step_s)
            steps = np.arange(first, t[-1], fit.step_s)
        shown.append(
            Arrivals(
                _ms(t),
                None if a.tokens is None else tuple(a.tokens[:kept].tolist()),
                places,
                None if steps is None else _ms(steps),
            )
        )
    return tuple(shown)


def _places(new: npt.NDArray[np.bool_]) -> tuple[int, ...]:
    """The prefill's token, then the place of each event after the last one at which a step begins.

    >>> _places(np.array([True, False, False, True]))
    (1, 1, 2, 3, 1)
    """
    at = np.arange(1, new.size + 1)
    start = np.maximum.accumulate(np.where(new, at, 0)) if new.size else at
    return (1, *(at - start + 1).tolist())


def _begins(fit: LayerFit | None, arrays: Sequence[Arrays]) -> list[npt.NDArray[np.bool_]] | None:
    """For every stream and each event after its first: does a step begin there? None where the fit does not say."""
    if fit is None:
        return None
    sizes = [a.t.size - 1 for a in arrays]
    if fit.begins is not None and fit.begins.size == sum(sizes):
        return np.split(fit.begins > 0.5, np.cumsum(sizes)[:-1])
    blurred = fit.extra.get("interval", 0.0) > 0 or fit.extra.get("held_back", 0.0) > 0
    if (fit.max_burst == 1 or fit.layer == COUNTED_LAYER) and not blurred:
        return [np.ones(size, bool) for size in sizes]
    return None


def _ms(t: FloatArray) -> tuple[float, ...]:
    return tuple(np.round(t * 1e3, 3).tolist())
