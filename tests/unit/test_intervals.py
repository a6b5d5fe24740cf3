"""Intervals: identities, exact coverage by enumeration, and dependence on series whose long-run variance is known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, norm, t

from specsonar.stats import intervals

LEVELS = (0.5, 0.8, 0.95, 0.99)


@pytest.mark.parametrize("level", LEVELS)
def test_the_quantile_is_the_normal_one_and_near_students(level):
    assert intervals.quantile(level) == pytest.approx(norm.ppf(0.5 + level / 2))
    for freedom in (6, 9, 30, 200):
        exact = t.ppf(0.5 + level / 2, freedom)
        assert intervals.quantile(level, freedom) == pytest.approx(exact, rel=0.02)
    assert intervals.quantile(level, 5) > intervals.quantile(level, 9) > intervals.quantile(level)


@pytest.mark.parametrize("level", LEVELS)
def test_plain_is_symmetric_and_positive_in_the_logarithm(level):
    low, high = intervals.plain(3.0, 0.5, level)
    assert (low + high) / 2 == pytest.approx(3.0)
    assert high - low == pytest.approx(2 * norm.ppf(0.5 + level / 2) * 0.5)
    for floor in (0.0, 1.0):
        low, high = intervals.positive(3.0, 0.5, level, floor=floor)
        assert floor < low < 3.0 < high
        assert (low - floor) * (high - floor) == pytest.approx((3.0 - floor) ** 2)


def test_positive_nears_the_plain_interval_when_the_error_is_small():
    np.testing.assert_allclose(intervals.positive(20.0, 1e-4, 0.95), intervals.plain(20.0, 1e-4, 0.95), rtol=1e-9)


def test_positive_never_leaves_its_range():
    assert intervals.positive(1.0, 0.2, 0.95, floor=1.0) == (1.0, pytest.approx(1.0 + 1.96 * 0.2, rel=1e-3))
    low, high = intervals.positive(1e-9, 5.0, 0.95)
    assert 0.0 <= low < 1e-9 < high < np.inf


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("p", [0.02, 0.3, 0.8, 0.97])
def test_share_solves_the_score_equation(p, level):
    """Both ends are the p0 with |p - p0| = z sqrt(p0 (1 - p0) / n)."""
    n = 150
    low, high = intervals.share(p, np.sqrt(p * (1 - p) / n), level)
    for end in (low, high):
        assert abs(p - end) == pytest.approx(norm.ppf(0.5 + level / 2) * np.sqrt(end * (1 - end) / n))
    assert 0.0 < low < p < high < 1.0


def test_share_is_the_same_seen_from_the_other_side():
    low, high = intervals.share(0.83, 0.04, 0.9, 12)
    np.testing.assert_allclose(intervals.share(0.17, 0.04, 0.9, 12), (1 - high, 1 - low))


def hits_of(n, level, interval):
    """Whether `interval` after k of n covers p, for p in a grid: shape (p, k); and the law of k."""
    p = np.linspace(0.02, 0.98, 97)
    k = np.arange(n + 1)
    share = np.clip(k / n, 1e-9, 1 - 1e-9)
    ends = np.array([interval(x, np.sqrt(x * (1 - x) / n), level) for x in share])
    covered = (ends[:, 0] <= p[:, None]) & (p[:, None] <= ends[:, 1])
    return (covered * binom.pmf(k, n, p[:, None])).sum(1)


@pytest.mark.parametrize("level", [0.8, 0.95, 0.99])
@pytest.mark.parametrize("n", [20, 50, 200])
def test_share_covers_by_enumeration(n, level):
    coverage = hits_of(n, level, intervals.share)
    assert abs(coverage.mean() - level) < 0.012
    # counts are whole: where an end falls between two of them, as much as the chance of one count there is lost
    p = np.linspace(0.02, 0.98, 97)
    one_count = norm.pdf(norm.ppf(0.5 + level / 2)) / np.sqrt(n * p * (1 - p))
    assert (coverage > level - one_count - 0.01).all()


def test_enumeration_would_notice_an_interval_on_the_plain_scale():
    """What Wald's interval does: it is short of its level by far where the share is near an end."""
    assert hits_of(50, 0.95, intervals.plain).min() < 0.80
    assert abs(hits_of(20, 0.95, intervals.plain).mean() - 0.95) > 0.03


