"""What each dialect says: events with tokens, what is none, ends, errors, several choices."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from specsonar.trace import ASSUMED_ONE, COUNTED, NOT_SAID, ONE_EACH, TOTAL_ONLY, Stream
from specsonar.wire.answer import Answer

Payloads = list[Any]


def answered(*payloads: Any, request: dict[str, Any] | None = None, **rest: Any) -> tuple[list[Stream], list[str]]:
    """Streams and finding codes; a payload may be a (kind, value) pair."""
    answer = Answer(request, **rest)
    for index, entry in enumerate(payloads):
        kind, value = entry if isinstance(entry, tuple) else ("", entry)
        answer.event(1000 * index, index, value, 50, kind)
    made, findings = answer.streams("x")
    return made, [f.code for f in findings]


def single(*payloads: Any, **rest: Any) -> Stream:
    made, codes = answered(*payloads, **rest)
    assert codes == []
    (one,) = made
    return one


def events(one: Stream) -> list[int]:
    """Indices of the payloads that are events."""
    return (one.t_ns // 1000).tolist()


def delta(index: int = 0, finish: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": index, "delta": fields, "finish_reason": finish}]}


def block(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": 0, "delta": {"type": kind, **fields}}


def response(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}", **fields}


def part(**fields: Any) -> dict[str, Any]:
    used = fields.pop("used", None)
    finish = {"finishReason": fields.pop("finish")} if "finish" in fields else {}
    usage = {} if used is None else {"usageMetadata": {"candidatesTokenCount": used}}
    return {"candidates": [{"content": {"parts": [fields] if fields else []}, **finish}], **usage}


ANTHROPIC = [
    {"type": "message_start", "message": {"model": "claude", "usage": {"output_tokens": 1}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking"}}, {"type": "ping"},
    block("thinking_delta", thinking="a b"), block("signature_delta", signature="xyz"),
    {"type": "content_block_stop", "index": 0}, block("text_delta", text="c"), block("text_delta", text=""),
    block("input_json_delta", partial_json=""), block("input_json_delta", partial_json='{"a'),
    block("citations_delta", citation={"text": "x"}),
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 9}},
    {"type": "message_stop"},
]  # fmt: skip
RESPONSES = [
    response("created", response={"model": "gpt", "status": "in_progress"}),
    response("output_item.added"),
    response("reasoning_summary_text.delta", delta="I think"),
    response("reasoning_text.delta", delta="a"),
    response("output_text.delta", delta="b", logprobs=[], obfuscation="pad"),
    response("output_text.delta", delta=""),
    response("function_call_arguments.delta", delta="{"),
    response("output_text.done", text="a b c"),
    response("completed", response={"status": "completed", "usage": {"output_tokens": 3}}),
]
REALTIME = [
    {"type": "session.created", "session": {"model": "realtime"}}, response("created", response={"id": "r"}),
    {"type": "rate_limits.updated"}, response("output_audio.delta", delta="UklGRg=="),
    response("output_audio_transcript.delta", delta="he"), response("text.delta", delta="llo"),
    response("done", response={"status": "completed", "usage": {
        "output_tokens": 12, "output_token_details": {"text_tokens": 2, "audio_tokens": 10}}}),
]  # fmt: skip
GEMINI = [
    part(text="planning", thought=True),
    part(text="a b c", used=3),
    part(used=3),
    part(text="d", used=4, finish="STOP"),
    {"usageMetadata": {"candidatesTokenCount": 4}, "modelVersion": "gemini"},
]
OLLAMA = [
    {"created_at": "2026-01-01T00:00:00Z", "model": "q", "done": False, "message": {"thinking": "a", "content": ""}},
    {"created_at": "2026-01-01T00:00:01Z", "model": "q", "done": False, "message": {"content": "b"}},
    {"created_at": "2026-01-01T00:00:01Z", "model": "q", "done": False,
     "message": {"tool_calls": [{"function": {"name": "f"}}]}},
    {"created_at": "2026-01-01T00:00:02Z", "model": "q", "done": True, "done_reason": "stop", "eval_count": 4,
     "message": {"content": ""}},
]  # fmt: skip
TGI = [
    {"index": 1, "token": {"id": 7, "text": "a", "special": False}, "generated_text": None},
    {"index": 2, "token": {"id": 2, "text": "", "special": True}, "generated_text": "a",
     "details": {"finish_reason": "eos_token", "generated_tokens": 2}},
]  # fmt: skip
COHERE = [
    {"type": "message-start"}, {"type": "content-start"},
    {"type": "tool-plan-delta", "delta": {"message": {"tool_plan": "x"}}},
    {"type": "content-delta", "delta": {"message": {"content": {"text": "a"}}}, "logprobs": {"token_ids": [4]}},
    {"type": "tool-call-delta", "delta": {"message": {"tool_calls": {"function": {"arguments": "{"}}}}},
    {"type": "citation-start", "delta": {}},
    {"type": "message-end", "delta": {"finish_reason": "MAX_TOKENS", "usage": {"tokens": {"output_tokens": 7}}}},
]  # fmt: skip
CONVERSE = [
    ("messageStart", {"role": "assistant", "p": "abcd"}), ("contentBlockStart", {"start": {}}),
    ("contentBlockDelta", {"delta": {"reasoningContent": {"text": "a"}}}),
    ("contentBlockDelta", {"delta": {"reasoningContent": {"signature": "a"}}}),
    ("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "b"}, "p": "abcdefgh"}),
    ("contentBlockDelta", {"delta": {"toolUse": {"input": "{"}}}), ("contentBlockStop", {}),
    ("messageStop", {"stopReason": "max_tokens"}), ("metadata", {"usage": {"outputTokens": 8}}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("payloads", "dialect", "kept", "total", "finish"),
    [
        (ANTHROPIC, "Anthropic messages", [3, 6, 9], 9, "end_turn"),
        (RESPONSES, "OpenAI Responses", [3, 4, 6], 3, "completed"),
        (REALTIME, "OpenAI Responses", [4, 5], 2, "completed"),
        (GEMINI, "Gemini", [1, 3], 4, "STOP"),
        ([GEMINI], "Gemini", [0, 0], 4, "STOP"),  # the whole array in one piece
        (OLLAMA, "Ollama", [0, 1, 2], 4, "stop"),
        (TGI, "TGI", [0, 1], 2, "eos_token"),
        (COHERE, "Cohere chat", [2, 3, 4], 7, "length"),
        (CONVERSE, "Bedrock", [2, 4, 5], 8, "length"),
        ([{kind: value} for kind, value in CONVERSE], "Bedrock", [2, 4, 5], 8, "length"),
    ],
)
def test_events_totals_and_ends(payloads: Payloads, dialect: str, kept: list[int], total: int, finish: str) -> None:
    one = single(*payloads)
    assert one.meta["dialect"] == dialect
    assert events(one) == kept
    assert (one.total_tokens, one.meta["finish_reason"]) == (total, finish)
    left_out = sum(one.meta["skipped_payloads"].values())
    assert left_out == len(payloads[0] if isinstance(payloads[0], list) else payloads) - len(kept)


def test_a_body_without_its_last_events_keeps_what_came() -> None:
    for payloads, cut, source in ((ANTHROPIC, 7, NOT_SAID), (RESPONSES, 5, ASSUMED_ONE), (GEMINI, 2, COUNTED)):
        one = single(*payloads[:cut])
        assert one.total_tokens is None and one.count_source == source and len(one) >= 1


@pytest.mark.parametrize(
    ("fields", "kept"),
    [
        ({"role": "assistant", "content": ""}, False), ({"role": "assistant"}, False), ({}, False),
        ({"content": None}, False), ({"role": "assistant", "content": "a"}, True), ({"content": ""}, True),
        ({"content": "a"}, True), ({"reasoning_content": "a", "content": None}, True), ({"reasoning": "a"}, True),
        ({"refusal": "no"}, True), ({"content": [{"type": "text", "text": "a"}]}, True), ({"content": []}, False),
        ({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "a"}]}]}, True),
        ({"content": [{"type": "reference", "reference_ids": [1]}]}, False),
        ({"tool_calls": [{"index": 0, "id": "x", "function": {"name": "f", "arguments": ""}}]}, True),
        ({"tool_calls": [{"index": 0, "function": {"arguments": ""}}]}, False),
        ({"tool_calls": [{"index": 0, "function": {"arguments": "{"}}]}, True),
        ({"function_call": {"arguments": "{"}}, True), ({"audio": {"data": "x"}}, False),
    ],
)  # fmt: skip
def test_chat_deltas(fields: dict[str, Any], kept: bool) -> None:
    one = single(delta(content="first"), delta(**fields))
    assert len(one) == 1 + kept


def test_azure_frames_are_no_tokens() -> None:
    annotation = {
        "choices": [{"index": 0, "content_filter_offsets": {"start": 0}, "content_filter_results": {"hate": {}}}]
    }
    one = single({"choices": [], "prompt_filter_results": [{}]}, delta(content="a"), annotation, delta(content="b"))
    assert events(one) == [1, 3]
    assert one.meta["skipped_payloads"] == {"prompt filter results": 1, "content filter": 1}


def test_openrouter_tells_its_usage_in_a_last_choice() -> None:
    last = {**delta(role="assistant", content=""), "usage": {"completion_tokens": 2}}
    one = single(
        {"comment": "OPENROUTER PROCESSING"}, delta(content="a"), delta(content="b", finish="stop"), last, "[DONE]"
    )
    assert one.tokens.tolist() == [1, 1] and one.total_tokens == 2 and one.count_source == ONE_EACH


def test_reasoning_that_is_not_shown_is_not_in_the_total() -> None:
    usage = {"choices": [], "usage": {"completion_tokens": 102, "completion_tokens_details": {"reasoning_tokens": 100}}}
    hidden = single(delta(content="a"), delta(content="b", finish="stop"), usage)
    assert (hidden.total_tokens, hidden.count_source) == (2, ONE_EACH)
    shown = single(delta(reasoning_content="a b"), delta(content="b", finish="stop"), usage)
    assert (shown.total_tokens, shown.count_source) == (102, TOTAL_ONLY)


def test_the_end_token_has_no_event() -> None:
    usage = {"choices": [], "usage": {"completion_tokens": 3}}
    one = single(delta(content="a"), delta(content="b"), delta(finish="stop"), usage)
    assert one.tokens.tolist() == [1, 1] and one.count_source == ONE_EACH and one.total_tokens == 3
    cut = single(delta(content="a"), delta(content="b"), delta(finish="length"), usage)
    assert cut.count_source == TOTAL_ONLY, "nothing was left out by the limit: one event holds two tokens"
    mark = {"system_fingerprint": "vllm-0.9.1-abc"}
    steps = single({**delta(content="a"), **mark}, delta(content="b"), delta(finish="stop"), usage)
    assert steps.count_source == TOTAL_ONLY, "an event of vLLM may hold two"


def test_choices_are_streams_and_their_usage_may_be_shared() -> None:
    def used(n: int, index: int) -> dict[str, Any]:
        return {**delta(index, content="a"), "usage": {"completion_tokens": n}}

    each, _ = answered(used(1, 0), used(2, 1), used(3, 0), used(3, 1), delta(0, "stop"), delta(1, "stop"))
    assert [s.tokens.tolist() for s in each] == [[1, 2], [2, 1]]
    shared, _ = answered(used(1, 0), used(3, 1), used(5, 0), used(6, 1), delta(0, "stop"), delta(1, "stop"))
    assert [s.tokens.tolist() for s in shared] == [[1, 2], [2, 1]], "the number rises whatever the choice"
    both, _ = answered({"choices": [delta(0, content="a")["choices"][0], delta(1, content="b")["choices"][0]]})
    assert [(s.name, len(s)) for s in both] == [("x#0", 1), ("x#1", 1)]
    two, _ = answered(
        {"candidates": [part(text="a")["candidates"][0], {**part(text="b")["candidates"][0], "index": 1}]}
    )
    assert len(two) == 2


def test_a_report_of_several_choices_is_given_once() -> None:
    said = {"num_draft_tokens": 9, "num_accepted_draft_tokens": 5, "num_spec_steps": 3}
    last = {"choices": [], "usage": {"completion_tokens": 9}, "metrics": {"speculative_decoding": said}}
    made, _ = answered(delta(0, content="a"), delta(1, content="a"), last)
    assert made[0].server_report is not None and made[1].server_report is None


@pytest.mark.parametrize(
    "payload",
    [
        {"error": {"message": "overloaded", "type": "server_error"}}, {"error": "overloaded", "error_type": "x"},
        {"type": "error", "error": {"type": "overloaded_error", "message": "overloaded"}},
        ("error", {"message": "overloaded"}),
        {"object": "error", "message": "overloaded", "code": 500}, {"error": {"code": "overloaded"}},
        {"choices": [{"index": 0, "error": {"message": "overloaded"}, "finish_reason": "error", "delta": {}}]},
        response("failed", response={"status": "failed", "error": {"message": "overloaded"}}),
        {"type": "error", "message": "overloaded"},
        {"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}},
        {"meta_info": {"finish_reason": {"type": "abort", "message": "overloaded"}}, "text": ""},
        {"type": "message-end", "delta": {"finish_reason": "ERROR", "error": "overloaded"}},
        {"promptFeedback": {"blockReason": "overloaded"}},
    ],
)  # fmt: skip
def test_errors_after_the_first_tokens(payload: Any) -> None:
    answer = Answer(status=200)
    answer.event(0, 0, delta(content="a"), 9)
    answer.event(1, 1, *((payload[1], 9, payload[0]) if isinstance(payload, tuple) else (payload, 9)))
    (one,), findings = answer.streams()
    assert len(one) == 1, "what came before the error stays"
    assert [f.code for f in findings] == ["I007"] and "overloaded" in findings[0].message


def sglang(text: str, n: int, finish: Any = None, **info: Any) -> dict[str, Any]:
    return {"text": text, "output_ids": [1], "meta_info": {"completion_tokens": n, "finish_reason": finish, **info}}


def test_sglang_repeats_its_last_payload() -> None:
    last = sglang("a b c", 3, {"type": "length", "length": 3}, spec_verify_ct=1, spec_num_correct_drafts=1,
                  spec_num_proposed_drafts=3)  # fmt: skip
    one = single(sglang("a", 1), last, last, "[DONE]")
    assert one.tokens.tolist() == [1, 2] and one.total_tokens == 3
    assert one.server_report is not None and one.server_report["acceptance_length"] == 2.0
    pieces = single(sglang("a", 1), sglang("b c", 3), sglang("", 3, "stop"))
    assert pieces.tokens.tolist() == [1, 2]
    old = {
        "spec_verify_ct": 4,
        "spec_accept_token_num": 6,
        "spec_draft_token_num": 12,
        "spec_accept_histogram": [1, 1, 1, 1],
    }
    report = single(sglang("a", 11, "stop", **old)).server_report
    assert report is not None and report["tried_by_position"] == [4, 3, 2] and report["draft_length"] == 3


def test_sglang_reports_through_the_openai_route() -> None:
    details = {"spec_verify_ct": 5, "spec_num_correct_drafts": 10, "spec_num_proposed_drafts": 15}
    last = {"choices": [], "usage": {"completion_tokens": 16}, "sglext": {"spec_tokens_details": details}}
    one = single(
        delta(content="a b"), {**delta(finish="stop"), "choices": [{**delta()["choices"][0], "matched_stop": 2}]}, last
    )
    assert one.meta["engine"] == "SGLang" and one.server_report is not None
    assert one.server_report["acceptance_length"] == 3.0


def test_triton_repeats_or_does_not() -> None:
    def out(text: str) -> dict[str, Any]:
        return {"model_name": "e", "model_version": "1", "text_output": text}

    cumulative = single(*map(out, ["a", "ab", "abc", "abc", "abcd", ""]))
    assert events(cumulative) == [0, 1, 2, 4]
    pieces = single(*map(out, ["a", "ab", "c", " the", " the", "d"]))
    assert events(pieces) == [0, 1, 2, 3, 4, 5], "the same word twice is two tokens"


def test_vllm_generate_repeats_the_text_of_all_choices() -> None:
    texts = [["p a", "p x"], ["p a b", "p x y"], ["p a b c", "p x y z"], ["p a b c d", "p x y z"]]
    made, _ = answered(*({"text": t} for t in texts))
    assert [len(s) for s in made] == [4, 3]
    assert all(s.count_source == NOT_SAID and s.meta["engine"] == "vLLM" for s in made)


def test_bedrock_models_in_their_own_words() -> None:
    def packed(value: Any) -> dict[str, Any]:
        return {"bytes": base64.b64encode(json.dumps(value).encode()).decode(), "p": "abc"}

    llama = [{"generation": "a b", "generation_token_count": 2, "stop_reason": None},
             {"generation": "c", "generation_token_count": 3, "stop_reason": "length",
              "amazon-bedrock-invocationMetrics": {"outputTokenCount": 3}}]  # fmt: skip
    one = single(*(("chunk", packed(p)) for p in llama))
    assert one.tokens.tolist() == [2, 1] and one.meta["dialect"] == "Bedrock" and one.total_tokens == 3
    assert len(single({"chunk": packed(llama[0])}, packed(llama[1]))) == 2
    assert single(*map(packed, ANTHROPIC)).meta["dialect"] == "Anthropic messages"
    assert (
        len(single({"outputText": "a", "completionReason": None}, {"outputs": [{"text": "b", "stop_reason": None}]}))
        == 2
    )
    made, codes = answered({"bytes": "not base64!"}, {"bytes": 7})
    assert [len(s) for s in made] == [0] and codes == []


@pytest.mark.parametrize(
    ("mark", "engine"),
    [
        ("vllm-0.32.0-274f6bf0", "vLLM 0.32.0"), ("b7000-abc", "llama.cpp"), ("fp_ollama", "Ollama"),
        ("3.3.5-sha-abc", "TGI 3.3.5"), ("3.2.1-dev0-native", "TGI 3.2.1"), ("fp_44709d6fcb", None), (7, None),
    ],
)  # fmt: skip
def test_engines_by_their_fingerprint(mark: Any, engine: str | None) -> None:
    assert single({**delta(content="a"), "system_fingerprint": mark}).meta.get("engine") == engine


def test_absurd_counts_are_not_used() -> None:
    def used(n: Any) -> dict[str, Any]:
        return {**delta(content="a"), "usage": {"completion_tokens": n}}

    for bad in (-5, 1 << 60, float("nan"), "7", True, [1], 1e9, 5000):
        one = single(used(1), used(bad), {"choices": [], "usage": {"completion_tokens": bad}})
        assert one.tokens.tolist() == [-1, -1], bad
    falling = single(used(5), used(3), used(6))
    assert falling.count_source == ASSUMED_ONE
    many = single({**delta(content="a"), "choices": [{**delta(content="a")["choices"][0], "token_ids": [1] * 2000}]})
    assert many.tokens.tolist() == [-1]


def test_a_payload_without_text_or_count_among_counted_ones_is_no_event() -> None:
    """What it may have brought is in the growth of the next one's running total."""
    counts = {"a": 1, "": None, "b": 3, "c": 4}
    payloads = [{"content": text, "stop": False, "tokens_predicted": n} for text, n in counts.items()]
    one = single(*payloads, {"content": "", "stop": True, "tokens_predicted": 4})
    assert one.tokens.tolist() == [1, 2, 1]
    assert one.count_source == COUNTED and one.total_tokens == 4
    assert one.meta["skipped_payloads"] == {"no new token": 1, "final": 1}


