"""What the readers of other tools' files share: from gaps and totals to streams, and a bound on their number."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ..bytefile import HEAD, ByteFile
from ..findings import finding
from ..fingerprint import Finding
from ..trace import ASSUMED_ONE, COUNTED, NOT_SAID, ONE_EACH, TOTAL_ONLY, UNKNOWN, IntArray, Stream, Trace, stream
from ..wire.answer import Answer
from .evenness import gathered, made_up
from .jsonparts import Parts
from .recording import in_order
from .values import LATEST, Floats, decoded

MAX_EVENTS: Final = 4_000_000
"""Events that are kept of one file; their columns take 128 MB."""

LONGEST_LINE: Final = 64 << 20
"""Bytes of one line of JSON lines that holds a whole answer."""

# Gaps far below the mean are bursts; a stray one, a late packet, is none.
_IN_BURST: Final = 0.15
_SOME: Final = 0.2


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


def _in_lines(head: bytes) -> bool:
    """Whether each object stands on a line of its own; one that is longer than the head is taken to."""
    if len(head) == HEAD and b"\n" not in head:
        return head.startswith(b"{")
    return any(isinstance(decoded(line), dict) for line in head.splitlines())


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
        self._parts: Parts | None = None
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

        Tools that reformat JSON make one list of them, or several lines of each.

        Raises
        ------
        LimitError : a line is too long.
        """
        if not _in_lines(self.source.head()):
            self._parts = Parts(self.source, [()])
            for number, (_, _, raw) in enumerate(self._parts, 1):
                if isinstance(value := decoded(raw), dict):
                    yield value
                else:
                    self.skip(f"value {number}")
            return
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
        if after_s.size and np.abs(after_s).max() >= LATEST:
            self.skip("a request of many years")
            return
        if made_up(after_s):
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
        name, notes, parts = self.source.name, list(self.findings), parts or self._parts
        if self.cut or (parts is not None and parts.cut):
            self.bad -= self.cut
            notes.append(finding("I001", f"{name} ends in the middle of a value"))
        if parts is not None and parts.defect is not None:
            notes.append(finding("I001", f"{name} is not JSON from byte {parts.defect} on"))
        if self.failed:
            notes.append(finding("I007", f"{name}: {self.failed} requests failed and were left out"))
        if self.bad:
            notes.append(finding("I004", f"{name}: {self.bad} left out, the first is {self.first_bad}"))
        if self._fell:
            notes.append(finding("I003", f"{name}: {self._fell} times were earlier than the one before"))
        if self._seen > self._kept:
            notes.append(finding("I013", f"{name}: the first {self._kept:,} of {self._seen:,} events were kept"))
        told = {key: value for key, value in meta.items() if value is not None}
        return gathered(name, self.streams, notes, self.made_up, **told)
