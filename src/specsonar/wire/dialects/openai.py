"""The OpenAI completions and chat-completions streams, as OpenAI, vLLM, SGLang, llama.cpp, transformers,
llama-cpp-python and many proxies write them. They differ in what they add; the additions name the engine.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from . import report
from .said import Facts, Json, Said, table, whole

NAME: Final = "OpenAI-compatible"

_TEXT_KEYS: Final = ("content", "reasoning_content", "reasoning", "refusal")

# What one event of an engine holds. An engine that is not listed may do either.
_EVENT_IS: Final = {
    "vLLM": "step", "SGLang": "step", "TensorRT-LLM": "step", "transformers": "step",
    "llama.cpp": "token", "llama-cpp-python": "token",
}  # fmt: skip


def matches(payload: Json) -> bool:
    """Whether `payload` is written in this dialect."""
    return isinstance(payload.get("choices"), list)


def said(payload: Json) -> list[Said]:
    """What one payload says about tokens, choice by choice."""
    choices = payload.get("choices")
    if not isinstance(choices, list) or not choices:
        return [Said(other="prompt filter results" if "prompt_filter_results" in payload else "usage")]
    usage = table(payload.get("usage"))
    used = whole(usage.get("completion_tokens"))
    predicted = whole(table(payload.get("timings")).get("predicted_n"))
    return [_choice(choice, used, predicted) for choice in choices if isinstance(choice, Mapping)]


def _choice(choice: Json, used: int | None, predicted: int | None) -> Said:
    delta = choice.get("delta")
    chat = isinstance(delta, Mapping)
    body = table(delta) if chat else choice
    text = any(body.get(key) for key in _TEXT_KEYS) or bool(body.get("tool_calls")) if chat else bool(body.get("text"))
    ids = choice.get("token_ids")
    finish = choice.get("finish_reason")
    return Said(
        choice=whole(choice.get("index")) or 0,
        text=text,
        role=chat and "role" in body and not text,
        finish=finish if isinstance(finish, str) else None,
        ids=len(ids) if isinstance(ids, list) else None,
        logprobs=_logprobs(choice.get("logprobs")),
        used=used,
        predicted=predicted,
    )


def _logprobs(value: object) -> int | None:
    told = table(value)
    for key in ("content", "tokens"):
        if isinstance(told.get(key), list):
            return len(told[key])
    return None


def facts(payload: Json) -> Facts:
    """What one payload says about the whole answer."""
    choices = payload.get("choices")
    first = table(choices[0]) if isinstance(choices, list) and choices else {}
    timings = table(payload.get("timings"))
    total = None
    if not choices or first.get("finish_reason"):  # before that it is a running count
        used = whole(table(payload.get("usage")).get("completion_tokens"))
        total = whole(timings.get("predicted_n")) if used is None else used
    model = payload.get("model")
    engine = _engine(payload, first)
    return Facts(
        engine=engine,
        event_is=event_is(engine),
        model=model if isinstance(model, str) else None,
        total=total,
        report=report.llamacpp(timings) or report.vllm(table(payload.get("metrics")), total),
    )


def event_is(engine: str | None) -> str | None:
    """ "token" or "step": what one event of `engine` (with or without version) holds; None when not known."""
    return _EVENT_IS.get(engine.split(" ")[0]) if engine else None


def _engine(payload: Json, choice: Json) -> str | None:
    mark = payload.get("system_fingerprint")
    mark = mark if isinstance(mark, str) else ""
    model = payload.get("model")
    if found := re.match(r"vllm-([\w.+]+)", mark):
        return f"vLLM {found[1]}"
    if re.match(r"b\d+-", mark) or "timings" in payload:
        return "llama.cpp"
    if "matched_stop" in choice:
        return "SGLang"
    if "avg_decoded_tokens_per_iter" in choice:
        return "TensorRT-LLM"
    if "stop_reason" in choice or "prompt_token_ids" in choice:
        return "vLLM"
    if isinstance(model, str) and re.search(r"@[\w.-]+$", model) and not mark and "logprobs" not in choice:
        return "transformers"
    return None
