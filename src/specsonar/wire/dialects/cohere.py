"""Cohere's chat stream, version 2."""

from __future__ import annotations

from typing import Final

from .said import Facts, Json, Said, has_text, length, name, several_words, table, whole

NAME: Final = "Cohere chat"

_TEXT: Final = ("content-delta", "tool-plan-delta", "tool-call-delta", "tool-call-start")
_KINDS: Final = (
    *_TEXT, "message-start", "message-end", "content-start", "content-end", "tool-call-end", "citation-start",
    "citation-end", "debug",
)  # fmt: skip


def matches(payload: Json) -> bool:
    """Whether `payload` is written in this dialect."""
    return payload.get("type") in _KINDS


def said(payload: Json) -> list[Said]:
    """What one payload says about tokens."""
    kind = payload["type"]
    delta = table(payload.get("delta"))
    if kind == "message-end":
        finish = name(delta.get("finish_reason"))
        return [Said(hollow="final", finish="length" if finish == "MAX_TOKENS" else finish)]
    if kind not in _TEXT:
        return [Said(other="start" if kind.endswith("start") else "envelope")]
    message = table(delta.get("message"))
    content = table(message.get("content"))
    text = any(has_text(part) for part in (content, message.get("tool_plan"), message.get("tool_calls")))
    return [
        Said(
            text=text,
            thought=has_text(content.get("thinking")),
            several=several_words(content.get("text"), content.get("thinking")),
            hollow="" if text else "empty delta",
            ids=length(table(payload.get("logprobs")).get("token_ids")),
        )
    ]


def facts(payload: Json) -> Facts:
    """What one payload says about the whole answer."""
    delta = table(payload.get("delta"))
    total = whole(table(table(delta.get("usage")).get("tokens")).get("output_tokens"))
    return Facts(total=total, error=name(delta.get("error")))
