"""Ollama's own routes, `/api/generate` and `/api/chat`: one JSON object a line, stamped by the server.

A line is usually one token; text that ends inside a character, or that a parser looks at, is held back.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from .said import TOKEN, Facts, Json, Said, has_text, length, name, table, whole

NAME: Final = "Ollama"

_STAMP: Final = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)$", re.ASCII)


def matches(payload: Json) -> bool:
    """Whether `payload` is written in this dialect."""
    return "created_at" in payload and isinstance(payload.get("done"), bool)


def said(payload: Json) -> list[Said]:
    """What one payload says about tokens."""
    message = table(payload.get("message"))
    thought = has_text(payload.get("thinking")) or has_text(message.get("thinking"))
    text = thought or has_text(payload.get("response")) or has_text(message)
    done = payload.get("done") is True
    return [
        Said(
            text=text,
            thought=thought,
            finish=(name(payload.get("done_reason")) or "stop") if done else None,
            logprobs=length(payload.get("logprobs")) or None,
            clock_ns=_clock(payload.get("created_at")),
        )
    ]


def facts(payload: Json) -> Facts:
    """What one payload says about the whole answer."""
    total = whole(payload.get("eval_count")) if payload.get("done") is True else None
    return Facts(engine="Ollama", event_is=TOKEN, model=name(payload.get("model")), total=total)


def _clock(stamp: object) -> int | None:
    """Nanoseconds since 1970 of an RFC 3339 stamp, with any offset."""
    found = _STAMP.match(stamp) if isinstance(stamp, str) else None
    if found is None:
        return None
    try:
        local = int(np.datetime64(f"{found[1]}.{found[2] or 0}", "ns").astype(np.int64))
    except ValueError:
        return None
    offset = 0 if found[3] == "Z" else int(found[3][:3]) * 60 + int(found[3][0] + found[3][4:])
    return local - offset * 60_000_000_000
