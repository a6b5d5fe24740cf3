"""The value of an event's data, whatever a server puts there."""

from __future__ import annotations

import json

import msgspec


def payload(data: bytes | str) -> object:
    """The value of an event's data: JSON where it is JSON, else the text itself (`[DONE]`).

    Some servers write what JSON does not know: NaN for a log-probability (read as null), half a character.
    """
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        text = (data if isinstance(data, str) else data.decode(errors="replace")).strip()
    if text[:1] in ("{", "["):
        try:
            return json.loads(text, parse_constant=lambda _: None)
        except (ValueError, RecursionError):
            pass
    return text
