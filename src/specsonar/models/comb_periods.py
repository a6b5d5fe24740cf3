"""Which period, where several are nearly as likely: their scores, and what is the same under all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..stats.bursts import mean_burst
from ..stats.combfit import Comb, FloatArray, Problem
from ..stats.result import LayerFit
from .comb_laws import Laws, choose
from .comb_search import CLIMBS, margin, turns

SURE = 12.0
"""Nats by which an exact comb must lead its rivals to need no closer look."""


@dataclass(frozen=True, slots=True)
class Periods:
    """The likeliest period, and the others.

    Attributes
    ----------
    best : the comb on it.
    lead : nats by which it leads the best other period that is no harmonic of it.
    share : probability of its M, over all periods.
    step, alpha, length : spread over the periods of step (seconds), alpha and acceptance length, around `best`.
    """

    best: Comb
    lead: float
    share: float = 1.0
    step: float = 0.0
    alpha: float = 0.0
    length: float = 0.0

    def widened(self, fit: LayerFit) -> LayerFit:
        """`fit` with standard errors that hold the other periods too."""
        extra = {**fit.extra, "burst_share": self.share, "step_spread": self.step}
        for name in ("acceptance_length_se", "acceptance_length_alpha_se"):
            if name in extra:
                extra[name] = float(np.hypot(extra[name], self.length))
        return replace(
            fit, extra=extra, step_se=float(np.hypot(fit.step_se, self.step)),
            alpha_se=float(np.hypot(fit.alpha_se, self.alpha)), hazards_se=np.hypot(fit.hazards_se, self.alpha),
        )  # fmt: skip


def compare(times: Sequence[FloatArray], floor: float, largest: int, found: Sequence[tuple[float, Comb]]) -> Periods:
    """The periods of `comb_search.search`, best first, by their scores under the burst law that suits each.

    A wrong period needs a strange law to get near the right one, and pays for it here. Where none leads clearly, most
    may still have the same M.
    """
    if not np.isfinite(found[0][0]):
        return Periods(found[0][1], 0.0)  # no comb gives such times at all, and the choice of explanations will say so
    lead = margin(found, times)
    if lead >= SURE:
        return Periods(found[0][1], lead)
    scored: list[tuple[float, Laws[Comb]]] = []
    for value, at in found[:CLIMBS]:
        if value > found[0][0] - SURE:
            laws = choose_at(Problem(times, floor, rough=True), at, largest)
            scored.append((laws.score(laws.max_burst), laws))
    scored.sort(key=lambda x: -x[0])
    top, best = scored[0]
    apart: list[Laws[Comb]] = []
    for _, laws in scored:
        if all(turns(_comb(laws).step, _comb(other).step, times) > 0.75 for other in apart):
            apart.append(laws)
    weight = np.exp([laws.score(laws.max_burst) - top for laws in apart])
    weight /= weight.sum()
    share = sum(w * _share(laws, best.max_burst) for w, laws in zip(weight, apart, strict=True))

    def spread(values: list[float]) -> float:
        return float(np.sqrt(weight @ (np.array(values) - values[0]) ** 2))

    lead = margin([(value, _comb(laws)) for value, laws in scored], times)
    alike = [_alpha(laws) for laws in apart]
    lengths = [mean_burst(_comb(laws).hazards) for laws in apart]
    return Periods(
        _comb(best), min(lead, SURE), float(share), spread([_comb(laws).step for laws in apart]), spread(alike),
        spread(lengths),
    )  # fmt: skip


def choose_at(problem: Problem, start: Comb, largest: int) -> Laws[Comb]:
    """`comb_laws.choose` from a comb with room for every burst."""
    wide = Problem(problem.times, problem.floor, rough=True)
    wide.build(start)
    counts = np.zeros(len(start.hazards) + 2)
    for _, _, size, ends in wide.sweep(start):
        counts += size.sum(0) + ends[0]
    return choose(problem, start, likely_burst(counts), largest, float(counts.sum()))


def likely_burst(counts: FloatArray) -> int:
    """A first M: the largest size that is expected at least half a time."""
    return int(np.flatnonzero(counts[1:] > 0.5).max(initial=0)) + 1


def _comb(laws: Laws[Comb]) -> Comb:
    return laws.free[laws.max_burst]


def _alpha(laws: Laws[Comb]) -> float:
    hazards = laws.one[laws.max_burst].hazards
    return float(hazards[0]) if len(hazards) else 0.0


def _share(laws: Laws[Comb], max_burst: int) -> float:
    """Probability of an M on one period."""
    scores = {m: laws.score(m) for m in laws.free}
    top = max(scores.values())
    weights = {m: float(np.exp(x - top)) for m, x in scores.items()}
    return weights.get(max_burst, 0.0) / sum(weights.values())
