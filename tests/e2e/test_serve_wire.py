"""What the simulated service writes, read back from the bytes: the streams that were meant, dialect by dialect."""

import itertools
import json
import socket
import time
from dataclasses import replace

import numpy as np
import pytest
from websockets.client import ClientProtocol
from websockets.frames import Frame
from websockets.protocol import OPEN
from websockets.uri import parse_uri

from specsonar.sources.serve import Server
from specsonar.sources.service import Service
from specsonar.wire.connection import Connection

FAST = Service(step_ms=1.0, ttft_ms=1.0, max_burst=5, acceptance=0.7)
STEPS = replace(FAST, events="step")
TALK = [{"role": "user", "content": "hello"}]
N = 60
EACH = {"include_usage": True, "continuous_usage_stats": True}

# path, body, and whether the server tells the tokens of each event, in the total, or not at all
CASES = {
    "chat, running total": (
        "/v1/chat/completions", {"messages": TALK, "max_tokens": N, "stream_options": EACH}, "each",
    ),
    "chat, ids": ("/v1/chat/completions", {"messages": TALK, "max_tokens": N, "return_token_ids": True}, "each"),
    "chat, logprobs": ("/v1/chat/completions", {"messages": TALK, "max_tokens": N, "logprobs": True}, "each"),
    "chat, total": (
        "/v1/chat/completions", {"messages": TALK, "max_tokens": N, "stream_options": {"include_usage": True}}, "total",
    ),
    "chat, silent": ("/v1/chat/completions", {"messages": TALK, "max_tokens": N}, "none"),
    "completions, ids": ("/v1/completions", {"prompt": "x", "max_tokens": N, "return_token_ids": True}, "each"),
    "completions, logprobs": ("/v1/completions", {"prompt": "x", "max_tokens": N, "logprobs": 0}, "each"),
    "responses": ("/v1/responses", {"input": "x", "max_output_tokens": N}, "total"),
    "responses, logprobs": (
        "/v1/responses",
        {"input": "x", "max_output_tokens": N, "include": ["message.output_text.logprobs"]}, "each",
    ),
    "anthropic": ("/v1/messages", {"messages": TALK, "max_tokens": N}, "total"),
    "ollama generate": ("/api/generate", {"model": "simulated", "prompt": "x", "options": {"num_predict": N}}, "total"),
    "ollama chat": (
        "/api/chat",
        {"model": "simulated", "messages": TALK, "logprobs": True, "options": {"num_predict": N}}, "each",
    ),
    "llama.cpp": ("/completion", {"prompt": "x", "n_predict": N}, "each"),
    "llama.cpp, timings": ("/completion", {"prompt": "x", "n_predict": N, "timings_per_token": True}, "each"),
}  # fmt: skip


def exchange(server, path, body):
    """One request over a plain socket; the answers that the wire decoders see in both directions."""
    host, port = server.url.removeprefix("http://").split(":")
    data = json.dumps({"stream": True, **body}).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\nconnection: close\r\n"
    request = head.encode() + b"content-length: %d\r\n\r\n" % len(data) + data
    connection = Connection()
    with socket.create_connection((host, int(port))) as plain:
        plain.sendall(request)
        connection.sent(time.monotonic_ns(), request)
        while part := plain.recv(1 << 16):
            connection.received(time.monotonic_ns(), part)
    connection.closed(time.monotonic_ns())
    assert connection.findings == []
    return connection.answers


def only_stream(answers):
    (answer,) = answers
    ((one,), findings) = answer.streams("it")
    return one, [f.code for f in findings]


@pytest.fixture(scope="module")
def by_token():
    with Server(FAST) as running:
        yield running


@pytest.fixture(scope="module")
def by_step():
    with Server(STEPS, seed=7) as running:
        yield running


@pytest.mark.parametrize("name", CASES)
def test_one_event_per_token(by_token, name):
    path, body, told = CASES[name]
    one, findings = only_stream(exchange(by_token, path, body))
    assert len(one) == N
    assert findings == []
    assert set(one.tokens.tolist()) <= {1, -1}
    if told == "each":
        assert one.tokens.tolist() == [1] * N
    if told != "none":
        assert one.known_tokens == N


@pytest.mark.parametrize("name", CASES)
def test_one_event_per_step_holds_the_tokens_of_the_step(by_step, name):
    path, body, told = CASES[name]
    one, findings = only_stream(exchange(by_step, path, body))
    truth = by_step.truth[-1]
    sizes = [1, *truth["bursts"], *truth["tail"]]
    assert len(one) == len(sizes)
    assert findings == []
    if told == "each":
        assert one.tokens.tolist() == sizes
    if told != "none":
        assert one.known_tokens == N == sum(sizes)


def test_tgi_has_an_event_for_each_token_even_then(by_token, by_step):
    for server in (by_token, by_step):
        body = {"inputs": "x", "parameters": {"max_new_tokens": N}}
        one, _ = only_stream(exchange(server, "/generate_stream", body))
        assert one.tokens.tolist() == [1] * N


