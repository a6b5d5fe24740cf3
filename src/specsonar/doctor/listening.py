"""A keeper for measurements: it remembers every read beside the events that were in it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ..trace import Stream
from ..wire.connection import Connection
from .path import Arrivals, arrivals

FEW: Final = 2
"""Fewer events than this have no gaps."""

_ENCODING: Final = re.compile(rb"(?i)\r\ncontent-encoding: *([a-z, ]+)\r\n")


class Ear:
    """What one connection brought: the time and size of each read, and its answers."""

    def __init__(self) -> None:
        self.t_ns: list[int] = []
        self.size: list[int] = []
        self.encoding: str | None = None
        self._asked_ns: list[int] = []
        self._answered_ns: list[int] = []
        self._connection = Connection()

    def sent(self, t_ns: int, data: bytes) -> None:
        """See `live.Tap`."""
        if len(self._asked_ns) == len(self._answered_ns):
            self._asked_ns.append(t_ns)
        self._connection.sent(t_ns, data)

    def received(self, t_ns: int, data: bytes) -> None:
        """See `live.Tap`."""
        if len(self._asked_ns) > len(self._answered_ns):
            self._answered_ns.append(t_ns)
            if found := _ENCODING.search(data):
                self.encoding = found[1].decode().strip()
        self.t_ns.append(t_ns)
        self.size.append(len(data))
        self._connection.received(t_ns, data, len(self.t_ns) - 1)

    def closed(self, t_ns: int) -> None:
        """See `live.Tap`."""
        self._connection.closed(t_ns)

    def streams(self) -> list[Stream]:
        """The answers with events, in order."""
        found = [one for answer in self._connection.answers for one in answer.streams()[0]]
        return [one for one in found if len(one) >= FEW]

    def round_trips_ns(self) -> npt.NDArray[np.int64]:
        """From the first byte of each request to the first read of its answer, shape (n,)."""
        n = len(self._answered_ns)
        return np.array(self._answered_ns, np.int64) - np.array(self._asked_ns[:n], np.int64)

    def arrivals(self) -> list[Arrivals]:
        """The reads of each of them."""
        return [arrivals(self.t_ns, self.size, one.read) for one in self.streams()]


class Ears:
    """A keeper of `Ear`s."""

    def __init__(self) -> None:
        self.ears: list[Ear] = []

    def tap(self, name: str, meta: Mapping[str, Any] | None = None) -> Ear:
        """See `live.Keeper`."""
        self.ears.append(Ear())
        return self.ears[-1]

    def arrivals(self) -> list[Arrivals]:
        """The reads of all answers."""
        return [one for ear in self.ears for one in ear.arrivals()]


def spread(values: Sequence[float] | npt.NDArray[np.float64]) -> dict[str, float]:
    """Median, 99th percentile and maximum; empty without values."""
    if not len(values):
        return {}
    p50, p99 = np.quantile(values, (0.5, 0.99))
    return {"p50": float(p50), "p99": float(p99), "max": float(max(values))}
