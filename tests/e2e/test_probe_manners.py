"""What a probe asks, how it takes a refusal, and what it says when nothing comes: against servers of every temper."""

import json
import logging
import sys
import traceback
from itertools import pairwise

import pytest
from probe_servers import CHUNKED, HEAD, MODELS, Scripted, answer, end, event, page

import specsonar
from specsonar.errors import ConnectionFailed, UsageError
from specsonar.probe import probe

KEY = "sk-Very+Secret/12345"
TOKENS = 15
"""Two answers of so many are too few for a fit, so that a test takes no longer than its streams."""


def ask(server, **settings):
    return probe(server.url, **({"streams": 2, "tokens": TOKENS, "timeout": 20.0, "environment": {}} | settings))


def test_the_python_interface():
    with Scripted(lambda r: answer()) as server:
        found = specsonar.probe(server.url, streams=2, tokens=TOKENS, environment={})
    assert isinstance(found, specsonar.Probe)
    assert found.fingerprint.verdict == "undetermined"
    assert [len(s) for s in found.trace.streams] == [TOKENS] * 2
    assert (found.ended, found.errors) == ("", ())


def test_what_is_asked():
    with Scripted(lambda r: answer()) as server:
        ask(server, seed=5, temperature=0.5)
    bodies = [r.body for r in server.posts]
    assert len(bodies) == 3  # the first is not counted
    for body in bodies:
        assert body["stream"] is True
        assert body["model"] == "m"
        assert body["temperature"] == 0.5
        assert body["stream_options"] == {"include_usage": True, "continuous_usage_stats": True}
    assert [b["max_tokens"] for b in bodies] == [TOKENS] * 3
    assert [b["seed"] for b in bodies[1:]] == [5, 6]
    assert bodies[1]["messages"] != bodies[2]["messages"]
    assert all(r.headers["accept-encoding"] == "identity" for r in server.requests)


def test_prompts_and_workloads():
    with Scripted(lambda r: answer()) as server:
        ask(server, prompts=["tell me"], streams=1)
        ask(server, workloads=["code"], streams=1)
    asked = [r.body["messages"][0]["content"] for r in server.posts]
    assert asked[1] == "tell me"
    assert "Python" in asked[3]


def test_fields_that_a_server_refuses_are_dropped_and_not_sent_again():
    def respond(request):
        for field in ("return_token_ids", "timings_per_token", "return_spec_tokens_details", "logprobs"):
            if field in request.body:
                return page({"error": {"message": f"Unknown parameter: '{field}'"}}, 400)
        return answer()

    with Scripted(respond) as server:
        found = ask(server)
    assert len(found.trace.streams) == 2
    assert len(server.posts) == 3 + 3
    assert not any(set(r.body) & {"return_token_ids", "logprobs"} for r in server.posts[-2:])


def test_temperature_that_a_model_does_not_take_is_told():
    said = []

    def respond(request):
        if "temperature" in request.body:
            return page({"error": {"message": "temperature is not supported with this model"}}, 400)
        return answer()

    with Scripted(respond) as server:
        found = ask(server, tell=said.append)
    assert any("takes no temperature" in line for line in said)
    assert "temperature" not in found.trace.streams[0].meta


def test_a_busy_server_is_asked_again():
    seen = []

    def respond(request):
        seen.append(request)
        if len(seen) in (1, 3):
            return page({"error": "busy"}, 429 if len(seen) == 1 else 503, retry_after="0")
        return answer()

    with Scripted(respond) as server:
        found = ask(server)
    assert len(seen) == 5
    assert [len(s) for s in found.trace.streams] == [TOKENS] * 2


