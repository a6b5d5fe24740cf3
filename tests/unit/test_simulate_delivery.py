"""From steps to events: every stage on columns short enough to work out by hand."""

import numpy as np
import pytest
from scipy.stats import binomtest, expon, kstest, lognorm, norm, pareto, uniform

from specsonar.sources.decoder import Dice
from specsonar.sources.laws import LONGEST_DELAY_MS
from specsonar.sources.link import Events, deliver, fill, flush, pace, tick
from specsonar.sources.service import Delay, Service

LEVEL = 1e-4
MS = 1_000_000


def carry(done_ms, sizes, seed=0, **knobs):
    done = (np.array(done_ms) * MS).astype(np.int64)
    return deliver(Service(**knobs), done, np.array(sizes), Dice(seed, 0))


def ms(events):
    return (events.t / MS).tolist()


def column(t, size=None):
    t = np.array(t, np.int64)
    return Events(t, np.ones_like(t), np.ones_like(t) if size is None else np.array(size), np.arange(t.size))


def test_tokens_of_a_step_leave_together():
    events = carry([0, 20, 40], [1, 3, 2])
    assert ms(events) == [0, 20, 20, 20, 40, 40]
    assert events.packet.tolist() == [0, 1, 1, 1, 2, 2]
    assert events.tokens.tolist() == [1] * 6


def test_one_event_per_step_holds_its_tokens():
    events = carry([0, 20, 40], [1, 3, 2], events="step")
    assert ms(events) == [0, 20, 40]
    assert events.tokens.tolist() == [1, 3, 2]


def test_spacing_inside_a_write():
    assert ms(carry([0, 20], [1, 3], in_burst_us=100)) == [0, 20, 20.1, 20.2]


@pytest.mark.parametrize("order", ["in-order", "independent"])
def test_a_slow_writer_holds_up_the_next_step(order):
    assert ms(carry([0, 20, 21], [1, 3, 2], in_burst_us=1_000, order=order)) == [0, 20, 21, 22, 22, 22]


def test_noisy_spacing_keeps_its_mean():
    done = np.arange(2_000) * 20
    events = carry(done, [1] + [5] * 1_999, in_burst_us=100, in_burst_cv=0.5)
    gaps = np.diff(events.t)[np.diff(events.packet) == 0] / 1e3
    assert abs(gaps.mean() - 100) < 4 * 50 / gaps.size**0.5
    assert gaps.std() == pytest.approx(50, rel=0.1)


@pytest.mark.parametrize(
    ("mode", "times", "counts"),
    [
        # sizes 1 | 2 1 4 1 1 : at least 3 on step boundaries, or just 3, the rest when the answer ends
        ("steps", [0, 2, 3, 5], [1, 3, 4, 2]),
        ("exact", [0, 2, 3, 5], [1, 3, 3, 3]),
    ],
)
def test_stream_interval(mode, times, counts):
    events = carry([0, 1, 2, 3, 4, 5], [1, 2, 1, 4, 1, 1], stream_interval=3, interval_mode=mode, events="step")
    assert (ms(events), events.tokens.tolist()) == (times, counts)


def test_exact_interval_writes_several_chunks_when_one_step_fills_them():
    events = carry([0, 1, 2], [1, 5, 2], stream_interval=2, interval_mode="exact", events="step")
    assert (ms(events), events.tokens.tolist()) == ([0, 1, 1, 2, 2], [1, 2, 2, 2, 1])
    single = carry([0, 1, 2], [1, 5, 2], stream_interval=2, interval_mode="exact")
    assert ms(single) == [0, 1, 1, 1, 1, 2, 2, 2]


@pytest.mark.parametrize("mode", ["steps", "exact"])
def test_an_interval_leaves_an_answer_of_one_token_alone(mode):
    assert carry([0], [1], stream_interval=4, interval_mode=mode).t.tolist() == [0]


def test_interval_under_speculation_still_bounds_the_burst():
    sizes = np.concatenate(([1], np.random.default_rng(1).integers(1, 6, 4_000)))
    counts = carry(np.arange(sizes.size), sizes, stream_interval=8, events="step").tokens[1:-1]
    assert (counts.min(), counts.max()) == (8, 12)


def test_merged_writes_hold_two_steps_and_leave_with_the_second():
    events = carry([0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 6], events="step", merge_probability=1)
    assert (ms(events), events.tokens.tolist()) == ([0, 2, 4, 5], [1, 5, 9, 6])


def test_share_of_events_that_hold_two_steps():
    events = carry(np.arange(20_001), [1] + [1] * 20_000, events="step", merge_probability=0.2)
    assert events.tokens.sum() == 20_001
    body = events.tokens[1:-1]
    assert set(body.tolist()) == {1, 2}
    assert binomtest(int((body == 2).sum()), body.size, 0.2).pvalue > LEVEL


def test_pacing_is_a_queue_with_a_smallest_distance():
    assert pace(column([0, 20, 20, 20, 60, 61]), 8).t.tolist() == [0, 20, 28, 36, 60, 68]


def test_timer_flush_is_at_multiples_of_the_period_after_its_phase():
    events = flush(column([0, 3, 4, 9, 13, 13, 14]), 10, 3)
    assert events.t.tolist() == [3, 3, 13, 13, 13, 13, 23]
    assert events.packet.tolist() == [0, 0, 1, 1, 1, 1, 2]


