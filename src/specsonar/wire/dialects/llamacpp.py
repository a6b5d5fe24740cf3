"""llama.cpp's own `/completion` route.

One event is one token, except where tokens end inside a character: those are held back, and the next event
carries them too. `tokens` then lists only the last id, so the count is the growth of `tokens_predicted`.
The last event (`stop: true`) has no text and brings `timings`.
"""

from __future__ import annotations

from typing import Final

from . import report
from .said import Facts, Json, Said, table, whole

NAME: Final = "llama.cpp completion"


def matches(payload: Json) -> bool:
    """Whether `payload` is written in this dialect."""
    return "content" in payload and "stop" in payload and ("tokens_predicted" in payload or "timings" in payload)


def said(payload: Json) -> list[Said]:
    """What one payload says about tokens."""
    text = bool(payload.get("content"))
    stop = payload.get("stop") is True
    if not text and "prompt_progress" in payload:
        return [Said(other="prompt progress")]
    return [
        Said(
            choice=whole(payload.get("index")) or 0,
            text=text,
            finish=str(payload.get("stop_type") or "stop") if stop else None,
            predicted=whole(payload.get("tokens_predicted")),
        )
    ]


def facts(payload: Json) -> Facts:
    """What one payload says about the whole answer."""
    stop = payload.get("stop") is True
    model = payload.get("model")
    return Facts(
        engine="llama.cpp",
        event_is="token",
        model=model if isinstance(model, str) else None,
        total=whole(payload.get("tokens_predicted")) if stop else None,
        report=report.llamacpp(table(payload.get("timings"))) if stop else None,
    )