def test_a_server_that_is_busy_for_long_is_not_waited_for():
    with (
        Scripted(lambda r: page({"error": "busy"}, 429, retry_after="3600")) as server,
        pytest.raises(ConnectionFailed, match="HTTP 429: busy") as caught,
    ):
        ask(server)
    assert "3600 s" in caught.value.hint
    assert len(server.posts) == 1


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (401, {"error": {"message": "no key"}}, "HTTP 401: no key"),
        (404, {"detail": "no such model"}, "HTTP 404: no such model"),
        (500, {"error": "out of memory\nTraceback"}, "HTTP 500: out of memory Traceback"),
        (400, {"object": "error", "message": "too long"}, "HTTP 400: too long"),
        (418, "teapot" * 100, "HTTP 418: teapot"),
    ],
)
def test_other_refusals_are_one_line(status, body, said):
    with (
        Scripted(lambda r: page(body, status)) as server,
        pytest.raises(ConnectionFailed) as caught,
    ):
        ask(server)
    assert said in caught.value.message
    assert "\n" not in caught.value.message
    assert len(caught.value.message) < 300


def test_redirects_are_not_followed():
    with Scripted(lambda r: answer()) as other:
        moved = page({}, 307, location=f"{other.url}/v1/chat/completions?key=abc")
        with Scripted(lambda r: moved) as server, pytest.raises(ConnectionFailed, match="redirects to") as caught:
            ask(server)
        assert other.url in caught.value.message
        assert "abc" not in caught.value.message
    assert other.requests == []


def test_nothing_listens():
    with Scripted(lambda r: answer()) as server:
        url = server.url
    with pytest.raises(ConnectionFailed, match="cannot reach"):
        probe(url, environment={})


@pytest.mark.parametrize(
    "pieces",
    [
        page({"id": "x", "choices": []}),
        HEAD,
        HEAD + b": nothing\n\ndata: [DONE]\n\n",
        HEAD + b'data: {"error": {"message": "model crashed"}}\n\n',
    ],
)
def test_an_answer_without_tokens(pieces):
    with (
        Scripted(lambda r: pieces) as server,
        pytest.raises(ConnectionFailed, match="without a single token") as caught,
    ):
        ask(server)
    assert ("model crashed" in caught.value.message) is (b"crashed" in pieces)


def test_what_came_before_the_server_broke_off_is_kept(tmp_path):
    count = []

    def respond(request):
        count.append(1)
        if len(count) == 3:
            return [CHUNKED, b"5\r\nab"]
        return answer()

    with Scripted(respond) as server:
        found = ask(server, streams=3, output=tmp_path / "t.jsonl")
    assert [len(s) for s in found.trace.streams] == [TOKENS] * 2
    assert len(found.errors) == 1
    assert "broke off" in found.errors[0].message
    assert found.ended == ""
    assert [len(s) for s in specsonar.read(tmp_path / "t.jsonl").streams] == [TOKENS] * 2


def test_half_an_answer_is_kept():
    count = []

    def respond(request):
        count.append(1)
        if len(count) < 3:
            return answer()
        return [CHUNKED, *(b"%x\r\n%b\r\n" % (len(e), e) for e in [event()] * 7)]

    with Scripted(respond) as server:
        found = ask(server)
    assert [len(s) for s in found.trace.streams] == [TOKENS, 7]
    assert "broke off" in found.errors[0].message


def test_a_server_that_fails_again_and_again_is_left_alone():
    count = []

    def respond(request):
        count.append(1)
        return answer() if len(count) < 3 else page({"error": "down"}, 500)

    with Scripted(respond) as server:
        found = ask(server, streams=50)
    assert found.ended == "failed"
    assert len(count) == 2 + 3
    assert "HTTP 500: down" in found.errors[-1].message


def test_the_budget_holds():
    with Scripted(lambda r: answer(r.body["max_tokens"])) as server:
        found = ask(server, streams=50, tokens=60, budget=150)
        assert found.ended == "budget"
        assert [len(s) for s in found.trace.streams] == [60, 60]  # 30 would have been left, too few to be worth it
        found = ask(server, streams=50, tokens=60, budget=160)
        assert [len(s) for s in found.trace.streams] == [60, 60, 40]


