"""What the server remembers: the truth and the send times of its streams, and the counters of `/metrics`."""

from __future__ import annotations

from array import array
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from .script import Script

REMEMBERED: Final = 2048
"""Streams whose truth and send times are kept; older ones are forgotten."""


class Sent(NamedTuple):
    """True send times of one stream, nanoseconds of the monotonic clock of this host; columns of shape (n,)."""

    id: str
    due_ns: npt.NDArray[np.int64]
    sent_ns: npt.NDArray[np.int64]


class Timing(NamedTuple):
    """How late the server was with its own events, microseconds; NaN when there were none."""

    events: int
    median_us: float
    p99_us: float
    max_us: float


@dataclass(slots=True)
class Entry:
    """One stream: `id` of its answer with the choice behind a `#` if there are several, its truth, due and sent."""

    id: str
    truth: dict[str, Any]
    due_ns: array[int] = field(default_factory=lambda: array("q"))
    sent_ns: array[int] = field(default_factory=lambda: array("q"))
    tokens: int = 0
    state: str = "running"

    def sent(self) -> Sent:
        """Its send times so far; asked for by another thread than the one that sends."""
        n = len(self.sent_ns)
        return Sent(self.id, np.array(self.due_ns[:n], np.int64), np.array(self.sent_ns[:n], np.int64))


class Ledger:
    """Records of the last `REMEMBERED` streams and totals of all.

    Parameters
    ----------
    law : the hidden settings as the simulator tells them.
    """

    def __init__(self, law: dict[str, Any]) -> None:
        self._law = law
        self._entries: deque[Entry] = deque(maxlen=REMEMBERED)
        self.running = 0
        self.requests = 0
        self.totals: Counter[str] = Counter()
        self.by_position: Counter[int] = Counter()

    def open(self, answer_id: str, script: Script, several: bool) -> Entry:
        """A new stream begins."""
        entry = Entry(f"{answer_id}#{script.index}" if several else answer_id, script.truth(self._law))
        self._entries.append(entry)
        self.running += 1
        return entry

    def close(self, entry: Entry, script: Script, state: str, *, lying: bool) -> None:
        """A stream has ended: "done" or "aborted"."""
        entry.state = state
        self.running -= 1
        steps = script.steps(entry.tokens)
        number = len(steps.drafted) + steps.plain
        steps = steps.lie() if lying else steps
        self.totals.update(
            tokens=entry.tokens, drafts=len(steps.drafted), drafted=sum(steps.drafted), accepted=sum(steps.accepted),
            steps=number, milliseconds=round((script.done_ns[number] - script.done_ns[0]) / 1e6),
        )  # fmt: skip
        for accepted in steps.accepted:
            self.by_position.update(range(accepted))

    def truth(self) -> list[dict[str, Any]]:
        """Hidden settings and what happened, stream by stream, in the order of the requests."""
        return [{"id": e.id, "state": e.state, "sent_events": len(e.sent_ns), **e.truth} for e in list(self._entries)]

    def sent_times(self) -> list[Sent]:
        """When each event was due and when it was handed to the socket, stream by stream."""
        return [e.sent() for e in list(self._entries)]

    def timing(self) -> Timing:
        """How late the events of the remembered streams were."""
        return summary([s.sent_ns - s.due_ns for s in self.sent_times()])


def summary(late_ns: Sequence[npt.NDArray[np.int64]]) -> Timing:
    """Median, 99th percentile and maximum of delays in nanoseconds, as microseconds."""
    late = np.concatenate([np.empty(0, np.int64), *late_ns]) / 1e3
    if not late.size:
        return Timing(0, float("nan"), float("nan"), float("nan"))
    median, high, most = np.percentile(late, (50, 99, 100))
    return Timing(late.size, float(median), float(high), float(most))
