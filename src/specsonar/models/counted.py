"""Events that say how many tokens they carry: bursts are read from the counts, steps from the gaps, jitter or not.

Rivals, fitted to the same counts and gaps and compared by penalised likelihood:

    steps      one event is one step; its time may grow with its tokens, and steps without a draft may have their own;
    merged     an event holds one, two or three steps (the sender lagged): as many step times, and the counts add up;
    interval   an event is sent at the first step end with N tokens or more waiting (stream interval, speculation);
    tokens     every token is a step of its own, and events wait for whole characters.

Events cut loose from steps, where the server holds text back, go to `heldback`, and so do those of engines that are
known to send single tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..stats import counted as law
from ..stats.bursts import mean_burst, mean_slope, pmf
from ..stats.result import Arrays, LayerFit
from ..stats.schedule import step_time
from . import heldback
from .counted_late import second_look
from .counted_rivals import CHARACTER, Data, Rival, fit_rivals, gather, tokens_score, with_tokens

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

LAYER = "counted"

CONTRADICTED = 20.0
"""Nats by which an event a step must lead a token a step before an engine is not believed to send single tokens."""

WHOLE_STEPS = 0.83
"""And the share of events that must hold one step even when text may be held back: .98 where whole steps are sent at
once, .84 where packets are late by a sixth of a step, and at most .82 in recordings of emoji and kanji."""


ONE_EACH = "one-each"
STEPS = "steps"
MERGED = "merged"
INTERVAL = "interval"
FIXED = "fixed"
HELD_BACK = "held-back"


@dataclass(frozen=True, slots=True)
class CountKind:
    """What the counts of events say about how steps were grouped.

    Attributes
    ----------
    name : "one-each" (all counts 1: the times carry the information), "steps", "merged", "interval", "fixed" (one
        constant count, or multiples of it: chunks, no speculation to be seen), "held-back".
    chunk : the constant count of "fixed", N of "interval", else 0.
    """

    name: str
    chunk: int = 0


def kind(streams: Sequence[Arrays], fitted: LayerFit | None = None) -> CountKind:
    """Name the grouping; `fitted` is what `fit` returned for the same streams, computed when needed and missing."""
    streams = with_tokens(streams)
    counts = gather(streams).counts
    if counts.size == 0 or counts.max() <= 1:
        return CountKind(ONE_EACH)
    extra = (fitted or fit(streams)).extra
    if extra["held_back"] > 0:
        return CountKind(HELD_BACK)
    low = int(counts.min())
    if low > 1 and counts.size >= 8 and (counts % low == 0).all() and (counts == low).mean() >= 0.75:
        return CountKind(FIXED, low)
    if extra["interval"] > 0:
        return CountKind(INTERVAL, int(extra["interval"]))
    return CountKind(MERGED if extra["merge_probability"] * counts.size >= 0.5 else STEPS)


def fit(
    streams: Sequence[Arrays],
    *,
    max_burst: int | None = None,
    rng: np.random.Generator | None = None,
    by_token: bool | None = None,
) -> LayerFit:
    """Fit the counted layer to streams that share the service.

    Parameters
    ----------
    streams : arrival times with token counts; the first event of each is the prefill's, the last may be cut.
    max_burst : largest M to consider; None for no limit.
    rng : unused, here because every layer has it.
    by_token : whether the engine sends tokens one by one, so that larger counts are held-back text, unless times and
        counts contradict it; None when unknown.

    Returns
    -------
    LayerFit
        `loglik_by_burst` goes on past the largest burst seen, with the acceptance of its last position: a flat end
        means that M is only known from below. `extra` has steps (all, the last ones included), length and
        length_se_iid (acceptance length, standard error for independent steps), merge_probability (share of events
        that hold several steps), merge_three, interval (N or 0), held_back (0 or 1), late (share of stalls and slow
        steps), piled (share behind them), and with two step times plain_s and plain_share (among events of one token).
    """
    streams = with_tokens(streams)
    if heldback.held_back(streams):
        return heldback.fit(streams, max_burst=max_burst, rng=rng)
    data = gather(streams)
    resolution = max((s.resolution for s in streams), default=0.0)
    rivals = fit_rivals(data, max_burst, resolution)
    best = max(rivals, key=lambda r: r.score)
    tokens = tokens_score(data, resolution, most=None if by_token else CHARACTER)
    if by_token:
        # a server may pass for such an engine and send whole steps all the same; equal counts do not tell
        steps = best.name == "steps" and best.score > tokens + CONTRADICTED and np.isfinite(tokens)
    else:
        steps = by_token is not None or tokens <= best.score
    if by_token or not steps:
        held = heldback.fit(streams, max_burst=max_burst, rng=rng)
        if not steps or held.extra["one_step"] < WHOLE_STEPS:
            return held
    if best.name == "merged":
        best, data = second_look(best, data, streams, resolution)
    return _report(best, data, streams, resolution)


def _report(best: Rival, data: Data, streams: Sequence[Arrays], resolution: float) -> LayerFit:
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
    # the schedule pins sums of neighbouring events: about a quarter of their separate variances is left (measured)
    time = step_time([t for t, _ in whole], [m for _, m in whole], 0.25 * float(spread @ data.times), resolution)
    bursts = _likeliest(best, data)
    length = mean_burst(best.hazards)
    gradient = mean_slope(best.hazards)
    iid = float(np.sqrt(max(float(gradient @ covariance @ gradient), 0.0)))
    tail_steps = sum(
        max(1.0, round(float(s.t[-1] - s.t[-2]) / best.gaps.step)) if k > 1 else 1.0 for s in streams if s.t.size > 1
    )
    extra = {
        "steps": float(each.sum()) + tail_steps,
        "length": length,
        "length_se_iid": float(np.hypot(iid, best.doubt)),
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
        LAYER, best.burst, dict(sorted(best.by_burst.items())), best.hazards, hazards_se, best.alpha, alpha_se,
        best.alpha_loglik, best.sizes, bursts, time.step, time.step_se, time.step_sd, time.jitter, time.jitter_se,
        best.parameters, best.loglik, extra, gaps_below=_gaps_below(best, data),
    )  # fmt: skip


def _gaps_below(best: Rival, data: Data) -> Callable[[FloatArray], FloatArray]:
    """Distribution of the gaps of events with these counts."""
    sizes, which = np.unique(data.cell_counts, return_inverse=True)
    weight = [np.bincount(which, row * data.times, sizes.size) for row in best.fit.steps]
    pairs = [
        (int(n), order, float(part))
        for order, share in enumerate(weight, 1)
        for n, part in zip(sizes, share, strict=True)
        if part > 0
    ]
    total = max(float(data.times.sum()), 1.0)

    def below(gaps: FloatArray) -> FloatArray:
        parts = [share * best.gaps.below(gaps, n, order) for n, order, share in pairs]
        return np.asarray(sum(parts, np.zeros(gaps.shape)) / total, np.float64)

    return below


def _informations(best: Rival, data: Data, shares: bool) -> tuple[FloatArray, float]:
    """Observed information of the free hazards, shape (M-1, M-1), and of the one alpha."""
    if best.name == "steps":
        went = (data.last[:, None] > np.arange(1, best.burst)).sum(0)
        at_risk = np.cumsum(best.sizes[::-1])[::-1][:-1] + went
        a = np.clip(best.hazards, 0.5 / (at_risk + 1.0), 1.0 - 0.5 / (at_risk + 1.0))
        return np.diag(at_risk / (a * (1.0 - a))), float(
            at_risk.sum() / (best.alpha * (1.0 - best.alpha))
        ) if 0 < best.alpha < 1 else 0.0
    matrix = law.information(best.events, best.build, best.fit, law.free(best.burst), shares=shares)
    if not 0 < best.alpha < 1:
        return matrix, 0.0
    groups = law.common(best.burst)
    one = law.maximise(best.events, best.build, np.full(best.burst - 1, best.alpha), best.fit.weights, groups)
    return matrix, float(law.information(best.events, best.build, one, groups, shares=shares)[0, 0])


def _likeliest(best: Rival, data: Data) -> tuple[IntArray, ...]:
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