def test_until_stops_when_the_interval_is_tight(monkeypatch):
    module = sys.modules["specsonar.probe"]  # the name itself is the function
    monkeypatch.setattr(module, "_LOOK_S", 0.0)
    monkeypatch.setattr(module, "_SHARE", 0.0)
    seen = []
    with Scripted(lambda r: answer(60)) as server:
        found = ask(server, streams=None, tokens=60, until=0.5, budget=3000, watch=seen.append)
    assert found.ended == "enough"
    assert 4 <= len(found.trace.streams) < 40
    assert all(len(s) == 60 for s in found.trace.streams)
    assert found.fingerprint.step_ms.low > 0.5 * found.fingerprint.step_ms.value
    assert [s.tokens for s in seen] == sorted(s.tokens for s in seen)
    assert seen[-1].estimate is not None


def test_several_at_once():
    with Scripted(lambda r: answer(TOKENS, 0.005)) as server:
        found = ask(server, streams=6, concurrency=3)
    assert [len(s) for s in found.trace.streams] == [TOKENS] * 6
    spans = sorted((int(s.t_ns[0]), int(s.t_ns[-1])) for s in found.trace.streams)
    assert any(a[1] > b[0] for a, b in pairwise(spans))


def told_by(server, caplog, capfd, tmp_path, **settings):
    """Everything that a probe leaves behind, in one text."""
    said = []
    path = tmp_path / "trace.jsonl"
    caplog.set_level(logging.DEBUG)
    try:
        found = ask(server, environment={"OPENAI_API_KEY": KEY}, tell=said.append, output=path, **settings)
        said += [json.dumps(found.fingerprint.to_dict()), repr(found), *(repr(s.meta) for s in found.trace.streams)]
        said += [e.message + e.hint for e in found.errors]
    except specsonar.SpecsonarError as error:
        said += ["".join(traceback.format_exception(error)), error.message, error.hint]
    out, err = capfd.readouterr()
    file = path.read_text() if path.exists() else ""
    ours = [r.getMessage() for r in caplog.records if r.name.startswith("specsonar")]
    return "\n".join([*said, *ours, out, err, file])


@pytest.mark.parametrize("place", ["refusal", "in-band", "model", "header", "redirect", "garbage"])
def test_a_key_that_a_server_sends_back_is_shown_nowhere(place, caplog, capfd, tmp_path):
    count = []

    def respond(request):
        count.append(1)
        sent = request.headers["authorization"]
        assert sent == f"Bearer {KEY}"
        if len(count) == 1:
            return answer()
        return {
            "refusal": lambda: page({"error": {"message": f"wrong key: {KEY}"}}, 403),
            "in-band": lambda: [HEAD, *(event() for _ in range(30)),
                                b"data: " + json.dumps({"error": {"message": f"key {KEY}"}}).encode() + b"\n\n"],
            "model": lambda: [HEAD, *(event(model=f"m-{KEY}") for _ in range(30)), end(30)],
            "header": lambda: [HEAD.replace(b"\r\n\r\n", f"\r\nserver: {KEY}\r\n\r\n".encode()), event(), end(1)],
            "redirect": lambda: page({}, 302, location=f"http://elsewhere/{KEY}"),
            "garbage": lambda: f"HTTP/1.1 200 {KEY}\r\n{KEY}\r\n\r\n".encode(),
        }[place]()  # fmt: skip

    with Scripted(respond) as server:
        text = told_by(server, caplog, capfd, tmp_path)
    assert len(count) > 1
    assert KEY not in text
    assert "sk-Very" not in text


def test_a_key_in_the_model_list(caplog, capfd, tmp_path):
    def get(request):
        return page({"data": [{"id": request.headers["authorization"], "object": "model"}]})

    with Scripted(lambda r: answer(), get) as server:
        text = told_by(server, caplog, capfd, tmp_path)
    assert KEY not in text


def test_no_key_goes_to_a_server_for_which_there_is_none():
    with Scripted(lambda r: answer()) as server:
        ask(server, environment={"ANTHROPIC_API_KEY": KEY, "MISTRAL_API_KEY": KEY})
    assert not any(KEY in str(r.headers) for r in server.requests)


def test_no_prompt_and_no_text_in_the_trace(tmp_path):
    with Scripted(lambda r: answer()) as server:
        ask(server, prompts=["my private question"], output=tmp_path / "t.jsonl")
    assert "private" not in (tmp_path / "t.jsonl").read_text()


