"""A response body: its content-encoding undone, its framing chosen, its events handed to the `Answer`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from ..errors import LimitError
from ..findings import finding
from ..fingerprint import Finding
from .answer import Answer
from .broken import BrokenError
from .encodings import Decoder
from .eventstream import EventStream, is_prelude
from .framing import Event, Framing
from .jsonlines import Lines, Values
from .limits import LIMITS, Limits, too_much
from .sse import Sse

_BOM: Final = b"\xef\xbb\xbf"
_TELLING: Final = 12
"""First bytes of a body that tell its framing: the longest begin that is looked for."""
_ANSWER_KEYS: Final = {
    "choices", "content", "candidates", "message", "response", "generated_text", "output", "text", "text_output",
}  # fmt: skip


class Body:
    """The body of one answer.

    Parameters
    ----------
    answer : gets the events; the time of an event is that of the read that completed it.
    content_type, content_encoding : the response headers. The first bytes overrule the type: servers lie about it.
    limits : see `Limits`.
    findings : where to put what is noticed; by default a list of its own.
    """

    def __init__(
        self,
        answer: Answer,
        content_type: str = "",
        content_encoding: str = "",
        limits: Limits = LIMITS,
        *,
        findings: list[Finding] | None = None,
    ) -> None:
        self.findings: list[Finding] = [] if findings is None else findings
        self._answer = answer
        self._type = content_type.partition(";")[0].strip().lower()
        self._limits = limits
        self._framing: Framing | None = None
        self._head = b""  # the first bytes, while they do not tell the framing
        self._lost = False
        self._events = 0
        self._last = (0, 0)  # time and read of the latest bytes
        self._single: tuple[int, int, object, int, str] | None = None
        try:
            self._decoder = Decoder(content_encoding, limits)
        except BrokenError as exc:
            self._lose(exc)

    def feed(self, t_ns: int, data: bytes, read: int) -> None:
        """Bytes of the body, received at `t_ns` nanoseconds by the read with this index.

        Raises
        ------
        LimitError : the peer sends more than is safe to keep. Later bytes are ignored.
        """
        if self._lost or not data:
            return
        self._last = (t_ns, read)
        try:
            for piece in self._decoder.feed(data):
                self._plain(piece)
        except BrokenError as exc:
            self._lose(exc)
        except LimitError:
            self._lost = True
            raise

    def end(self, t_ns: int) -> None:
        """The body is complete, or nothing more will come."""
        try:
            if not self._lost and self._framing:
                self._events_of(self._framing.end())
        except (BrokenError, LimitError) as exc:  # the end of an answer has to end it
            self._lose(exc)
        if self._single and not self._is_whole(self._single[2]):
            self._answer.event(*self._single)
        self._lost, self._single = True, None
        self._answer.end(t_ns)

    def _plain(self, data: bytes) -> None:
        if self._framing is None:
            # Some servers send blanks to keep the connection alive before they answer.
            self._head = (self._head + data).removeprefix(_BOM).lstrip(b" \t\r\n\x1e")
            self._framing = _choose(self._type, self._head, self._limits)
            if self._framing is None:
                self._lost = len(self._head) > _TELLING  # a page, a metric, a picture: nothing that holds events
                return
            data, self._head = self._head, b""
        self._events_of(self._framing.feed(data))

    def _events_of(self, events: Iterator[Event]) -> None:
        for event in events:
            self._events += 1
            if self._events > self._limits.events:
                raise too_much("the number of events of an answer", self._limits.events)
            if self._events == 1 and self._type == "application/json" and not self._grows():
                # Whether this is a stream under a wrong name or a whole answer in one piece, the next value tells.
                self._single = (*self._last, *event)
                continue
            if self._single:
                self._answer.event(*self._single)
                self._single = None
            t_ns, read = self._last
            self._answer.event(t_ns, read, *event)

    def _grows(self) -> bool:
        """Whether the framing tells that more values are to come."""
        return not isinstance(self._framing, Values) or self._framing.is_array

    def _is_whole(self, value: object) -> bool:
        """Whether `value`, the only one of its body, is a whole answer; that is said and not taken as an event."""
        if not isinstance(value, Mapping) or value.get("error") or not _ANSWER_KEYS & set(value):
            return False
        note(self.findings, finding("I016", "an answer came in one piece, without a stream"))
        return True

    def _lose(self, why: Exception) -> None:
        self._lost = True
        note(self.findings, finding("I015", f"{why}; the rest of the answer was left out"))


def note(findings: list[Finding], one: Finding) -> None:
    """Append `one`, unless the same was said before: a broken server says it in every answer."""
    if one not in findings:
        findings.append(one)


def _choose(content_type: str, head: bytes, limits: Limits) -> Framing | None:
    """The framing of a body that begins with `head`, or None as long as that does not tell.

    More bytes never change the choice, so that it does not depend on how the bytes were cut.
    """
    if content_type == "application/vnd.amazon.eventstream":
        return EventStream(limits)
    if not head or _BOM.startswith(head):
        return None
    if head[:1] in (b"{", b"["):
        return Lines(limits) if re.search(r"ndjson|jsonl|json-seq|stream\+json", content_type) else Values(limits)
    if content_type == "text/event-stream" or head.startswith((b"data:", b"event:", b"id:", b"retry:", b":")):
        return Sse(limits)
    return EventStream(limits) if is_prelude(head) else None
