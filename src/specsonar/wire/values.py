"""JSON values as servers write them, and the words of theirs that may be kept."""

from __future__ import annotations

import json
from typing import Final

import msgspec

_LONGEST: Final = 200


def payload(data: bytes | str) -> object:
    """The value of an event's data: JSON where it is JSON, else the text itself (`[DONE]`)."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        text = data if isinstance(data, str) else data.decode(errors="replace")
    if not text.lstrip().startswith(("{", "[")):
        return text
    try:  # what servers write in Python gets past no strict reader: NaN, half a surrogate pair
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def words(value: str) -> str:
    """A server's own words, short and printable in any encoding: they reach messages and files."""
    return value[:_LONGEST].encode(errors="replace").decode()
