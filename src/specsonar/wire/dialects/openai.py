"""The OpenAI completions and chat-completions streams, as OpenAI, Azure, vLLM, SGLang, TensorRT-LLM, TGI, llama.cpp,
transformers, llama-cpp-python, DeepSeek, Mistral, OpenRouter and many proxies write them.

They differ in what they add; the additions name the engine (`engines.py`).
"""

from __future__ import annotations

from typing import Final

from . import report
from .engines import engine_of, event_is
from .llamacpp import clock
from .said import Facts, Json, Said, has_text, length, name, rows, several_words, table, text_under, whole

NAME: Final = "OpenAI-compatible"

_SPOKEN: Final = ("content", "refusal", "tool_calls", "function_call")
_THOUGHT: Final = ("reasoning_content", "reasoning")
_WORDS: Final = (*_SPOKEN, *_THOUGHT, "text")


def matches(payload: Json) -> bool:
    """Whether `payload` is written in this dialect."""
    return isinstance(payload.get("choices"), list)


def said(payload: Json) -> list[Said]:
    """What one payload says about tokens, choice by choice."""
    choices = [choice for choice in rows(payload.get("choices")) if isinstance(choice, dict)]
    if not choices:
        return [Said(other="prompt filter results" if "prompt_filter_results" in payload else "usage")]
    timings = table(payload.get("timings"))
    used = whole(table(payload.get("usage")).get("completion_tokens"))
    return [_choice(choice, used, whole(timings.get("predicted_n")), clock(timings)) for choice in choices]


def _choice(choice: Json, used: int | None, predicted: int | None, clock_ns: int | None) -> Said:
    delta = choice.get("delta", choice.get("message"))
    chat = isinstance(delta, dict)
    body = table(delta) if chat else choice
    spoken = text_under(body, _SPOKEN) if chat else has_text(body.get("text"))
    thought = chat and (text_under(body, _THOUGHT) or _thinks(body.get("content")))
    text = spoken or thought
    if not text and ("content_filter_offsets" in choice or choice.get("content_filter_results")):
        return Said(choice=whole(choice.get("index")) or 0, other="content filter")
    logprobs = _logprobs(choice.get("logprobs"))
    return Said(
        choice=whole(choice.get("index")) or 0,
        text=text,
        thought=thought,
        several=text and several_words(*(body[key] for key in _WORDS if key in body)),
        hollow=_hollow(body) if chat and not text else "",
        finish=name(choice.get("finish_reason")),
        ids=length(choice.get("token_ids")),
        logprobs=logprobs if logprobs or not text else None,
        used=used,
        predicted=predicted,
        clock_ns=clock_ns,
    )


def _hollow(delta: Json) -> str:
    """A delta without text: empty text may be a token that ends inside a character, no text at all is none."""
    if "role" in delta:
        return "role"
    return "" if any(isinstance(delta.get(key), str) for key in (*_SPOKEN, *_THOUGHT)) else "empty delta"


def _thinks(content: object) -> bool:
    """Whether a list of content parts (Mistral) holds reasoning."""
    return any(has_text(table(part).get("thinking")) for part in rows(content))


def _logprobs(value: object) -> int | None:
    told = table(value)
    counts = [length(told.get(key)) for key in ("content", "tokens", "refusal")]
    known = [n for n in counts if n is not None]
    return max(known) if known else None


def facts(payload: Json) -> Facts:
    """What one payload says about the whole answer."""
    choices = rows(payload.get("choices"))
    first = table(choices[0]) if choices else {}
    usage = table(payload.get("usage"))
    timings = table(payload.get("timings"))
    used = whole(usage.get("completion_tokens"))
    used = whole(timings.get("predicted_n")) if used is None else used
    engine = engine_of(payload, first)
    total = used if not choices or first.get("finish_reason") else None  # before that it is a running count
    return Facts(
        engine=engine,
        event_is=event_is(engine),
        model=name(payload.get("model")),
        total=total,
        running=used,
        hidden=whole(table(usage.get("completion_tokens_details")).get("reasoning_tokens")),
        report=report.llamacpp(timings)
        or report.vllm(table(payload.get("metrics")), total)
        or report.sglang(table(table(payload.get("sglext")).get("spec_tokens_details")), used)
        or report.trtllm(first.get("avg_decoded_tokens_per_iter"), used),
        error=name(table(first.get("error")).get("message")),
    )
