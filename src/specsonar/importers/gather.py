"""What the readers of other tools' files share: from gaps and totals to streams, a bound on their number, and how to
say that a file holds no arrival times.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeGuard

import msgspec
import numpy as np
import numpy.typing as npt

from ..bytefile import ByteFile
from ..errors import InputError, UsageError
from ..findings import finding
from ..fingerprint import Finding
from ..trace import ASSUMED_ONE, COUNTED, NOT_SAID, ONE_EACH, TOTAL_ONLY, UNKNOWN, IntArray, Stream, Trace, stream
from ..wire.answer import Answer
from .jsonparts import EACH, Parts, Path
from .recording import in_order

MAX_EVENTS: Final = 4_000_000
"""Events that are kept of one file; their columns take 128 MB."""

LONGEST_LINE: Final = 64 << 20
"""Bytes of one line of JSON lines that holds a whole answer."""

HOLDS: Final = "holds"
"""Key of a Trace's `meta` for what a file without arrival times holds instead."""

Floats = npt.NDArray[np.float64]

_LATEST: Final = 4e9  # seconds; later times are not times

SAME_S: Final = 2e-9
"""Gaps that a tool made from one quotient differ by rounding only; measured neighbours by some 100 us."""

_TICK_S: Final = 10e-6
_FEWEST_EVEN: Final = 8

# Gaps far below the mean are bursts; a stray one, a late packet, is none.
_IN_BURST: Final = 0.15
_SOME: Final = 0.2
_LATEST_NS: Final = 1 << 61
_FLOATS: Final = msgspec.json.Decoder(list[float])


def floats(raw: bytes) -> Floats | None:
    """A JSON list of finite numbers of seconds, shape (n,); None when it is something else."""
    try:
        return _sensible(_FLOATS.decode(raw))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def row_of(value: object) -> Floats | None:
    """The same for a list that is decoded already."""
    try:
        return _sensible(msgspec.convert(value, list[float]))
    except (msgspec.ValidationError, OverflowError):
        return None


def _sensible(numbers: list[float]) -> Floats | None:
    values = np.array(numbers, np.float64)
    return values if values.size == 0 or np.abs(values).max() < _LATEST else None


def decoded(raw: bytes) -> Any:
    """Any JSON value; None when it is not JSON."""
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def number_at(values: object, index: int) -> float | None:
    """Element `index` of a list when it is a sensible number, else None."""
    if not isinstance(values, list) or index >= len(values):
        return None
    value = values[index]
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < _LATEST:
        return None
    return float(value)


def count_at(values: object, index: int, most: int = 1 << 31) -> int | None:
    """Element `index` of a list when it is a positive whole number up to `most`, else None."""
    if not isinstance(values, list) or index >= len(values):
        return None
    value = values[index]
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= most else None


def is_ns(value: object) -> TypeGuard[int]:
    """Whether `value` can be a time in nanoseconds."""
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < _LATEST_NS


def counted(t_ns: IntArray, total: int | None, counts: npt.ArrayLike | None = None) -> tuple[IntArray, str]:
    """Token counts of events at `t_ns` and where they come from, given the answer's `total` or the `counts`.

    With neither, an event is taken as one token only where bursts are seen; a server that puts a whole step into one
    event has none, and would be taken for one that decodes plainly.
    """
    events = t_ns.size
    if counts is not None:
        tokens = np.asarray(counts, np.int64)
        if (tokens >= 0).all():
            return tokens, ONE_EACH if (tokens == 1).all() else COUNTED
    if total == events:
        return np.ones(events, np.int64), ONE_EACH
    unknown = np.full(events, UNKNOWN)
    if total is not None and total > events:
        return unknown, TOTAL_ONLY
    gaps = np.diff(t_ns)
    bursts = gaps.size and float((gaps < _IN_BURST * gaps.mean()).mean()) > _SOME
    return unknown, ASSUMED_ONE if bursts else NOT_SAID


def spread_evenly(after_s: Floats) -> bool:
    """Whether a tool spread events evenly over an interval: one gap, the same to the nanosecond, for half of them.

    A coarse clock repeats gaps, too, but then they are multiples of its tick; 10 us and more are taken for one.
    """
    gaps = np.diff(after_s)
    if gaps.size < _FEWEST_EVEN - 1:
        return False
    ends = np.append(np.flatnonzero(np.abs(np.diff(gaps)) > SAME_S), gaps.size - 1)
    lengths = np.diff(np.concatenate(([-1], ends)))
    longest = int(np.argmax(lengths))
    gap = float(gaps[ends[longest]])
    off_tick = abs(gap / _TICK_S - round(gap / _TICK_S)) * _TICK_S > SAME_S
    return gap > SAME_S and off_tick and bool(2 * lengths[longest] >= after_s.size)


