"""In-order links and their impostors against the truth: a fixed-seed part of the calibration report.

Each bound follows from the target (benchmarks/calibration.py) and an error rate: a product that just reaches its target
fails a test once in 1,000 runs. Each test says what would be caught.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from scipy.stats import binom, binomtest, chi2, norm

from specsonar.fingerprint import AUTOREGRESSIVE, BUFFERED, FIXED_CHUNKS, PACED, SPECULATIVE, UNDETERMINED, Fingerprint
from specsonar.fit import fingerprint
from specsonar.sources.simulate import simulate
from specsonar.sources.worlds import WORLDS
from specsonar.stats.bursts import mean_burst, oracle_alpha, oracle_se

RARE = 1e-3
FIRST_SEED = 500


@dataclass(frozen=True)
class Target:
    """Streams to try; least share of M exact; most RMSE of alpha over the oracle's; most bias of the step."""

    streams: int
    exact: float
    ratio: float
    bias: float


TARGETS = {
    "D": Target(16, 0.98, 1.15, 0.01),
    "E_cv20": Target(8, 0.95, 1.2, 0.02),
    "F": Target(14, 0.90, 1.5, 0.02),
    "G_m2": Target(20, 0.95, 1.2, 0.01),
    "I_1ms": Target(20, 0.90, 1.3, 0.02),
}
NULLS = {
    AUTOREGRESSIVE: {"J_cv5": 8, "J_lognormal": 8, "J_stalls": 8, "J_tick4": 8},
    FIXED_CHUNKS: {"J_fixed2": 8, "J_fixed4": 8},
    BUFFERED: {"J_flush50": 8, "J_flush100": 8, "J_size2k": 3},
    PACED: {"J_paced": 8, "J_paced_plain": 8},
}


@dataclass(frozen=True)
class Outcome:
    """One answer, and alpha from the true bursts."""

    found: Fingerprint
    oracle: float


@cache
def analysed(name: str, streams: int, tokens: int = 0) -> list[Outcome]:
    """Single streams of a world, of `tokens` tokens or its own length."""
    world = WORLDS[name]
    result = []
    for seed in range(FIRST_SEED, FIRST_SEED + streams):
        trace = simulate(world.service, tokens=tokens or world.tokens, seed=seed)
        truth = trace.streams[0].truth
        oracle = oracle_alpha(truth["bursts"], truth["max_burst"])
        result.append(Outcome(fingerprint(trace.without_truth()), oracle))
    return result


def truth(name):
    service = WORLDS[name].service
    m, alpha = service.max_burst, service.acceptance
    return m, alpha, mean_burst(np.full(m - 1, alpha)), service.step_ms


def most(n, rate):
    """Most failures of n that a process with this rate shows but once in 1,000 runs."""
    return int(binom.ppf(1 - RARE, n, rate))


def mistakes(name):
    right = truth(name)[0]
    outcomes = analysed(name, TARGETS[name].streams)
    return sum(o.found.max_burst is None or o.found.max_burst.value != right for o in outcomes)


@pytest.mark.parametrize("name", TARGETS)
def test_m_is_exact(name):
    n = TARGETS[name].streams
    allowed = most(n, 1 - TARGETS[name].exact)
    assert mistakes(name) <= allowed
    assert binom.sf(allowed, n, 0.75) > 0.95  # a layer that is mostly wrong in one world


def test_m_is_exact_over_all_worlds():
    n = sum(t.streams for t in TARGETS.values())
    allowed = most(n, sum(t.streams * (1 - t.exact) for t in TARGETS.values()) / n)
    assert sum(mistakes(name) for name in TARGETS) <= allowed
    assert binom.sf(allowed, n, 0.3) > 0.99  # and one that errs in 30% anywhere


@pytest.mark.parametrize("name", TARGETS)
def test_alpha_is_nearly_the_oracles(name):
    """RMSE within `ratio` of the oracle: what is added to its error has variance (ratio^2 - 1) of it at most."""
    m, alpha, length, _ = truth(name)
    n, ratio = TARGETS[name].streams, TARGETS[name].ratio
    outcomes = [o for o in analysed(name, n) if o.found.acceptance_rate is not None]
    oracle = oracle_se(alpha, m, WORLDS[name].tokens / length)
    added = np.array([o.found.acceptance_rate.value - o.oracle for o in outcomes])
    bound = (ratio**2 - 1) * oracle**2 * chi2.ppf(1 - RARE, len(outcomes))
    assert (added**2).sum() < bound
    assert chi2.sf(bound / ((3.0**2 - 1) * oracle**2), len(outcomes)) > 0.95  # three times the oracle's error
    error = np.array([o.oracle for o in outcomes]) - alpha
    assert (error**2).sum() < oracle**2 * chi2.ppf(1 - RARE, len(outcomes))  # the yardstick itself


