"""vLLM's own `/generate` route: the texts so far of all choices in every payload, no counts. A payload is a step."""

from __future__ import annotations

from typing import Final

from .said import STEP, Facts, Json, Said, rows

NAME: Final = "vLLM generate"


def matches(payload: Json) -> bool:
    """Whether `payload` is written in this dialect."""
    texts = rows(payload.get("text"))
    return set(payload) == {"text"} and len(texts) > 0 and all(isinstance(text, str) for text in texts)


def said(payload: Json) -> list[Said]:
    """What one payload says about tokens, choice by choice."""
    return [Said(choice=i, text=bool(text), so_far=text) for i, text in enumerate(payload["text"])]


def facts(payload: Json) -> Facts:
    """What one payload says about the whole answer."""
    return Facts(engine="vLLM", event_is=STEP)
