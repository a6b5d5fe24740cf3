"""A real server in a process of its own, real clients, our capture: the times in the trace beside the send times."""

import threading
import time

import numpy as np
import pytest

from specsonar import read
from specsonar.sources.keeper import Keeper
from specsonar.sources.live import Capture
from specsonar.sources.serve import Server
from specsonar.sources.service import Service
from specsonar.tracefile import Writer

QUICK = Service(k=3, acceptance=0.7, step_ms=4.0, ttft_ms=5.0)
TOKENS = 60


def in_step(stream, sent, seen_ns):
    """Every stamp lies behind its send, and before whoever consumed the event could see it."""
    assert len(stream) == len(sent.sent_ns)
    slack = 1_000  # nanoseconds of mapping the kernel's clock
    assert (stream.t_ns + slack >= sent.sent_ns).all()
    assert (np.diff(stream.t_ns) >= 0).all()
    assert (stream.t_ns <= np.array(seen_ns)).all()


def test_the_official_client_that_sleeps_does_not_shift_the_times(tmp_path):
    openai = pytest.importorskip("openai")
    target = tmp_path / "trace.jsonl"
    seen = []
    with Server(QUICK, process=True, tokens=TOKENS) as server, Keeper(Writer(target)) as keeper:
        with Capture(keeper) as capture:
            client = openai.OpenAI(
                base_url=f"{server.url}/v1", api_key="none", http_client=capture.client(trust_env=False)
            )
            with client:
                for chunk in client.chat.completions.create(
                    model="simulated", messages=[{"role": "user", "content": "hello"}], stream=True
                ):
                    if chunk.choices and chunk.choices[0].delta.content:
                        seen.append(time.perf_counter_ns())
                        time.sleep(0.01)  # longer than a step: the client falls ever further behind
        (sent,) = server.sent_times()
    (stream,) = read(target).streams
    in_step(stream, sent, seen)
    assert stream.meta["stamps"] == capture.stamps
    assert stream.meta["model"] == "simulated"
    # the client needed 10 ms an event; the stamps know nothing of that
    assert seen[-1] - seen[0] >= (TOKENS - 1) * 10_000_000
    assert stream.t_ns[-1] - stream.t_ns[0] < seen[-1] - seen[0]
    assert stream.start_ns < stream.t_ns[0]


def test_streams_at_once():
    with Server(QUICK, process=True) as server, Keeper() as keeper:
        with Capture(keeper) as capture, capture.client(trust_env=False, timeout=60) as client:

            def ask(length):
                client.post(f"{server.url}/completion", json={"prompt": "x", "stream": True, "n_predict": length})

            # answers of different lengths, so that each is known by its own
            threads = [threading.Thread(target=ask, args=(TOKENS + i,)) for i in range(12)]
            for thread in threads:
                thread.start()
            for thread in threads:
                while thread.is_alive():
                    capture.poll()
                    thread.join(0.02)
        sent = {len(one.sent_ns): one for one in server.sent_times()}
        streams = keeper.trace().streams
    assert sorted(map(len, streams)) == sorted(sent) == [TOKENS + i for i in range(12)]
    over = time.perf_counter_ns()
    for stream in streams:
        in_step(stream, sent[len(stream)], [over] * len(stream))
    assert capture.lag.count or capture.stamps == "clock"
