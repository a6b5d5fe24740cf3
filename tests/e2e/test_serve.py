"""The simulated service over real sockets, read by an HTTP client that knows nothing of it."""

import asyncio
import json
import math
import os
import threading

import httpx2
import numpy as np
import pytest

from specsonar.errors import InputError, UsageError
from specsonar.sources.serve import Server
from specsonar.sources.service import Service
from specsonar.sources.simulate import simulate

FAST = Service(step_ms=1.0, ttft_ms=1.0)
TALK = [{"role": "user", "content": "hello"}]
CLIENT = httpx2.Client(timeout=60)


@pytest.fixture(scope="module", autouse=True)
def closing():
    with CLIENT:
        yield


@pytest.fixture(scope="module")
def server():
    with Server(FAST) as running:
        yield running


@pytest.fixture(scope="module")
def brief():
    with Server(FAST, tokens=3) as running:
        yield running


def events(response):
    """Payloads of the server-sent events of a whole response."""
    return [line[6:] for line in response.text.split("\n") if line.startswith("data: ")]


def post(server, path, **body):
    return CLIENT.post(server.url + path, json=body)


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
    assert apart.timing().events == here.timing().events == 0  # nothing was streamed
    assert math.isnan(apart.timing().median_us)


def test_same_seed_same_answer_and_each_request_another():
    texts = []
    for _ in range(2):
        with Server(FAST, seed=11) as again:
            texts.append([post(again, "/completion", prompt="x", n_predict=30).json()["content"] for _ in range(3)])
    assert texts[0] == texts[1]
    assert len(set(texts[0])) == 3


def test_the_truth_is_that_of_the_simulator():
    with Server(FAST, seed=4) as again:
        for _ in range(3):
            post(again, "/completion", prompt="x", n_predict=50)
        served = again.truth
    told = [s.truth for s in simulate(FAST, tokens=50, streams=3, seed=4).streams]
    assert [t["bursts"] for t in served] == [t["bursts"] for t in told]
    assert [t["max_burst"] for t in served] == [4, 4, 4]


def test_ends_by_itself_at_its_own_length_or_where_the_request_says():
    with Server(FAST, tokens=25) as short:
        by_itself = post(short, "/v1/completions", prompt="x").json()
        further = post(short, "/v1/completions", prompt="x", max_tokens=100).json()
        cut = post(short, "/v1/completions", prompt="x", max_tokens=10).json()
    ends = [(a["usage"]["completion_tokens"], a["choices"][0]["finish_reason"]) for a in (by_itself, further, cut)]
    assert ends == [(25, "stop"), (25, "stop"), (10, "length")]


@pytest.mark.parametrize("stream", [False, True])
def test_a_stop_text_ends_the_answer_before_it(stream):
    with Server(FAST, seed=2) as first:
        whole = post(first, "/completion", prompt="x", n_predict=200).json()["content"]
    stop = whole[300:306]
    with Server(FAST, seed=2) as again:
        response = post(again, "/completion", prompt="x", n_predict=200, stop=[stop, "never"], stream=stream)
    parts = [json.loads(e) for e in events(response)] if stream else [response.json()]
    assert "".join(p["content"] for p in parts) == whole[: whole.index(stop)]
    assert parts[-1]["stop_type"] == "word" and parts[-1]["stopping_word"] == stop


def test_several_prompts_are_several_choices(server):
    answer = post(server, "/v1/completions", prompt=["a", "b"], n=2, max_tokens=5).json()
    assert [c["index"] for c in answer["choices"]] == [0, 1, 2, 3]
    assert answer["usage"]["completion_tokens"] == 20


ROUTES = {
    "/v1/chat/completions": ({"messages": TALK}, ("error", "message"), 400),
    "/v1/completions": ({"prompt": "x"}, ("error", "message"), 400),
    "/v1/responses": ({"input": "x"}, ("error", "message"), 400),
    "/v1/messages": ({"messages": TALK, "max_tokens": 5}, ("error", "message"), 400),
    "/api/generate": ({"prompt": "x"}, ("error",), 400),
    "/api/chat": ({"messages": TALK}, ("error",), 400),
    "/completion": ({"prompt": "x"}, ("error", "message"), 400),
    "/generate_stream": ({"inputs": "x"}, ("error",), 422),
}


