"""What the forwarding process tells the recording one: who was connected, what went where, and when.

A note is a head of 17 bytes (kind, connection, nanoseconds of the monotonic clock, length) and its bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

OPENED, SENT, RECEIVED, CLOSED, LOST, TOLD, READY = range(7)
"""A client came; bytes to the server; bytes of one read from it; the end; notes were left out; a line for people;
the port that is listened on."""

HEAD: Final = struct.Struct("!BIqI")


class Note(NamedTuple):
    """One note; `t_ns` in nanoseconds of `time.perf_counter_ns`."""

    kind: int
    connection: int
    t_ns: int
    data: bytes


def pack(kind: int, connection: int, t_ns: int, data: bytes = b"") -> bytes:
    """The bytes of a note."""
    return HEAD.pack(kind, connection, t_ns, len(data)) + data


class Unpacker:
    """Notes out of a byte stream, cut anywhere."""

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, data: bytes) -> Iterator[Note]:
        """The notes that `data` completes."""
        self._held += data
        view, at, size = bytes(self._held), 0, HEAD.size
        while len(view) - at >= size:
            kind, connection, t_ns, length = HEAD.unpack_from(view, at)
            if len(view) - at - size < length:
                break
            at += size + length
            yield Note(kind, connection, t_ns, view[at - length : at])
        del self._held[:at]
