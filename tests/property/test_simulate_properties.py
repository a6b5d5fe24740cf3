"""What holds for every service that can be configured."""

import json

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from specsonar.sources.decoder import Dice
from specsonar.sources.laws import LAWS
from specsonar.sources.link import Events, deliver, fill, flush, pace
from specsonar.sources.service import Delay, Service
from specsonar.sources.simulate import simulate

share = st.floats(0, 1).map(lambda x: round(x, 3))
delays = st.builds(Delay, st.sampled_from(LAWS), st.floats(0, 50), st.floats(0.2, 3))


@st.composite
def services(draw):
    order = draw(st.sampled_from(("in-order", "independent")))
    return Service(
        k=draw(st.integers(1, 9)),
        bonus=draw(st.booleans()),
        acceptance=draw(st.floats(0.01, 0.99)),
        acceptance_after=draw(st.none() | st.floats(0.01, 0.99)),
        change_at=draw(share),
        draft_probability=draw(share),
        clip_draft=draw(st.booleans()),
        step_cv=draw(st.sampled_from((0.0, 0.05, 0.5, 2.0))),
        slow_probability=draw(share),
        stream_interval=draw(st.integers(1, 9)),
        interval_mode=draw(st.sampled_from(("steps", "exact"))),
        merge_probability=draw(share),
        events=draw(st.sampled_from(("token", "step"))),
        counts=draw(st.sampled_from(("auto", "each", "total", "none"))),
        in_burst_us=draw(st.sampled_from((0.0, 100.0, 30_000.0))),
        in_burst_cv=draw(st.sampled_from((0.0, 0.5))),
        paced_ms=draw(st.sampled_from((0.0, 5.0, 50.0))),
        flush_ms=draw(st.sampled_from((0.0, 5.0, 50.0))),
        flush_bytes=draw(st.sampled_from((0, 100, 5_000))),
        defence=draw(
            st.sampled_from(("none", "delay=exponential:5ms", "scatter=uniform:9ms+pad=64", "pace=7ms", "split"))
        ),
        read_block=draw(st.sampled_from((0, 100, 5_000))),
        resolution_ms=draw(st.sampled_from((0.0, 1.0, 15.6))),
        order=order,
        step_delay=draw(delays),
        token_delay=draw(delays),
        stall_probability=draw(share) if order == "in-order" else 0.0,
    )


@settings(max_examples=100, deadline=None)
@given(services(), st.integers(1, 80), st.integers(0, 2**64))
def test_every_answer_is_complete_ordered_and_told(service, tokens, seed):
    stream = simulate(service, tokens=tokens, seed=seed).streams[0]
    truth = stream.truth
    assert (np.diff(stream.t_ns) >= 0).all()
    assert (np.diff(stream.read) >= 0).all()
    assert all(1 <= b <= service.burst for b in truth["bursts"] + truth["tail"])
    assert 1 + sum(truth["bursts"]) + sum(truth["tail"]) == tokens
    assert truth["steps"] == len(truth["bursts"]) + len(truth["tail"])
    assert not (service.clip_draft and truth["last_truncated"])
    if service.events == "token":
        assert len(stream) == tokens
    if service.told == "each":
        assert stream.tokens.sum() == tokens
    assert json.loads(json.dumps(truth)) == truth
    assert Service(**truth["service"]) == service


columns = st.lists(st.tuples(st.integers(0, 50), st.integers(1, 40)), min_size=1, max_size=40).map(
    lambda rows: Events(
        np.cumsum([gap for gap, _ in rows]), np.ones(len(rows), np.int64), np.array([b for _, b in rows]),
        np.arange(len(rows)),
    )
)  # fmt: skip


@given(columns, st.integers(1, 60), st.integers(0, 59))
def test_buffers_only_delay_and_keep_the_order(events, period, phase):
    for late in (pace(events, period), flush(events, period, phase % period), fill(events, period)):
        assert (np.diff(late.t) >= 0).all()
        assert late.tokens.tolist() == events.tokens.tolist()
        assert (np.diff(late.packet) >= 0).all()
    assert (pace(events, period).t >= events.t).all()
    assert (np.diff(pace(events, period).t) >= period).all()
    late = flush(events, period, phase % period).t
    assert ((late >= events.t) & (late < events.t + period) & ((late - phase) % period == 0)).all()


@given(columns, st.integers(1, 200))
def test_a_full_block_agrees_with_a_reader_that_counts_byte_by_byte(events, block):
    arrival = np.repeat(events.t, events.size)  # of each byte at the buffer
    last = np.cumsum(events.size) - 1
    end = np.minimum((last // block + 1) * block - 1, arrival.size - 1)
    assert fill(events, block).t.tolist() == arrival[end].tolist()


@given(st.lists(st.integers(1, 6), min_size=1, max_size=30), st.integers(2, 9))
def test_writes_of_an_interval_agree_with_a_server_that_counts_token_by_token(sizes, n):
    sizes = [1, *sizes]
    done = np.arange(len(sizes)) * 10
    service = Service(max_burst=6, stream_interval=n, events="step", event_bytes=0)
    got = deliver(service, done, np.array(sizes), Dice(0, 0))
    wanted, waiting = [(0, 1)], 0
    for i, size in enumerate(sizes[1:], 1):
        waiting += size
        if waiting >= n or i == len(sizes) - 1:
            wanted.append((10 * i, waiting))
            waiting = 0
    assert list(zip(got.t.tolist(), got.tokens.tolist(), strict=True)) == wanted
