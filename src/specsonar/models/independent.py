"""Independent delays: every token crosses on its own and overtakes others, so that only the comb of step times is left.

Steps at T_r send B_r tokens each; a token arrives at T_r + D, where D has mean 0 and spread sigma, and is normal or, on
an exact clock, skewed (`stats.delays`), whichever is likelier; the arrivals are seen sorted. The clock is exact
(T_r = T_0 + r step; `stats.comb`) or drifts (T_r = T_{r-1} + S_r; `stats.track`), whichever is likelier.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ..stats import period
from ..stats.combfit import Comb, Problem
from ..stats.result import Arrays, LayerFit
from . import comb_delays, drifting
from .comb_laws import Drift, Laws, choose, record
from .comb_periods import SURE, choose_at, compare, likely_burst
from .comb_search import evidence, search

FloatArray = npt.NDArray[np.float64]
FLOOR = 20e-6  # smallest delay spread, seconds
LARGEST = 64  # largest burst that is tried
RIDGE = 3.0  # nats below which the period is a guess, and the rest is not worth an exact climb
LEAD = 3.0  # nats by which a drifting clock must beat an exact one
PIECE = 40  # tokens over which a drifting clock is taken for exact while its period is looked for
BLURRED = 0.25  # sigma / step beyond which a drifting clock is not tracked
LONG = 20  # nor one with bursts this long
STALL = 3.0  # a gap so many times the 97% quantile of all gaps is a pause
TEST = 2500  # tokens on which drift is tested


def _times(streams: Sequence[Arrays]) -> list[FloatArray]:
    return [s.t[1:] - s.t[0] for s in streams if len(s.t) >= 8 and s.t[-1] > s.t[1]]


def _floor(streams: Sequence[Arrays]) -> float:
    return max(FLOOR, *(float(s.resolution / np.sqrt(12.0)) for s in streams))


def comb_evidence(streams: Sequence[Arrays]) -> float:
    """How clearly an exact comb shows, in nats: -log of the chance that noise gives a periodogram peak as high
    (`comb_search.evidence`)."""
    times = _times(streams)
    if not times:
        return -np.inf
    rate = period.token_rate(times)
    return evidence(period.periodogram(times, rate / 24, 1.1 * rate)[1], len(times))


def plausible(streams: Sequence[Arrays]) -> bool:
    """Whether this layer deserves a fit: False when most tokens follow at once on the one before and no exact clock
    shows.

    Independent delays of spread sigma put gaps at density about rate/sigma near zero: many gaps below 2% of the mean
    gap need a sigma so small that, on an exact clock, the periodogram stands out; otherwise the tokens kept their
    order.
    """
    times = _times(streams)
    if not times:
        return False
    gaps = np.concatenate([np.diff(t) for t in times])
    if float(gaps.max()) > STALL * float(np.quantile(gaps, 0.97)):
        return False  # a pause, which no delay of this layer explains
    tiny = max(0.02 * float(gaps.mean()), 1.5 * max(s.resolution for s in streams))
    if float((gaps <= tiny).mean()) < 0.3:
        return True
    tokens = sum(len(t) for t in times)
    rate = period.token_rate(times)
    power = period.periodogram(times, rate / 24, 1.1 * rate)[1]
    return bool(power.max(initial=0.0) > 0.5 * tokens)


def fit(streams: Sequence[Arrays], *, max_burst: int | None = None, rng: np.random.Generator | None = None) -> LayerFit:
    """Fit the comb with independent delays to streams that share everything but the phase.

    The first event of every stream (prefill) is dropped; the first burst may lack one token; the last is censored.
    Log-likelihoods are densities of all sorted times after the first event, in nats (times in seconds); the delay
    spread is floored at 20 us or the clock's resolution / sqrt(12), so that ties and exact clocks have a finite
    density. An M so small that no state is left has -inf.

    `extra`: acceptance_length and acceptance_length_se, the same with suffix _alpha under one alpha; period_margin,
    nats by which the period leads the best other that is no harmonic of it (a few nats: the step is one of several);
    burst_share, probability of the M over these periods; step_spread, theirs around the best, seconds; needed_tokens
    for the comb to stand out at this sigma / step; comb_evidence; drift_lead, nats of the drifting clock over the exact
    one (nan: not tried). On a drifting clock `bursts` is empty: its sweep runs forward only.

    Raises
    ------
    ValueError : no stream has eight events.
    """
    del rng  # nothing here is random
    times = _times(streams)
    if not times:
        raise ValueError("independent layer: no stream has eight events")
    floor = _floor(streams)
    largest = LARGEST if max_burst is None else max(1, max_burst)
    found = search(times, floor, largest)
    periods = compare(times, floor, largest, found)
    lead = periods.lead
    drift = _drift(times, floor, largest, found, lead)
    exact = _exact(times, floor, largest, periods.best, rough=lead < RIDGE)
    extra = {"comb_evidence": comb_evidence(streams), "period_margin": lead, "drift_lead": float("nan")}
    if drift is not None:
        extra["drift_lead"] = drift.free_ll[drift.max_burst] - exact.free_ll[exact.max_burst]
        if extra["drift_lead"] > LEAD:
            return _drift_record(times, floor, drift, {**extra, "period_margin": extra["drift_lead"] + lead})
    return periods.widened(_exact_record(Problem(times, floor), exact, extra))


def _exact(times: Sequence[FloatArray], floor: float, largest: int, start: Comb, *, rough: bool) -> Laws[Comb]:
    if not rough:
        start = comb_delays.likeliest(times, floor, start)
    return choose_at(Problem(times, floor, rough=rough), start, largest)


def _drift(
    times: Sequence[FloatArray], floor: float, largest: int, found: Sequence[tuple[float, Comb]], lead: float
) -> Laws[Drift] | None:
    """Fits on a drifting clock, or None when a little step noise does not make the data likelier."""
    part = drifting.pieces(times, TEST)[:1]
    best = found[0][1]
    hazards = np.clip(best.hazards, 0.02, 0.98)
    still = drifting.evaluate(part, Drift(hazards, best.sigma, best.step, 1e-4 * best.step))[0]
    moving = max(
        drifting.evaluate(part, Drift(hazards, best.sigma * (1 - 3 * share), best.step, share * best.step))[0]
        for share in (0.005, 0.02, 0.06)
    )
    if moving < still + LEAD and lead > SURE:
        return None
    pieces = drifting.pieces(times, PIECE)
    combs = [*search(pieces, floor, largest)[:4], found[0]]
    start = drifting.start(times, combs)
    if start.loglik < found[0][0] or start.sigma > BLURRED * start.step or len(start.hazards) >= LONG:
        return None
    whole = drifting.evaluate(times, start)[1]
    return choose(drifting.Tracked(times, floor), start, likely_burst(whole), largest, float(whole.sum()))


def _exact_record(problem: Problem, laws: Laws[Comb], extra: dict[str, float]) -> LayerFit:
    m = laws.max_burst
    alike, at = laws.one[m], laws.free[m]
    problem.build(alike)
    one_cov = problem.covariance(alike, common=True)
    problem.build(at)
    free_cov = problem.covariance(at, common=False)
    counts = np.zeros(m + 1)
    bursts = []
    for _, _, size, _ends in problem.sweep(at):
        counts += size.sum(0)
        rows = size[size[:, 1:].sum(1) > 0.5]
        bursts.append(rows[:, 1:].argmax(1).astype(np.int64) + 1)
    extra = {**extra, "needed_tokens": period.needed_tokens(at.sigma / at.step)}
    return record(laws, free_cov, one_cov, counts, tuple(bursts), 2 + at.law.skewed + len(problem.times), extra)


def _drift_record(times: Sequence[FloatArray], floor: float, laws: Laws[Drift], extra: dict[str, float]) -> LayerFit:
    m = laws.max_burst
    at = laws.free[m]
    free_cov = drifting.errors(times, at, floor, common=False)
    one_cov = drifting.errors(times, laws.one[m], floor, common=True)
    extra = {**extra, "needed_tokens": period.needed_tokens(at.sigma / at.step)}
    empty = tuple(np.empty(0, np.int64) for _ in times)
    return record(laws, free_cov, one_cov, drifting.evaluate(times, at)[1], empty, 3, extra)
