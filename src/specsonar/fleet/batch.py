"""Many streams in flat arrays: what a fleet is read in, sampled from and measured in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from ..trace import ASSUMED_ONE, COUNTED, ONE_EACH, TOTAL_ONLY, IntArray, Stream, stream

FloatArray = npt.NDArray[np.float64]
Key = tuple[str, ...]
"""Values of what the streams are grouped by."""

NOT_KNOWN: Final = -1


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Complete streams, none of them empty.

    Attributes
    ----------
    names : of the streams, each once in a file. keys : the group of each.
    offsets : shape (n+1,), where each stream begins.
    t_ns : shape (events,), nanoseconds since the first event of the stream, not decreasing.
    tokens : shape (events,), -1 where not said; None where no stream has counts.
    sources : where the counts of each stream come from. totals : the servers' totals, -1 where not said.
    first_ns : from the request to the first event, -1 where the request was not seen.
    started_s : Unix time of the request, or else of the first event; nan where the clock does not tell.
    meta : what is known of each request.
    origin : the streams as records, where they were read as such.
    """

    names: list[str]
    keys: list[Key]
    offsets: IntArray
    t_ns: IntArray
    tokens: IntArray | None
    sources: list[str]
    totals: IntArray
    first_ns: IntArray
    started_s: FloatArray
    meta: Sequence[Mapping[str, Any]]
    origin: Sequence[Stream] | None = None

    def __len__(self) -> int:
        return len(self.names)

    def stream(self, k: int) -> Stream:
        """Stream `k` as a record."""
        if self.origin is not None:
            return self.origin[k]
        begin, end = int(self.offsets[k]), int(self.offsets[k + 1])
        first = int(self.first_ns[k])
        return stream(
            self.t_ns[begin:end], None if self.tokens is None else self.tokens[begin:end], name=self.names[k],
            count_source=self.sources[k], start_ns=None if first < 0 else -first,
            total_tokens=None if self.totals[k] < 0 else int(self.totals[k]), meta=self.meta[k],
        )  # fmt: skip


def of_streams(
    streams: Sequence[Stream], keys: Sequence[Key], started_s: Sequence[float], names: Sequence[str]
) -> Batch:
    """Streams that were read as records, none of them empty."""
    sorted_ = [s.t_ns if bool((np.diff(s.t_ns) >= 0).all()) else np.sort(s.t_ns) for s in streams]
    return Batch(
        list(names), list(keys), np.concatenate(([0], np.cumsum([len(s) for s in streams]))).astype(np.int64),
        np.concatenate([t - t[0] for t in sorted_]), np.concatenate([s.tokens for s in streams]),
        [s.count_source for s in streams],
        np.array([NOT_KNOWN if s.total_tokens is None else s.total_tokens for s in streams], np.int64),
        np.array([_first(s, t) for s, t in zip(streams, sorted_, strict=True)], np.int64),
        np.array(started_s, np.float64), [s.meta for s in streams], streams,
    )  # fmt: skip


def _first(one: Stream, t: IntArray) -> int:
    return NOT_KNOWN if one.start_ns is None else max(int(t[0]) - one.start_ns, 0)


def sources_of(tokens: IntArray | None, offsets: IntArray) -> list[str]:
    """What the counts themselves say, for each stream of a table."""
    n = offsets.size - 1
    if tokens is None or not n:
        return [ASSUMED_ONE] * n
    low, high = np.minimum.reduceat(tokens, offsets[:-1]), np.maximum.reduceat(tokens, offsets[:-1])
    return [
        ASSUMED_ONE if top < 0 else ONE_EACH if bottom == top == 1 else COUNTED
        for bottom, top in zip(low.tolist(), high.tolist(), strict=True)
    ]


def tokens_of(batch: Batch) -> tuple[IntArray, IntArray]:
    """Tokens of each stream, and those of its first event; -1 where they are not known.

    Events of streams whose counts nobody said are one token each, as the analysis takes them.
    """
    events = np.diff(batch.offsets)
    begin = batch.offsets[:-1]
    sources = np.array(batch.sources)
    total = np.where(np.isin(sources, (ONE_EACH, ASSUMED_ONE)), events, NOT_KNOWN)
    first = np.where(total >= 0, 1, NOT_KNOWN)
    if batch.tokens is not None:
        counted = (sources == COUNTED) & (np.minimum.reduceat(batch.tokens, begin) >= 0)
        total = np.where(counted, np.add.reduceat(batch.tokens, begin), total)
        first = np.where(counted, batch.tokens[begin], first)
    known = (sources == TOTAL_ONLY) & (batch.totals >= 0)
    return np.where(known, batch.totals, total), np.where(known, 1, first)


class _Packed(msgspec.Struct, array_like=True):
    name: str
    count_source: str
    total_tokens: int | None
    start_ns: int | None
    resolution_ns: int | None
    meta: dict[str, Any]
    server_report: dict[str, Any] | None
    t_ns: bytes
    tokens: bytes


def pack(one: Stream) -> bytes:
    """A stream as bytes; reads and sizes are left out."""
    report = None if one.server_report is None else dict(one.server_report)
    return msgspec.msgpack.encode(
        _Packed(
            one.name, one.count_source, one.total_tokens, one.start_ns, one.resolution_ns, dict(one.meta), report,
            one.t_ns.astype("<i8").tobytes(), one.tokens.astype("<i8").tobytes(),
        )
    )  # fmt: skip


def unpack(data: bytes) -> Stream:
    """What `pack` packed."""
    p = msgspec.msgpack.decode(data, type=_Packed)
    return stream(
        np.frombuffer(p.t_ns, "<i8"), np.frombuffer(p.tokens, "<i8"), name=p.name, count_source=p.count_source,
        total_tokens=p.total_tokens, start_ns=p.start_ns, resolution_ns=p.resolution_ns, meta=p.meta,
        server_report=p.server_report,
    )  # fmt: skip
