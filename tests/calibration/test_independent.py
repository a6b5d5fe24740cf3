"""Independent delays against the truth: a fixed-seed part of the calibration, each bound from an error rate.

Targets: M exact in at least 97% (A, B) or 90% (drifting clock); alpha within 1.1 of the oracle's error; step within
.05 ms. With n streams and a right-M rate of 97% fewer than `least(n, .97)` successes happen once in 10,000 runs.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, chi2

from specsonar.models import independent
from specsonar.stats.bursts import mean_burst, oracle_alpha
from specsonar.stats.result import Arrays

RARE = 1e-4


def least(n, rate):
    """Fewest successes of n that a process with this rate shows except once in 10,000 runs."""
    return int(binom.ppf(RARE, n, rate))


def draw(rng, *, max_burst=4, alpha=0.8, step=0.02, sigma=0.002, tokens=600, wander=0.0):
    """One stream from the definition: draft until rejected, delay each token, sort. Returns arrays and complete
    bursts."""
    sizes = []
    while sum(sizes) < tokens - 1:
        size = 1
        while size < max_burst and rng.random() < alpha:
            size += 1
        sizes.append(size)
    at = np.cumsum(rng.normal(step, wander, len(sizes)))
    sent = np.append(0.0, np.repeat(at, sizes))[:tokens]
    t = np.sort(sent + sigma * rng.standard_normal(tokens))
    return Arrays(t - t[0]), sizes[:-1]


def replicate(seed, n, **world):
    """n fits of single streams, and the oracle's alpha of each."""
    rng = np.random.default_rng(seed)
    pairs = [draw(rng, **world) for _ in range(n)]
    return [independent.fit([a]) for a, _ in pairs], [oracle_alpha(b, world.get("max_burst", 4)) for _, b in pairs]


def rms(x):
    """Root mean square."""
    return float(np.sqrt(np.mean(np.square(x))))


WORLDS = [
    ("exact clock", 40, 0.97, {"sigma": 0.0}),
    ("a tenth", 60, 0.97, {"sigma": 0.002}),
    ("a fifth", 60, 0.97, {"sigma": 0.004}),
    ("three tenths", 30, 0.97, {"sigma": 0.006}),
    ("rare full bursts", 40, 0.95, {"max_burst": 8, "alpha": 0.6, "step": 0.035, "sigma": 0.001}),
    ("drift", 12, 0.90, {"sigma": 0.002, "wander": 0.001}),
    ("drift and a fifth", 6, 0.90, {"sigma": 0.004, "wander": 0.001}),
    ("long and .35", 4, 0.95, {"sigma": 0.007, "tokens": 2000}),
]


@pytest.mark.parametrize(("name", "n", "rate", "world"), WORLDS, ids=[w[0] for w in WORLDS])
def test_max_burst_alpha_and_step(name, n, rate, world):
    step, alpha = world.get("step", 0.02), world.get("alpha", 0.8)
    fits, oracle = replicate(sum(map(ord, name)), n, **world)
    right = [f.max_burst == world.get("max_burst", 4) for f in fits]
    assert sum(right) >= least(n, rate)
    # the fit's own error beside the oracle's: what 30% jitter adds is a quarter of the oracle's error at most
    excess = [f.alpha - o for f, o in zip(fits, oracle, strict=True)]
    assert rms(excess) < 0.45 * rms(np.array(oracle) - alpha) + 0.003
    # a step is known to wander / sqrt(steps) at best on a clock that drifts
    wander = world.get("wander", 0.0)
    steps = world.get("tokens", 600) / mean_burst(np.full(world.get("max_burst", 4) - 1, alpha))
    allowed = np.hypot(5e-5, wander * np.sqrt(chi2.ppf(1 - RARE, n) / n / steps))
    assert rms([f.step_s - step for f in fits]) < allowed
    assert all((f.step_sd > 0) == (wander > 0) for f in fits)


def test_intervals_cover():
    fits, _ = replicate(907, 300, sigma=0.002, tokens=300)
    n = len(fits)
    z = {
        "alpha": [(f.alpha - 0.8) / f.alpha_se for f in fits],
        "length": [(f.extra["acceptance_length"] - 2.952) / f.extra["acceptance_length_se"] for f in fits],
        "step": [(f.step_s - 0.02) / f.step_se for f in fits],
    }
    low, high = binom.ppf(RARE, n, 0.95), binom.ppf(1 - RARE, n, 0.95)
    for name, values in z.items():
        assert low <= np.sum(np.abs(values) < 1.96) <= high, name
    # power: intervals a third too short (82% coverage) would have been caught in 99 of 100 runs
    assert binom.cdf(low - 1, n, 0.81) > 0.99


def test_a_comb_of_the_wrong_law_is_noticed():
    rng = np.random.default_rng(31)
    a, bursts = draw(rng, max_burst=6, alpha=0.72, step=0.031, sigma=0.0062, tokens=900)
    fit = independent.fit([a])
    assert fit.max_burst == 6
    assert fit.loglik - fit.loglik_by_burst[5] > 5  # M = 5 was tried and is clearly worse
    assert fit.burst_counts.sum() == pytest.approx(len(bursts), abs=4)
    assert np.mean(fit.bursts[0][:250] == np.array(bursts)[1:251]) > 0.6  # the first burst may lack a token: left out


def test_a_drowned_comb_says_so():
    rng = np.random.default_rng(32)
    fits = [independent.fit([draw(rng, sigma=0.0095, tokens=300)[0]]) for _ in range(6)]
    wrong = [f for f in fits if abs(f.step_s - 0.02) > 5e-4]
    assert len(wrong) >= 3  # else the case is too easy to show anything
    assert all(f.extra["period_margin"] < 8 for f in wrong)
    assert np.median([f.extra["needed_tokens"] for f in wrong]) > 300
