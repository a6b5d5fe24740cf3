"""Recordings of real engines against their own counters, and each dialect's ways of telling token counts."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
import zstandard

from specsonar.errors import FormatError, UsageError
from specsonar.importers import read
from specsonar.trace import ASSUMED_ONE, COUNTED, NOT_SAID, ONE_EACH, TOTAL_ONLY, Trace
from specsonar.wire.answer import Answer, payload

GOLDEN = Path(__file__).parents[1] / "golden" / "recordings"
EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = sorted(p.name.removesuffix(".jsonl.zst") for p in GOLDEN.glob("*.jsonl.zst"))


def golden(name: str) -> tuple[Trace, dict[str, Any]]:
    return read(GOLDEN / f"{name}.jsonl.zst"), json.loads((GOLDEN / f"{name}.truth.json").read_text())


def test_recordings_are_there() -> None:
    assert len(NAMES) >= 42
    assert all((EXAMPLES / f"{n}.truth.json").exists() for n in ("llama-bin.f32.k4.t2", "vllm.off"))
    for path in EXAMPLES.glob("*.jsonl.zst"):
        assert path.read_bytes() == (GOLDEN / path.name).read_bytes(), f"{path.name} differs from the golden one"


@pytest.mark.parametrize("name", NAMES)
def test_counts_and_report_agree_with_the_engine(name: str) -> None:
    trace, truth = golden(name)
    assert trace.meta["format"] == "event-stream recording" and trace.findings == ()
    (one,) = trace.streams
    assert one.truth is None, "the sidecar is not for the product"
    asked = one.meta["max_tokens"]
    assert one.known_tokens == asked, "every recording ran to its limit"
    if one.total_tokens is not None:
        assert one.total_tokens == asked
    assert (one.t_ns[1:] >= one.t_ns[:-1]).all() and one.start_ns is not None and one.start_ns < one.t_ns[0]
    report = one.server_report
    steps = truth.get("steps") or []
    if name.startswith(("llama-bin", "xllamacpp", "vllm")) and steps:
        assert report is not None
        assert report["accepted"] == sum(a for a, _ in steps)
        assert report["drafted"] == sum(d for _, d in steps)
        if name.startswith("vllm"):
            assert report["steps"] == len(steps) and report["draft_length"] == 4
        assert report["acceptance_length"] == pytest.approx((asked - 1) / (asked - 1 - report["accepted"]), rel=0.03)
    else:
        assert report is None


@pytest.mark.parametrize("name", [n for n in NAMES if n.startswith("vllm") and "off" not in n])
def test_vllm_events_are_steps(name: str) -> None:
    trace, truth = golden(name)
    one = trace.streams[0]
    sizes = [a + 1 for a, _ in truth["steps"]]
    if "interval8" in name or "plainusage" in name or "ngram" in name:
        return  # several steps an event; no counts; plain steps in between
    assert one.tokens[1:-1].tolist() == sizes[: len(one) - 2], "step by step; the last one is cut by the limit"


@pytest.mark.parametrize("name", ["tfgen.draft.k4.step", "ov.draft.k4.greedy.step", "ov.lookup.k5.step"])
def test_thin_servers_events_are_steps(name: str) -> None:
    trace, truth = golden(name)
    assert trace.streams[0].tokens.tolist() == [a + 1 for a, _ in truth["steps"]]


@pytest.mark.parametrize(
    ("name", "source", "field", "engine", "event_is"),
    [
        ("llama-bin.f32.k4.t2", ONE_EACH, "tokens predicted", "llama.cpp", "token"),
        ("llama-bin.f32.k4.utf8", COUNTED, "tokens predicted", "llama.cpp", "token"),
        ("llama-bin.f32.k4.v1chat", ONE_EACH, "total", "llama.cpp", "token"),
        ("lcpy.off", ONE_EACH, "token limit of the request", "llama-cpp-python", "token"),
        ("node.draft.k4", ONE_EACH, "token ids", None, None),
        ("tfserve.off", ONE_EACH, "total", "transformers", "step"),
        ("vllm.noise.k4.greedy", COUNTED, "token ids", "vLLM 0.32.0", "step"),
        ("vllm.noise.k4.chat", COUNTED, "usage per event", "vLLM 0.32.0", "step"),
        ("vllm.noise.k4.greedy.plainusage", TOTAL_ONLY, None, "vLLM 0.32.0", "step"),
        ("vllm.off", ONE_EACH, "usage per event", "vLLM 0.32.0", "step"),
    ],
)
def test_where_counts_come_from(name: str, source: str, field: str | None, engine: str | None, event_is: str) -> None:
    one = golden(name)[0].streams[0]
    assert one.count_source == source
    assert (one.meta.get("count_field"), one.meta.get("engine"), one.meta.get("event_is")) == (field, engine, event_is)


def test_what_is_left_out_is_counted() -> None:
    assert golden("llama-bin.f32.k4.v1chat")[0].streams[0].meta["skipped_payloads"] == {
        "role": 1, "final": 1, "usage": 1, "end mark": 1,
    }  # fmt: skip
    assert golden("lcpy.off")[0].streams[0].meta["skipped_payloads"] == {"comment": 1, "final": 1, "end mark": 1}


@pytest.mark.parametrize("name", NAMES)
def test_no_prompt_and_no_text_is_kept(name: str) -> None:
    trace, truth = golden(name)
    kept = repr([(s.meta, s.server_report, s.name) for s in trace.streams]) + repr(trace.meta)
    prompt = truth["request"].get("prompt") or truth["request"]["messages"][0]["content"]
    for piece in (prompt, prompt[:20], "127.0.0.1"):
        assert piece not in kept


# --- dialects, by hand -------------------------------------------------------------------------------------------


def answer(*payloads: object, request: dict[str, Any] | None = None, **rest: Any) -> Trace:
    """A recording of these payloads, 10 ms apart."""
    lines = [json.dumps({"t_ns": 0, "sent": request or {}, **rest})]
    lines += [json.dumps({"t_ns": 10_000_000 * (i + 1), "recv": i, "data": p}) for i, p in enumerate(payloads)]
    return read(io.BytesIO("\n".join(lines).encode() + b"\n"))


def chat(content: str | None = None, *, finish: str | None = None, role: bool = False, **extra: Any) -> dict[str, Any]:
    delta = {**({"role": "assistant"} if role else {}), **({} if content is None else {"content": content})}
    choice = {"index": extra.pop("index", 0), "delta": delta, "finish_reason": finish}
    choice |= {k: extra.pop(k) for k in ("token_ids", "logprobs", "stop_reason") if k in extra}
    return {"object": "chat.completion.chunk", "choices": [choice], **extra}


def usage(n: int) -> dict[str, Any]:
    return {"usage": {"completion_tokens": n}}


FINAL = {"choices": [], **usage(5)}


@pytest.mark.parametrize(
    ("payloads", "tokens", "source"),
    [
        ([chat("", role=True), chat("a"), chat("bc"), chat(finish="stop"), FINAL, "[DONE]"], [-1, -1], TOTAL_ONLY),
        ([chat("a"), chat("bc"), chat(finish="stop")], [-1, -1], ASSUMED_ONE),
        ([chat("a", token_ids=[1, 2]), chat("b", token_ids=[3]), FINAL], [2, 1], COUNTED),
        ([chat("", role=True, **usage(0)), chat("a", **usage(2)), chat("", **usage(5)), FINAL], [2, 3], COUNTED),
        ([chat("a", logprobs={"content": [{}, {}, {}]}), chat("b", logprobs={"content": [{}]})], [3, 1], COUNTED),
        ([chat("a", timings={"predicted_n": 1}), chat("b", timings={"predicted_n": 4})], [1, 3], COUNTED),
        ([chat("a", token_ids=[1], **usage(9)), chat("b", token_ids=[3, 4], **usage(99))], [1, 2], COUNTED),
        ([chat("a", stop_reason=None), chat("", stop_reason=None), chat("b", stop_reason=None)], [-1] * 3, NOT_SAID),
        ([*map(chat, "abcde"), FINAL], [1] * 5, ONE_EACH),
        ([chat("a"), chat("")], [-1, -1], ASSUMED_ONE),
        ([chat("a"), chat("b", **usage(2))], [-1, -1], ASSUMED_ONE),
    ],
)  # fmt: skip
def test_openai_counts(payloads: list[object], tokens: list[int], source: str) -> None:
    one = answer(*payloads).streams[0]
    assert one.tokens.tolist() == tokens
    assert one.count_source == source


def test_reasoning_and_tool_calls_are_tokens() -> None:
    payloads = [
        {"choices": [{"index": 0, "delta": {key: value}}]}
        for key, value in [
            ("reasoning_content", "x"),
            ("reasoning", "x"),
            ("tool_calls", [{"index": 0, "function": {"arguments": "{"}}]),
            ("content", None),
        ]
    ]
    assert len(answer(*payloads[:3]).streams[0]) == 3


def test_several_choices_are_several_streams() -> None:
    trace = answer(chat("a", index=0), chat("b", index=1), chat("c", index=1), FINAL)
    assert [len(s) for s in trace.streams] == [1, 2]
    assert all(s.total_tokens is None for s in trace.streams), "the total is that of all choices"
    assert [s.name[-2:] for s in trace.streams] == ["#0", "#1"]


def test_the_limit_of_the_request_can_prove_one_token_each() -> None:
    one = answer(*map(chat, "abc"), request={"max_tokens": 3}).streams[0]
    assert one.count_source == ONE_EACH and one.meta["count_field"] == "token limit of the request"
    assert answer(*map(chat, "ab"), request={"max_tokens": 3}).streams[0].count_source == ASSUMED_ONE


def completion(text: str, finish: str | None = None, **extra: Any) -> dict[str, Any]:
    choice = {"index": 0, "text": text, **({"finish_reason": finish} if finish else {})}
    return {"id": "x", "object": "text_completion", "model": "models/m@main", "choices": [choice], **extra}


def test_transformers_total_is_not_trusted_when_it_may_count_steps() -> None:
    config = json.dumps({"max_new_tokens": 300, "do_sample": False, "prompt_lookup_num_tokens": 4})
    events = [completion("ab cd ef") for _ in range(86)]
    trace = answer(*events, completion("", "stop", **usage(86)), request={"generation_config": config})
    one = trace.streams[0]
    assert one.total_tokens is None and one.count_source == NOT_SAID
    assert [f.code for f in trace.findings] == ["I006"]
    assert one.meta["max_tokens"] == 300 and one.meta["temperature"] == 0.0
    # the end token makes no event, but is counted
    ended = answer(*events, completion("", "stop", **usage(87)), request={"generation_config": config}).streams[0]
    assert ended.total_tokens is None and ended.count_source == NOT_SAID
    told = answer(*events, completion("", "length", **usage(300)), request={"generation_config": config}).streams[0]
    assert told.total_tokens == 300 and told.count_source == TOTAL_ONLY


def test_counts_that_contradict_the_total_are_said() -> None:
    trace = answer(chat("a", token_ids=[1, 2]), chat("b", token_ids=[3]), FINAL)
    assert [f.code for f in trace.findings] == ["I005"]
    assert trace.streams[0].known_tokens == 3


def test_llama_cpp_held_back_characters() -> None:
    event = {"index": 0, "content": "é", "tokens": [7], "stop": False, "id_slot": 0, "tokens_evaluated": 9}
    last = {**event, "content": "", "stop": True, "tokens_predicted": 6, "stop_type": "limit",
            "timings": {"predicted_n": 6, "draft_n": 8, "draft_n_accepted": 3}, "prompt": "secret"}  # fmt: skip
    one = answer({**event, "tokens_predicted": 1}, {**event, "tokens_predicted": 4}, last).streams[0]
    assert one.tokens.tolist() == [1, 3, 2], "what was still held back comes with the last event"
    assert one.server_report == {
        "source": "llama.cpp timings", "drafted": 8, "accepted": 3, "steps": None, "tokens": 5,
        "acceptance_length": 2.5, "draft_length": None, "acceptance_by_position": None, "tried_by_position": None,
    }  # fmt: skip
    assert "secret" not in repr(one.meta)


def test_vllm_report_by_position() -> None:
    said = {
        "num_draft_tokens": 11, "num_accepted_draft_tokens": 5, "num_spec_steps": 4, "num_spec_tokens": 3,
        "per_step_accepted": [3, 2, 0, 0], "per_step_drafted": [3, 3, 3, 2],
    }  # fmt: skip
    one = answer(chat("a", token_ids=[1]), {"choices": [], **usage(12), "metrics": {"speculative_decoding": said}})
    report = one.streams[0].server_report
    assert report is not None
    assert report["acceptance_by_position"] == [0.5, 1.0, 0.5]
    assert report["acceptance_length"] == pytest.approx(11 / 6), "four verified and two plain steps gave 11 tokens"


def test_an_error_of_the_server_is_said() -> None:
    trace = answer(chat("a"), {"error": {"message": "out of memory", "code": 500}})
    assert [f.code for f in trace.findings] == ["I007"] and "out of memory" in trace.findings[0].message
    assert [f.code for f in answer(status=503).findings] == ["I007"]


def test_settings_without_secrets() -> None:
    request = {
        "model": "/home/someone/models/x.gguf", "prompt": "secret", "temperature": 1, "top_p": 0.9, "seed": 3,
        "max_completion_tokens": 5, "api_key": "sk-secret", "user": "secret", "messages": [{"content": "secret"}],
    }  # fmt: skip
    meta = answer(chat("secret"), request=request, url="https://u:secret@host.example/v1/chat?key=secret",
                  headers={"server": "uvicorn", "set-cookie": "secret"}, status=200).streams[0].meta  # fmt: skip
    assert "secret" not in repr(meta) and "host" not in repr(meta) and "someone" not in repr(meta)
    expected = {"model": "x.gguf", "temperature": 1.0, "top_p": 0.9, "seed": 3, "max_tokens": 5, "route": "/v1/chat"}
    assert {k: meta[k] for k in expected} == expected


# --- the file itself ---------------------------------------------------------------------------------------------


def test_two_recordings_in_one_file() -> None:
    lines = [{"t_ns": 0, "sent": {}}, {"t_ns": 5, "recv": 1, "data": chat("a")}]
    trace = read(io.BytesIO(b"".join(json.dumps(line).encode() + b"\n" for line in lines * 2)))
    assert [len(s) for s in trace.streams] == [1, 1] and [s.name for s in trace.streams] == ["input:1", "input:2"]


@pytest.mark.parametrize("share", [0.0001, 0.002, 0.2, 0.5, 0.77, 0.99])
def test_a_cut_recording_loads_up_to_the_cut(share: float) -> None:
    packed = (GOLDEN / "vllm.off.jsonl.zst").read_bytes()
    content = zstandard.ZstdDecompressor().decompress(packed)
    whole = read(io.BytesIO(content)).streams[0]
    trace = read(io.BytesIO(content[: int(len(content) * share)]))
    n = trace.events
    assert [f.code for f in trace.findings] == ["I001"]
    assert n == 0 or trace.streams[0].t_ns.tolist() == whole.t_ns[:n].tolist()
    assert n >= 650 * share - 10
    assert read(io.BytesIO(packed[: int(len(packed) * 0.9)])).findings[0].code == "I001"


def test_bad_lines_and_order() -> None:
    good = {"t_ns": 50, "recv": 1, "data": chat("a")}
    rows = [{"t_ns": 0, "sent": {}}, good, {**good, "t_ns": 40}, {**good, "t_ns": 10**30}, {**good, "t_ns": None}]
    trace = read(io.BytesIO(b"\n".join(json.dumps(r).encode() for r in rows) + b"\nrubbish\n"))
    assert trace.streams[0].t_ns.tolist() == [40, 50]
    assert [f.code for f in trace.findings] == ["I004", "I003"]
    assert "3 lines" in trace.findings[0].message and "line 4" in trace.findings[0].message


def test_events_without_a_request_line_and_without_read_numbers() -> None:
    rows = [{"t_ns": 5 * i, "data": chat("a")} for i in range(3)]
    one = read(io.BytesIO(b"\n".join(json.dumps(r).encode() for r in rows))).streams[0]
    assert len(one) == 3 and len(set(one.read.tolist())) == 3


def test_data_may_be_json_in_a_string() -> None:
    one = answer(json.dumps(chat("a", token_ids=[1, 2])), "[DONE]", "not json").streams[0]
    assert one.tokens.tolist() == [2]
    assert one.meta["skipped_payloads"] == {"end mark": 1, "not JSON": 1}


def test_strange_payloads_do_no_harm() -> None:
    strange: list[Any] = [
        None, 1, [], "x", {}, {"choices": None}, {"choices": [None, 3]}, {"choices": [{"delta": "x", "index": "y"}]},
        {"choices": [{"text": 3, "token_ids": "x", "logprobs": [1]}], "usage": "x", "timings": 4, "metrics": []},
        {"content": 1, "stop": "x", "tokens_predicted": -3}, {"error": None}, {"error": "plain words"},
        {"choices": [{"index": -1, "text": "a"}], "usage": {"completion_tokens": True}},
    ]  # fmt: skip
    assert answer(*strange).events >= 1


def test_gaps_are_for_plain_text() -> None:
    with pytest.raises(UsageError, match="plain text"):
        read(GOLDEN / f"{NAMES[0]}.jsonl.zst", gaps=True)


def test_a_recording_without_any_readable_line() -> None:
    with pytest.raises(FormatError):
        read(io.BytesIO(b'{"t_ns": "x", "sent": 1}\n{"t_ns": 1.5}\n'))


def test_an_answer_from_bytes() -> None:
    collected = Answer(url="http://h/v1/chat/completions")
    collected.event(5, 0, payload(json.dumps(chat("a", token_ids=[4])).encode()), 80)
    collected.event(6, 0, payload(b"[DONE]"), 6)
    (one,), findings = collected.streams("live")
    assert one.name == "live" and one.size.tolist() == [80] and findings == []
