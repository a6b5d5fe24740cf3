"""What can be told of answers whose content is not there: when something came, and how large it was.

Of encrypted answers nothing is certain: a record need not be an event, and nobody says what is inside. A request is a
client record larger than the frames of HTTP/2's own housekeeping; its answer is the server records up to the next one.
"""

from __future__ import annotations

from array import array
from typing import Final

import numpy as np
import numpy.typing as npt

from ..trace import NOT_SAID, Stream, stream

_REQUEST: Final = 64  # acknowledgements, pings and window updates stay below, requests to a model far above
_SMALL: Final = 36  # an empty last frame, a last chunk, an end mark
_TICKET: Final = 100  # session tickets come in pairs of equal size
_FRAMES: Final = 128  # heads of HTTP/1 and events are larger
_FEWEST: Final = 4
_BULK: Final = 4096  # records of a download are larger
_MOST: Final = 1_000_000


def sizes_only(
    t_ns: npt.ArrayLike,
    size: npt.ArrayLike,
    *,
    read: npt.ArrayLike | None = None,
    name: str = "",
    start_ns: int | None = None,
    resolution_ns: int | None = None,
) -> Stream:
    """A stream of pieces whose content is not known: times in nanoseconds and bytes, each of shape (n,)."""
    return stream(
        t_ns,
        read=read,
        size=size,
        name=name,
        count_source=NOT_SAID,
        start_ns=start_ns,
        resolution_ns=resolution_ns,
        meta={"payloads": "sizes only"},
    )


class RecordSizes:
    """Collects the application records of one connection; one stream for each request that looks answered."""

    def __init__(self) -> None:
        self._start_ns: int | None = None
        self._head = False  # the response head is still to come
        self._framed = False
        self._tickets = True
        self._columns = _columns()
        self._done: list[Stream] = []

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
            if not head and len(self._columns[0]) < _MOST:
                for column, value in zip(self._columns, (t_ns, read, size), strict=True):
                    column.append(value)

    def streams(self) -> list[Stream]:
        """The streams so far; token counts unknown, sizes those of the records."""
        self._end()
        return self._done

    def _end(self) -> None:
        t_ns, read, size = (np.array(column, np.int64) for column in self._columns)
        if t_ns.size >= _FEWEST and np.median(size) <= _BULK:
            self._done.append(sizes_only(t_ns, size, read=read, start_ns=self._start_ns))
        self._columns = _columns()


def _columns() -> tuple[array[int], array[int], array[int]]:
    """Times, reads and sizes; a list of tuples would take six times as much."""
    return array("q"), array("q"), array("q")