@pytest.mark.parametrize("counts", ["total", "none"])
def test_a_server_that_tells_less_than_it_is_asked_for(counts):
    with Server(replace(STEPS, counts=counts)) as server:
        options = {"stream_options": EACH, "return_token_ids": True, "logprobs": True}
        body = {"messages": TALK, "max_tokens": N, **options}
        one, _ = only_stream(exchange(server, "/v1/chat/completions", body))
    assert set(one.tokens.tolist()) == {-1}
    assert one.total_tokens == (N if counts == "total" else None)


@pytest.mark.parametrize(
    ("engine", "path", "body"),
    [
        ("vllm", "/v1/completions", {"prompt": "x", "max_tokens": N, "stream_options": EACH}),
        ("llama.cpp", "/completion", {"prompt": "x", "n_predict": N}),
        ("llama.cpp", "/v1/chat/completions", {"messages": TALK, "max_tokens": N}),
    ],
)
@pytest.mark.parametrize("report", ["true", "lying", "none"])
def test_the_servers_own_report(engine, path, body, report):
    with Server(FAST, engine=engine, report=report) as server:
        one, _ = only_stream(exchange(server, path, body))
        truth = server.truth[0]
    assert one.meta["engine"].lower().startswith(engine)
    if report == "none":
        assert one.server_report is None
        return
    accepted = N - 1 - truth["steps"]
    told = one.server_report["accepted"]
    drafted = one.server_report["drafted"]
    assert drafted == 4 * truth["steps"]
    assert told == accepted if report == "true" else accepted < told <= drafted


def test_several_choices_are_several_streams(by_token):
    before = len(by_token.truth)
    body = {"messages": TALK, "max_tokens": N, "n": 3, "return_token_ids": True}
    (answer,) = exchange(by_token, "/v1/chat/completions", body)
    streams, _ = answer.streams("it")
    assert [s.tokens.tolist() for s in streams] == [[1] * N] * 3
    truths = by_token.truth[before:]
    assert len({tuple(t["bursts"]) for t in truths}) == 3
    assert len({t["id"] for t in truths}) == 3


def talk(server, path, *messages, until):
    """Messages over a WebSocket, one after each message that comes, and what the wire decoders see of it."""
    protocol = ClientProtocol(parse_uri(server.url.replace("http", "ws") + path))
    connection, kinds, waiting = Connection(), [], list(messages)
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as plain:

        def push():
            for data in protocol.data_to_send():
                plain.sendall(data)
                connection.sent(time.monotonic_ns(), data)

        protocol.send_request(protocol.connect())
        push()
        while until not in kinds:
            data = plain.recv(1 << 16)
            connection.received(time.monotonic_ns(), data)
            protocol.receive_data(data)
            kinds += [json.loads(e.data)["type"] for e in protocol.events_received() if isinstance(e, Frame)]
            if protocol.state is OPEN and waiting:
                protocol.send_text(waiting.pop(0).encode())
            push()
    connection.closed(time.monotonic_ns())
    return connection, kinds


def test_realtime_over_a_websocket(by_step):
    create = json.dumps({"type": "response.create", "response": {"max_output_tokens": N}})
    connection, kinds = talk(by_step, "/v1/realtime?model=simulated", create, until="response.done")
    truth = by_step.truth[-1]
    assert kinds.count("response.output_text.delta") == 1 + truth["steps"]
    order = [kind for kind, _ in itertools.groupby(kinds)]
    assert order == [
        "session.created", "response.created", "response.output_item.added", "response.content_part.added",
        "response.output_text.delta", "response.output_text.done", "response.content_part.done",
        "response.output_item.done", "response.done",
    ]  # fmt: skip
    one, findings = only_stream(connection.answers)
    assert len(one) == 1 + truth["steps"] and one.total_tokens == N
    assert findings == []


def test_responses_over_a_websocket(by_step):
    create = json.dumps({"type": "response.create", "model": "simulated", "input": "x", "max_output_tokens": N})
    connection, _ = talk(by_step, "/v1/responses", create, until="response.incomplete")
    one, findings = only_stream(connection.answers)
    assert len(one) == 1 + by_step.truth[-1]["steps"] and one.total_tokens == N
    assert findings == []


def test_arrivals_follow_the_send_times_in_order(by_token):
    one, _ = only_stream(exchange(by_token, "/completion", {"prompt": "x", "n_predict": N}))
    sent = by_token.sent_times()[-1]
    assert len(one) == sent.sent_ns.size == sent.due_ns.size
    assert (np.diff(sent.due_ns) >= 0).all()
    assert (sent.sent_ns >= sent.due_ns).all()
    assert (one.t_ns > sent.sent_ns).all()  # nothing arrives before it was sent
