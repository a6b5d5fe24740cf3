"""What to say of a file that no reader knows: what it looks like, and what would be accepted."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from ..bytefile import SAVE_AS_UTF8
from ..errors import FormatError
from .columns import first_row
from .sniff import missing
from .values import decoded

_JSON_HINT: Final = "a list of numbers can be given as plain text, one per line"
_ALIKE: Final = 0.01
_STARTS: Final = (
    (rb"data:|event:|id:|retry:", "an event stream without arrival times", "record it again with `specsonar record`"),
    (rb"<!doctype html|<html", "a web page", "the address may be wrong, or a login is needed"),
    (rb"<\?xml|<", "XML", ""),
    (rb"HTTP/\d", "an HTTP answer without arrival times", "record it again with `specsonar record`"),
    (rb"\d\d:\d\d:\d\d|\d{4}-\d\d-\d\d", "a log with times of day", "write the times as numbers, one per line"),
)


def refusal(head: bytes, name: str, formats: Iterable[Any]) -> FormatError:
    """The error for a file that begins with `head`; the hint says why the three nearest formats did not fit."""
    text = head.lstrip()
    kind = "JSON" if text[:1] in (b"{", b"[") else "text"
    looks, hint = _json(text) if kind == "JSON" else _text(text)
    nearest = _nearest(head, formats, kind)
    return FormatError(
        f"{name} looks like {looks}, which is not a known recording", f"{hint}; {nearest}" if hint else nearest
    )


def binary_refusal(error: FormatError, head: bytes, formats: Iterable[Any]) -> FormatError:
    """The same for a file that `check_text` has refused with `error`."""
    return error if error.hint == SAVE_AS_UTF8 else FormatError(error.message, _nearest(head, formats, "binary"))


def _nearest(head: bytes, formats: Iterable[Any], kind: str) -> str:
    near = sorted(formats, key=lambda f: -_closeness(f, head, kind))[:3]
    return "nearest formats: " + "; ".join(f"{f.NAME} ({_why_not(f, head)})" for f in near)


def _closeness(one: Any, head: bytes, kind: str) -> float:
    """0 to 1: the share of the keys that were found, or hardly anything where only the kind of file is the same."""
    keys: tuple[str, ...] = getattr(one, "KEYS", ())
    if kind == "JSON" and keys:
        return (len(keys) - len(missing(head, keys))) / len(keys)
    if kind == "JSON":
        return _ALIKE if "JSON" in one.LOOKS else 0.0
    # what people write by hand is nearer to an unknown text than the log of a certain tool
    return (
        2 * _ALIKE if kind == "text" and one.NAME in ("plain text", "table") else _ALIKE if _kind(one) == kind else 0.0
    )


def _kind(one: Any) -> str:
    return "binary" if "binary" in one.LOOKS else "JSON" if "JSON" in one.LOOKS and "CSV" not in one.LOOKS else "text"


def _why_not(one: Any, head: bytes) -> str:
    keys: tuple[str, ...] = getattr(one, "KEYS", ())
    if lacking := missing(head, keys):
        return f"lacks {', '.join(repr(key) for key in lacking)}"
    return f"would be {one.LOOKS}"


def _text(text: bytes) -> tuple[str, str]:
    for pattern, looks, hint in _STARTS:
        if re.match(pattern, text, re.IGNORECASE):
            return looks, hint
    cells = first_row(text)[1]
    if len(cells) > 2 and all(re.fullmatch(r"[A-Za-z_][\w ()/%.-]{0,40}", cell) for cell in cells):
        return f"a table with the columns {', '.join(cells)[:120]}", "name the one with times: --columns time=NAME"
    words = text.split(b"\n")[0][:40].decode(errors="replace").strip()
    return f"text that begins with {words!r}" if words else "a file without any text", ""


def _json(text: bytes) -> tuple[str, str]:
    for candidate, kind in ((text, "JSON"), (text.split(b"\n")[0], "JSON lines")):
        value = decoded(candidate)
        if value is None:
            continue
        if isinstance(value, dict):
            keys = ", ".join(list(value)[:5]) or "none"
            return f"{kind} with the keys {keys[:80]}", ""
        return f"a {kind} list of {len(value)} values", _JSON_HINT
    keys = ", ".join(k.decode(errors="replace") for k in re.findall(rb'"([\w.]{1,30})"\s*:', text)[:5])
    return ("broken or long JSON with the keys " + keys, "") if keys else ("broken JSON", "")
