"""What to say of a file that no reader knows: what it looks like, and what would be accepted."""

from __future__ import annotations

import re
from collections.abc import Iterable
from types import ModuleType
from typing import Final

import msgspec

from ..errors import FormatError

_JSON_HINT: Final = "a list of numbers can be given as plain text, one per line"
_STARTS: Final = (
    (rb"data:|event:|id:|retry:", "an event stream without arrival times", "record it again with `specsonar record`"),
    (rb"<!doctype html|<html", "a web page", "the address may be wrong, or a login is needed"),
    (rb"<\?xml|<", "XML", ""),
    (rb"HTTP/\d", "an HTTP answer without arrival times", "record it again with `specsonar record`"),
    (rb"\d\d:\d\d:\d\d|\d{4}-\d\d-\d\d", "a log with times of day", "write the times as numbers, one per line"),
)


def refusal(head: bytes, name: str, formats: Iterable[ModuleType]) -> FormatError:
    """The error for a file that begins with `head`; the nearest accepted formats come first in the hint."""
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    is_json = text[:1] in (b"{", b"[")
    looks, hint = _json(text) if is_json else _text(text)
    near = sorted(formats, key=lambda f: is_json != ("JSON" in f.LOOKS))
    accepted = "accepted: " + "; ".join(f"{f.NAME} ({f.LOOKS})" for f in near)
    return FormatError(
        f"{name} looks like {looks}, which is not a known recording", f"{hint}; {accepted}" if hint else accepted
    )


def _text(text: bytes) -> tuple[str, str]:
    for pattern, looks, hint in _STARTS:
        if re.match(pattern, text, re.IGNORECASE):
            return looks, hint
    words = text.split(b"\n")[0][:40].decode(errors="replace").strip()
    return f"text that begins with {words!r}" if words else "a file without any text", ""


def _json(text: bytes) -> tuple[str, str]:
    for candidate, kind in ((text, "JSON"), (text.split(b"\n")[0], "JSON lines")):
        try:
            value = msgspec.json.decode(candidate)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
        if isinstance(value, dict):
            keys = ", ".join(list(value)[:5]) or "none"
            return f"{kind} with the keys {keys[:80]}", ""
        return f"a {kind} list of {len(value)} values", _JSON_HINT
    keys = ", ".join(k.decode(errors="replace") for k in re.findall(rb'"([\w.]{1,30})"\s*:', text)[:5])
    return ("broken or long JSON with the keys " + keys, "") if keys else ("broken JSON", "")
