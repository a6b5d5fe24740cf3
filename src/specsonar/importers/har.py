"""HAR files of browsers, Playwright and mitmproxy, where they keep times of messages.

WebSocket messages (`_webSocketMessages`) have times everywhere, server-sent events (`_eventSourceMessages`) where the
recording tool adds them. A body alone, as browsers export it, has none.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any, Final

from ..bytefile import ByteFile
from ..errors import LimitError
from ..trace import Trace
from ..wire.answer import Answer
from ..wire.conversation import Conversation
from ..wire.dialects.said import table, whole
from ..wire.limits import LIMITS
from ..wire.values import payload
from .answers import add_answers, stamp_ns
from .gather import Gathered
from .jsonparts import EACH, Parts
from .refusals import no_times, refuse_gaps
from .sniff import has
from .values import decoded

NAME: Final = "HAR"
LOOKS: Final = "JSON with log.entries, whose messages have times"
KEYS: Final = ("log", "entries")

_STREAMS: Final = ("event-stream", "ndjson", "amazon.eventstream")


def sniff(head: bytes) -> float:
    """How much `head` looks like this format, 0 to 1."""
    return has(head, KEYS)


def read(source: ByteFile, *, unit: str | None = None, gaps: bool = False) -> Trace:
    """Read the messages of all entries.

    Raises
    ------
    UsageError : `gaps` was asked for. LimitError : one entry is larger than 64 MiB.
    """
    refuse_gaps(gaps)
    gathered = Gathered(source)
    parts = Parts(source, [("log", "entries", EACH)])
    entries = untimed = 0
    for _, _, raw in parts:
        entry = table(decoded(raw))
        entries += 1
        sockets, events = entry.get("_webSocketMessages"), entry.get("_eventSourceMessages")
        try:
            if isinstance(sockets, list) and sockets:
                add_answers(gathered, _socket(entry, sockets))
            elif isinstance(events, list) and events:
                add_answers(gathered, [_events(entry, events)])
            else:
                untimed += _is_stream(entry)
        except LimitError as error:
            gathered.skip(f"entry {entries}: {error.message}")
    if untimed and not gathered.streams:
        return no_times(
            source,
            f"has the text of {untimed} streamed answer{'' if untimed == 1 else 's'}, but not when its parts came",
            "browsers do not export these times: record with `specsonar proxy`, or capture packets",
        )
    for _ in range(untimed):
        gathered.skip("a streamed answer without times")
    if not gathered.streams:
        return no_times(
            source, f"has {entries} entries, none of which is a streamed answer", "record the whole session"
        )
    return gathered.trace(parts)


def _is_stream(entry: Mapping[str, Any]) -> bool:
    content = table(table(entry.get("response")).get("content"))
    return (
        any(word in str(content.get("mimeType", "")) for word in _STREAMS)
        or entry.get("_resourceType") == "eventsource"
    )


def _answer(entry: Mapping[str, Any], start_ns: int | None = None) -> Answer:
    request, response = table(entry.get("request")), table(entry.get("response"))
    asked = payload(str(table(request.get("postData")).get("text", "")))
    headers = response.get("headers")
    return Answer(
        asked if isinstance(asked, dict) else None,
        url=str(request.get("url", "")),
        headers={
            str(h.get("name", "")).lower(): h.get("value")
            for h in (headers if isinstance(headers, list) else [])
            if isinstance(h, Mapping)
        },
        status=whole(response.get("status")) or None,
        start_ns=start_ns,
    )


def _events(entry: Mapping[str, Any], messages: list[Any]) -> Answer:
    answer = _answer(entry)
    for index, one in enumerate(messages):
        message = table(one)
        t_ns, data = stamp_ns(message.get("time")), message.get("data")
        if t_ns is not None and isinstance(data, str):
            name = message.get("eventName")
            kind = name if isinstance(name, str) and name != "message" else ""
            answer.event(t_ns, index, payload(data), len(data.encode(errors="replace")), kind)
    return answer


def _socket(entry: Mapping[str, Any], messages: list[Any]) -> list[Answer]:
    answers: list[Answer] = []
    both = Conversation(LIMITS, answers, str(table(entry.get("request")).get("url", "")))
    t_ns: int | None = None
    for index, one in enumerate(messages):
        message = table(one)
        t_ns, data = stamp_ns(message.get("time")), message_bytes(message.get("data"), message.get("opcode"))
        if t_ns is None or data is None:
            continue
        if message.get("type") == "send":
            both.sent(t_ns, data)
        else:
            both.received(t_ns, data, index)
    both.closed(t_ns or 0)
    return answers


def message_bytes(data: object, opcode: object) -> bytes | None:
    """The bytes of a WebSocket message as browsers write it: text, or base64 when it is binary (opcode 2)."""
    if not isinstance(data, str) or opcode not in (1, 2, None):
        return None
    if opcode != 2:
        return data.encode(errors="replace")
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return None
