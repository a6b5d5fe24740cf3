"""The article's analyser: its steps one by one, then its published tables within their noise."""

import numpy as np
import pytest

from specsonar.stats.baseline import alpha_from_mean, analyse, run_lengths, two_means
from specsonar.stats.bursts import mean_burst

REPETITIONS = 40


def article_world(rng, max_burst, alpha, step_s, sigma_s, tokens=600):
    """Draft and verify without a bonus token; every token delayed on its own, observed in sorted order."""
    times = []
    steps = 0
    while len(times) < tokens:
        steps += 1
        burst = 1
        while burst < max_burst and rng.random() < alpha:
            burst += 1
        times += [steps * step_s] * burst
    return np.sort(np.array(times[:tokens]) + rng.normal(0.0, sigma_s, tokens))


def repeat(max_burst, alpha, step_s, sigma_s):
    rngs = np.random.default_rng(20).spawn(REPETITIONS)
    fits = [analyse(article_world(rng, max_burst, alpha, step_s, sigma_s)) for rng in rngs]
    return np.array([(f.max_burst, f.alpha, f.step_s * 1e3) for f in fits])


def test_two_means_starts_at_the_extremes_and_converges():
    assert two_means(np.array([0.1, 0.2, 0.3, 5.0, 6.0])) == pytest.approx((0.2, 5.5))


def test_two_means_of_equal_values_gives_that_value_twice():
    assert two_means(np.full(5, 0.02)) == (0.02, 0.02)


def test_even_gaps_are_bursts_of_one():
    fit = analyse(np.arange(8) * 0.25)
    assert fit.max_burst == 1
    assert fit.bursts.tolist() == [1] * 8
    assert np.isnan(fit.alpha)
    assert fit.step_s == 0.25


def test_bursts_of_a_clean_stream_are_found_exactly():
    fit = analyse(np.repeat([0.0, 0.02, 0.04, 0.06], [4, 1, 2, 4]))
    assert fit.bursts.tolist() == [4, 1, 2, 4]
    assert fit.max_burst == 4
    assert fit.step_s == pytest.approx(0.02)


def test_run_lengths_add_up_to_the_events():
    starts = np.random.default_rng(1).random(99) < 0.3
    assert run_lengths(starts).sum() == 100


@pytest.mark.parametrize(("alpha", "max_burst"), [(0.8, 4), (0.6, 8), (0.05, 2), (0.99, 16)])
def test_alpha_from_mean_inverts_the_expected_yield(alpha, max_burst):
    assert alpha_from_mean(mean_burst(np.full(max_burst - 1, alpha)), max_burst) == pytest.approx(alpha, abs=1e-9)


def test_alpha_stays_between_zero_and_one():
    assert (alpha_from_mean(0.9, 4), alpha_from_mean(1.0, 4), alpha_from_mean(4.0, 4)) == (0.0, 0.0, 1.0)


def test_one_time_is_refused():
    with pytest.raises(ValueError, match="at least two"):
        analyse(np.array([0.0]))


# Means of 20 repetitions that were published for M=4, alpha .8, a step of 20 ms, 600 tokens: sigma in ms, then
# M, alpha and step in ms. The tolerances are three standard errors of the difference between a mean of 20 and
# a mean of 40, from the spread measured at each sigma.
PUBLISHED = [
    (0, 4.0, 0.800, 20.0, 0.0, 0.015, 0.06),
    (1, 4.0, 0.800, 18.6, 0.0, 0.015, 0.12),
    (2, 4.0, 0.800, 17.1, 0.0, 0.015, 0.18),
    (3, 4.1, 0.811, 15.9, 0.35, 0.024, 0.27),
    (4, 7.0, 0.729, 15.3, 0.60, 0.014, 0.40),
    (5, 8.1, 0.743, 15.1, 0.85, 0.018, 0.60),
    (6, 9.3, 0.765, 15.4, 1.00, 0.017, 0.70),
]


@pytest.mark.parametrize(("sigma_ms", "max_burst", "alpha", "step_ms", "tol_m", "tol_alpha", "tol_step"), PUBLISHED)
def test_published_table_is_reproduced(sigma_ms, max_burst, alpha, step_ms, tol_m, tol_alpha, tol_step):
    off = np.abs(repeat(4, 0.8, 0.020, sigma_ms * 1e-3).mean(0) - [max_burst, alpha, step_ms])
    assert off[0] <= tol_m
    assert off[1] <= tol_alpha
    assert off[2] <= tol_step


def test_cross_check_of_the_article():
    """k=8, alpha .60, 35 ms, jitter 1 ms: the article read k=6 (too low) and alpha .61 off a single run."""
    fits = repeat(8, 0.6, 0.035, 1e-3)
    assert 5.5 < fits[:, 0].mean() < 7.0
    assert fits[:, 1].mean() == pytest.approx(0.61, abs=0.02)


def test_one_kind_of_stall_breaks_it():
    """What the baseline is kept to show: 1% stalls of 200 ms turn half of the stream into one burst."""
    rng = np.random.default_rng(3)
    times = article_world(rng, 4, 0.8, 0.020, 0.0) + np.cumsum(np.where(rng.random(600) < 0.01, 0.2, 0.0))
    fit = analyse(times)
    assert fit.max_burst > 50
    assert fit.step_s > 0.1