def test_full_blocks_are_passed_on_when_their_last_byte_is_there():
    # bytes end at 4 8 12 16 20: blocks of 10 are full with the third and the fifth event
    events = fill(column([0, 1, 2, 3, 4], [4] * 5), 10)
    assert events.t.tolist() == [2, 2, 4, 4, 4]
    assert events.packet.tolist() == [0, 0, 1, 1, 1]


def test_what_is_left_in_a_buffer_comes_with_the_end_of_the_answer():
    assert fill(column([0, 1, 2], [4, 4, 4]), 100).t.tolist() == [2, 2, 2]
    assert fill(column([0, 1, 2], [100, 1, 1]), 100).t.tolist() == [0, 2, 2]


def test_a_block_smaller_than_an_event_delays_nothing_that_ends_a_block():
    assert fill(column([0, 1, 2], [10, 10, 10]), 10).t.tolist() == [0, 1, 2]


def test_in_order_delay_is_shared_by_a_step_and_nothing_overtakes():
    events = carry([0, 20, 40, 60], [1, 2, 2, 1], step_delay=Delay("uniform", 50))
    late = 50 * Dice(0, 0)["step-delay"].random(4)
    wanted = np.maximum.accumulate(np.array([0, 20, 40, 60]) + late)
    assert ms(events) == pytest.approx(wanted[[0, 1, 1, 2, 2, 3]], abs=1e-6)


def test_own_delays_on_an_ordered_link_do_not_overtake():
    events = carry([0, 20], [1, 40], token_delay=Delay("exponential", 3))
    draws = 3 * Dice(0, 0)["token-delay"].standard_exponential(41)
    wanted = np.maximum.accumulate(np.array([0] + [20] * 40) + draws)
    assert ms(events) == pytest.approx(wanted, abs=1e-6)


def test_independent_delays_are_sorted_and_counts_travel_with_their_event():
    knobs = {"order": "independent", "token_delay": Delay("uniform", 100), "events": "step"}
    events = carry([0, 20, 40, 60], [1, 2, 3, 4], **knobs)
    raw = np.array([0, 20, 40, 60]) + 100 * Dice(0, 0)["token-delay"].random(4)
    place = np.argsort(raw)
    assert ms(events) == pytest.approx(raw[place], abs=1e-6)
    assert events.tokens.tolist() == (place + 1).tolist()
    assert events.packet.tolist() == place.tolist()


def test_both_delays_add_up():
    both = carry([0, 20], [1, 3], order="independent", step_delay="gauss:1", token_delay="gauss:2")
    shared = Dice(0, 0)["step-delay"].standard_normal(2)[[0, 1, 1, 1]]
    own = 2 * Dice(0, 0)["token-delay"].standard_normal(4)
    assert ms(both) == pytest.approx(np.sort(np.array([0, 20, 20, 20]) + shared + own), abs=1e-6)


def test_a_stall_holds_up_what_is_behind_it():
    done = np.arange(5_000) * 20.0
    events = carry(done, [1] * 5_000, stall_probability=0.01, stall_ms=(100, 300))
    late = events.t / MS - done
    assert late.min() == 0
    assert 200 < late.max() < 300
    jumps = np.flatnonzero(np.diff(late) > 0)
    assert binomtest(jumps.size, 4_999, 0.01).pvalue > 1e-3  # a stall inside a stall may hide: rare at 1%
    first = jumps[0] + 1
    held = int(late[first] // 20)
    assert np.array_equal(events.t[first : first + held], np.full(held, events.t[first]))
    assert late[first + held + 1] == 0


def test_the_clock_rounds_down_to_its_tick():
    times = np.array([0, 999_999, 1_000_000, 15_599_999, 15_600_000])
    assert tick(times, 0).tolist() == times.tolist()
    assert tick(times, 1).tolist() == [0, 0, 1_000_000, 15_000_000, 15_000_000]
    assert tick(times, 15.6).tolist() == [0, 0, 0, 0, 15_600_000]


LAWS = [
    (Delay("gauss", 3), norm(0, 3)),
    (Delay("lognormal", 2, 0.7), lognorm(0.7, scale=2)),
    (Delay("exponential", 5), expon(scale=5)),
    (Delay("pareto", 1, 1.5), pareto(1.5)),
    (Delay("uniform", 4), uniform(0, 4)),
]


@pytest.mark.parametrize(("delay", "law"), LAWS, ids=[d.law for d, _ in LAWS])
def test_delays_follow_their_law(delay, law):
    draws = delay.draw(np.random.default_rng(7), 20_000)
    assert kstest(draws, law.cdf).pvalue > LEVEL
    assert kstest(draws * 1.1, law.cdf).pvalue < LEVEL  # a scale that is 10% off would be seen


def test_no_delay_is_longer_than_the_longest():
    draws = Delay("pareto", 60_000, 0.01).draw(np.random.default_rng(0), 1_000)
    assert draws.max() == LONGEST_DELAY_MS
    assert np.isfinite(Delay("lognormal", 60_000, 100).draw(np.random.default_rng(0), 1_000)).all()


def test_event_sizes_are_text_and_envelope():
    events = carry([0, 1, 2], [1, 50, 200], events="step", event_bytes=100, token_bytes=1)
    assert events.size.tolist() == [101, 150, 300]
    varied = carry(np.arange(5_001), [1] * 5_001, event_bytes=100, token_bytes=5)
    assert varied.size.min() >= 101
    assert abs(varied.size.mean() - 105) < 4 * 2 / 5_001**0.5
