"""SGLang's own `/generate` route.

Text and token ids are repeated from the beginning in every payload, or not, as the server was started; the count of
tokens so far always runs. The last payload may come twice. `meta_info` carries the server's account of speculation.
"""

from __future__ import annotations

from typing import Final

from . import report
from .said import STEP, Facts, Json, Said, has_text, name, table, whole

NAME: Final = "SGLang generate"


def matches(payload: Json) -> bool:
    """Whether `payload` is written in this dialect."""
    return isinstance(payload.get("meta_info"), dict)


def said(payload: Json) -> list[Said]:
    """What one payload says about tokens."""
    info = table(payload.get("meta_info"))
    text = payload.get("text")
    return [
        Said(
            choice=whole(payload.get("index")) or 0,
            text=has_text(text),
            finish=_finish(info),
            used=whole(info.get("completion_tokens")),
            so_far=text if isinstance(text, str) else None,
        )
    ]


def facts(payload: Json) -> Facts:
    """What one payload says about the whole answer."""
    info = table(payload.get("meta_info"))
    used = whole(info.get("completion_tokens"))
    reason = table(info.get("finish_reason"))
    return Facts(
        engine="SGLang",
        event_is=STEP,
        total=used if _finish(info) else None,
        running=used,
        report=report.sglang(info, used),
        error=(name(reason.get("message")) or "aborted") if reason.get("type") == "abort" else None,
    )


def _finish(info: Json) -> str | None:
    reason = info.get("finish_reason")
    return name(reason) or name(table(reason).get("type"))
