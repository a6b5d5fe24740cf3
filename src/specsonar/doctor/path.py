"""What a path does to events, seen from the reads that brought them. Pure functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]

_HELD_NS: Final = (36_000_000, 60_000_000)
"""Linux, and others after it, delay an acknowledgement by 40 ms; the timer and the way add to it."""

_BLOCK: Final = 1000
"""Bytes below which reads of one size are events of one size, not a buffer that was full."""

_SEVERAL: Final = 3.0


@dataclass(frozen=True, slots=True, eq=False)
class Arrivals:
    """The reads of one answer: time, bytes, and events that it completed.

    They go from the read before the first event, which brought the head, to that of the last event.
    """

    t_ns: IntArray
    size: IntArray
    events: IntArray

    @property
    def total(self) -> int:
        """Events of the answer."""
        return int(self.events.sum())

    @property
    def per_read(self) -> float:
        """Mean events of the reads that completed any."""
        full = self.events[self.events > 0]
        return float(full.mean()) if full.size else 0.0


def arrivals(t_ns: Sequence[int], size: Sequence[int], event_reads: IntArray) -> Arrivals:
    """Reads of a connection, shapes (n,), cut to those of one answer; `event_reads`, shape (m,), are their indices."""
    first, last = max(int(event_reads[0]) - 1, 0), int(event_reads[-1])
    counts = np.bincount(event_reads - first, minlength=last - first + 1)
    inside = slice(first, last + 1)
    return Arrivals(np.array(t_ns[inside], np.int64), np.array(size[inside], np.int64), counts)


def alone(answers: Iterable[Arrivals]) -> float:
    """Share of all events that came in a read of their own; NaN without events."""
    counts = np.concatenate([np.zeros(0, np.int64), *(a.events for a in answers)])
    total = int(counts.sum())
    return int((counts == 1).sum()) / total if total else float("nan")


def holds(answer: Arrivals) -> int:
    """Waits of about 40 ms that ended in a lump of events: small pieces that waited for an acknowledgement."""
    gaps = np.diff(answer.t_ns)
    low, high = _HELD_NS
    # The lump may be cut in two reads a moment apart: what comes within 2 ms belongs together.
    found = 0
    for i in np.flatnonzero((gaps >= low) & (gaps <= high)):
        t = answer.t_ns[i + 1]
        lump = (answer.t_ns >= t) & (answer.t_ns < t + 2_000_000)
        found += int(answer.events[lump].sum()) > 1
    return found


def nagle(delayed: Sequence[Arrivals], quick: Sequence[Arrivals]) -> bool:
    """Whether holds are there when acknowledgements are delayed, and gone when they are not.

    A decoder with a step of 40 ms shows them both times.
    """
    return sum(holds(a) > 0 for a in delayed) > len(delayed) / 2 and not any(holds(a) for a in quick)


def block(answers: Sequence[Arrivals]) -> int | None:
    """Size in bytes of a buffer that is passed on when it is full: most reads hold several events and one size."""
    sizes = np.concatenate([a.size[:-1] for a in answers]) if answers else np.zeros(0, np.int64)
    if sizes.size < 3:
        return None
    size, times = Counter(sizes.tolist()).most_common(1)[0]
    if size < _BLOCK or times <= sizes.size / 2 or np.mean([a.per_read for a in answers]) < _SEVERAL:
        return None
    return int(size)


def whole(answers: Sequence[Arrivals]) -> bool:
    """Whether answers of many events come in one piece."""
    long = [a for a in answers if a.total >= 8]
    return bool(long) and all(a.events.max() >= 0.9 * a.total for a in long)


def packing_holds(packed: Sequence[Arrivals], plain: Sequence[Arrivals]) -> bool:
    """Whether compressed answers come in far larger lumps than plain ones."""
    if not packed or not plain:
        return False
    return bool(np.mean([a.per_read for a in packed]) >= _SEVERAL * np.mean([a.per_read for a in plain]))
