"""Which program the simulated server passes for: its routes, what it can tell, and how it takes unknown wishes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

FIELDS: Final = ("usage", "token_ids", "logprobs", "timings")
"""Ways to tell the tokens of an event: a running total, ids, log-probabilities, llama.cpp's `timings`."""

REPORTS: Final = ("none", "true", "lying")
"""What the server says about its own drafts: nothing, what happened, or half of what was rejected as accepted."""

_OPENAI: Final = ("models", "chat", "completions")


@dataclass(frozen=True, slots=True)
class Engine:
    """A program that serves models.

    Attributes
    ----------
    routes : what it answers to.
    fields : which of `FIELDS` a request may ask for.
    strict : a request that asks for another one is refused; else it is not heard.
    server : its `Server` header, or "".
    fingerprint : its `system_fingerprint` in OpenAI answers, or "".
    finish_apart : the reason why an OpenAI answer ends comes in an event of its own.
    metrics : prefix of its counters, or "".
    reports : whether its answers may tell about drafts.
    """

    routes: tuple[str, ...]
    fields: tuple[str, ...] = ()
    strict: bool = False
    server: str = "uvicorn"
    fingerprint: str = ""
    finish_apart: bool = True
    metrics: str = ""
    reports: bool = False


_SPECIFIC: Final = {
    "openai": Engine((*_OPENAI, "responses", "realtime"), ("logprobs",), strict=True, server="", fingerprint="fp_0"),
    "vllm": Engine((*_OPENAI, "health", "metrics", "version"), ("usage", "token_ids", "logprobs"),
                   fingerprint="vllm-0.32.0", finish_apart=False, metrics="vllm", reports=True),
    "llama.cpp": Engine((*_OPENAI, "completion", "props", "health", "metrics"), ("timings", "logprobs"),
                        server="llama.cpp", fingerprint="b0000-simulated", metrics="llamacpp", reports=True),
    "anthropic": Engine(("messages", "anthropic models"), server=""),
    "ollama": Engine(("ollama", *_OPENAI), ("logprobs",), server="", fingerprint="fp_ollama"),
    "tgi": Engine(("generate", "info", "health", "metrics", "models", "chat"), server="", metrics="tgi"),
}  # fmt: skip

ENGINES: Final = {
    "any": Engine(
        tuple(dict.fromkeys(route for engine in _SPECIFIC.values() for route in engine.routes)), FIELDS,
        reports=True,
    ),
    **_SPECIFIC,
}  # fmt: skip
"""Engines by name; `any` has every route and tells whatever it is asked for."""
