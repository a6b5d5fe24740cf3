"""What holds for every way to hide and every stream: order, causality, nothing lost, and what each way promises."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specsonar.sources.defences import Policy, padded, released

MS = 1_000_000

times = st.lists(st.one_of(st.just(0), st.integers(0, 3 * MS), st.integers(0, 200 * MS)), min_size=1, max_size=60).map(
    lambda gaps: np.cumsum(gaps).astype(np.int64)
)
texts = (
    "delay=exponential:10ms", "delay=uniform:30ms", "scatter=exponential:10ms", "scatter=lognormal:5ms,1", "pace=7ms",
    "batch=50ms", "split", "split=20ms",
)  # fmt: skip
policies = st.sampled_from(texts).map(Policy.parse)


def run(policy, t, seed=0):
    return released(policy, t, np.random.default_rng(seed))


def step_by_step(policy, t, seed):
    """Each event offered to a machine that has seen no later one; a leaving is kept only once its time has come."""
    machine, left = policy.timing(np.random.default_rng(seed)), []
    for came, now in enumerate(t.tolist()):
        while (due := machine.due()) is not None and due < now:
            assert came > len(left), "an event left before it came"
            left.append(due)
            machine.leave()
        machine.take(now)
        assert machine.due() is not None and machine.due() >= t[len(left)]
    while (due := machine.due()) is not None:
        left.append(due)
        machine.leave()
    return left


@settings(max_examples=300, deadline=None)
@given(policies, times, st.integers(0, 9))
def test_nothing_is_lost_nothing_overtakes_and_nothing_leaves_early(policy, t, seed):
    left = run(policy, t, seed)
    assert left.size == t.size
    assert (np.diff(left) >= 0).all()
    assert (left >= t).all()
    assert step_by_step(policy, t, seed) == left.tolist()


@settings(max_examples=200, deadline=None)
@given(policies, times, st.integers(1, 59), st.integers(0, 9))
def test_what_left_does_not_depend_on_what_comes_later(policy, t, cut, seed):
    cut = min(cut, t.size)
    whole, begun = run(policy, t, seed), run(policy, t[:cut], seed)
    if cut == t.size:
        return
    gone = whole < t[cut]
    assert (begun[: gone.sum()] == whole[gone]).all()


@settings(max_examples=200, deadline=None)
@given(times)
def test_paced_events_leave_on_a_grid_one_at_a_time(t):
    places, rest = np.divmod(run(Policy.parse("pace=7ms"), t) - t[0], 7 * MS)
    assert (rest == 0).all() and (np.diff(places) > 0).all()


@settings(max_examples=200, deadline=None)
@given(times)
def test_a_batch_waits_no_longer_than_its_interval(t):
    left = run(Policy.parse("batch=50ms"), t)
    assert ((left - t[0]) % (50 * MS) == 0).all()
    assert ((left - t) < 50 * MS).all()


@settings(max_examples=200, deadline=None)
@given(times, st.integers(0, 9))
def test_scatter_adds_the_delays_and_nothing_more(t, seed):
    policy = Policy.parse("scatter=uniform:30ms")
    delays = np.rint([policy.law.draw(rng, 1)[0] * 1e6 for rng in [np.random.default_rng(seed)] for _ in t])
    assert run(policy, t, seed).tolist() == sorted((t + delays.astype(np.int64)).tolist())


@settings(max_examples=200, deadline=None)
@given(times, st.lists(st.integers(1, 900), min_size=60, max_size=60), st.integers(1, 2048))
def test_every_write_is_filled_up(t, sizes, pad):
    size = np.array(sizes[: t.size])
    filled = padded(size, t, pad)
    assert (filled >= size).all()
    for moment in np.unique(t):
        assert filled[t == moment].sum() % pad == 0
        assert filled[t == moment].sum() - size[t == moment].sum() < pad


@pytest.mark.parametrize("text", texts)
def test_the_properties_would_notice_a_look_ahead(text):
    """A stream whose second half moves leaves the first half alone, also for long streams with real bursts."""
    rng = np.random.default_rng(1)
    bursts = rng.integers(1, 5, 300)
    t = np.repeat(np.cumsum(np.full(300, 20 * MS)), bursts)
    moved = t.copy()
    moved[400:] += 500 * MS
    a, b = run(Policy.parse(text), t), run(Policy.parse(text), moved)
    early = a < t[400]
    assert early.sum() > 300
    assert (a[early] == b[early]).all()
