"""Counted worlds H0, H5 and H20 (0%, 5%, 20% of the events hold two steps): a fixed-seed part of the report.

Bounds follow from error rates: M may be wrong in 2% of the streams, intervals may miss in 5%, and a test of so many
streams must be able to tell a broken layer (M wrong in 10%, coverage 88%) from a good one.
"""

import numpy as np
import pytest
from scipy.stats import binom, binomtest

from specsonar.models import counted
from specsonar.sources.worlds import WORLDS
from specsonar.stats.bursts import oracle_alpha
from specsonar.stats.result import Arrays

WORLD_NAMES = ("H0", "H5", "H20")
STREAMS = 120
ALPHA, LENGTH, STEP = 0.8, 2.952, 0.02
LEVEL = 1e-3


@pytest.fixture(scope="module")
def found():
    """Per world: fits, and alpha from the true bursts."""
    result = {}
    for name in WORLD_NAMES:
        streams = WORLDS[name].trace(streams=STREAMS, seed=20).streams
        arrays = [Arrays((s.t_ns - s.t_ns[0]) * 1e-9, s.tokens) for s in streams]
        result[name] = ([counted.fit([a]) for a in arrays], [oracle_alpha(s.truth["bursts"], 4) for s in streams])
    return result


@pytest.mark.parametrize("name", WORLD_NAMES)
def test_m_is_exact(found, name):
    wrong = sum(f.max_burst != 4 for f in found[name][0])
    allowed = int(binom.ppf(1 - LEVEL, STREAMS, 0.02))
    assert wrong <= allowed
    assert binom.sf(allowed, STREAMS, 0.15) > 0.99  # a layer that errs in 15% would be caught


@pytest.mark.parametrize("name", WORLD_NAMES)
def test_alpha_is_as_good_as_with_the_true_bursts(found, name):
    fits, oracle = found[name]
    error = np.array([f.alpha for f in fits]) - ALPHA
    best = np.array(oracle) - ALPHA
    ratio = np.sqrt((error**2).mean() / (best**2).mean())
    extra = (error - best).std() / np.sqrt(STREAMS)
    assert ratio < 1.15
    assert abs((error - best).mean()) < 4 * extra + 1e-3
    assert np.sqrt((best**2).mean()) == pytest.approx(0.0177, rel=0.25)  # the yardstick itself


@pytest.mark.parametrize("name", WORLD_NAMES)
def test_step_is_not_biased_by_stalls(found, name):
    steps = np.array([f.step_s for f in found[name][0]])
    assert abs(steps.mean() / STEP - 1) < 0.01
    naive = [f.extra["late"] for f in found[name][0]]
    assert np.mean(naive) > 0.005  # there were stalls to be misled by


def covered(fits, value, error, truth):
    return sum(abs(value(f) - truth) < 1.96 * error(f) for f in fits)


def test_intervals_cover(found):
    fits = [f for name in WORLD_NAMES for f in found[name][0]]
    hits = {
        "alpha": covered(fits, lambda f: f.alpha, lambda f: f.alpha_se, ALPHA),
        "length": covered(fits, lambda f: f.extra["length"], lambda f: f.extra["length_se_iid"], LENGTH),
        "step": covered(fits, lambda f: f.step_s, lambda f: f.step_se, STEP),
    }
    for name, count in hits.items():
        assert binomtest(count, len(fits), 0.95).pvalue > LEVEL, (name, count, len(fits))
    low = binom.ppf(LEVEL / 2, len(fits), 0.95)
    assert binom.cdf(low, len(fits), 0.88) > 0.95  # 88% would have been caught


def test_merges_are_counted(found):
    for name, share in (("H0", 0.0), ("H5", 0.05), ("H20", 0.2)):
        got = np.mean([f.extra["merge_probability"] for f in found[name][0]])
        assert got == pytest.approx(share, abs=0.015)


def test_a_lagging_consumer_of_plain_decoding_is_no_speculation():
    streams = WORLDS["J_merged"].trace(streams=40, seed=21).streams
    fits = [counted.fit([Arrays((s.t_ns - s.t_ns[0]) * 1e-9, s.tokens)]) for s in streams]
    assert sum(f.max_burst > 1 for f in fits) <= binom.ppf(1 - LEVEL, 40, 0.02)
    assert np.mean([f.step_s for f in fits]) == pytest.approx(STEP, rel=0.01)
