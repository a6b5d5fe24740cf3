"""Triton's `generate_stream`: `text_output` of one token, or of all tokens so far, as the model is configured."""

from __future__ import annotations

from typing import Final

from .said import Facts, Json, Said, length, name

NAME: Final = "Triton generate_stream"


def matches(payload: Json) -> bool:
    """Whether `payload` is written in this dialect."""
    return "text_output" in payload and "model_name" in payload


def said(payload: Json) -> list[Said]:
    """What one payload says about tokens."""
    text = payload.get("text_output")
    text = text if isinstance(text, str) else ""
    finish = "stop" if payload.get("sequence_end") is True else None
    hollow = "" if text else "empty delta"
    ids = length(payload.get("output_ids")) or None
    return [Said(text=bool(text), hollow=hollow, finish=finish, ids=ids, so_far=text or None)]


def facts(payload: Json) -> Facts:
    """What one payload says about the whole answer."""
    return Facts(model=name(payload.get("model_name")))