def nanoseconds(seconds: float | None) -> int | None:
    """A time in seconds as integer nanoseconds."""
    return None if seconds is None else round(seconds * 1e9)


def iso_ns(text: object) -> int | None:
    """Nanoseconds since the epoch of a date and time as ISO 8601 writes it; None when it is none.

    Without a zone it is taken as UTC: only differences matter.

    >>> iso_ns("1970-01-01T00:00:01.000000002Z")
    1000000002
    """
    if not isinstance(text, str) or not 10 < len(text) < 50:
        return None
    fraction = re.search(r"(?<=[.,])\d+", text)
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        micro = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    except (ValueError, OverflowError):
        return None
    return micro * 1000 + int((fraction.group() if fraction else "").ljust(9, "0")[6:9])


def since(times_ns: list[int], start_ns: int) -> Floats:
    """Seconds from `start_ns` to each of `times_ns`."""
    after: Floats = (np.array(times_ns, np.int64) - start_ns).astype(np.float64) * 1e-9
    return after


def record_path(head: bytes) -> Path:
    """Where the records of a file are that holds a list of them, or one after the other."""
    return (EACH,) if head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"[") else ()


class Gathered:
    """The streams of one file, and what was noticed.

    Parameters
    ----------
    source : the file.

    Attributes
    ----------
    streams : what was kept; after `MAX_EVENTS` events nothing more.
    findings : what was noticed.
    failed : requests that the tool marks as failed.
    made_up : requests whose times are no evidence, since the tool spread them evenly.
    bad : how many requests or lines were not as they should be; `first_bad` says which was the first.
    """

    def __init__(self, source: ByteFile) -> None:
        self.source = source
        self.streams: list[Stream] = []
        self.findings: list[Finding] = []
        self.failed = 0
        self.made_up = 0
        self.bad = 0
        self.first_bad = ""
        self.cut = False
        self._seen = self._kept = self._fell = 0

    @property
    def room(self) -> int:
        """How many more events will be kept."""
        return max(0, MAX_EVENTS - self._kept)

    def skip(self, where: str) -> None:
        """Something at `where` could not be read."""
        self.bad += 1
        self.first_bad = self.first_bad or where

    def lines(self) -> Iterator[dict[str, Any]]:
        """The objects of JSON lines; other lines are noted as bad, and an unfinished last one as a cut.

        Raises
        ------
        LimitError : a line is too long.
        """
        number = 0
        for block in self.source.blocks(LONGEST_LINE):
            for text in block.splitlines():
                number += 1
                value = decoded(text)
                if isinstance(value, dict):
                    yield value
                elif text.strip():
                    self.skip(f"line {number}")
                    self.cut = self.source.open_end

    def pass_over(self, events: int) -> None:
        """Events that were seen and not kept."""
        self._seen += events

    def add(self, one: Stream) -> None:
        """Keep a stream, in the order of its times."""
        self._seen += len(one)
        if not self.room:
            return
        ordered, falling = in_order(one)
        self._kept += len(one)
        self._fell += falling
        self.streams.append(ordered)

    def add_gaps(
        self,
        gaps_s: Floats,
        *,
        first_s: float | None,
        start_ns: int | None = None,
        total: int | None = None,
        counts: npt.ArrayLike | None = None,
        meta: Mapping[str, Any] | None = None,
        report: Mapping[str, Any] | None = None,
        tick_ns: int | None = None,
    ) -> None:
        """A stream of n + 1 events from its n gaps.

        Parameters
        ----------
        gaps_s : seconds between events, shape (n,).
        first_s : seconds from the request to the first event, or None.
        start_ns : when the request was sent, nanoseconds of any clock, or None.
        total, counts : tokens of the answer and of each event, where they are known.
        """
        after = np.concatenate(([0.0], np.cumsum(gaps_s))) + (first_s or 0.0)
        self.add_times(
            after, start_ns=start_ns, sent=first_s is not None, total=total, counts=counts, meta=meta, report=report,
            tick_ns=tick_ns,
        )  # fmt: skip

    def add_times(
        self,
        after_s: Floats,
        *,
        start_ns: int | None = None,
        sent: bool = True,
        total: int | None = None,
        counts: npt.ArrayLike | None = None,
        meta: Mapping[str, Any] | None = None,
        report: Mapping[str, Any] | None = None,
        tick_ns: int | None = None,
    ) -> None:
        """A stream of events `after_s` seconds after `start_ns`, which is the time of the request if it was `sent`.

        Times that were made up are counted and not kept.
        """
        if spread_evenly(after_s):
            self.made_up += 1
            return
        start = start_ns or 0
        times = start + np.rint(after_s * 1e9).astype(np.int64)
        tokens, source = counted(times, total, counts)
        self.add(
            stream(
                times, tokens, name=self.name(), count_source=source, total_tokens=total,
                start_ns=start if sent else None, resolution_ns=tick_ns, meta=dict(meta or {}), server_report=report,
            )
        )  # fmt: skip

    def add_answer(self, answer: Answer) -> None:
        """The streams of an answer whose payloads are in the file."""
        made, noticed = answer.streams(self.name())
        for one in made:
            self.add(one)
        self.findings += noticed

    def name(self) -> str:
        """A label for the next stream."""
        return f"{self.source.name}:{len(self.streams) + 1}"

    def trace(self, parts: Parts | None = None, **meta: Any) -> Trace:
        """All of it as a Trace; `parts` says whether the JSON was whole."""
        name, notes = self.source.name, list(self.findings)
        if self.cut or (parts is not None and parts.cut):
            self.bad -= self.cut
            notes.append(finding("I001", f"{name} ends in the middle of a value"))
        if parts is not None and parts.defect is not None:
            notes.append(finding("I001", f"{name} is not JSON from byte {parts.defect} on"))
        if self.failed:
            notes.append(finding("I007", f"{name}: {self.failed} requests failed and were left out"))
        if self.made_up:
            of = f"{self.made_up} of {self.made_up + len(self.streams)} requests"
            notes.append(finding("I012", f"{name}: the times of {of} are spread evenly, not measured"))
            meta = meta if self.streams else {HOLDS: {}} | meta
        if self.bad:
            notes.append(finding("I004", f"{name}: {self.bad} left out, the first is {self.first_bad}"))
        if self._fell:
            notes.append(finding("I003", f"{name}: {self._fell} times were earlier than the one before"))
        if self._seen > self._kept:
            notes.append(finding("I013", f"{name}: the first {self._kept:,} of {self._seen:,} events were kept"))
        return Trace(tuple(self.streams), {k: v for k, v in meta.items() if v is not None}, tuple(notes))


