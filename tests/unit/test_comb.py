"""The unordered-points likelihood against enumeration, its gradient against differences, and its invariances."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from specsonar.models import independent
from specsonar.models.comb_search import evidence
from specsonar.stats import comb, period
from specsonar.stats.bursts import mean_burst, oracle_se, pmf
from specsonar.stats.combfit import Comb, Problem
from specsonar.stats.delays import EXPONENTIAL_KIND, LOGNORMAL_KIND, NORMAL, NOWHERE, DelayLaw, log_density
from specsonar.stats.fisher import bound
from specsonar.stats.result import Arrays
from specsonar.stats.track import track

HAZARDS = np.array([0.7, 0.5])


LAWS = [NORMAL, DelayLaw(LOGNORMAL_KIND, 0.5), DelayLaw(LOGNORMAL_KIND, 1.1), DelayLaw(EXPONENTIAL_KIND, 0.1)]


def enumerate_loglik(t, steps, sigma, weights, law=NORMAL):
    """Sum over every assignment of points to steps, and the expected complete steps by size."""
    m = weights.shape[1] - 1
    total, sizes = 0.0, np.zeros(m + 1)
    for z in itertools.product(range(len(steps)), repeat=len(t)):
        n = np.bincount(z, minlength=len(steps))
        used = np.flatnonzero(n)
        if n.max() > m:
            continue
        first, last = used[0], used[-1]
        row = {first: 1, last: 2}
        w = math.prod(weights[row.get(r, 0), n[r]] for r in range(first, last + 1))
        for i, r in enumerate(z):
            w *= law.density((t[i] - steps[r]) / sigma) / sigma
        total += w
        for r in range(first + 1, last):
            sizes[n[r]] += w
    return math.log(total), sizes / total


def sweep(t, steps, sigma, weights, *, reach=80.0, prune=0.0, law=NORMAL):
    bits = int(weights.shape[1] - 1).bit_length()
    graph = comb.build(t, steps, sigma, weights, reach, prune, bits, law.kind, law.shape)
    return comb.sweep(t, steps, sigma, weights, bits, law.kind, law.shape, *graph)


@pytest.mark.parametrize("sigma", [0.001, 0.005, 0.012])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("law", LAWS, ids=str)
def test_the_sweep_equals_enumeration(sigma, seed, law):
    rng = np.random.default_rng(seed)
    t, steps = np.sort(rng.uniform(0, 0.06, 6)), np.arange(4) * 0.02 - 0.005
    weights = comb.step_weights(pmf(HAZARDS))
    loglik, sizes = enumerate_loglik(t, steps, sigma, weights, law)
    got = sweep(t, steps, sigma, weights, reach=700.0, law=law)
    assert got[0] == pytest.approx(loglik, abs=1e-9)
    np.testing.assert_allclose(got[2].sum(0), sizes, atol=1e-9)
    assert got[1][:, 0].sum() == pytest.approx(len(t))  # every token belongs to one step
    assert got[3][1].sum() == pytest.approx(1.0)  # and one step is the last


def test_enumeration_would_notice_a_missing_factorial():
    t, steps = np.array([0.0, 0.001, 0.019, 0.021, 0.04]), np.arange(3) * 0.02
    weights = comb.step_weights(pmf(HAZARDS))
    loglik, _ = enumerate_loglik(t, steps, 0.004, weights)
    factorials = np.array([math.factorial(n) for n in range(4)])
    assert abs(sweep(t, steps, 0.004, weights / factorials)[0] - loglik) > 0.5


def record(seed, n=200, sigma=0.004, step=0.02, hazards=(0.8, 0.8, 0.8), wander=0.0):
    """Sorted arrivals of a service with independent delays, first event at 0."""
    rng = np.random.default_rng(seed)
    sizes = np.ones(n, np.int64)
    for a in hazards:
        sizes += (sizes == sizes.max()) & (rng.random(n) < a)
    at = np.repeat(np.cumsum(rng.normal(step, wander, n)), sizes)[:n]
    t = np.sort(np.append(at, 0.0) + sigma * rng.standard_normal(n + 1))
    return Arrays(t - t[0])


@pytest.mark.parametrize("law", LAWS[1:], ids=str)
def test_a_delay_law_has_mean_zero_and_spread_one(law):
    from scipy.integrate import quad

    def moment(k):
        parts = [(-6.0, -1.0), (-1.0, 0.0), (0.0, 8.0), (8.0, 200.0)]
        return sum(quad(lambda u: u**k * law.density(u), *ends, limit=300, epsabs=1e-9)[0] for ends in parts)

    assert moment(0) == pytest.approx(1.0, abs=1e-4)
    assert moment(1) == pytest.approx(0.0, abs=1e-3)
    assert moment(2) == pytest.approx(1.0, abs=5e-3)
    drawn = law.sample(200_000, np.random.default_rng(1))
    assert drawn.mean() == pytest.approx(0.0, abs=0.012) and drawn.std() == pytest.approx(1.0, abs=0.05)
    median, width = law.core()
    assert np.mean(drawn < median) == pytest.approx(0.5, abs=0.006)
    assert 1 / law.density(median) == pytest.approx(width, rel=1e-3)


@pytest.mark.parametrize("law", LAWS[1:], ids=str)
def test_the_pull_is_minus_the_slope_of_the_log_density(law):
    for u in (-5.0, -0.8, -0.3, 0.0, 1.0, 6.0):
        value, pull = log_density(u, law.kind, law.shape)
        ends = [log_density(u + e, law.kind, law.shape)[0] for e in (1e-6, -1e-6)]
        if value > NOWHERE:
            assert pull == pytest.approx((ends[1] - ends[0]) / 2e-6, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize(
    ("draw", "kind"),
    [
        (lambda rng, n: rng.normal(0, 1, n), 0),
        (lambda rng, n: rng.exponential(1, n), EXPONENTIAL_KIND),
        (lambda rng, n: (np.exp(rng.normal(0, 1, n)) - 1.65) / 2.16, LOGNORMAL_KIND),
    ],
    ids=["normal", "exponential", "log-normal"],
)
def test_the_shape_of_the_delays_is_found(draw, kind):
    rng = np.random.default_rng(3)
    sizes = 1 + np.array([np.argmin(np.append(rng.random(3) < 0.8, False)) for _ in range(200)])
    t = np.sort(np.repeat(np.arange(200) * 0.02, sizes) + 0.006 * draw(rng, sizes.sum()))
    fit = independent.fit([Arrays(t - t[0])])
    assert (fit.max_burst, fit.delay_law.kind) == (4, kind)
    assert fit.jitter_s == pytest.approx(0.006, rel=0.25)


def test_the_gradient_is_the_derivative_under_a_skewed_law():
    t = record(5).t[1:]
    problem = Problem([t], 1e-5)
    at = Comb(np.array([0.7, 0.75, 0.6]), 0.007, 0.02001, np.array([period.phase(t, 0.02001)]), LAWS[1])
    problem.build(at)
    shared, phase = problem.gradient(at, problem.expect(at), common=False)
    for j, h in enumerate([1e-5, 1e-5, 1e-5, 1e-6, 1e-10]):
        e = h * np.eye(5)[j]
        up, down = (problem.expect(problem.moved(at, x, 0.0, common=False)).loglik for x in (e, -e))
        assert (up - down) / (2 * h) == pytest.approx(shared[j], rel=1e-3, abs=1e-2)
    up, down = (problem.expect(replace(at, phase=at.phase + d)).loglik for d in (1e-8, -1e-8))
    assert (up - down) / 2e-8 == pytest.approx(phase[0], rel=1e-3)


def test_the_gradient_is_the_derivative():
    t = record(5).t[1:]
    problem = Problem([t], 1e-5)
    at = Comb(np.array([0.7, 0.75, 0.6]), 0.0045, 0.02001, np.array([period.phase(t, 0.02001)]))
    problem.build(at)
    shared, phase = problem.gradient(at, problem.expect(at), common=False)
    scale = np.array([1e-4, 1e-4, 1e-4, 1e-4, 1e-9])
    for j, h in enumerate(scale):
        e = h * np.eye(5)[j]
        up = problem.expect(problem.moved(at, e, 0.0, common=False)).loglik
        down = problem.expect(problem.moved(at, -e, 0.0, common=False)).loglik
        assert (up - down) / (2 * h) == pytest.approx(shared[j], rel=1e-4, abs=1e-3)
    up, down = (problem.expect(replace(at, phase=at.phase + d)).loglik for d in (1e-7, -1e-7))
    assert (up - down) / 2e-7 == pytest.approx(phase[0], rel=1e-4)


def test_an_em_step_never_loses():
    t = record(6).t[1:]
    problem = Problem([t], 1e-5)
    at = Comb(np.full(4, 0.5), 0.006, 0.02, np.array([period.phase(t, 0.02)]))
    problem.build(at)
    logliks = []
    for _ in range(12):
        got = problem.expect(at)
        logliks.append(got.loglik)
        at = problem.em(at, got, common=False)
    assert (np.diff(logliks) > -1e-9).all()
    assert logliks[-1] > logliks[0] + 1


def test_pruning_costs_next_to_nothing():
    t = record(7, sigma=0.006).t[1:]
    steps = np.arange(-4, 80) * 0.02 + period.phase(t, 0.02) % 0.02
    weights = comb.step_weights(pmf(np.full(3, 0.8)))
    full = sweep(t, steps, 0.006, weights, reach=30.0, prune=1e-12)[0]
    assert sweep(t, steps, 0.006, weights, reach=13.0, prune=1e-6)[0] == pytest.approx(full, abs=0.01)
    assert sweep(t, steps, 0.006, weights, reach=13.0, prune=1e-6)[0] <= full


def test_the_tracking_sweep_is_the_exact_one_when_the_clock_does_not_drift():
    t = record(8, n=60, sigma=0.002).t[1:]
    weights = comb.step_weights(pmf(np.full(3, 0.8)))
    phases = np.linspace(t[0] - 0.065, t[0] + 0.065, 1041)
    total = []
    for first in phases:
        value = sweep(t, first + np.arange(64) * 0.02, 0.002, weights, reach=40.0, prune=1e-10)[0]
        total.append(value - 0.5 * ((first - t[0]) / 0.02) ** 2 - math.log(0.02 * math.sqrt(2 * math.pi)))
    exact = np.logaddexp.reduce(total) + math.log(phases[1] - phases[0])
    tracked, sizes = track(t, 0.002, 0.02, 1e-8, weights, 3, 1e-9)
    assert tracked == pytest.approx(exact, abs=0.05)
    assert sizes[0] @ np.arange(5) + sizes[1] @ np.arange(5) == pytest.approx(len(t), abs=5)


@pytest.mark.parametrize("wander", [0.0, 0.001])
def test_the_fit_follows_the_unit_of_time(wander):
    a = record(9, n=400, wander=wander)
    one = independent.fit([a])
    ten = independent.fit([Arrays(10 * a.t + 3.0)])
    assert one.max_burst == ten.max_burst == 4
    assert ten.step_s == pytest.approx(10 * one.step_s, rel=1e-3)
    assert ten.jitter_s == pytest.approx(10 * one.jitter_s, rel=0.03)
    assert ten.alpha == pytest.approx(one.alpha, abs=3e-3)
    assert ten.loglik == pytest.approx(one.loglik - 400 * math.log(10), abs=0.5)
    assert (one.step_sd > 0) == (wander > 0)


def test_the_order_of_streams_is_nothing():
    streams = [record(seed, n=150) for seed in (11, 12, 13)]
    one, two = independent.fit(streams), independent.fit(streams[::-1])
    assert one.loglik == pytest.approx(two.loglik, abs=0.02)
    assert one.parameters == 3 + 2 + 3


def test_ties_and_an_exact_clock_have_a_finite_density():
    a = record(14, sigma=0.0)
    fit = independent.fit([a])
    assert (np.diff(a.t) == 0).any()
    assert fit.max_burst == 4 and fit.jitter_s == independent.FLOOR and np.isfinite(fit.loglik)
    assert np.isfinite([fit.alpha_se, fit.step_se, fit.extra["acceptance_length_se"]]).all()
    assert [len(b) for b in fit.bursts] == [int(fit.burst_counts.sum() + 0.5)]


def test_plain_decoding_has_bursts_of_one():
    fit = independent.fit([record(15, hazards=(), sigma=0.002)])
    assert fit.max_burst == 1 and np.isnan(fit.alpha) and fit.hazards.shape == (0,)
    assert fit.step_s == pytest.approx(0.02, abs=1e-4)
    assert mean_burst(fit.hazards) == 1.0


def test_too_little_is_an_error_and_noise_has_no_comb():
    with pytest.raises(ValueError, match="eight events"):
        independent.fit([Arrays(np.arange(5.0))])
    t = np.sort(np.random.default_rng(16).uniform(0, 5, 600))
    assert independent.comb_evidence([Arrays(t - t[0])]) < 3
    assert independent.comb_evidence([record(17, n=600)]) > 20
    assert evidence(np.zeros(0), 1) == -np.inf
    assert independent.fit([Arrays(t - t[0])]).extra["period_margin"] < 8


def test_bursts_that_kept_their_order_are_not_plausible():
    rng = np.random.default_rng(18)
    at = np.repeat(np.cumsum(rng.normal(0.02, 0.002, 200)), 3) + np.tile([0.0, 1e-4, 2e-4], 200)
    assert not independent.plausible([Arrays(at - at[0])])
    assert independent.plausible([record(19)])
    assert independent.plausible([record(20, sigma=0.0)])
    assert not independent.plausible([Arrays(np.zeros(20))])


def test_times_that_no_comb_gives_have_no_period_and_no_error():
    # the larger of these batches have more tokens than any burst, and lie exactly on their grid
    sizes = np.random.default_rng(21).integers(4, 20, 24)
    fit = independent.fit([Arrays(np.repeat(np.arange(24) * 0.1, sizes))])
    assert fit.extra["period_margin"] == 0.0
    assert fit.loglik == -np.inf


def test_the_information_of_one_clear_stream_is_that_of_its_bursts():
    found = bound(0.8, 4, 0.05, 600, draws=12)
    assert found.alpha == pytest.approx(found.oracle, rel=0.01)
    assert found.oracle == pytest.approx(oracle_se(0.8, 4, 203), rel=0.05)
    # a straight line through the steps: sqrt(12 / N) over the number of steps
    assert found.step == pytest.approx(0.05 * np.sqrt(12 / 599) / 203, rel=0.03)


def test_what_jitter_costs_grows_and_skewed_delays_keep_more():
    seen = [bound(0.8, 4, s, 600, draws=12) for s in (0.1, 0.3, 0.4)]
    assert seen[0].alpha < seen[1].alpha < seen[2].alpha < 1.1 * seen[0].alpha
    assert seen[2].step > 2 * seen[1].step > 4 * seen[0].step
    assert bound(0.8, 4, 0.3, 600, law=DelayLaw(LOGNORMAL_KIND, 1.0), draws=12).step < 0.3 * seen[1].step


def test_the_bound_holds_for_the_estimator():
    least = bound(0.8, 4, 0.2, 200, draws=12)
    fits = [independent.fit([record(40 + seed, sigma=0.004)]) for seed in range(3)]
    for fit in fits:
        assert fit.alpha_se == pytest.approx(least.alpha, rel=0.25)


def test_a_bound_needs_a_draft_and_a_delay():
    for burst, spread in ((1, 0.1), (4, 0.0)):
        with pytest.raises(ValueError, match="bound"):
            bound(0.8, burst, spread, 600)
