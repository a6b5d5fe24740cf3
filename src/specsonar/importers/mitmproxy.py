"""Flow files of mitmproxy: raw TCP flows and WebSocket messages have a time each.

An HTTP flow has only the times of the first and the last byte of its body, so such a file is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ..bytefile import ByteFile
from ..errors import LimitError
from ..findings import finding
from ..trace import Trace
from ..wire.answer import Answer
from ..wire.connection import Connection
from ..wire.conversation import Conversation
from ..wire.dialects.said import table
from ..wire.limits import LIMITS
from .answers import add_answers, note_all, stamp_ns
from .gather import Gathered
from .refusals import no_times, refuse_gaps

NAME: Final = "mitmproxy flows"
LOOKS: Final = "binary; what `mitmdump -w FILE` writes, with raw TCP or WebSocket flows"

_SIZE: Final = re.compile(rb"(\d{1,12}):")
_LARGEST: Final = 256 << 20
_DEEPEST: Final = 20


class _DamagedError(Exception):
    """Not what the length before it promised."""


def sniff(head: bytes) -> float:
    """How much `head` looks like this format, 0 to 1."""
    size = _SIZE.match(head)
    if size is None or not re.match(rb"\d{1,3}:[a-z_]{1,30};", head[size.end() :]):
        return 0.0
    end = size.end() + int(size[1])
    return 0.9 if len(head) <= end or head[end : end + 1] == b"}" else 0.0


def read(source: ByteFile, *, unit: str | None = None, gaps: bool = False) -> Trace:
    """Read all flows.

    Raises
    ------
    UsageError : `gaps` was asked for. LimitError : one flow is larger than 256 MiB.
    """
    refuse_gaps(gaps)
    gathered = Gathered(source)
    untimed = flows = 0
    broken = ""
    try:
        for raw in _elements(source):
            flows += 1
            flow = table(_value(raw, 0, len(raw))[0])
            socket = table(flow.get("websocket")).get("messages")
            messages = flow.get("messages")
            try:
                if isinstance(messages, list) and flow.get("type") == "tcp":
                    add_answers(gathered, _tcp(messages, gathered), 1000)
                elif isinstance(socket, list):
                    add_answers(gathered, _socket(flow, socket), 1000)
                else:
                    untimed += _is_stream(flow)
            except LimitError as error:
                gathered.skip(f"flow {flows}: {error.message}")
    except _DamagedError as error:
        broken = str(error)
    if broken:
        gathered.findings.append(finding("I001", f"{source.name} {broken} in flow {flows + 1}"))
    if untimed and not gathered.streams:
        return no_times(
            source,
            f"has {untimed} streamed answer{'' if untimed == 1 else 's'} as HTTP flows, which keep the time of the "
            "first and the last byte only",
            "run mitmproxy with `--mode reverse:tcp://HOST:PORT`, which keeps the time of each read, or use "
            "`specsonar proxy`",
            notes=gathered.findings,
        )
    for _ in range(untimed):
        gathered.skip("a streamed answer in an HTTP flow, without times")
    if not gathered.streams:
        return no_times(source, f"has {flows} flows, none of which is a streamed answer", "record the whole session",
                        notes=gathered.findings)  # fmt: skip
    return gathered.trace()


def _is_stream(flow: Mapping[str, Any]) -> bool:
    headers = table(flow.get("response")).get("headers")
    return any(
        isinstance(pair, list) and len(pair) == 2 and bytes_of(pair[0]).lower() == b"content-type"
        and re.search(rb"event-stream|eventstream|ndjson", bytes_of(pair[1]))
        for pair in (headers if isinstance(headers, list) else [])
    )  # fmt: skip


def bytes_of(value: object) -> bytes:
    """Bytes or text as bytes; nothing for anything else."""
    return value if isinstance(value, bytes) else value.encode() if isinstance(value, str) else b""


def _tcp(messages: list[Any], gathered: Gathered) -> list[Answer]:
    connection = Connection()
    t_ns = 0
    try:
        for one in messages:
            if not isinstance(one, list) or len(one) < 3 or (when := stamp_ns(one[2])) is None:
                continue
            t_ns = when
            if one[0] is True:
                connection.sent(t_ns, bytes_of(one[1]))
            else:
                connection.received(t_ns, bytes_of(one[1]))
    except LimitError as error:
        gathered.skip(error.message)
    connection.closed(t_ns)
    note_all(gathered, connection.findings)
    return connection.answers


def _socket(flow: Mapping[str, Any], messages: list[Any]) -> list[Answer]:
    answers: list[Answer] = []
    both = Conversation(LIMITS, answers, bytes_of(table(flow.get("request")).get("path")).decode(errors="replace"))
    t_ns = 0
    for index, one in enumerate(messages):
        # kind, from the client, content, time, dropped, injected
        if not isinstance(one, list) or len(one) < 4 or (when := stamp_ns(one[3])) is None:
            continue
        t_ns = when
        if one[1] is True:
            both.sent(t_ns, bytes_of(one[2]))
        else:
            both.received(t_ns, bytes_of(one[2]), index)
    both.closed(t_ns)
    return answers


def _elements(source: ByteFile) -> Iterator[bytes]:
    """The outermost elements, one for each flow, as far as the file is whole."""
    data = bytearray()
    for piece in source.pieces():
        data += piece
        at = 0
        while (size := _SIZE.match(data, at)) is not None:
            end = size.end() + int(size[1]) + 1
            if end - at > _LARGEST:
                raise LimitError(f"a flow in {source.name} is larger than {_LARGEST >> 20} MiB", "record shorter flows")
            if len(data) < end:
                break
            yield bytes(data[at:end])
            at = end
        del data[:at]
        if size is None and len(data) > 13:
            raise _DamagedError("is damaged")
    if data.strip():
        raise _DamagedError("ends early")


def _value(raw: bytes, at: int, stop: int, depth: int = 0) -> tuple[Any, int]:
    """The value that begins at `at` and where it ends, no later than `stop`.

    Raises
    ------
    _DamagedError : it is not a value.
    """
    size = _SIZE.match(raw, at, stop)
    begin = size.end() if size else stop
    end = begin + int(size[1]) if size else stop
    if end >= stop or depth > _DEEPEST:
        raise _DamagedError("is damaged")
    kind = raw[end : end + 1]
    if kind in (b"]", b"}"):
        items = []
        at = begin
        while at < end:
            item, at = _value(raw, at, end, depth + 1)
            items.append(item)
        if kind == b"]":
            return items, end + 1
        pairs = zip(items[::2], items[1::2], strict=False)
        return {bytes_of(key).decode(errors="replace"): value for key, value in pairs}, end + 1
    return _scalar(kind, raw[begin:end]), end + 1


def _scalar(kind: bytes, body: bytes) -> Any:
    if kind == b",":
        return body
    if kind == b";":
        return body.decode(errors="replace")
    if kind == b"!":
        return body == b"true"
    if kind == b"~":
        return None
    try:
        if kind == b"#":
            return int(body)
        if kind == b"^":
            return float(body)
    except ValueError:
        pass
    raise _DamagedError("is damaged")
