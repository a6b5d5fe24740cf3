"""OpenAI's Responses stream, over SSE or WebSocket, and the events of its Realtime service."""

from __future__ import annotations

from typing import Final

from .said import Facts, Json, Said, has_text, length, name, several_words, table, whole

NAME: Final = "OpenAI Responses"

_ENDS: Final = ("response.completed", "response.incomplete", "response.failed", "response.done", "response.cancelled")
_SESSION: Final = (
    "session.", "conversation.", "input_audio_buffer.", "output_audio_buffer.", "rate_limits.",
    "transcription_session.",
)  # fmt: skip


def matches(payload: Json) -> bool:
    """Whether `payload` is written in this dialect."""
    kind = payload.get("type")
    if payload.get("object") == "response":  # the whole answer, not streamed
        return isinstance(payload.get("output"), list)
    return isinstance(kind, str) and kind.startswith(("response.", *_SESSION))


def said(payload: Json) -> list[Said]:
    """What one payload says about tokens."""
    kind = payload.get("type")
    if not isinstance(kind, str):
        return [Said(text=has_text(payload.get("output")), finish=_finish(payload))]
    if kind in _ENDS:
        return [Said(hollow="final", finish=_finish(table(payload.get("response"))) or "stop")]
    if not kind.endswith(".delta") or not kind.startswith("response."):
        return [Said(other="start" if kind.endswith((".created", ".added", ".in_progress")) else "envelope")]
    if kind.endswith("audio.delta"):
        return [Said(other="audio")]
    if "summary" in kind:  # written by another model about the reasoning
        return [Said(other="reasoning summary")]
    text = has_text(payload.get("delta"))
    logprobs = length(payload.get("logprobs"))
    return [
        Said(
            text=text,
            thought=text and "reasoning" in kind,
            several=several_words(payload.get("delta")),
            hollow="" if text else "empty delta",
            logprobs=logprobs or None,  # an empty list means that none were asked for
        )
    ]


def facts(payload: Json) -> Facts:
    """What one payload says about the whole answer."""
    response = table(payload.get("response")) or payload
    usage = table(response.get("usage"))
    details = table(usage.get("output_tokens_details")) or table(usage.get("output_token_details"))
    total, audio = whole(usage.get("output_tokens")), whole(details.get("audio_tokens"))
    return Facts(
        model=name(response.get("model")) or name(table(payload.get("session")).get("model")),
        total=None if total is None else max(total - (audio or 0), 0),
        hidden=whole(details.get("reasoning_tokens")),
        error=name(table(response.get("error")).get("message")),
    )


def _finish(response: Json) -> str | None:
    details = table(response.get("incomplete_details")) or table(response.get("status_details"))
    reason = name(details.get("reason"))
    return "length" if reason == "max_output_tokens" else reason or name(response.get("status"))