def no_times(
    source: ByteFile,
    why: str,
    instead: str,
    *,
    holds: Mapping[str, Any] | None = None,
    report: Mapping[str, Any] | None = None,
    notes: Iterable[Finding] = (),
) -> Trace:
    """A Trace without streams, for a file that has no arrival times of events.

    Parameters
    ----------
    why : what the file keeps instead of times, as a sentence that follows its name.
    instead : which flag or tool would have kept them.
    holds : numbers that it does hold, by their name in words.
    report : the server's own account of its speculation, in the words of `wire.dialects.report`.
    """
    held = {k: v for k, v in (holds or {}).items() if v is not None}
    meta: dict[str, Any] = {HOLDS: held} | ({"server_report": report} if report else {})
    return Trace((), meta, (finding("I010", f"{source.name} {why}", instead), *notes))


def refuse_without_times(trace: Trace) -> None:
    """Refuse a Trace that cannot be analysed since its file had no times.

    Raises
    ------
    InputError : it has no streams.
    """
    if trace.streams or HOLDS not in trace.meta:
        return
    reason = next(f for f in trace.findings if f.code in ("I010", "I012"))
    held = "; ".join(f"{key} {_shown(value)}" for key, value in (trace.meta[HOLDS] | _said(trace)).items())
    raise InputError(f"{reason.message}" + (f" (it holds: {held})" if held else ""), reason.hint)


def _said(trace: Trace) -> dict[str, Any]:
    report = trace.meta.get("server_report") or {}
    words = {
        "acceptance_length": "acceptance length by the server",
        "draft_length": "draft length by the server",
        "acceptance_by_position": "acceptance by position by the server",
    }
    return {text: report[key] for key, text in words.items() if report.get(key) is not None}


def _shown(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(_shown, value))
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def refuse_gaps(gaps: bool) -> None:
    """Refuse `--gaps` for a file that has its own times.

    Raises
    ------
    UsageError : it was asked for.
    """
    if gaps:
        raise UsageError("--gaps is for plain columns of numbers; this file has its own times")