def told(response, place):
    value = response.json()
    for key in place:
        value = value[key]
    return value


@pytest.mark.parametrize("path", ROUTES)
@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff", b'{"a": NaN}', b"[" * 100_000])
def test_a_body_that_is_no_object_is_refused_in_the_manner_of_the_dialect(server, path, content):
    _, place, status = ROUTES[path]
    response = CLIENT.post(server.url + path, content=content)
    assert response.status_code == status
    assert "JSON" in told(response, place)


@pytest.mark.parametrize("path", ROUTES)
def test_values_of_the_wrong_kind_are_refused(brief, path):
    body, place, status = ROUTES[path]
    for field, value in (("stream", "yes"), ("max_tokens", "many"), ("n", 0), ("stop", 7), ("n_predict", 1e9)):
        response = CLIENT.post(brief.url + path, json={"model": "simulated", **body, field: value})
        if response.status_code != 200:  # not every dialect has every field
            assert response.status_code == status
            assert told(response, place)
    response = CLIENT.post(brief.url + path, json={**body, "stream": {}, "parameters": 3})
    assert response.status_code == status


@pytest.mark.parametrize("path", [p for p in ROUTES if p not in ("/completion", "/generate_stream")])
def test_another_model_is_not_there(server, path):
    body, place, _ = ROUTES[path]
    response = CLIENT.post(server.url + path, json={"model": "another", **body})
    assert response.status_code == 404
    assert "`another` does not exist" in told(response, place)


def test_a_key_is_demanded():
    with Server(FAST, api_key="hush", tokens=3) as closed:
        for path, (body, place, _) in ROUTES.items():
            for headers in ({}, {"authorization": "Bearer no"}, {"x-api-key": ""}):
                response = CLIENT.post(closed.url + path, json={"model": "simulated", **body}, headers=headers)
                assert response.status_code == 401
                assert told(response, place)
            for headers in ({"authorization": "Bearer hush"}, {"x-api-key": "hush"}):
                response = CLIENT.post(closed.url + path, json={"model": "simulated", **body}, headers=headers)
                assert response.status_code == 200


def test_a_body_too_large_is_refused(server):
    assert post(server, "/completion", prompt="x" * (17 << 20)).status_code == 413


def test_no_such_route(server):
    assert CLIENT.get(f"{server.url}/nowhere").status_code == 404
    assert CLIENT.get(f"{server.url}/completion").status_code == 405
    assert CLIENT.get(f"{server.url}/specsonar/truth").status_code == 404


PAGES = {
    "openai": {"/v1/models"},
    "vllm": {"/v1/models", "/health", "/metrics", "/version"},
    "llama.cpp": {"/v1/models", "/health", "/metrics", "/props"},
    "anthropic": {"/v1/models"},
    "ollama": {"/", "/api/tags", "/api/version", "/v1/models"},
    "tgi": {"/v1/models", "/health", "/metrics", "/info"},
}


@pytest.mark.parametrize("engine", PAGES)
def test_an_engine_has_its_own_pages_only(engine):
    with Server(FAST, engine=engine) as one:
        found = {p for p in set().union(*PAGES.values()) if CLIENT.get(one.url + p).status_code == 200}
    assert found == PAGES[engine]


def test_counters_of_the_engines():
    with Server(FAST) as one:
        post(one, "/completion", prompt="x", n_predict=80)
        lines = CLIENT.get(f"{one.url}/metrics").text.splitlines()
        steps = one.truth[0]["steps"]
    values = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    assert values["llamacpp:tokens_predicted_total"] == "80"
    assert values['vllm:generation_tokens_total{model_name="simulated"}'] == "80"
    assert values["llamacpp:spec_decode_num_drafts_total"] == str(steps)
    assert values["llamacpp:spec_decode_num_accepted_tokens_total"] == str(79 - steps)
    by_position = [int(values[f'llamacpp:spec_decode_num_accepted_tokens_per_pos_total{{position="{p}"}}'])
                   for p in range(3)]  # fmt: skip
    assert sum(by_position) == 79 - steps and by_position == sorted(by_position, reverse=True)


def test_a_strict_server_refuses_what_it_does_not_know():
    wish = {"messages": TALK, "max_tokens": 5, "return_token_ids": True, "model": "simulated"}
    with Server(FAST, engine="openai") as strict:
        response = post(strict, "/v1/chat/completions", **wish)
        assert response.status_code == 400 and "return_token_ids" in response.text
        assert post(strict, "/v1/chat/completions", messages=TALK).status_code == 404
    with Server(FAST, engine="openai", strict=False) as lenient:
        assert "token_ids" not in post(lenient, "/v1/chat/completions", **wish).text
    with Server(FAST, engine="openai", fields=("token_ids",)) as knowing:
        assert "token_ids" in post(knowing, "/v1/chat/completions", **wish).text


def test_options_that_do_not_exist():
    for wrong in ({"engine": "x"}, {"report": "x"}, {"fields": ("x",)}, {"tokens": 0}):
        with pytest.raises(UsageError):
            Server(FAST, **wrong)


def test_an_answer_ends_with_its_client():
    """The first stream would take hours; the counters tell that it is over when its client has gone."""
    with Server(Service(step_ms=3_600_000.0, ttft_ms=1.0)) as slow:
        with CLIENT.stream("POST", f"{slow.url}/completion", json={"prompt": "x", "stream": True}) as response:
            parts = response.iter_text()
            next(parts)
            assert slow.truth[0]["state"] == "running"
        ended(slow)
        assert slow.truth[0]["sent_events"] == 1
        assert "llamacpp:requests_processing 0" in CLIENT.get(f"{slow.url}/metrics").text
        assert "llamacpp:tokens_predicted_total 1" in CLIENT.get(f"{slow.url}/metrics").text


def ended(server):
    """Wait until every stream of `server` has ended; the time limit of the whole test run is the only one."""
    while any(t["state"] == "running" for t in server.truth):
        CLIENT.get(f"{server.url}/health")


def test_the_end_of_the_server_ends_its_streams():
    with Server(Service(step_ms=3_600_000.0, ttft_ms=1.0)) as slow:
        client = httpx2.Client()
        request = client.build_request("POST", f"{slow.url}/completion", json={"prompt": "x", "stream": True})
        response = client.send(request, stream=True)
        parts = response.iter_text()
        next(parts)
    with pytest.raises(httpx2.HTTPError):
        next(parts)
    response.close()
    client.close()
    assert slow.truth[0]["state"] == "aborted"


def test_a_port_that_is_taken():
    with Server(FAST) as first:
        port = int(first.url.rsplit(":", 1)[1])
        for process in (False, True):
            with pytest.raises(InputError, match="cannot listen"), Server(FAST, process=process, port=port):
                pass


def test_not_started():
    with pytest.raises(UsageError, match="not been started"):
        Server(FAST).timing()


@pytest.mark.slow
def test_a_thousand_streams_leave_nothing_behind():
    """Tasks, connections and open files are as before; every event of every stream was sent, in order."""
    quick = Service(step_ms=0.2, ttft_ms=0.2)
    with Server(quick) as busy:

        async def one(client):
            response = await client.post(
                f"{busy.url}/completion", json={"prompt": "x", "n_predict": 30, "stream": True}
            )
            return response.text.count("data: ")

        async def wave():
            async with httpx2.AsyncClient(timeout=60) as client:
                return await asyncio.gather(*(one(client) for _ in range(100)))

        asyncio.run(wave())
        threads = threading.active_count()
        before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
        for _ in range(10):
            assert asyncio.run(wave()) == [31] * 100
        ended(busy)
        for _ in range(500):  # a busy machine closes connections late; one that leaks them never does
            after = len(os.listdir("/proc/self/fd")) if before else 0
            if after <= before + 5:
                break
            CLIENT.get(f"{busy.url}/health")
        assert after <= before + 5  # connections that are being closed
        assert threading.active_count() == threads
        times = busy.sent_times()
        assert len(times) == 1100
        assert all((np.diff(s.sent_ns) >= 0).all() and s.sent_ns.size == 30 for s in times)
