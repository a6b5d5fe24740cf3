"""Independent delays: every token crosses on its own, the steps keep an exact clock; INFERENCE of the comb."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq

from specsonar.stats import period
from specsonar.stats.bursts import mean_burst
from specsonar.stats.combfit import Comb, Problem
from specsonar.stats.result import Arrays, LayerFit

FloatArray = npt.NDArray[np.float64]
FLOOR = 20e-6  # smallest delay spread, seconds
LARGEST = 64  # largest burst that is tried
FEW, MANY = 16, 300  # periods whose likelihood is computed when a peak stands out, and when none does
CLEAR = 6.0  # a peak stands out when noise alone would reach it once in exp(CLEAR) records
PART = 2500  # tokens on which many periods are compared


def alpha_for_mean(mean: float, max_burst: int) -> float:
    """The alpha whose mean burst is `mean`, kept inside (.01, .99).

    >>> round(alpha_for_mean(2.952, 4), 3)
    0.8
    """
    if max_burst < 2 or mean <= mean_burst(np.full(max_burst - 1, 0.01)):
        return 0.01
    if mean >= mean_burst(np.full(max_burst - 1, 0.99)):
        return 0.99
    return float(brentq(lambda a: mean_burst(np.full(max_burst - 1, a)) - mean, 0.01, 0.99, xtol=1e-6))


def _times(streams: Sequence[Arrays]) -> list[FloatArray]:
    return [s.t[1:] - s.t[0] for s in streams if len(s.t) >= 8]


def _floor(streams: Sequence[Arrays]) -> float:
    return max(FLOOR, *(s.resolution / np.sqrt(12.0) for s in streams))


def _start(times: Sequence[FloatArray], step: float, spread: float, max_burst: int) -> Comb:
    mean = period.token_rate(times) * step
    hazards = np.full(max_burst - 1, alpha_for_mean(mean, max_burst))
    return Comb(hazards, spread * step, step, np.array([period.phase(t, step) for t in times]))


def search(times: Sequence[FloatArray], floor: float, largest: int) -> list[tuple[float, Comb]]:
    """Candidate combs, best first: (log-likelihood, point).

    Periodogram peaks and their harmonics, compared by the sweep: two EM steps each, the best few after a rough climb. When no peak stands
    out, many more peaks are sifted first (`_sift`).
    """
    rate = period.token_rate(times)
    tokens = sum(len(t) for t in times)
    f, power = period.periodogram(times, rate / min(largest, 24), 1.1 * rate)
    top, height = period.peaks(f, power, MANY)
    # the noise is a sum of `streams` exponentials: what its largest value among len(f) / 4 reaches once in e^CLEAR records
    s = len(times)
    u = np.log(len(f) / 4) + CLEAR
    clear = len(height) > 0 and height[0] > s + u + np.sqrt(2 * s * u)
    most = MANY if not clear else FEW if height[0] < 5 * (s + u) else FEW // 2
    tries = list(zip(top.tolist(), height.tolist(), strict=True))[:most]
    for g, h in tries[:4]:
        tries += [(x, h) for x in (g / 2, 2 * g) if f[0] <= x <= f[-1] and np.abs(top / x - 1).min() > 1e-4]
    starts = [
        _start(times, 1 / g, min(period.spread_from_power(h, s, tokens), 0.42), _roomy(rate / g, largest))
        for g, h in tries
    ]
    if not clear:
        starts = _sift(times, floor, starts)[:FEW]
    rough = Problem(times, floor, prune=1e-4, reach=8.0)
    found = []
    for at in starts:
        rough.build(at)
        got = rough.expect(at)
        for _ in range(2):
            if np.isfinite(got.loglik):
                at = rough.em(at, got, common=False)
                got = rough.expect(at)
        found.append((got.loglik, at))
    found.sort(key=lambda x: -x[0])
    for i, (value, at) in enumerate(found[:4]):
        if value > found[0][0] - 40:
            at, value = rough.climb(at, rounds=8, tol=2e-2)
            found[i] = (value, at)
    return sorted(found, key=lambda x: -x[0])


def _sift(times: Sequence[FloatArray], floor: float, starts: Sequence[Comb]) -> list[Comb]:
    """Many starts, the most likely first, judged on part of the tokens.

    Along the periods the best law of a comb that is not there changes smoothly, so that each candidate starts from its
    neighbour's hazards and spread and needs a single EM step to be compared with the others.
    """
    part = _part(times, PART)
    problem = Problem(part, floor, prune=1e-3, reach=7.0)
    judged = []
    hazards, spread = np.zeros(0), 0.0
    for at in sorted(starts, key=lambda c: c.step):
        here = replace(at, phase=at.phase[: len(part)])
        warm = 10
        if len(hazards):
            here = replace(here, sigma=spread * at.step, hazards=np.append(hazards, at.hazards)[: len(at.hazards)])
            warm = 1
        problem.build(here)
        got = problem.expect(here)
        for _ in range(warm):
            if np.isfinite(got.loglik):
                here = problem.em(here, got, common=False)
                got = problem.expect(here)
        if np.isfinite(got.loglik):
            hazards, spread = np.clip(here.hazards, 0.02, 0.98), float(np.clip(here.sigma / here.step, 0.25, 0.42))
        judged.append((got.loglik, replace(here, phase=at.phase)))
    return [at for _, at in sorted(judged, key=lambda x: -x[0])]


def _roomy(mean: float, largest: int) -> int:
    return int(np.clip(np.ceil(2 * mean) + 3, 4, largest)) if largest > 1 else 1


def _part(times: Sequence[FloatArray], most: int) -> list[FloatArray]:
    """The first streams, up to about `most` tokens of them."""
    out: list[FloatArray] = []
    for t in times:
        out.append(t[:most])
        most -= len(t)
        if most < 8:
            break
    return out


def _laws(
    problem: Problem, best: Comb, guess: int, largest: int, steps: float
) -> tuple[int, dict[int, Comb], dict[int, float], dict[int, Comb], dict[int, float]]:
    """Fit free hazards and one alpha for every M near the best; M by penalised likelihood, the smaller M on a tie."""
    free: dict[int, Comb] = {}
    free_ll: dict[int, float] = {}
    one: dict[int, Comb] = {}
    one_ll: dict[int, float] = {}
    price = 0.5 * np.log(max(steps, 2.0))

    def score(m: int) -> float:
        return max(free_ll[m] - price * (m - 1), one_ll[m] - price * min(m - 1, 1))

    def visit(m: int) -> None:
        if m in free or not 1 <= m <= largest:
            return
        h = best.hazards
        at = replace(best, hazards=np.clip(np.append(h[: m - 1], np.full(max(m - 1 - len(h), 0), 0.02)), 0.01, 0.99))
        top = max(free_ll.values(), default=-np.inf)
        free[m], free_ll[m] = problem.climb(at, give_up=top - 60)
        at = replace(free[m], hazards=np.full(m - 1, alpha_for_mean(mean_burst(free[m].hazards), m)))
        if m <= 2:
            one[m], one_ll[m] = free[m], free_ll[m]
        else:
            one[m], one_ll[m] = problem.climb(
                at, common=True, warm=1, give_up=max(one_ll.values(), default=-np.inf) - 60
            )

    m = min(guess, largest)
    while True:
        visit(m)
        visit(m + 1)
        if m + 1 in free and free[m + 1].hazards[m - 1] > 1e-3:
            visit(m + 2)
        for x in range(m - 1, 0, -1):
            visit(x)
            if free_ll[x] < max(free_ll.values()) - 20:
                break
        winner = max(sorted(free), key=score)
        if winner == m:
            return m, free, free_ll, one, one_ll
        best, m = free[winner], winner


def fit(streams: Sequence[Arrays], *, max_burst: int | None = None, rng: np.random.Generator | None = None) -> LayerFit:
    """Fit the comb with independent delays to streams that share everything but the phase.

    The first event of every stream is dropped; the first burst may lack one token, the last is censored. Log-likelihoods are densities of all
    sorted times after the first event, in nats per second^n; the delay spread is floored at 20 us or the clock's own
    resolution / sqrt(12), so that ties and exact clocks have a finite density. Ranges: M up to `max_burst`, or 64.

    Raises
    ------
    ValueError : no stream has eight events.
    """
    del rng  # nothing here is random
    times = [t for t in _times(streams) if t[-1] > t[0]]
    if not times:
        raise ValueError("independent layer: no stream has eight events")
    floor = _floor(streams)
    largest = LARGEST if max_burst is None else max(1, max_burst)
    found = search(times, floor, largest)
    start = found[0][1]
    wide = Problem(times, floor, prune=1e-4, reach=8.0)
    wide.build(start)
    counts = sum(size.sum(0) + ends[0] for _, _, size, ends in wide.sweep(start))
    guess = max(int(np.flatnonzero(counts[1:] > 0.5).max(initial=0)) + 1, 1)
    problem = Problem(times, floor)
    m, free, free_ll, one, one_ll = _laws(problem, start, guess, largest, float(counts.sum()))
    return _result(problem, m, free[m], one[m], free_ll, one_ll, found)


def _result(
    problem: Problem,
    m: int,
    at: Comb,
    alike: Comb,
    free_ll: dict[int, float],
    one_ll: dict[int, float],
    found: list[tuple[float, Comb]],
) -> LayerFit:
    """Standard errors, burst counts and the record."""
    problem.build(at)
    covariance = problem.covariance(at, common=False)
    a = at.hazards
    expected = problem.expect(at)
    n = expected.went + expected.stopped
    edge = np.sqrt((expected.went + 0.5) * (expected.stopped + 0.5) / (n + 1) ** 3) if m > 1 else np.zeros(0)
    hazards_se = np.sqrt(np.diag(covariance)[: m - 1]) * a * (1 - a)
    hazards_se = np.where(np.isfinite(hazards_se) & (hazards_se > 0), hazards_se, edge)
    slope = (
        np.array([np.prod(np.delete(a[:k], j)) for j in range(m - 1) for k in [0]])
        if m < 2
        else _mean_slope(a) * a * (1 - a)
    )
    block = np.nan_to_num(covariance[: m - 1, : m - 1])
    sizes = problem.sweep(at)
    counts = np.zeros(m + 1)
    bursts = []
    for _, _, size, _ends in sizes:
        counts += size.sum(0)
        rows = size[size[:, 1:].sum(1) > 0.5]
        bursts.append(rows[:, 1:].argmax(1).astype(np.int64) + 1)
    extra = {
        "acceptance_length": mean_burst(a),
        "acceptance_length_se": float(np.sqrt(max(slope @ block @ slope, 0.0))) if m > 1 else 0.0,
        "needed_tokens": period.needed_tokens(at.sigma / at.step),
        "period_margin": _margin(found, at.step, problem.times),
    }
    alpha, alpha_se = float("nan"), float("nan")
    if m > 1:
        problem.build(alike)
        alpha = float(alike.hazards[0])
        own = problem.covariance(alike, common=True)
        alpha_se = float(np.sqrt(own[0, 0])) * alpha * (1 - alpha)
        h = np.full(m - 1, alpha)
        extra["acceptance_length_alpha"] = mean_burst(h)
        extra["acceptance_length_alpha_se"] = alpha_se * float(_mean_slope(h).sum())
    deviation = np.sqrt(np.diag(covariance)[-2:])
    return LayerFit(
        layer="independent",
        max_burst=m,
        loglik_by_burst=dict(sorted(free_ll.items())),
        hazards=a,
        hazards_se=hazards_se,
        alpha=alpha,
        alpha_se=alpha_se,
        alpha_loglik=one_ll[m] if m > 1 else float("nan"),
        burst_counts=counts[1:],
        bursts=tuple(bursts),
        step_s=at.step,
        step_se=float(deviation[1]),
        step_sd=0.0,
        jitter_s=at.sigma,
        jitter_se=float(deviation[0]) * at.sigma,
        parameters=m - 1 + 2 + len(problem.times),
        loglik=free_ll[m],
        extra=extra,
    )


def _mean_slope(a: FloatArray) -> FloatArray:
    """d E[B] / d a_j, shape (M-1,): sum over k >= j of prod_{i<=k, i != j} a_i."""
    out = np.zeros(len(a))
    for j in range(len(a)):
        rest = np.concatenate((a[:j], a[j + 1 :]))
        out[j] = np.cumprod(np.concatenate(([1.0], rest)))[j:].sum()
    return out


def _margin(found: list[tuple[float, Comb]], step: float, times: Sequence[FloatArray]) -> float:
    """Lead in nats of the best period over the best other one that is no harmonic of it; inf without a rival."""
    span = max(float(t[-1] - t[0]) for t in times)
    for value, at in found:
        ratio = at.step / step
        same = min(abs(1 / at.step - k / step) for k in (0.5, 1.0, 2.0)) * span < 0.75
        if not same and ratio > 0:
            return found[0][0] - value
    return float("inf")