def test_several_models():
    said = []
    many = {"data": [*MODELS["data"], {"id": "n", "object": "model"}]}
    with Scripted(lambda r: answer(), lambda r: page(many)) as server:
        ask(server, tell=said.append)
    assert any("2 models (m, n): asking m" in line for line in said)


@pytest.mark.parametrize(
    ("settings", "said"),
    [({"workloads": ["poetry"]}, "poetry"), ({"tokens": 1}, "tokens"), ({"until": 0.0}, "until"),
     ({"proxy": "socks5://x"}, "proxy"), ({"dialect": "x"}, "dialect"), ({"key_env": "NONE"}, "NONE"),
     ({"streams": 0}, "streams")],
)  # fmt: skip
def test_settings_that_cannot_be(settings, said):
    with Scripted(lambda r: answer()) as server, pytest.raises(UsageError, match=said):
        ask(server, **settings)
    assert server.posts == []


def counting(tokens):
    """Pages of a server whose `/metrics` grow by `tokens` between two readings."""
    read = []

    def get(request):
        if request.path != "/metrics":
            return None
        read.append(1)
        n = len(read) * tokens
        text = f"vllm:generation_tokens_total {n}\nvllm:spec_decode_num_drafts_total {n // 3}\n"
        text += f"vllm:spec_decode_num_draft_tokens_total {n}\nvllm:spec_decode_num_accepted_tokens_total {n // 2}\n"
        return f"HTTP/1.1 200 OK\r\ncontent-length: {len(text)}\r\n\r\n{text}".encode()

    return get


def test_counters_of_the_server_are_a_second_report(tmp_path):
    path = tmp_path / "t.jsonl"
    with Scripted(lambda r: answer(), counting(2 * TOKENS)) as server:
        found = ask(server, output=path)
    report = found.trace.meta["server_report"]
    assert (report["drafted"], report["accepted"]) == (2 * TOKENS, TOKENS)
    assert specsonar.read(path).meta["server_report"] == report


def test_counters_that_count_others_too_are_not_used():
    said = []
    with Scripted(lambda r: answer(), counting(5 * TOKENS)) as server:
        found = ask(server, tell=said.append)
    assert "server_report" not in found.trace.meta
    assert "others were served too" in said[-1]


def test_no_counters_are_no_error():
    with Scripted(lambda r: answer()) as server:
        assert "server_report" not in ask(server).trace.meta
    assert [r.path for r in server.requests].count("/metrics") == 1


def test_the_proxy_that_is_named_is_used_and_that_of_the_environment_too(monkeypatch):
    with Scripted(lambda r: answer()) as proxy:
        found = probe("http://service.example", streams=1, tokens=TOKENS, environment={}, proxy=proxy.url)
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        probe("http://service.example", streams=1, tokens=TOKENS, environment={})
    assert len(found.trace.streams[0]) == TOKENS
    assert [r.path for r in proxy.posts] == ["http://service.example/v1/chat/completions"] * 4


def test_this_machine_is_asked_directly(monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    with Scripted(lambda r: answer()) as server:
        assert len(ask(server, streams=1).trace.streams) == 1


def test_the_password_of_a_proxy_is_not_shown():
    password = f"secret{7}word"  # the source of a test is part of its traceback
    with (
        Scripted(lambda r: answer(), lambda r: page({}, 407)) as proxy,
        pytest.raises(ConnectionFailed, match="proxy refuses") as caught,
    ):
        probe("http://service.example", environment={}, proxy=proxy.url.replace("//", f"//me:{password}@"))
    assert proxy.requests[0].headers["proxy-authorization"]
    assert password not in "".join(traceback.format_exception(caught.value)) + caught.value.message


def test_certificates_are_checked(monkeypatch, certificates):
    authority, context = certificates
    with Scripted(lambda r: answer(), context=context) as server:
        with pytest.raises(ConnectionFailed, match=r"TLS with https.*certificate") as caught:
            ask(server)
        assert "SSL_CERT_FILE" in caught.value.hint
        monkeypatch.setenv("SSL_CERT_FILE", str(authority))
        assert len(ask(server, streams=1).trace.streams[0]) == TOKENS
