"""llama.cpp's own `/completion` route.

One event is one token, except where tokens end inside a character: those are held back, and the next event
carries them too. `tokens` then lists only the last id, so the count is the growth of `tokens_predicted`.
The last event (`stop: true`) has no text and brings `timings`; with `timings_per_token` every event has them, and
`predicted_ms` is then the server's own clock.
"""

from __future__ import annotations

from typing import Final

from . import report
from .said import TOKEN, Facts, Json, Said, has_text, name, number, table, whole

NAME: Final = "llama.cpp completion"


def matches(payload: Json) -> bool:
    """Whether `payload` is written in this dialect."""
    return "content" in payload and "stop" in payload and ("tokens_predicted" in payload or "timings" in payload)


def said(payload: Json) -> list[Said]:
    """What one payload says about tokens."""
    text = has_text(payload.get("content"))
    if not text and "prompt_progress" in payload:
        return [Said(other="prompt progress")]
    return [
        Said(
            choice=whole(payload.get("index")) or 0,
            text=text,
            finish=(name(payload.get("stop_type")) or "stop") if payload.get("stop") is True else None,
            predicted=whole(payload.get("tokens_predicted")),
            clock_ns=clock(table(payload.get("timings"))),
        )
    ]


def facts(payload: Json) -> Facts:
    """What one payload says about the whole answer."""
    stop = payload.get("stop") is True
    return Facts(
        engine="llama.cpp",
        event_is=TOKEN,
        model=name(payload.get("model")),
        total=whole(payload.get("tokens_predicted")) if stop else None,
        running=whole(payload.get("tokens_predicted")),
        report=report.llamacpp(table(payload.get("timings"))),
    )


def clock(timings: Json) -> int | None:
    """Nanoseconds since the end of the prompt by the server's clock, or None."""
    spent = number(timings.get("predicted_ms"))
    return round(spent * 1e6) if spent is not None and 0 <= spent < 1e12 else None
