"""One simulated service in 27 dialects, read by the product and by a separate, simple-minded parse.

The service speculates: 3 drafts, each accepted with 0.7, steps of 20 ms, the first token at 60 ms. A token is one word
" wN", so the separate parse counts tokens by counting words. expected.json has the gaps between the reads, as the
program that recorded them saw them.
"""

from __future__ import annotations

import base64
import io
import json
import re
import struct
from pathlib import Path

import numpy as np
import pytest
import zstandard

from specsonar.errors import InputError
from specsonar.importers import look, read
from specsonar.trace import COUNTED, ONE_EACH

FOLDER = Path(__file__).parent / "wire"
EXPECTED = json.loads((FOLDER / "expected.json").read_text())
NAMES = sorted(EXPECTED)

COUNTED_BY = {
    "gemini_array": "usage per event", "gemini_sse": "usage per event", "llamacpp_completion": "tokens predicted",
    "llamacpp_completion_timings": "tokens predicted", "llamacpp_oai_chat_timings": "tokens predicted",
    "openai_chat_logprobs": "log-probabilities", "openai_completions_logprobs": "log-probabilities",
    "sglang_generate": "usage per event", "tgi_generate_stream": "token ids", "trtllm_serve_chat": "usage per event",
    "vllm_chat_continuous_usage": "usage per event", "vllm_chat_logprobs": "log-probabilities",
    "vllm_chat_token_ids": "token ids", "deepseek_chat": "total", "openai_chat": "total", "ollama_chat": "total",
    "ollama_generate": "total",
}  # fmt: skip
NO_TOTAL = {"azure_chat", "mistral_chat", "openrouter_chat", "triton_generate_stream"}
ENGINES = {
    "llamacpp_completion": "llama.cpp", "llamacpp_completion_timings": "llama.cpp",
    "llamacpp_oai_chat_timings": "llama.cpp", "ollama_chat": "Ollama", "ollama_generate": "Ollama",
    "sglang_generate": "SGLang", "tgi_generate_stream": "TGI", "trtllm_serve_chat": "TensorRT-LLM",
    "vllm_chat": "vLLM", "vllm_chat_continuous_usage": "vLLM", "openai_completions_logprobs": "vLLM",
}  # fmt: skip
SERVER_CLOCK = {"llamacpp_completion_timings", "llamacpp_oai_chat_timings", "ollama_chat", "ollama_generate"}


def reads(name: str) -> list[tuple[float, bytes]]:
    text = zstandard.ZstdDecompressor().decompress((FOLDER / f"{name}.jsonl.zst").read_bytes())
    rows = [json.loads(line) for line in text.splitlines()]
    return [(row["t"], base64.b64decode(row["b64"])) for row in rows if row["type"] == "read"]


def body(name: str) -> bytes:
    return b"".join(data for _, data in reads(name))


def pieces(name: str) -> list[tuple[int, object]]:
    """End in the body and JSON of each event."""
    data = body(name)
    if name.startswith("bedrock"):
        found, at = [], 0
        while at < len(data):
            total, headers = struct.unpack_from(">II", data, at)
            value = json.loads(data[at + 12 + headers : at + total - 4])
            at += total
            found.append((at, json.loads(base64.b64decode(value["bytes"])) if "bytes" in value else value))
        return found
    if name == "gemini_array":
        text, found, at = data.decode(), [], 1
        while "{" in text[at:]:
            value, at = json.JSONDecoder().raw_decode(text, text.index("{", at))
            found.append((at, value))
        return found
    if name.startswith("ollama"):
        return [(m.end(), json.loads(m[0])) for m in re.finditer(rb"[^\n]+\n?", data)]
    blocks = re.finditer(rb"data: ?(\{.*\}) ?\r?\n\r?\n", data)
    return [(m.end(), json.loads(m[1])) for m in blocks]


def text_of(value: dict) -> str:
    """Every place in which one of the 27 bodies keeps the text of an event."""
    if "choices" in value:
        choice = value["choices"][0] if value["choices"] else {}
        delta = choice.get("delta", {"content": choice.get("text")})
        return (delta.get("content") or "") + (delta.get("reasoning_content") or "")
    if "candidates" in value:
        return value["candidates"][0]["content"]["parts"][0]["text"]
    delta = value.get("delta")
    if isinstance(delta, dict):
        return delta.get("text") or (delta.get("message", {}).get("content") or {"text": ""})["text"] if delta else ""
    message = value.get("message", {}).get("content") if "created_at" in value else None
    return (
        delta
        or message
        or value.get("response")
        or value.get("content")
        or value.get("token", {}).get("text")
        or (value.get("text_output") or (value.get("text") if "meta_info" in value else "") or "")
    )


def separate(name: str) -> list[tuple[float, int]]:
    """(time, words) of each event that has words."""
    arrived = reads(name)
    ends = np.cumsum([len(data) for _, data in arrived])
    found, before = [], 0
    for end, value in pieces(name):
        text = (
            text_of(value) if isinstance(value, dict) and "response.output_item" not in str(value.get("type")) else ""
        )
        words = len(re.findall(r"w\d+", text)) if isinstance(text, str) else 0
        if name == "sglang_generate":
            words, before = words - before, words
        if words:
            found.append((arrived[int(np.searchsorted(ends, end))][0], words))
    return found


@pytest.mark.parametrize("name", NAMES)
def test_the_samples_are_what_was_recorded(name: str) -> None:
    assert np.diff([t for t, _ in reads(name)]) * 1e3 == pytest.approx(EXPECTED[name], abs=0.0011)
    assert sum(words for _, words in separate(name)) in (12, 24, 40)


