"""Answers that are held back: what leaves, when, and how large it is, without a socket."""

import json
import re
from collections import deque

import numpy as np
import pytest

from specsonar.sources.defences import Policy, released
from specsonar.sources.proxy.requests import BadRequestError, Requests
from specsonar.sources.proxy.shield import MOST_BLOCK, Shield
from specsonar.wire.limits import Limits
from specsonar.wire.sse import Sse

MS = 1_000_000
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nX-Odd:  kept \r\ntransfer-encoding: Chunked\r\n\r\n"
EVENTS = [b'data: {"w": %d}\n\n' % k for k in range(9)]
LATER = 10**15


def chunk(data):
    return b"%x\r\n%s\r\n" % (len(data), data)


def shield(policy, *methods, seed=1):
    return Shield(Policy.parse(policy), deque(methods or (b"POST",)), np.random.default_rng(seed))


def chunks(body):
    """The chunks of a body that is complete."""
    found = []
    while body:
        size, _, rest = body.partition(b"\r\n")
        found.append(rest[: int(size, 16)])
        assert rest[int(size, 16) :].startswith(b"\r\n")
        body = rest[int(size, 16) + 2 :]
    assert found.pop() == b""
    return found


def play(made, arrivals):
    """Feed (time, bytes) pairs in virtual time; (time, bytes) of all that leaves."""
    left = []

    def let_go(before):
        while (due := made.due) is not None and (before is None or due < before):
            left.append((due, made.leave(due)))

    for t, data in arrivals:
        let_go(t)
        made.received(t, data)
    let_go(None)
    return left


@pytest.mark.parametrize(
    "policy", ["delay=exponential:10ms", "scatter=uniform:30ms", "pace=7ms", "batch=50ms", "split"]
)
def test_events_leave_when_the_simulator_says_with_the_same_chance(policy):
    """The proxy and the simulated service run one and the same machine."""
    rng = np.random.default_rng(5)
    t = np.cumsum(rng.choice([0, 20 * MS], 200, p=[0.6, 0.4])) + MS
    events = [b"data: %d\n\n" % k for k in range(200)]
    left = play(shield(policy), [(1, HEAD), *zip(t.tolist(), map(chunk, events), strict=True), (LATER, b"0\r\n\r\n")])
    expected = released(Policy.parse(policy), t, np.random.default_rng(1))
    assert b"".join(data for _, data in left).startswith(HEAD)
    times = [due for due, data in left for _ in re.findall(rb"data: ", data)]
    assert times == expected.tolist()
    body = b"".join(data for _, data in left).removeprefix(HEAD)
    assert b"".join(chunks(body)) == b"".join(events)


@pytest.mark.parametrize("policy", ["pace=7ms", "batch=50ms", "split", "pad=64", "pace=7ms+pad=64"])
def test_bytes_may_be_cut_anywhere(policy):
    whole = HEAD + b"".join(map(chunk, EVENTS)) + b"0\r\nx-trailer: 1\r\n\r\n"
    for cut in range(1, 40):
        made = shield(policy)
        for at in range(0, len(whole), cut):
            made.received(MS, whole[at : at + cut])
        got = made.leave(LATER)
        assert got.startswith(HEAD) and got.endswith(b"0\r\nx-trailer: 1\r\n\r\n")
        body = got.removeprefix(HEAD).removesuffix(b"0\r\nx-trailer: 1\r\n\r\n") + b"0\r\n\r\n"
        text = b"".join(chunks(body))
        assert re.sub(rb":[ ]*\n\n", b"", text) == b"".join(EVENTS)
        assert made.due is None and made.waiting == 0


def test_padded_writes_are_multiples_and_clients_see_the_same_events():
    made = shield("pad=64")
    sizes = [5, 30, 56, 57, 58, 59, 60, 100]
    events = [b"data: " + b"x" * (n - 8) + b"\n\n" for n in sizes]
    for k, event in enumerate(events):
        made.received((k + 1) * MS, (HEAD if k == 0 else b"") + chunk(event))
    made.received(LATER, b"0\r\n\r\n")
    writes = chunks(made.leave(LATER).removeprefix(HEAD))
    assert [len(write) % 64 for write in writes] == [0] * len(sizes)
    assert [len(write) - n < 64 + 3 for write, n in zip(writes, sizes, strict=True)] == [True] * len(sizes)
    parser = Sse(Limits())
    told = [event for write in writes for event in parser.feed(write) if "comment" not in (event.value or {})]
    assert len(told) == len(events)


def test_the_padding_ends_its_lines_as_the_server_does():
    made = shield("pad=64")
    made.received(MS, HEAD + chunk(b"data: a\r\n\r\n") + b"0\r\n\r\n")
    (write,) = chunks(made.leave(LATER).removeprefix(HEAD))
    assert len(write) == 64 and b"\n" not in write.replace(b"\r\n", b"")


def test_lines_of_json_are_padded_with_spaces():
    head = HEAD.replace(b"text/event-stream", b"application/x-ndjson")
    lines = [b'{"a": %d}\n' % k for k in range(5)]
    made = shield("batch=10ms+pad=100")
    made.received(MS, head + chunk(lines[0]))
    made.received(2 * MS, chunk(b"".join(lines[1:])) + b"0\r\n\r\n")
    writes = chunks(made.leave(LATER).removeprefix(head))
    assert [len(write) for write in writes] == [100, 100]
    assert [json.loads(line) for line in b"".join(writes).splitlines()] == [{"a": k} for k in range(5)]


