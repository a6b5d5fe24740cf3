"""Server-sent events, byte by byte if need be.

Lines end with LF, CRLF or CR and with nothing else: a U+2028 inside JSON is text. An event ends with a blank line,
and its time is that of the read which brought the end of it. A CR at the end of a read ends its line at once; an LF
that follows in the next read belongs to it.
"""

from __future__ import annotations

from collections.abc import Iterator

from .framing import Event
from .limits import Limits, too_much
from .values import payload


class Sse:
    """Bytes in, events out."""

    def __init__(self, limits: Limits) -> None:
        self._limit = limits.event_bytes
        self._part = bytearray()
        self._after_cr = False
        self._name = b""
        self._data: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> Iterator[Event]:
        """Events that `data` completes."""
        if self._after_cr and data:
            data = data.removeprefix(b"\n")
            self._after_cr = False
        if not data:
            return
        self._after_cr = data.endswith(b"\r")
        lines = data.splitlines()  # of bytes: LF, CRLF and CR only
        rest = b"" if data.endswith((b"\n", b"\r")) else lines.pop()
        if lines and self._part:
            lines[0] = bytes(self._part) + lines[0]
            self._part.clear()
        for line in lines:
            yield from self._line(line)
        if len(self._part) + len(rest) > self._limit:
            raise too_much("a line of an event stream", self._limit)
        self._part += rest

    def end(self) -> Iterator[Event]:
        """What a server that ends without the last blank line, or the last line end, has left."""
        part = bytes(self._part)
        self._part.clear()
        if part:
            yield from self._line(part)
        yield from self._line(b"")

    def _line(self, line: bytes) -> Iterator[Event]:
        if not line:
            if self._data:
                data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
                yield Event(payload(data.strip()), len(data), self._name.decode(errors="replace"))
            self._name, self._data, self._size = b"", [], 0
            return
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._size += len(value) + 1
            if self._size > self._limit:
                raise too_much("an event", self._limit)
            self._data.append(value)
        elif name == b"event":
            self._name = value
        elif not name:
            yield Event({"comment": value[:200].decode(errors="replace")}, len(value))
