"""Anthropic's messages stream, also from Bedrock and from engines that offer the same route.

A delta usually holds several tokens, and only the total is told. The index of a content block is no choice.
"""

from __future__ import annotations

from typing import Final

from .said import ANY, Facts, Json, Said, has_text, name, table, whole

NAME: Final = "Anthropic messages"

_ENVELOPES: Final = {
    "message_start": "start", "content_block_start": "block start", "content_block_stop": "block stop",
    "message_stop": "stop", "ping": "ping",
}  # fmt: skip
_TEXT: Final = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}


def matches(payload: Json) -> bool:
    """Whether `payload` is written in this dialect."""
    kind = name(payload.get("type"))
    if kind == "message":  # the whole answer, not streamed
        return isinstance(payload.get("content"), list)
    return kind in ("content_block_delta", "message_delta") or kind in _ENVELOPES


def said(payload: Json) -> list[Said]:
    """What one payload says about tokens."""
    kind = payload["type"]
    if kind == "message":
        return [Said(text=has_text(payload.get("content")), finish=name(payload.get("stop_reason")))]
    if kind in _ENVELOPES:
        return [Said(other=_ENVELOPES[kind])]
    delta = table(payload.get("delta"))
    if kind == "message_delta":
        return [Said(hollow="final", finish=name(delta.get("stop_reason")))]
    kind = delta.get("type")
    if not isinstance(kind, str) or kind not in _TEXT:
        return [Said(other="annotation")]  # signatures, citations
    text = has_text(delta.get(_TEXT[kind]))
    return [Said(text=text, thought=text and kind == "thinking_delta", hollow="" if text else "empty delta")]


def facts(payload: Json) -> Facts:
    """What one payload says about the whole answer."""
    inner = table(payload.get("message")) or payload
    total = None
    if payload["type"] in ("message", "message_delta"):  # the number at the start is no total
        total = whole(table(payload.get("usage")).get("output_tokens"))
    return Facts(event_is=ANY, model=name(inner.get("model")), total=total)
