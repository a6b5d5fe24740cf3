"""The simulated service over real sockets, read by an HTTP client that knows nothing of it."""

import json

import httpx2
import pytest

from specsonar.sources.serve import Server
from specsonar.sources.service import Service

FAST = Service(step_ms=1.0, ttft_ms=1.0)
TALK = [{"role": "user", "content": "hello"}]


@pytest.fixture(scope="module")
def server():
    with Server(FAST) as running:
        yield running


def events(response):
    """Payloads of the server-sent events of a whole response."""
    return [line[6:] for line in response.text.split("\n") if line.startswith("data: ")]


def post(server, path, **body):
    return httpx2.post(server.url + path, json=body)


def test_chat_in_events(server):
    response = post(server, "/v1/chat/completions", messages=TALK, max_tokens=20, stream=True)
    *chunks, last = events(response)
    chunks = [json.loads(c) for c in chunks]
    assert last == "[DONE]"
    assert chunks[0]["choices"][0]["delta"]["role"] == "assistant"
    assert [bool(c["choices"][0]["delta"].get("content")) for c in chunks] == [False, *[True] * 20, False]
    assert chunks[-1]["choices"][0]["finish_reason"] == "length"


def test_chat_in_one_piece_is_the_same_kind_of_answer(server):
    answer = post(server, "/v1/chat/completions", messages=TALK, max_tokens=20).json()
    assert answer["object"] == "chat.completion"
    assert answer["usage"]["completion_tokens"] == 20
    assert answer["choices"][0]["message"]["content"]


def test_a_process_of_its_own_tells_the_same():
    with Server(FAST, process=True, seed=3) as apart, Server(FAST, seed=3) as here:
        texts = [post(s, "/completion", prompt="x", n_predict=30).json()["content"] for s in (apart, here)]
        assert texts[0] == texts[1]
    assert apart.truth == here.truth
    assert apart.timing().events == 0  # nothing was streamed
