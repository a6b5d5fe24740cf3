"""What can be told of encrypted answers: when application records came, and how large they were.

Nothing here is certain: a record need not be an event, and nobody says what is inside. A request is a client record
larger than the frames of HTTP/2's own housekeeping; its answer is the server records up to the next one.
"""

from __future__ import annotations

from statistics import median
from typing import Final

from ..trace import NOT_SAID, Stream, stream

_REQUEST: Final = 64  # acknowledgements, pings and window updates stay below, requests to a model far above
_SMALL: Final = 36  # an empty last frame, a last chunk, an end mark
_TICKET: Final = 100  # session tickets come in pairs of equal size
_FRAMES: Final = 128  # heads of HTTP/1 and events are larger
_FEWEST: Final = 4
_BULK: Final = 4096  # records of a download are larger


class RecordSizes:
    """Collects the application records of one connection; one stream for each request that looks answered."""

    def __init__(self) -> None:
        self._start_ns: int | None = None
        self._head = False  # the response head is still to come
        self._framed = False
        self._tickets = True
        self._events: list[tuple[int, int, int]] = []
        self._done: list[tuple[int | None, list[tuple[int, int, int]]]] = []

    def request(self, t_ns: int, size: int) -> None:
        """A client record of `size` bytes."""
        if size <= _REQUEST:
            return
        self._end()
        self._start_ns, self._head = t_ns, True

    def answer(self, t_ns: int, read: int, sizes: list[int]) -> None:
        """Server records that one segment completed."""
        if self._start_ns is None:
            return  # tickets and settings before the first request
        if self._tickets and len(sizes) > 1 and sizes[0] > _TICKET and len(set(sizes)) == 1:
            self._tickets = False
            return
        for size in sizes:
            if size <= _SMALL:
                continue
            if self._head and size <= _FRAMES:
                self._framed = True  # HTTP/2: settings, and the response head in few bytes
                continue
            head, self._head = self._head and not self._framed, False
            if not head:
                self._events.append((t_ns, read, size))

    def streams(self, name: str) -> list[Stream]:
        """The streams so far; token counts unknown, sizes those of the records."""
        self._end()
        return [
            stream(
                [e[0] for e in events],
                read=[e[1] for e in events],
                size=[e[2] for e in events],
                name=name,
                count_source=NOT_SAID,
                start_ns=start_ns,
                meta={"dialect": "encrypted"},
            )
            for start_ns, events in self._done
            if len(events) >= _FEWEST and median(e[2] for e in events) <= _BULK
        ]

    def _end(self) -> None:
        if self._events:
            self._done.append((self._start_ns, self._events))
            self._events = []
