"""Amazon Bedrock: the Converse stream, and the answers of models that have no dialect elsewhere.

The name of a Converse event stands outside its JSON (`:event-type`), or is its only key where a program wrote it down.
`InvokeModel` wraps the model's own JSON (`unwrap`).
"""

from __future__ import annotations

import base64
import binascii
from typing import Final

from ..values import payload as parsed
from .said import ANY, Facts, Json, Said, has_text, name, rows, table, whole

NAME: Final = "Bedrock"

_KINDS: Final = (
    "messageStart", "contentBlockStart", "contentBlockDelta", "contentBlockStop", "messageStop", "metadata",
)  # fmt: skip
_METRICS: Final = "amazon-bedrock-invocationMetrics"


def unwrap(payload: Json) -> object:
    """The model's own JSON inside an event of `InvokeModel`; any other payload as it is."""
    inner = payload.get("bytes", table(payload.get("chunk")).get("bytes"))
    if not isinstance(inner, str) or not set(payload) <= {"bytes", "chunk", "p", "type"}:
        return payload
    try:
        return parsed(base64.b64decode(inner, validate=True))
    except (binascii.Error, ValueError):
        return payload


def matches(payload: Json) -> bool:
    """Whether `payload` is written in this dialect."""
    return _event(payload) is not None or _own(payload) is not None


def said(payload: Json) -> list[Said]:
    """What one payload says about tokens."""
    event = _event(payload)
    if event is None:
        return [own] if (own := _own(payload)) is not None else []
    kind, body = event
    if kind == "messageStop":
        reason = name(body.get("stopReason"))
        return [Said(hollow="final", finish="length" if reason == "max_tokens" else reason)]
    if kind != "contentBlockDelta":
        return [Said(other="start" if kind.endswith("Start") else "usage" if kind == "metadata" else "block stop")]
    delta = table(body.get("delta"))
    thought = has_text(table(delta.get("reasoningContent")).get("text"))
    text = thought or has_text(delta.get("text")) or has_text(table(delta.get("toolUse")).get("input"))
    return [Said(text=text, thought=thought, hollow="" if text else "empty delta")]


def facts(payload: Json) -> Facts:
    """What one payload says about the whole answer."""
    event = _event(payload)
    total = whole(table(payload.get(_METRICS)).get("outputTokenCount"))
    if event is not None:
        total = whole(table(event[1].get("usage")).get("outputTokens"))
    return Facts(event_is=ANY, total=total)


def _event(payload: Json) -> tuple[str, Json] | None:
    """Name and body of a Converse event."""
    kind = payload.get("type")
    if isinstance(kind, str) and kind in _KINDS:
        return kind, payload
    for kind in _KINDS:
        if isinstance(payload.get(kind), dict):
            return kind, payload[kind]
    return ("contentBlockDelta", payload) if {"contentBlockIndex", "delta"} <= set(payload) else None


def _own(payload: Json) -> Said | None:
    """Llama, Titan and Mistral models, each with its own words."""
    if "generation" in payload:
        text, reason, used = payload["generation"], payload.get("stop_reason"), payload.get("generation_token_count")
    elif "outputText" in payload:
        text, reason, used = payload["outputText"], payload.get("completionReason"), None
    elif rows(payload.get("outputs")) and "text" in table(payload["outputs"][0]):
        first = table(payload["outputs"][0])
        text, reason, used = first.get("text"), first.get("stop_reason"), None
    else:
        return None
    return Said(text=has_text(text), finish=name(reason), used=whole(used))
