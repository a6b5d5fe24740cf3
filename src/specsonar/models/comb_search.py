"""Which comb: candidate periods from the periodogram, compared by the likelihood of the unordered tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from ..stats import period
from ..stats.baseline import alpha_from_mean
from ..stats.combfit import Comb, Problem

FloatArray = npt.NDArray[np.float64]
FEW, MANY = 16, 300  # periods whose likelihood is computed when a peak stands out, and when none does
CLEAR = 6.0  # a peak stands out when noise alone would reach it once in exp(CLEAR) records
CLIMBS = 8  # periods that are climbed
PART = 2500  # tokens on which many periods are compared


def alpha_for_mean(mean: float, max_burst: int) -> float:
    """The alpha whose mean burst is `mean`, kept inside (.01, .99).

    >>> round(alpha_for_mean(2.952, 4), 3)
    0.8
    """
    return float(np.clip(alpha_from_mean(mean, max_burst), 0.01, 0.99)) if max_burst > 1 else 0.01


def start_at(times: Sequence[FloatArray], step: float, spread: float, max_burst: int) -> Comb:
    """A comb at a period and spread, with one alpha that explains the token rate and phases from the periodogram."""
    mean = period.token_rate(times) * step
    hazards = np.full(max_burst - 1, alpha_for_mean(mean, max_burst))
    return Comb(hazards, spread * step, step, np.array([period.phase(t, step) for t in times]))


def search(times: Sequence[FloatArray], floor: float, largest: int) -> list[tuple[float, Comb]]:
    """Candidate combs, best first: (log-likelihood, point).

    Periodogram peaks and their harmonics, compared by the sweep: two EM steps each, the best few after a rough
    climb. When no peak stands out, many more peaks are sifted first (`_sift`).
    """
    rate = period.token_rate(times)
    tokens = sum(len(t) for t in times)
    f, power = period.periodogram(times, rate / min(largest, 24), 1.1 * rate)
    top, height = period.peaks(f, power, MANY)
    s = len(times)
    stands = evidence(power, s)
    most = MANY if stands < CLEAR else FEW if stands < 100 else FEW // 2
    tries = list(zip(top.tolist(), height.tolist(), strict=True))[:most]
    for g, h in tries[:4]:
        tries += [(x, h) for x in (g / 2, 2 * g) if f[0] <= x <= f[-1] and np.abs(top / x - 1).min() > 1e-4]
    starts = [
        start_at(times, 1 / g, min(period.spread_from_power(h, s, tokens), 0.42), _roomy(rate / g, largest))
        for g, h in tries
    ]
    if stands < CLEAR:
        starts = _sift(times, floor, starts)[:FEW]
    rough = Problem(times, floor, rough=True)
    found = sorted((_warmed(rough, at) for at in starts), key=lambda x: -x[0])
    if stands < CLEAR:
        found += [_warmed(rough, at) for _, best in found[:3] for at in _beside(times, best)]
    found = _apart(found, times)
    for i, (value, at) in enumerate(found[:CLIMBS]):
        if value > found[0][0] - 40:
            at, value = rough.climb(at)
            found[i] = (value, at)
    return sorted(found, key=lambda x: -x[0])


def _warmed(rough: Problem, at: Comb) -> tuple[float, Comb]:
    """Two EM steps: enough to compare periods."""
    rough.build(at)
    got = rough.expect(at)
    for _ in range(2):
        if np.isfinite(got.loglik):
            at = rough.em(at, got, common=False)
            got = rough.expect(at)
    return got.loglik, at


def _beside(times: Sequence[FloatArray], at: Comb) -> list[Comb]:
    """The same comb on the periods next to its own, half a turn over the longest stream apart.

    The likelihood has side lobes there, and a peak of noise may sit on one.
    """
    span = max(float(t[-1] - t[0]) for t in times)
    steps = [1 / (1 / at.step + 0.5 * k / span) for k in (-4, -3, -2, -1, 1, 2, 3, 4)]
    return [replace(at, step=x, phase=np.array([period.phase(t, x) for t in times])) for x in steps if x > 0]


def _apart(found: Sequence[tuple[float, Comb]], times: Sequence[FloatArray]) -> list[tuple[float, Comb]]:
    """Sorted, without the periods that a better one stands for."""
    kept: list[tuple[float, Comb]] = []
    for value, at in sorted(found, key=lambda x: -x[0]):
        if all(turns(at.step, other.step, times) > 0.2 for _, other in kept[:CLIMBS]):
            kept.append((value, at))
    return kept


def turns(step: float, other: float, times: Sequence[FloatArray]) -> float:
    """How many steps two periods drift apart over the longest stream."""
    span = max(float(t[-1] - t[0]) for t in times)
    return abs(1 / other - 1 / step) * span


def evidence(power: FloatArray, streams: int) -> float:
    """-log of how often noise alone would show a peak as high as the highest of `power`, shape (k,), 4 times
    oversampled.

    A sum of S unit exponentials exceeds S + u + sqrt(2 S u) with probability below exp(-u) (Laurent and Massart 2000,
    Annals of Statistics 28, lemma 1); u is solved for, less the log of the number of frequencies.
    """
    if not len(power):
        return -np.inf
    over = max(float(power.max()) - streams, 0.0)
    root = np.sqrt(2 * streams + 4 * over)
    return float(((root - np.sqrt(2 * streams)) / 2) ** 2 - np.log(len(power) / 4 + 1))


def _sift(times: Sequence[FloatArray], floor: float, starts: Sequence[Comb]) -> list[Comb]:
    """Many starts, the most likely first, judged on part of the tokens.

    Along the periods the best law of a comb that is not there changes smoothly, so that each candidate starts from its
    neighbour's hazards and spread and needs a single EM step to be compared with the others.
    """
    part = part_of(times, PART)
    problem = Problem(part, floor, rough=True)
    problem.prune, problem.reach = 1e-3, 7.0
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


def part_of(times: Sequence[FloatArray], most: int) -> list[FloatArray]:
    """The first streams, up to about `most` tokens of them."""
    out: list[FloatArray] = []
    for t in times:
        out.append(t[:most])
        most -= len(t)
        if most < 8:
            break
    return out


def margin(found: Sequence[tuple[float, Comb]], times: Sequence[FloatArray]) -> float:
    """Nats by which the best of `search` leads the best other period that is no harmonic of it; inf without one."""
    best, step = found[0][0], found[0][1].step
    others = (v for v, at in found if min(turns(step / k, at.step, times) for k in (0.5, 1.0, 2.0)) > 0.75)
    return next((best - v for v in others), float("inf"))
