"""Which engine stands behind an OpenAI-compatible stream or an HTTP answer, and what one of its events holds."""

from __future__ import annotations

import re
from typing import Final

from .said import STEP, TOKEN, Facts, Json, table

# An engine that is not listed may do either.
_EVENT_IS: Final = {
    "vLLM": STEP, "SGLang": STEP, "TensorRT-LLM": STEP, "transformers": STEP,
    "llama.cpp": TOKEN, "llama-cpp-python": TOKEN, "TGI": TOKEN, "Ollama": TOKEN,
}  # fmt: skip

_MARKS: Final = (
    (re.compile(r"vllm-([\w.+]{1,20})"), "vLLM {}"),
    (re.compile(r"b\d+-"), "llama.cpp"),
    (re.compile(r"fp_ollama\Z"), "Ollama"),
    (re.compile(r"(\d+\.\d+\.\d+)(?:-dev\d+)?-(?:sha-|native)"), "TGI {}"),
)
"""How `system_fingerprint` begins."""

_VLLM_REPORT: Final = "speculative_decoding"


def event_is(engine: str | None) -> str | None:
    """What one event of `engine` (with or without version) holds; None when not known."""
    return _EVENT_IS.get(engine.split(" ")[0]) if engine else None


def from_headers(headers: Json) -> Facts:
    """What the response headers (lower-case names) say about the engine."""
    server = str(headers.get("server") or "")
    engine = None
    if server == "llama.cpp":
        engine = "llama.cpp"
    elif server == "uvicorn" and "openai-processing-ms" in headers:
        engine = "llama-cpp-python"
    elif "x-compute-type" in headers:
        engine = "TGI"
    return Facts(engine=engine, event_is=event_is(engine))


def engine_of(payload: Json, choice: Json) -> str | None:
    """The engine that a payload and its first choice betray by what they add to the common shape."""
    mark = payload.get("system_fingerprint")
    mark = mark if isinstance(mark, str) else ""
    model = payload.get("model")
    for pattern, engine in _MARKS if mark else ():
        if found := pattern.match(mark):
            return engine.format(*found.groups())
    if "timings" in payload:
        return "llama.cpp"
    if "matched_stop" in choice or "sglext" in payload:
        return "SGLang"
    if "avg_decoded_tokens_per_iter" in choice:
        return "TensorRT-LLM"
    if "stop_reason" in choice or "prompt_token_ids" in choice or table(payload.get("metrics")).get(_VLLM_REPORT):
        return "vLLM"
    if (
        not mark
        and isinstance(model, str)
        and "@" in model
        and re.search(r"@[\w.-]+$", model)
        and "logprobs" not in choice
    ):
        return "transformers"
    return None
