"""TCP reassembly: segments in any order to the bytes that each side sent, with what was never captured.

Bytes behind a hole become readable when the hole is filled: that is when an application could read them, and the time
that counts. Where the other side acknowledged what the capture never saw, the hole is given up, and what waited behind
it keeps its own time.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from .packet import FIN, RST, SYN, Segment

CLIENT: Final = 0
SERVER: Final = 1

_WRAP: Final = 1 << 32
_HALF: Final = 1 << 31
_SWAPPED: Final = 2  # segments that a capture may show before the one that they followed, and its acknowledgement too


@dataclass(frozen=True, slots=True)
class Limits:
    """What protects the memory.

    Attributes
    ----------
    flows : connections followed at the same time; the one that was silent longest is ended first.
    held : bytes that wait behind a hole, in each direction; more, and the hole is given up.
    segments : the same in segments.
    all_held : bytes that wait in all connections together; more, and the next hole is given up at once.
    """

    flows: int = 4096
    held: int = 1 << 18
    segments: int = 256
    all_held: int = 1 << 25


LIMITS: Final = Limits()


class Piece(NamedTuple):
    """Bytes that can be read; `lost` bytes before them were never captured."""

    t_ns: int
    data: bytes
    lost: int


class Reader(Protocol):
    """What gets the bytes of a connection; `side` is CLIENT or SERVER."""

    def data(self, side: int, pieces: list[Piece]) -> None:
        """Bytes that one side sent, in order; never an empty list."""

    def close(self, t_ns: int) -> None:
        """Nothing more will come."""


@dataclass(slots=True)
class _Store:
    """What waits behind holes in all connections."""

    held: int = 0


@dataclass(slots=True)
class _Side:
    """One direction. Positions count from the first byte seen."""

    store: _Store
    origin: int | None = None
    at: int = 0
    lost: int = 0
    held: int = 0
    acked: int = 0
    end: int | None = None
    waiting: list[tuple[int, int, bytes, int]] = field(default_factory=list)

    def position(self, seq: int) -> int:
        """Where `seq` lies. Numbers wrap, so the place nearest to what was read is meant."""
        return (seq - (self.origin or 0) - self.at + _HALF) % _WRAP - _HALF + self.at

    @property
    def is_gone(self) -> bool:
        """Whether what is missing will not come: the other side has it, and it is more than two packets swapped."""
        return self.acked > self.at and len(self.waiting) > _SWAPPED

    def take(self, at: int, t_ns: int, data: bytes, missing: int, limits: Limits) -> list[Piece]:
        """Place a segment; what can be read now."""
        if at > self.at:
            insort(self.waiting, (at, t_ns, data, missing))
            self.held += len(data)
            self.store.held += len(data)
            full = self.held > limits.held or len(self.waiting) > limits.segments or self.store.held > limits.all_held
            return self.skip() if full or self.is_gone else []
        pieces: list[Piece] = []
        self._append(pieces, at, t_ns, data, missing)
        self._drain(pieces, t_ns)
        return pieces

    def skip(self) -> list[Piece]:
        """Give up the hole before the first segment that waits."""
        pieces: list[Piece] = []
        if self.waiting:
            gap = max(0, self.waiting[0][0] - self.at)
            self.lost += gap
            self.at += gap
            self._drain(pieces, None)
        return pieces

    def _drain(self, pieces: list[Piece], now: int | None) -> None:
        while self.waiting and self.waiting[0][0] <= self.at:
            at, t_ns, data, missing = self.waiting.pop(0)
            self.held -= len(data)
            self.store.held -= len(data)
            self._append(pieces, at, t_ns if now is None else now, data, missing)

    def _append(self, pieces: list[Piece], at: int, t_ns: int, data: bytes, missing: int) -> None:
        known = self.at - at  # sent again
        fresh = data[known:]
        missing -= max(0, known - len(data))
        if fresh:
            if pieces and pieces[-1].t_ns == t_ns and not self.lost:  # readable at the same moment: one read
                pieces[-1] = pieces[-1]._replace(data=pieces[-1].data + fresh)
            else:
                pieces.append(Piece(t_ns, fresh, self.lost))
            self.lost = 0
            self.at += len(fresh)
        if missing > 0:
            self.lost += missing
            self.at += missing


@dataclass(slots=True)
class _Flow:
    sides: dict[bytes, _Side]
    client: bytes | None = None
    reader: Reader | None = None


class Flows:
    """All connections of a capture.

    Parameters
    ----------
    opened : called with client and server (address and port) at the first payload; gives the reader of its bytes.
    sender : from the first payload, which side sent it: CLIENT, SERVER, or None when it cannot be told. Asked only
        where the capture has not seen the connection begin.
    """

    def __init__(
        self,
        opened: Callable[[bytes, bytes], Reader],
        sender: Callable[[bytes], int | None],
        limits: Limits = LIMITS,
    ) -> None:
        self._opened = opened
        self._sender = sender
        self._limits = limits
        self._store = _Store()
        self._flows: dict[tuple[bytes, bytes], _Flow] = {}
        self._t_ns = 0

    def segment(self, t_ns: int, one: Segment) -> None:
        """The next captured segment."""
        if one.source == one.target:
            return  # damaged: nobody talks to himself from the same port
        self._t_ns = t_ns
        key = (one.source, one.target) if one.source < one.target else (one.target, one.source)
        flow = self._flows.pop(key, None)
        if flow is not None and one.flags & SYN and self._is_new(flow.sides[one.source], one):
            self._end(flow)
            flow = None
        if flow is None:
            if len(self._flows) >= self._limits.flows:
                self._end(self._flows.pop(next(iter(self._flows))))
            flow = _Flow({one.source: _Side(self._store), one.target: _Side(self._store)})
        if not self._follow(flow, t_ns, one):
            self._flows[key] = flow  # at the end of the dict: the least silent

    def finish(self) -> None:
        """The capture ends: so do all its connections."""
        for flow in self._flows.values():
            self._end(flow)
        self._flows.clear()

    def _is_new(self, side: _Side, one: Segment) -> bool:
        """Whether a SYN begins another connection on the same ports, rather than being sent again."""
        return side.origin is not None and side.origin != (one.seq + 1) % _WRAP

    def _follow(self, flow: _Flow, t_ns: int, one: Segment) -> bool:
        """Take a segment; whether the connection has ended."""
        mine, other = flow.sides[one.source], flow.sides[one.target]
        seq = one.seq
        if one.flags & SYN:
            seq = (seq + 1) % _WRAP
            flow.client = flow.client or (one.source if one.ack is None else one.target)
        if mine.origin is None:
            mine.origin = seq
        if one.ack is not None and other.origin is not None:
            other.acked = max(other.acked, other.position(one.ack))
            if other.is_gone:
                self._give(flow, one.target, other.skip())
        at = mine.position(seq)
        if one.data or one.missing:
            self._give(flow, one.source, mine.take(at, t_ns, one.data, one.missing, self._limits))
        if one.flags & FIN:
            mine.end = at + len(one.data) + one.missing
        done = all(side.end is not None and side.at >= side.end for side in (mine, other))
        if one.flags & RST or done:
            self._end(flow)
            return True
        return False

    def _give(self, flow: _Flow, source: bytes, pieces: list[Piece]) -> None:
        if not pieces:
            return
        if flow.client is None:
            flow.client = self._client(flow, source, pieces[0].data)
        if flow.reader is None:
            flow.reader = self._opened(flow.client, next(a for a in flow.sides if a != flow.client))
        flow.reader.data(CLIENT if source == flow.client else SERVER, pieces)

    def _client(self, flow: _Flow, source: bytes, data: bytes) -> bytes:
        """The client of a connection whose begin was not captured; services have the lower port."""
        told = self._sender(data)
        other = next(a for a in flow.sides if a != source)
        if told is not None:
            return source if told == CLIENT else other
        return max(source, other, key=lambda address: address[-2:])

    def _end(self, flow: _Flow) -> None:
        for source, side in flow.sides.items():
            while side.waiting:
                self._give(flow, source, side.skip())
        if flow.reader is not None:
            flow.reader.close(self._t_ns)
