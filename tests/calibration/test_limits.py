"""How far it must see: independent delays at the limit, from fixed seeds, each bound from an error rate.

Wanted is M exact, with the verdict "speculative", in 90% of the recordings. With that rate fewer than `least(n, .9)` of
n happen once in 10,000 runs; the founding article's cut, and a normal law where delays are skewed, fail every row.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from specsonar.fingerprint import SPECULATIVE
from specsonar.fit import fingerprint
from specsonar.models import comb_delays
from specsonar.sources.service import INDEPENDENT, Delay, Service
from specsonar.sources.simulate import simulate
from specsonar.stats.baseline import analyse

RARE = 1e-4


def least(n, rate=0.9):
    """Fewest successes of n that a process with this rate shows except once in 10,000 runs."""
    return int(binom.ppf(RARE, n, rate))


def recordings(n, streams=1, **knobs):
    """`n` recordings of 600 tokens a stream, without their truth."""
    service = Service(max_burst=4, acceptance=0.8, step_ms=20.0, order=INDEPENDENT, **knobs)
    return [simulate(service, tokens=600, streams=streams, seed=7_000 + i).without_truth() for i in range(n)]


def right(traces):
    """How many are said to be speculative with M = 4."""
    found = [fingerprint(trace) for trace in traces]
    return sum(f.verdict == SPECULATIVE and f.max_burst.value == 4 for f in found)


def lognormal(shape):
    """Log-normal delay with a standard deviation of .3 step."""
    return Delay("lognormal", 6.0 / math.sqrt(math.exp(shape**2) * math.expm1(shape**2)), shape)


SKEWED = {"exponential": Delay("exponential", 6.0), "log-normal": lognormal(0.5), "heavy log-normal": lognormal(1.0)}
ROWS = {
    "spread 0.35": (10, 0.9, 1, {"token_delay": Delay("gauss", 7.0)}),
    # one recording takes as long as ten: few of them, and the rate that was measured instead of the one that is wanted
    "ten streams at 0.40": (3, 0.99, 10, {"token_delay": Delay("gauss", 8.0)}),
    **{name: (8, 0.9, 1, {"token_delay": delay}) for name, delay in SKEWED.items()},
    "drift of 3% at 0.20": (8, 0.9, 1, {"token_delay": Delay("gauss", 4.0), "step_cv": 0.03}),
}


@pytest.mark.parametrize("name", ROWS)
def test_max_burst_is_found_at_the_limit(name):
    n, rate, streams, knobs = ROWS[name]
    traces = recordings(n, streams, **knobs)
    wanted = least(n, rate)
    assert wanted > 0
    assert right(traces) >= wanted
    # power: the two-means cut would have failed
    naive = [np.median([analyse((s.t_ns - s.t_ns[0]) * 1e-9).max_burst for s in trace.streams]) for trace in traces]
    assert sum(m == 4 for m in naive) < wanted


def test_a_normal_law_does_not_find_skewed_delays(monkeypatch):
    monkeypatch.setattr(comb_delays, "PATHS", comb_delays.PATHS[:1])
    assert right(recordings(8, token_delay=SKEWED["exponential"])) < least(8)


def test_the_step_is_held_by_its_interval_where_several_are_likely():
    found = [fingerprint(trace) for trace in recordings(5, token_delay=Delay("gauss", 7.4))]
    steps = [f.step_ms for f in found if f.step_ms is not None]
    assert len(steps) >= 3
    # 95% are wanted: more than two misses of five would come once in 800 runs
    assert sum(not s.low <= 20.0 <= s.high for s in steps) <= 2