def test_events_of_several_words_are_not_taken_as_one_token() -> None:
    words = [delta(content=" one"), delta(content=" or two"), delta(content="."), delta(content=" lines\n\n")]
    assert single(*words).count_source == NOT_SAID
    assert single(words[0], words[2], words[3]).count_source == ASSUMED_ONE
    assert single(*words, {"choices": [], "usage": {"completion_tokens": 9}}).count_source == TOTAL_ONLY


def test_padding_is_not_text() -> None:
    one = single(
        {**delta(role="assistant", content=""), "obfuscation": "abc"}, {**delta(content="a"), "obfuscation": "x" * 40}
    )
    assert events(one) == [1]


def test_an_answer_in_one_piece() -> None:
    whole = {"object": "chat.completion", "choices": [{"index": 0, "message": {"role": "assistant", "content": "a b"},
             "finish_reason": "stop"}], "usage": {"completion_tokens": 3}}  # fmt: skip
    for payload in (whole, {"type": "message", "role": "assistant", "content": [{"type": "text", "text": "a b"}],
                            "stop_reason": "end_turn", "usage": {"output_tokens": 3}},
                    {"object": "response", "output": [{"content": [{"text": "a b"}]}], "usage": {"output_tokens": 3}},
                    {"generated_text": "a b", "details": {"finish_reason": "length", "generated_tokens": 3}},
                    ):  # fmt: skip
        one = single(payload)
        assert len(one) == 1 and one.known_tokens == 3
