"""AWS event stream (`application/vnd.amazon.eventstream`): binary frames with checksums.

A frame is its length, the length of its headers and a checksum of the two; headers; payload; a checksum of all.
Bedrock sends the model's own JSON in base64 (`chunk.bytes`), or events of its own, whose name is in a header.
"""

from __future__ import annotations

import binascii
import struct
import zlib
from collections.abc import Iterator, Mapping
from typing import Final

from .broken import BrokenError
from .framing import Event
from .limits import Limits, too_much
from .values import payload

_PRELUDE: Final = struct.Struct(">III")
_SIZES: Final = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
_LONG: Final = (6, 7)  # bytes and text: two bytes of length before them


class EventStream:
    """Bytes in, (value, bytes of the payload) of each frame out."""

    def __init__(self, limits: Limits) -> None:
        self._limit = limits.event_bytes
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Event]:
        """Frames that `data` completes.

        Raises
        ------
        BrokenError : lengths or checksums are wrong; nothing after that can be trusted.
        """
        self._buffer += data
        at = 0
        try:
            while len(self._buffer) - at >= _PRELUDE.size:
                total, headers, checksum = _PRELUDE.unpack_from(self._buffer, at)
                if zlib.crc32(self._buffer[at : at + 8]) != checksum or not headers <= total - 16:
                    raise BrokenError("a frame of the event stream begins with a wrong checksum")
                if total > self._limit:
                    raise too_much("a frame of an event stream", self._limit)
                if len(self._buffer) - at < total:
                    break
                frame = bytes(self._buffer[at : at + total])
                at += total
                if zlib.crc32(frame[:-4]) != int.from_bytes(frame[-4:], "big"):
                    raise BrokenError("a frame of the event stream has a wrong checksum")
                body = frame[12 + headers : -4]
                yield _event(_headers(frame[12 : 12 + headers]), body)
        finally:
            del self._buffer[:at]

    def end(self) -> Iterator[Event]:
        """Nothing: half a frame is no event."""
        if self._buffer:
            raise BrokenError("the event stream ends inside a frame")
        yield from ()


def is_prelude(data: bytes) -> bool:
    """Whether the first 12 bytes of a body are the begin of such a frame."""
    return len(data) >= _PRELUDE.size and zlib.crc32(data[:8]) == int.from_bytes(data[8:12], "big")


def _headers(data: bytes) -> dict[str, str]:
    """The headers with text values."""
    told: dict[str, str] = {}
    at = 0
    try:
        while at < len(data):
            name = data[at + 1 : at + 1 + data[at]]
            at += 1 + data[at]
            kind = data[at]
            at += 1
            if kind in _LONG:
                (size,) = struct.unpack_from(">H", data, at)
                at += 2
                if kind == 7:
                    told[name.decode(errors="replace")] = data[at : at + size].decode(errors="replace")
                at += size
            else:
                at += _SIZES[kind]
    except (IndexError, KeyError, struct.error):
        raise BrokenError("a frame of the event stream has headers of unknown form") from None
    return told


def _event(headers: dict[str, str], body: bytes) -> Event:
    value = payload(body)
    kind = headers.get(":event-type", "")
    if headers.get(":message-type") in ("exception", "error"):
        kind = headers.get(":exception-type") or headers.get(":error-code") or "exception"
        message = value.get("message") if isinstance(value, Mapping) else headers.get(":error-message")
        value = {"error": {"type": kind, "message": f"{kind}: {message}" if message else kind}}
    elif kind == "chunk" and isinstance(value, Mapping) and isinstance(inner := value.get("bytes"), str):
        try:
            value, kind = payload(binascii.a2b_base64(inner)), ""
        except ValueError:
            value = "not base64"
    return Event(value, len(body), kind)