def test_log_ratio_is_the_delta_method():
    assert intervals.log_ratio((3.0, 20.0), (0.3, 0.0)) == pytest.approx(0.1)
    assert intervals.log_ratio((3.0, 20.0), (0.3, 2.0)) == pytest.approx(np.hypot(0.1, 0.1))
    rng = np.random.default_rng(0)
    a, b = rng.normal(3, 0.09, 200_000), rng.normal(20, 0.4, 200_000)
    assert np.log(a / b).std() == pytest.approx(intervals.log_ratio((3.0, 20.0), (0.09, 0.4)), rel=0.01)


# --- dependence --------------------------------------------------------------------------------------------------


def ar(rng, n, phi, signal=1.0):
    """A stationary AR(1) of variance `signal` seen through white noise, variance 1 in all; its long-run variance over
    its variance is 1 + 2 signal phi / (1 - phi)."""
    x = np.empty(n)
    x[0] = rng.standard_normal()
    e = np.sqrt(1 - phi**2) * rng.standard_normal(n)
    for i in range(1, n):
        x[i] = phi * x[i - 1] + e[i]
    return np.sqrt(signal) * x + np.sqrt(1 - signal) * rng.standard_normal(n)


@pytest.mark.parametrize(("phi", "signal"), [(0.3, 1.0), (0.6, 1.0), (0.8, 1.0), (0.8, 0.5)])
def test_the_inflation_is_the_long_run_variance(phi, signal):
    rng = np.random.default_rng(int(100 * phi + 10 * signal))
    truth = 1 + 2 * signal * phi / (1 - phi)
    alone = [intervals.dependence([ar(rng, 2000, phi, signal)], 1.0) for _ in range(24)]
    assert all(d.significant and d.method == "autocorrelation of the bursts" for d in alone)
    assert np.mean([d.lag_one for d in alone]) == pytest.approx(signal * phi, abs=0.03)
    # 24 estimates with a spread of about a fifth each
    assert np.mean([d.inflation for d in alone]) == pytest.approx(truth, rel=0.16)
    pooled = [intervals.dependence([ar(rng, 200, phi, signal) for _ in range(12)], 1.0) for _ in range(24)]
    assert {(d.method, d.freedom) for d in pooled} == {("spread between 12 streams", 11.0)}
    # chi-square with 11 degrees of freedom, 24 times
    assert np.mean([d.inflation for d in pooled]) == pytest.approx(truth, rel=4 * np.sqrt(2 / 11 / 24))


def test_independent_steps_are_rarely_called_dependent():
    rng = np.random.default_rng(3)
    found = [intervals.dependence([rng.standard_normal(200)], 1.0) for _ in range(300)]
    share = sum(d.significant for d in found)
    assert binom.ppf(1e-4, 300, 0.045) <= share <= binom.ppf(1 - 1e-4, 300, 0.046)  # two standard errors
    assert np.mean([d.inflation for d in found]) < 1.12
    assert all(d.freedom == np.inf for d in found if not d.significant)


def test_the_power_of_the_dependence_test():
    """At 200 steps a correlation of .3 is four standard errors: missed once in forty."""
    rng = np.random.default_rng(4)
    assert sum(intervals.dependence([ar(rng, 200, 0.3)], 1.0).significant for _ in range(60)) >= 53


def test_a_variance_beyond_the_law_widens_and_one_below_does_not_narrow():
    rng = np.random.default_rng(5)
    x = rng.standard_normal(4000)
    wide, narrow = intervals.dependence([x], 0.5), intervals.dependence([x], 2.0)
    assert wide.inflation == pytest.approx(2.0, rel=0.1)
    assert narrow.inflation == 1.0


def test_alternating_steps_do_not_narrow():
    rng = np.random.default_rng(6)
    found = intervals.dependence([ar(rng, 2000, -0.5)], 1.0)
    assert found.significant and found.lag_one == pytest.approx(-0.5, abs=0.06)
    assert 1.0 <= found.inflation < 1.1


def test_the_unit_of_the_series_is_nothing():
    rng = np.random.default_rng(7)
    x = [ar(rng, 300, 0.5)]
    one, ten = intervals.dependence(x, 1.0), intervals.dependence([10 * x[0]], 100.0)
    assert ten.inflation == pytest.approx(one.inflation) and ten.lag_one == pytest.approx(one.lag_one)


@pytest.mark.parametrize(
    ("series", "variance"),
    [([], 1.0), ([np.ones(2)] * 30, 1.0), ([np.arange(10.0)], 1.0), ([np.zeros(50)], 1.0), ([np.arange(50.0)], 0.0)],
)
def test_too_little_says_nothing(series, variance):
    found = intervals.dependence(series, variance)
    assert (found.inflation, found.significant, found.freedom, found.method) == (1.0, False, np.inf, "")
