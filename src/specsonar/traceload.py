"""Loading of our own trace file (`tracefile` describes it and writes it)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from .bytefile import ByteFile
from .errors import FormatError, LimitError
from .findings import CATALOGUE, finding
from .fingerprint import Finding
from .trace import ASSUMED_ONE, COUNTED, ONE_EACH, Stream, Trace, stream
from .tracefile import UPGRADE, VERSION, Control

MAX_EVENTS: Final = 20_000_000

_BEGIN: Final = re.compile(rb'\s*\{\s*"specsonar"\s*:\s*"trace"')
_SHORT: Final = b'{"specsonar":"trace"'
_Whole = Annotated[int, msgspec.Meta(ge=-(1 << 61), le=1 << 61)]
_Row = tuple[_Whole, _Whole, Annotated[int, msgspec.Meta(ge=-1, le=1 << 53)], _Whole, _Whole]
_DECODER: Final = msgspec.json.Decoder(_Row | Control)
_ERRORS: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)  # ValidationError is a DecodeError


class _Open(msgspec.Struct):
    stream: Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]
    name: str = ""
    start_ns: _Whole | None = None
    resolution_ns: Annotated[int, msgspec.Meta(ge=0, le=1 << 53)] | None = None
    count_source: str | None = None
    meta: Control = {}


class _End(msgspec.Struct):
    end: int
    total_tokens: Annotated[int, msgspec.Meta(ge=0, le=1 << 53)] | None = None
    count_source: str | None = None
    server_report: Control | None = None
    meta: Control = {}
    tokens: list[Annotated[int, msgspec.Meta(ge=-1, le=1 << 53)]] | None = None
    findings: list[dict[str, str]] = []


class _Close(msgspec.Struct):
    findings: list[dict[str, str]] = []
    meta: Control = {}


class _Blind(msgspec.Struct):
    blind: int
    from_ns: _Whole
    to_ns: _Whole


class _Truth(msgspec.Struct):
    truth: int
    value: Control


class _Header(msgspec.Struct):
    version: Annotated[int, msgspec.Meta(ge=1)]
    meta: Control = {}
    findings: list[dict[str, str]] = []


@dataclass(slots=True)
class _Part:
    """One recording: from a header to the next."""

    header: _Header
    opened: dict[int, _Open] = field(default_factory=dict)
    ended: dict[int, _End] = field(default_factory=dict)
    truth: dict[int, Control] = field(default_factory=dict)
    blind: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    rows: list[npt.NDArray[np.int64]] = field(default_factory=list)
    closed: _Close | None = None

    def meta(self) -> Control:
        """What holds for all streams, as known at the end."""
        return self.header.meta | (self.closed.meta if self.closed else {})

    def findings(self) -> list[Finding]:
        """What was noticed before, during and after the recording, in this order."""
        told = [self.header.findings, *(end.findings for end in self.ended.values())]
        return [_restored(f) for some in [*told, self.closed.findings if self.closed else []] for f in some]


def looks_own(head: bytes) -> bool:
    """Whether `head` begins like our trace file; a head cut before that is enough."""
    return bool(_BEGIN.match(head)) or (0 < len(head) < len(_SHORT) and _SHORT.startswith(head))


def load(source: ByteFile) -> Trace:
    """Read a trace file up to its end or to where it was cut (finding I001).

    Raises
    ------
    FormatError : written by a newer version, or no trace file. LimitError : too many events.
    """
    loader = _Loader(source.name)
    for block in source.blocks():
        loader.block(block)
    return loader.trace(open_end=source.open_end)


class _Loader:
    def __init__(self, name: str) -> None:
        self.name = name
        self.parts: list[_Part] = []
        self.bad: list[int] = []
        self.lines = 0
        self.events = 0
        self.torn = 0

    def block(self, block: bytes) -> None:
        first = self.lines + 1
        self.lines += block.count(b"\n") + (not block.endswith(b"\n"))
        try:
            rows = _DECODER.decode_lines(block)
        except _ERRORS:
            self._line_by_line(block, first)
            return
        self._take(rows, first)

    def _line_by_line(self, block: bytes, first: int) -> None:
        for number, text in enumerate(block.split(b"\n"), first):
            if text.strip():
                try:
                    self._take([_DECODER.decode(text)], number)
                except _ERRORS:
                    self.bad.append(number)

    def _take(self, rows: list[Any], first: int) -> None:
        """Rows in order; runs of events between control lines become one array."""
        at = 0
        for i in [i for i, row in enumerate(rows) if type(row) is dict]:
            self._add_events(rows[at:i], first + at)
            self._take_control(rows[i], first + i)
            at = i + 1
        self._add_events(rows[at:], first + at)

    def _add_events(self, rows: list[Any], first: int) -> None:
        if not rows:
            return
        if not self.parts:
            self.bad.append(first)
            return
        self.events += len(rows)
        if self.events > MAX_EVENTS:
            raise LimitError(f"{self.name} has more than {MAX_EVENTS:,} events", "split the file")
        self.parts[-1].rows.append(np.array(rows, np.int64))

    def _take_control(self, line: Control, number: int) -> None:
        try:
            if line.get("specsonar") == "trace":
                self._take_header(line, number)
            elif not self.parts:
                self.bad.append(number)
            else:
                self._take_known(_upgraded(line, self.parts[-1].header.version), number)
        except msgspec.ValidationError:
            self.bad.append(number)

    def _take_header(self, line: Control, number: int) -> None:
        header = msgspec.convert(line, _Header)
        if header.version > VERSION:
            raise FormatError(
                f"{self.name} was written by a newer specsonar (format {header.version}, this one knows {VERSION})",
                "update specsonar",
            )
        if self.bad and self.bad[-1] == number - 1:  # what a killed recorder left before this one was appended
            self.torn = self.bad.pop()
        self.parts.append(_Part(msgspec.convert(_upgraded(line, header.version), _Header)))

    def _take_known(self, line: Control, number: int) -> None:
        part = self.parts[-1]
        if "stream" in line:
            opened = msgspec.convert(line, _Open)
            part.opened[opened.stream] = opened
        elif "end" in line:
            ended = msgspec.convert(line, _End)
            part.ended[ended.end] = ended
        elif "truth" in line:
            truth = msgspec.convert(line, _Truth)
            part.truth[truth.truth] = truth.value
        elif "blind" in line:
            blind = msgspec.convert(line, _Blind)
            part.blind.setdefault(blind.blind, []).append((blind.from_ns, blind.to_ns))
        elif "close" in line:
            part.closed = msgspec.convert(line, _Close)
        else:
            self.bad.append(number)

    def trace(self, *, open_end: bool) -> Trace:
        if open_end and self.bad and self.bad[-1] == self.lines:
            self.torn = self.bad.pop()
        if not self.parts and not self.torn:
            raise FormatError(f"{self.name} begins like a trace but has no readable header", "restore its first line")
        findings = [found for part in self.parts for found in part.findings()]
        if self.torn:
            findings.append(finding("I001", f"{self.name} ends in the middle of line {self.torn}"))
        elif open_end or not all(part.closed for part in self.parts):
            findings.append(finding("I001", f"{self.name} ends before the recording was closed"))
        streams: list[Stream] = []
        lost = 0
        for part in self.parts:
            made, unknown, falling, unclear = _streams(part)
            streams += made
            lost += unknown
            if unclear:
                findings.append(finding("I004", f"{self.name}: the final counts of {unclear} streams do not fit"))
            if falling:
                findings.append(finding("I003", f"{self.name}: {falling} times were earlier than the one before"))
        if self.bad:
            findings.append(
                finding("I004", f"{self.name}: {len(self.bad)} lines left out, the first is line {self.bad[0]}")
            )
        if lost:
            findings.append(finding("I004", f"{self.name}: {lost} events of streams that were never opened left out"))
        meta = {k: v for part in reversed(self.parts) for k, v in part.meta().items()}
        return Trace(tuple(streams), meta, tuple(findings))


def _upgraded(line: Control, version: int) -> Control:
    while version < VERSION:
        line, version = UPGRADE[version](line), version + 1
    return line


def _restored(plain: dict[str, str]) -> Finding:
    code = plain.get("code", "")
    known = CATALOGUE.get(code)
    severity = plain.get("severity") or (known.severity if known else "info")
    return Finding(code, severity, plain.get("message", ""), plain.get("hint", ""))


def _streams(part: _Part) -> tuple[list[Stream], int, int, int]:
    """The streams of a part, how many events belong to none, times that fell, and corrections that do not fit."""
    rows = np.concatenate(part.rows) if part.rows else np.empty((0, 5), np.int64)
    rows = rows[np.argsort(rows[:, 0], kind="stable")]
    numbers, begins = np.unique(rows[:, 0], return_index=True)
    pieces = dict(zip(numbers.tolist(), np.split(rows, begins[1:]), strict=True)) if rows.size else {}
    made, fell, unclear = [], 0, 0
    for number, opened in part.opened.items():
        mine = pieces.pop(number, rows[:0])
        if number in part.ended and (counts := part.ended[number].tokens) is not None:
            if len(counts) == len(mine):
                mine = _corrected(mine, counts)
            else:
                unclear += 1
        falling = int((np.diff(mine[:, 1]) < 0).sum())
        if falling:
            fell += falling
            mine = mine[np.argsort(mine[:, 1], kind="stable")]
        made.append(_stream(part, number, opened, mine))
    return made, sum(map(len, pieces.values())), fell, unclear


def _corrected(rows: npt.NDArray[np.int64], counts: list[int]) -> npt.NDArray[np.int64]:
    """The events with the counts that the end of the answer gave them; those without a token are left out."""
    said = np.array(counts, np.int64)
    corrected: npt.NDArray[np.int64] = np.column_stack((rows[:, :2], said, rows[:, 3:]))[said != 0]
    return corrected


def _stream(part: _Part, number: int, opened: _Open, rows: npt.NDArray[np.int64]) -> Stream:
    ended = part.ended.get(number, _End(number))
    return stream(
        rows[:, 1],
        rows[:, 2],
        read=rows[:, 3],
        size=rows[:, 4],
        name=opened.name,
        count_source=ended.count_source or opened.count_source or _source_of(rows[:, 2]),
        total_tokens=ended.total_tokens,
        start_ns=opened.start_ns,
        resolution_ns=opened.resolution_ns,
        blind=tuple(part.blind.get(number, ())),
        meta={**opened.meta, **ended.meta},
        truth=part.truth.get(number),
        server_report=ended.server_report,
    )


def _source_of(tokens: npt.NDArray[np.int64]) -> str:
    """What the counts themselves say, for a stream that was cut before its end line."""
    if not tokens.size or (tokens < 0).all():
        return ASSUMED_ONE
    return ONE_EACH if (tokens == 1).all() else COUNTED
