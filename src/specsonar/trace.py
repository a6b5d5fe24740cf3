"""The record of what was observed: immutable, complete, and free of any interpretation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from .errors import InputError
from .fingerprint import Finding

IntArray = npt.NDArray[np.int64]

UNKNOWN: Final = -1
"""Token count of an event whose count the server did not say. Nothing turns it into 1."""

# Where the token counts of a stream come from, best first.
COUNTED: Final = "token counts from the server"
ONE_EACH: Final = "one event per token"
ASSUMED_ONE: Final = "assumed: one event per token"
TOTAL_ONLY: Final = "total only"
NOT_SAID: Final = "unknown"

_EMPTY: Final[Mapping[str, Any]] = MappingProxyType({})


def _column(values: npt.ArrayLike) -> IntArray:
    array = np.array(values, dtype=np.int64, ndmin=1)
    array.flags.writeable = False
    return array


@dataclass(frozen=True, slots=True, eq=False)
class Stream:
    """The events of one streamed answer, in the order in which they were received.

    Attributes
    ----------
    t_ns : shape (n,), int64. Receive time of each event, nanoseconds of one monotonic clock with any origin.
    tokens : shape (n,), int64. Tokens that the event carries; `UNKNOWN` where the server did not say.
    read : shape (n,), int64. Index of the socket read that completed the event. Equal means that the order of
        their times is not known ("ties"). All different where reads were not recorded.
    size : shape (n,), int64. Bytes of the event's payload; 0 where not recorded.
    name : label for people, never an identity.
    count_source : where `tokens` come from; one of the constants of this module.
    total_tokens : the server's own total for the answer, or None.
    start_ns : when the request was sent, on the same clock, or None.
    resolution_ns : tick of the clock that stamped, where it is known; else None.
    blind : (begin, end) nanosecond pairs during which nothing could be received (recorder suspended).
    meta : what is known of the request (model, temperature, dialect...). No prompt, no text, no key.
    truth : the hidden configuration, from a simulator only. The estimators never read it.
    server_report : what the server itself said about its speculation, or None.
    """

    t_ns: IntArray
    tokens: IntArray
    read: IntArray
    size: IntArray
    name: str = ""
    count_source: str = ASSUMED_ONE
    total_tokens: int | None = None
    start_ns: int | None = None
    resolution_ns: int | None = None
    blind: tuple[tuple[int, int], ...] = ()
    meta: Mapping[str, Any] = field(default_factory=lambda: _EMPTY)
    truth: Mapping[str, Any] | None = None
    server_report: Mapping[str, Any] | None = None

    def __len__(self) -> int:
        return self.t_ns.size

    @property
    def span_s(self) -> float:
        """Seconds from the first event to the last; 0.0 with fewer than two events."""
        return float(self.t_ns[-1] - self.t_ns[0]) * 1e-9 if len(self) > 1 else 0.0

    @property
    def known_tokens(self) -> int | None:
        """Tokens of the whole stream, from the counts or from the server's total; None when neither is known."""
        if len(self) and (self.tokens >= 0).all():
            return int(self.tokens.sum())
        return self.total_tokens

    def without_truth(self) -> Stream:
        """The same observation with the simulator's answer removed."""
        return replace(self, truth=None)


def stream(
    t_ns: npt.ArrayLike,
    tokens: npt.ArrayLike | None = None,
    *,
    read: npt.ArrayLike | None = None,
    size: npt.ArrayLike | None = None,
    **rest: Any,
) -> Stream:
    """Build a `Stream` from columns, filling in what was not recorded.

    Parameters
    ----------
    t_ns : shape (n,) integers, nanoseconds.
    tokens, read, size : shape (n,) integers or None for "not recorded".
    rest : the remaining fields of `Stream`.

    Raises
    ------
    InputError : columns of different lengths, or a token count below -1.
    """
    times = _column(t_ns)
    n = times.size
    columns = {
        "tokens": _column(np.full(n, UNKNOWN) if tokens is None else tokens),
        "read": _column(np.arange(n) if read is None else read),
        "size": _column(np.zeros(n, np.int64) if size is None else size),
    }
    for label, column in columns.items():
        if column.size != n:
            raise InputError(f"{n} times but {column.size} values in column {label!r}", "every event needs both")
    if n and columns["tokens"].min() < UNKNOWN:
        raise InputError("a token count is negative", "write -1, or leave it out, where the count is not known")
    return Stream(times, columns["tokens"], columns["read"], columns["size"], **rest)


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """Streams that were recorded together, and what the reader noticed while reading them.

    Attributes
    ----------
    streams : at least one, unless a file held none; they share the service, not the phase.
    meta : what holds for all streams (format, clock, recorder version, inputs and their hashes).
    findings : what the reader noticed (a cut file, a guessed unit); they travel to the Fingerprint.
    """

    streams: tuple[Stream, ...]
    meta: Mapping[str, Any] = field(default_factory=lambda: _EMPTY)
    findings: tuple[Finding, ...] = ()

    @property
    def events(self) -> int:
        """Events of all streams."""
        return sum(len(s) for s in self.streams)

    def without_truth(self) -> Trace:
        """The same observation with the simulator's answers removed."""
        return replace(self, streams=tuple(s.without_truth() for s in self.streams))


def merge(traces: Iterable[Trace]) -> Trace:
    """One Trace with the streams of all `traces`, to be pooled: shared parameters, own phases, `meta` that all have."""
    parts = tuple(traces)
    first = parts[0].meta if parts else {}
    shared = {k: v for k, v in first.items() if all(k in part.meta and part.meta[k] == v for part in parts)}
    inputs = [entry for part in parts for entry in part.meta.get("inputs", ())]
    return Trace(
        streams=tuple(s for part in parts for s in part.streams),
        meta={**shared, "inputs": inputs},
        findings=tuple(f for part in parts for f in part.findings),
    )
