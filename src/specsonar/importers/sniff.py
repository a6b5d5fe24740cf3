"""Recognising JSON formats by the keys in their first bytes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, Final

_BEGIN: Final = re.compile(rb"[ \t\r\n]*[\[{]")


def first_object(head: bytes) -> dict[str, Any]:
    """The first JSON object that `head` begins with, also in a list or over several lines; {} where it does not."""
    try:
        value, _ = json.JSONDecoder().raw_decode(head.lstrip(b"[ \t\r\n").decode(errors="replace"))
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def missing(head: bytes, keys: Iterable[str]) -> list[str]:
    """Those of `keys` that do not occur as keys of JSON objects in `head`, at any depth."""
    return [key for key in keys if not _holds(head, b'"%s"' % key.encode())]


def _holds(head: bytes, quoted: bytes) -> bool:
    return quoted in head and re.search(re.escape(quoted) + rb"\s*:", head) is not None


def has(head: bytes, keys: Iterable[str], *, score: float = 0.9) -> float:
    """`score` when `head` begins like JSON and holds all of `keys`, else 0."""
    return score if _BEGIN.match(head) and not missing(head, keys) else 0.0
