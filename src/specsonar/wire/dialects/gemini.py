"""Gemini and Vertex AI: `streamGenerateContent`, as SSE or as one growing JSON array.

A payload holds many tokens; `usageMetadata` runs along. Parts marked as thoughts are summaries, not what was decoded.
"""

from __future__ import annotations

from typing import Final

from .said import ANY, Facts, Json, Said, has_text, name, rows, table, whole

NAME: Final = "Gemini"


def matches(payload: Json) -> bool:
    """Whether `payload` is written in this dialect."""
    return isinstance(payload.get("candidates"), list) or "usageMetadata" in payload or "promptFeedback" in payload


def said(payload: Json) -> list[Said]:
    """What one payload says about tokens, candidate by candidate."""
    used = whole(table(payload.get("usageMetadata")).get("candidatesTokenCount"))
    candidates = [c for c in rows(payload.get("candidates")) if isinstance(c, dict)]
    return [_candidate(c, used) for c in candidates] or [Said(other="usage")]


def _candidate(candidate: Json, used: int | None) -> Said:
    parts = [part for part in rows(table(candidate.get("content")).get("parts")) if isinstance(part, dict)]
    spoken = [part for part in parts if part.get("thought") is not True]
    choice = whole(candidate.get("index")) or 0
    if parts and not spoken:
        return Said(choice=choice, other="thought summary")
    text = any(has_text(part) or has_text(part.get("executableCode"), 2) for part in spoken)
    finish = name(candidate.get("finishReason"))
    return Said(
        choice=choice,
        text=text,
        hollow="" if text else "empty delta",
        finish="length" if finish == "MAX_TOKENS" else finish,
        used=used,
    )


def facts(payload: Json) -> Facts:
    """What one payload says about the whole answer."""
    candidates = rows(payload.get("candidates"))
    used = whole(table(payload.get("usageMetadata")).get("candidatesTokenCount"))
    ended = any(table(c).get("finishReason") for c in candidates)
    blocked = name(table(payload.get("promptFeedback")).get("blockReason"))
    return Facts(
        event_is=ANY,
        model=name(payload.get("modelVersion")),
        total=used if ended or not candidates else None,
        running=used,
        error=f"the prompt was blocked: {blocked}" if blocked else None,
    )
