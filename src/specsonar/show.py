"""What is in a recording, before anything is inferred from it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

import numpy as np

from .fingerprint import Finding
from .importers import look
from .importers.refusals import HOLDS
from .trace import Stream, Trace

SCHEMA: Final = "specsonar.show/1"


@dataclass(frozen=True, slots=True)
class StreamView:
    """One stream in numbers.

    Attributes
    ----------
    name : its label.
    events, reads : how many events, and how many socket reads brought them (as many where reads are not known).
    tokens : of all events, None where neither counts nor a total are known.
    span_s : seconds from the first event to the last.
    first_s : seconds from the request to the first event, None where the request's time is not known.
    median_gap_s : seconds, None with fewer than two events.
    count_source : where the counts come from.
    tick_s : tick of the clock that stamped, where the file says it.
    server_report : what the server said about its speculation.
    """

    name: str
    events: int
    reads: int
    tokens: int | None
    span_s: float
    first_s: float | None
    median_gap_s: float | None
    count_source: str
    tick_s: float | None
    server_report: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Contents:
    """A recording in numbers.

    Attributes
    ----------
    format : name of the format.
    streams : one view each.
    holds : what a file without arrival times holds instead.
    server_report : what the server said, where the file says it once for all streams.
    findings : what was noticed while reading.
    inputs : name and hash of the file.
    """

    format: str
    streams: tuple[StreamView, ...]
    holds: Mapping[str, Any]
    server_report: Mapping[str, Any] | None
    findings: tuple[Finding, ...]
    inputs: tuple[Mapping[str, Any], ...]

    def to_dict(self) -> dict[str, Any]:
        """As JSON types, schema `specsonar.show/1`; times in seconds."""
        return {
            "schema": SCHEMA,
            "format": self.format,
            "streams": [{f: _plain(getattr(s, f)) for f in StreamView.__dataclass_fields__} for s in self.streams],
            "holds": dict(self.holds),
            "server_report": _plain(self.server_report),
            "findings": [f.to_dict() for f in self.findings],
            "inputs": [dict(entry) for entry in self.inputs],
        }


def show(path: str | os.PathLike[str] | BinaryIO, **options: Any) -> Contents:
    """Read a file and say what is in it; `options` are those of `importers.read`.

    Raises
    ------
    InputError : the file cannot be used. UsageError : an option does not go with it.
    """
    return contents(look(path, **options))


def contents(trace: Trace) -> Contents:
    """What is in `trace`."""
    return Contents(
        format=str(trace.meta.get("format", "")),
        streams=tuple(_view(one) for one in trace.streams),
        holds=trace.meta.get(HOLDS, {}),
        server_report=trace.meta.get("server_report"),
        findings=trace.findings,
        inputs=tuple(trace.meta.get("inputs", ())),
    )


def _view(one: Stream) -> StreamView:
    gaps = np.diff(one.t_ns)
    known = one.start_ns is not None and len(one) > 0
    return StreamView(
        name=one.name,
        events=len(one),
        reads=int(np.unique(one.read).size),
        tokens=one.known_tokens,
        span_s=one.span_s,
        first_s=float(one.t_ns[0] - (one.start_ns or 0)) * 1e-9 if known else None,
        median_gap_s=float(np.median(gaps)) * 1e-9 if gaps.size else None,
        count_source=one.count_source,
        tick_s=one.resolution_ns * 1e-9 if one.resolution_ns else None,
        server_report=one.server_report,
    )


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else value