def test_events_of_one_moment_are_one_write():
    made = shield("batch=10ms")
    made.received(MS, HEAD + chunk(EVENTS[0]))
    made.received(3 * MS, chunk(EVENTS[1]) + chunk(EVENTS[2] + EVENTS[3]))
    assert made.leave(3 * MS) == HEAD + chunk(EVENTS[0])
    assert made.due == 11 * MS
    made.received(LATER, b"0\r\n\r\n")
    assert made.leave(11 * MS) == chunk(b"".join(EVENTS[1:4])) + b"0\r\n\r\n"


def test_answers_that_are_no_streams_pass_as_they_are():
    first = b"HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\n\x1f\x8b.."
    second = (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 No\r\nTransfer-Encoding: chunked\r\n\r\n2;a=b\r\nhi\r\n0\r\n\r\n"
    )
    third = b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n"
    made = shield("pace=1s+pad=512", b"POST", b"POST", b"HEAD")
    made.received(MS, first + second + third)
    assert made.leave(MS) == first + second + third
    assert made.told == [] and not made.closing


def test_a_stream_that_ends_with_the_connection_stays_one():
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
    made = shield("pace=7ms")
    made.received(MS, head + EVENTS[0] + EVENTS[1] + b"data: cut")
    made.received(2 * MS, b"")
    assert made.leave(LATER) == head + EVENTS[0] + EVENTS[1] + b"data: cut"


def test_two_answers_of_one_connection_do_not_mix():
    made = shield("pace=7ms", b"POST", b"POST")
    one = HEAD + b"".join(map(chunk, EVENTS)) + b"0\r\n\r\n"
    made.received(MS, one + one)
    got = made.leave(LATER)
    assert got.count(HEAD) == got.count(b"0\r\n\r\n") == 2
    assert got.index(b"0\r\n\r\n") < got.rindex(HEAD)


@pytest.mark.parametrize(
    ("head", "policy", "reason"),
    [
        (HEAD.replace(b"X-Odd:  kept ", b"Content-Encoding: gzip"), "pace=7ms", "compressed"),
        (HEAD.replace(b"text/event-stream", b"application/vnd.amazon.eventstream"), "pace=7ms", "amazon"),
        (HEAD.replace(b"text/event-stream", b"application/grpc+proto"), "pace=7ms", "grpc"),
        (HEAD.replace(b"transfer-encoding: Chunked", b"Content-Length: 400"), "pad=64", "fixed length"),
        (b"HTTP/1.1 2x0 what\r\n\r\n", "pace=7ms", "rules of HTTP"),
    ],
)
def test_what_cannot_be_hidden_is_refused_and_told(head, policy, reason):
    made = shield(policy)
    made.received(MS, head + chunk(EVENTS[0]))
    got = made.leave(MS)
    assert got.startswith(b"HTTP/1.1 502 Bad Gateway\r\n") and reason.encode() in got
    assert made.closing and len(made.told) == 1 and reason in made.told[0]
    made.received(2 * MS, chunk(EVENTS[1]))
    assert made.due is None, "nothing of it passes"


def test_an_answer_that_breaks_off_gives_what_it_had_and_nothing_more():
    made = shield("batch=10ms")
    made.received(MS, HEAD + chunk(EVENTS[0]) + b"zz\r\n")
    assert made.closing and made.leave(LATER) == HEAD + chunk(EVENTS[0])


def test_json_of_unknown_length_passes_and_is_told():
    made = shield("pace=7ms")
    made.received(MS, HEAD.replace(b"text/event-stream", b"application/json") + chunk(b"[1"))
    assert made.leave(MS).endswith(chunk(b"[1"))
    assert len(made.told) == 1


def test_an_endless_event_leaves_in_parts():
    made = shield("pad=64")
    made.received(MS, HEAD + chunk(b"data: " + b"x" * MOST_BLOCK))
    assert made.waiting == len(HEAD) + MOST_BLOCK + 6
    assert len(made.leave(MS)) > MOST_BLOCK
    made.received(2 * MS, chunk(b"y\n\n"))
    assert b"xx" not in made.leave(2 * MS)


def test_requests_ask_for_no_compression_and_no_other_protocol():
    methods = deque()
    requests = Requests("up", "", methods)
    asked = requests.feed(b"POST / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip, br\r\nContent-Length: 2\r\n\r\nhi")
    assert asked == b"POST / HTTP/1.1\r\nHost: up\r\nAccept-Encoding: identity\r\nContent-Length: 2\r\n\r\nhi"
    assert list(methods) == [b"POST"]
    with pytest.raises(BadRequestError, match="WebSocket"):
        requests.feed(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
    with pytest.raises(BadRequestError, match="HTTP/2"):
        Requests("up", "", deque()).feed(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
    plain = Requests("up")
    assert b"gzip, br" in plain.feed(b"GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip, br\r\n\r\n")
