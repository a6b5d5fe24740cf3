"""Text Generation Inference: `/generate_stream`. Each event is one token; those of a step leave back to back."""

from __future__ import annotations

from typing import Final

from .said import TOKEN, Facts, Json, Said, has_text, name, table, whole

NAME: Final = "TGI"


def matches(payload: Json) -> bool:
    """Whether `payload` is written in this dialect."""
    return isinstance(payload.get("token"), dict) or isinstance(payload.get("generated_text"), str)


def said(payload: Json) -> list[Said]:
    """What one payload says about tokens."""
    token = table(payload.get("token"))
    finish = name(table(payload.get("details")).get("finish_reason"))
    if not token:  # the whole answer, not streamed
        return [Said(text=has_text(payload.get("generated_text")), finish=finish or "stop")]
    return [Said(text=has_text(token.get("text")), finish=finish, ids=1)]


def facts(payload: Json) -> Facts:
    """What one payload says about the whole answer."""
    total = whole(table(payload.get("details")).get("generated_tokens"))
    return Facts(engine="TGI", event_is=TOKEN, total=total)
