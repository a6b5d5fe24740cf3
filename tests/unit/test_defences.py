"""Ways to hide, on streams short enough to work out by hand, and how they are written."""

import numpy as np
import pytest

from specsonar.errors import UsageError
from specsonar.sources.defences import Policy, padding, release, released
from specsonar.sources.serve.simulation import Options, Simulation
from specsonar.sources.service import Service
from specsonar.sources.simulate import simulate

MS = 1_000_000


def left_ms(text, t_ms, seed=0):
    t = (np.array(t_ms) * MS).astype(np.int64)
    return (released(Policy.parse(text), t, np.random.default_rng(seed)) / MS).tolist()


def test_a_pace_begins_with_the_first_event_and_misses_places_when_nothing_waits():
    assert left_ms("pace=5ms", [3, 3, 3, 4, 31]) == [3, 8, 13, 18, 33]


def test_a_batch_takes_all_that_waits():
    assert left_ms("batch=10ms", [3, 4, 9, 13, 14, 40]) == [3, 13, 13, 13, 23, 43]


def test_a_step_is_spread_over_the_step_that_is_told():
    assert left_ms("split=20ms", [10, 30, 30, 30, 30, 50, 50]) == [11, 31, 36, 41, 46, 51, 61]


def test_a_step_is_spread_over_what_the_last_ones_took():
    t = [0, 20, 40, 60, 80, 80, 100, 100, 100, 100]
    assert left_ms("split", t) == [1, 21, 41, 61, 81, 91, 101, 106, 111, 116]


def test_a_step_that_ends_early_waits_for_the_one_before():
    assert left_ms("split=20ms", [10, 10, 10, 10, 15]) == [11, 16, 21, 26, 26]


def test_tokens_of_one_step_need_not_come_at_the_same_instant():
    assert left_ms("split=20ms", [10, 10.3, 10.9, 11]) == [11, 16, 21, 26]
    assert left_ms("split=20ms", [10, 10.3, 10.9, 11.2]) == pytest.approx([11, 11 + 20 / 3, 11 + 40 / 3, 11 + 40 / 3])


def test_delays_are_those_of_the_law_and_nothing_overtakes():
    t = np.arange(20_000) * 1_000 * MS  # far apart: every delay is seen by itself
    waited = (released(Policy.parse("delay=exponential:10ms"), t, np.random.default_rng(1)) - t) / MS
    assert waited.mean() == pytest.approx(10, abs=4 * 10 / 20_000**0.5)
    close = np.arange(20_000) * 2 * MS
    held = (released(Policy.parse("delay=exponential:10ms"), close, np.random.default_rng(1)) - close) / MS
    free = (released(Policy.parse("scatter=exponential:10ms"), close, np.random.default_rng(1)) - close) / MS
    assert free.mean() == pytest.approx(waited.mean(), abs=1e-6), "a scattered stream waits as long as its delays"
    assert held.mean() > 1.5 * free.mean(), "one that waits in a queue waits longer"


def test_the_cost_of_a_policy():
    t = np.array([100, 120, 120, 120, 140]) * MS
    cost = release(
        Policy.parse("pace=20ms+pad=100"), t, np.ones(5, int), np.full(5, 90), 0, np.random.default_rng(0)
    ).cost
    assert (cost.first_ms, cost.mean_ms, cost.longest_ms, cost.last_ms, cost.took_ms) == (0, 20, 40, 40, 140)
    assert (cost.bytes, cost.padding) == (450, 50)


def test_tokens_of_one_event_wait_together():
    t = np.array([0, 10]) * MS
    cost = release(Policy.parse("batch=4ms"), t, np.array([1, 3]), np.zeros(2, int), 0, np.random.default_rng(0)).cost
    assert cost.mean_ms == 2 * 3 / 4


@pytest.mark.parametrize(
    "text",
    ["none", "delay=exponential:10ms", "delay=uniform:2.5ms", "scatter=lognormal:5ms,0.8", "pace=8ms", "batch=100ms",
     "split", "split=20ms", "pad=512", "batch=100ms+pad=2048"],
)  # fmt: skip
def test_policies_read_back_what_they_write(text):
    assert str(Policy.parse(text)) == text
    assert Policy.parse(str(Policy.parse(text))) == Policy.parse(text)


@pytest.mark.parametrize(("text", "ms"), [("pace=8", 8), ("pace=0.008s", 8), ("pace=8000us", 8), (" pace=8ms ", 8)])
def test_units_of_a_period(text, ms):
    assert Policy.parse(text).period_ms == pytest.approx(ms)


@pytest.mark.parametrize(
    "text",
    ["pce=8ms", "pace", "pace=", "pace=fast", "pace=0", "pace=-3ms", "pace=1h", "pace=61s", "delay=gauss:6ms",
     "delay=10ms", "delay=exponential:", "delay=exponential:0ms", "pace=8ms+batch=9ms", "pad=0", "pad=-1",
     "pad=2000000", "pad=3+pad=4", "none=3", "split=0.1h"],
)  # fmt: skip
def test_what_is_no_policy_is_refused_with_an_example(text):
    with pytest.raises(UsageError) as caught:
        Policy.parse(text)
    assert caught.value.hint


def test_padding_of_a_write_that_can_only_grow_by_three():
    assert [padding(n, 8, least=3) for n in range(1, 10)] == [7, 6, 5, 4, 3, 10, 9, 0, 7]


def test_a_simulated_service_hides_before_the_link_and_says_what_it_cost():
    plain = simulate(seed=3).streams[0]
    hidden = simulate(seed=3, defence="batch=100ms+pad=1024").streams[0]
    assert hidden.truth["bursts"] == plain.truth["bursts"]
    assert ((hidden.t_ns - hidden.t_ns[0]) % (100 * MS) == 0).all()
    writes = np.bincount(hidden.read, hidden.size)
    assert (writes % 1024 == 0).all()
    cost = hidden.truth["defence"]
    assert cost["mean_ms"] == pytest.approx(((hidden.t_ns - plain.t_ns) / MS).mean())
    assert cost["padding"] == hidden.size.sum() - plain.size.sum()
    assert "defence" not in plain.truth


def test_the_simulated_server_does_not_pad():
    with pytest.raises(UsageError, match="pad"):
        Simulation(Service(defence="pad=512"), Options())