@pytest.mark.parametrize("name", TARGETS)
def test_the_step_is_not_biased(name):
    step, limit = truth(name)[3], TARGETS[name].bias
    outcomes = analysed(name, TARGETS[name].streams)
    off = np.array([o.found.step_ms.value for o in outcomes if o.found.step_ms is not None]) / step - 1
    error = off.std(ddof=1) / np.sqrt(off.size)
    z = norm.ppf(1 - RARE / 2)
    assert abs(off.mean()) < limit + z * error
    assert z * error + norm.ppf(0.99) * error < 3 * limit  # a bias of four times the limit


def test_intervals_cover():
    hits = {"acceptance_rate": 0, "acceptance_length": 0, "step_ms": 0}
    n = 0
    for name, target in TARGETS.items():
        _, alpha, length, step = truth(name)
        for o in analysed(name, target.streams):
            if o.found.verdict != SPECULATIVE:
                continue
            n += 1
            for what, value in zip(hits, (alpha, length, step), strict=True):
                e = getattr(o.found, what)
                hits[what] += e.low <= value <= (e.high if e.high is not None else np.inf)
    for what, count in hits.items():
        assert binomtest(count, n, 0.95).pvalue > RARE, (what, count, n)
    least = binom.ppf(RARE / 2, n, 0.95)
    assert binom.cdf(least - 1, n, 0.78) > 0.9  # intervals that miss in 22%


# --- what is not speculation -------------------------------------------------------------------------------------


@pytest.mark.parametrize("verdict", NULLS)
def test_each_class_is_named(verdict):
    said = [o.found.verdict for name, n in NULLS[verdict].items() for o in analysed(name, n)]
    allowed = most(len(said), 0.1)
    assert sum(v != verdict for v in said) <= allowed, said
    assert binom.sf(allowed, len(said), 0.7) > 0.95  # a class that is missed in 70%


@pytest.mark.parametrize("name", [name for names in NULLS.values() for name in names])
def test_no_impostor_is_always_taken_for_speculation(name):
    n = next(names[name] for names in NULLS.values() if name in names)
    wrong = sum(o.found.verdict == SPECULATIVE for o in analysed(name, n))
    assert wrong <= most(n, 0.01)
    assert binom.sf(most(n, 0.01), n, 0.9) > 0.95  # an impostor that mostly gets through


def test_speculation_is_hardly_ever_said_falsely():
    said = [o.found.verdict for names in NULLS.values() for name, n in names.items() for o in analysed(name, n)]
    allowed = most(len(said), 0.01)
    assert said.count(SPECULATIVE) <= allowed
    assert binom.sf(allowed, len(said), 0.13) > 0.95  # one in eight would be caught


def test_speculation_is_said_where_it_is():
    said = [o.found.verdict for name, t in TARGETS.items() for o in analysed(name, t.streams)]
    allowed = most(len(said), 0.02)
    assert len(said) - said.count(SPECULATIVE) <= allowed
    assert binom.sf(allowed, len(said), 0.2) > 0.95  # a timid product


def test_what_a_buffer_or_a_chunk_is():
    for name, field, value in (("J_fixed2", "chunk_tokens", 2), ("J_fixed4", "chunk_tokens", 4)):
        found = [getattr(o.found, field) for o in analysed(name, 8) if o.found.verdict == FIXED_CHUNKS]
        assert found and set(found) == {value}
    for name, period in (("J_flush50", 50.0), ("J_flush100", 100.0)):
        found = [o.found.flush_ms for o in analysed(name, 8) if o.found.verdict == BUFFERED]
        assert found and all(f == pytest.approx(period, rel=0.01) for f in found)


# --- few tokens --------------------------------------------------------------------------------------------------


def test_150_tokens_are_decided_right_or_not_at_all():
    speculative = [o.found.verdict for o in analysed("D", 40, 150)]
    plain = [o.found.verdict for o in analysed("J_lognormal", 20, 150)]
    wrong = sum(v not in (SPECULATIVE, UNDETERMINED) for v in speculative)
    wrong += sum(v not in (AUTOREGRESSIVE, UNDETERMINED) for v in plain)
    allowed = most(60, 0.02)
    assert wrong <= allowed
    assert binom.sf(allowed, 60, 0.2) > 0.95  # wrong in a fifth
    assert speculative.count(SPECULATIVE) > 20 and plain.count(AUTOREGRESSIVE) > 10  # and it does decide
    needed = [o.found.needed_tokens for o in analysed("D", 40, 150) if o.found.verdict == UNDETERMINED]
    assert all(n is not None and n > 150 for n in needed)