@pytest.mark.parametrize("name", NAMES)
def test_events_and_counts_are_those_of_the_separate_parse(name: str) -> None:
    trace = read(FOLDER / f"{name}.jsonl.zst")
    (one,) = trace.streams
    wanted = separate(name)
    assert trace.findings == () and trace.meta["format"] == "timed reads"
    assert (one.t_ns * 1e-9).tolist() == pytest.approx([t for t, _ in wanted], abs=1e-9)
    assert one.start_ns == 0 and one.meta["status"] == 200
    assert one.meta.get("count_field") == COUNTED_BY.get(name)
    if name in COUNTED_BY:
        assert one.tokens.tolist() == [words for _, words in wanted]
        assert one.count_source == (ONE_EACH if (one.tokens == 1).all() else COUNTED)
    else:
        assert (one.tokens == -1).all()
    assert one.known_tokens == (None if name in NO_TOTAL else sum(words for _, words in wanted))
    assert one.meta.get("engine") == ENGINES.get(name)


@pytest.mark.parametrize("name", ["vllm_chat", "vllm_chat_continuous_usage", "sglang_generate", "trtllm_serve_chat"])
def test_the_servers_report_is_that_of_its_steps(name: str) -> None:
    report = read(FOLDER / f"{name}.jsonl.zst").streams[0].server_report
    sizes = [words for _, words in separate(name)][1:]
    assert report is not None
    assert (report["steps"], report["tokens"]) == (len(sizes), sum(sizes))
    if name.startswith("vllm"):  # it counts what the last step accepted past the limit of the request
        past = report["accepted"] - (sum(sizes) - len(sizes))
        assert 0 <= past <= 3 and report["draft_length"] == 3 and len(report["acceptance_by_position"]) == 3
        sizes[-1] += past
    assert report["accepted"] == sum(sizes) - len(sizes)
    assert report["acceptance_length"] == pytest.approx(np.mean(sizes))
    if name != "trtllm_serve_chat":
        reached = [sum(size > k for size in sizes) for k in range(4)]
        assert report["draft_length"] == 3 and report["tried_by_position"] == reached[:3]
        assert report["acceptance_by_position"] == pytest.approx([reached[k + 1] / reached[k] for k in range(3)])


@pytest.mark.parametrize("name", sorted(SERVER_CLOCK))
def test_a_body_with_the_servers_clock_has_its_times(name: str) -> None:
    trace = read(io.BytesIO(body(name)))
    (one,) = trace.streams
    received = read(FOLDER / f"{name}.jsonl.zst").streams[0]
    assert [f.code for f in trace.findings] == ["I021"]
    assert one.tokens.tolist() == received.tokens.tolist()
    late = (np.diff(one.t_ns) - np.diff(received.t_ns)) / 1e6
    assert np.median(np.abs(late)) < 0.3, "the path adds tenths of a millisecond, the server's clock shows the rest"
    assert one.start_ns is None and len(set(one.read.tolist())) == len(one)


@pytest.mark.parametrize("name", [n for n in NAMES if n not in SERVER_CLOCK])
def test_a_body_without_a_clock_is_refused_with_what_to_do(name: str) -> None:
    with pytest.raises(InputError, match="without the times") as refused:
        read(io.BytesIO(body(name)))
    assert "specsonar probe" in refused.value.hint and "--trace-time" in refused.value.hint
    seen = look(io.BytesIO(body(name)))
    assert seen.meta["holds"]["events"] == len(separate(name))


@pytest.mark.parametrize("name", NAMES)
def test_a_recording_cut_anywhere_gives_what_is_before_the_cut(name: str) -> None:
    text = zstandard.ZstdDecompressor().decompress((FOLDER / f"{name}.jsonl.zst").read_bytes())
    whole = read(io.BytesIO(text)).streams[0]
    for share in (0.35, 0.6, 0.83):
        seen = look(io.BytesIO(text[: int(len(text) * share)]))
        times = [t for one in seen.streams for t in one.t_ns.tolist()]
        assert times == whole.t_ns[: len(times)].tolist()
        assert len(times) >= int(len(whole) * share) - 4


def test_reads_of_several_answers_and_rubbish_between_them() -> None:
    chunk = base64.b64encode(b'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n').decode()
    lines = [
        {"ev": "start", "id": 1, "url": "http://h/v1/chat?key=secret", "status": 200, "content_type": 7},
        {"ev": "read", "id": 1, "t": 0.1, "b64": chunk}, {"ev": "read", "id": 2, "t": 0.1, "b64": chunk},
        {"ev": "read", "id": 1, "t": 0.2, "b64": "%%%"}, {"ev": "read", "id": 1, "t": None, "b64": chunk},
        {"ev": "read", "id": 1, "t": 1e300, "b64": chunk}, {"ev": "read", "id": 1, "t": 0.3, "b64": chunk},
        {"ev": "end", "id": 9, "t": 0.4}, {"ev": "start", "id": 1, "url": 3}, {"ev": "read", "id": 1, "t": 0.5},
        {"ev": "read", "id": 1, "t": 0.6, "b64": chunk},
    ]  # fmt: skip
    trace = read(io.BytesIO(b"".join(json.dumps(line).encode() + b"\n" for line in lines)))
    assert [(s.t_ns / 1e9).tolist() for s in trace.streams] == [[0.1, 0.3], [0.1], [0.6]]
    assert "secret" not in repr(trace.streams[0].meta) and trace.streams[0].meta["route"] == "/v1/chat"
    assert [f.code for f in trace.findings] == ["I004"] and trace.findings[0].message.startswith("input: ")
