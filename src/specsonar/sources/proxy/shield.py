"""Answers of one connection, held back until they may leave: the events of a stream when a policy lets them.

Heads, and answers that are no stream, pass as they are. What cannot be followed is refused, rather than passed on as if
it were hidden. No I/O and no clock here.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

import h11
import numpy as np

from ...wire.exchange import joined
from ...wire.http1 import lower
from ..defences import Policy, padding
from .pair import refusal
from .requests import MOST_HEAD

MOST_BLOCK: Final = 1 << 20
"""An event that is longer than this leaves in parts."""

SSE: Final = "text/event-stream"
LINES: Final = ("application/x-ndjson", "application/ndjson", "application/jsonl", "application/stream+json")
OPAQUE: Final = ("application/vnd.amazon.eventstream", "application/grpc", "application/connect")
"""Streams whose events are not to be found here."""

_END: Final = re.compile(rb"\r?\n\r?\n")
_BLANK: Final = re.compile(rb"(?>\r\n|\n|\r)(?>\r\n|\n|\r)")
_NEWLINE: Final = re.compile(rb"\n")


class Blocks:
    """The bytes of a body, cut after each event.

    Parameters
    ----------
    end : what an event ends with.
    """

    def __init__(self, end: re.Pattern[bytes]) -> None:
        self._end = end
        self._part = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Whole events that `data` completes, and parts of one that is too long."""
        looked = max(len(self._part) - 3, 0)
        self._part += data
        begin = 0
        while found := self._end.search(self._part, max(begin, looked)):
            yield bytes(self._part[begin : found.end()])
            begin = found.end()
        del self._part[:begin]
        if len(self._part) > MOST_BLOCK:
            yield self.rest()

    def rest(self) -> bytes:
        """What no end came for."""
        rest = bytes(self._part)
        self._part.clear()
        return rest


def comment(write: bytes, pad: int) -> bytes:
    """A write of server-sent events, filled up with a comment, which clients leave out."""
    end = b"\r\n\r\n" if write.endswith(b"\r\n\r\n") else b"\n\n"
    if not write.endswith((b"\n\n", b"\n\r\n", b"\r\r")):
        return write  # part of an event: a comment would fall into the middle of it
    missing = padding(len(write), pad, least=1 + len(end))
    return write + b":" + b" " * (missing - 1 - len(end)) + end if missing else write


def spaces(write: bytes, pad: int) -> bytes:
    """A write of JSON lines, filled up with spaces before its last line ends."""
    return write[:-1] + b" " * padding(len(write), pad) + b"\n" if write.endswith(b"\n") else write


class _Stream:
    """One answer whose events are held back."""

    def __init__(self, policy: Policy, rng: np.random.Generator, *, lines: bool, chunked: bool) -> None:
        self.timing = policy.timing(rng)
        self.blocks = Blocks(_NEWLINE if lines else _BLANK)
        self.chunked = chunked
        self._pad = policy.pad
        self._fill: Callable[[bytes, int], bytes] = spaces if lines else comment

    def wrap(self, write: bytes) -> bytes:
        """What goes to the client for events that leave together."""
        body = self._fill(write, self._pad) if self._pad else write
        return b"%x\r\n%s\r\n" % (len(body), body) if self.chunked else body


class Shield:
    """Answers in, and out again when they may leave.

    Parameters
    ----------
    policy : when events leave and how large a write is.
    methods : of the requests that were sent, in order; each answer takes one away.
    rng : chance of the policy; None for one that nobody can foretell.

    Attributes
    ----------
    waiting : bytes that are held.
    told : lines for people.
    closing : the connection ends when everything has left.
    """

    def __init__(self, policy: Policy, methods: deque[bytes], rng: np.random.Generator | None = None) -> None:
        self.waiting = 0
        self.told: list[str] = []
        self.closing = False
        self._policy, self._methods, self._rng = policy, methods, rng or np.random.default_rng()
        self._items: deque[tuple[_Stream | None, bytes]] = deque()
        self._parser: h11.Connection | None = None
        self._raw = bytearray()
        self._headed = False
        self._stream: _Stream | None = None

    # What comes -----------------------------------------------------------------------------------------------------

    def received(self, t_ns: int, data: bytes) -> None:
        """Bytes of the server, which came at `t_ns`; b"" for the end of the connection."""
        while not self.closing:
            if self._parser is None:
                if not data:
                    return
                self._parser = h11.Connection(h11.CLIENT, MOST_HEAD)
                method = self._methods.popleft() if self._methods else b"GET"
                self._parser.send(h11.Request(method=method, target="/", headers=[("host", "-")]))
                self._parser.send(h11.EndOfMessage())
            try:
                self._parser.receive_data(data)
                self._raw += data
                data = self._follow(t_ns, self._parser)
            except h11.ProtocolError:
                self._give_up(t_ns, "an answer breaks the rules of HTTP/1.1")
            if not data:
                return

    def _follow(self, t_ns: int, parser: h11.Connection) -> bytes:
        """Take what is complete; what is left of the bytes after the end of an answer."""
        while True:
            event = parser.next_event()
            if isinstance(event, h11.Data):
                if self._stream:
                    self._take(t_ns, self._stream.blocks.feed(bytes(event.data)))
            elif isinstance(event, h11.InformationalResponse):
                self._put(None, self._cut_head())
            elif isinstance(event, h11.Response):
                head = self._cut_head()
                if reason := self._judge(event):
                    self._give_up(t_ns, reason)
                    return b""
                self._headed = True
                self._put(None, head)
            elif isinstance(event, h11.EndOfMessage):
                rest = parser.trailing_data[0]
                if self._stream:
                    self._finish(t_ns, self._stream, event)
                else:
                    self._put(None, bytes(self._raw[: len(self._raw) - len(rest)]))
                self._raw.clear()
                self._parser, self._stream, self._headed = None, None, False
                return rest
            else:
                if self._headed:
                    if not self._stream:
                        self._put(None, bytes(self._raw))
                    self._raw.clear()
                return b""

    def _cut_head(self) -> bytes:
        found = _END.search(self._raw)
        end = found.end() if found else len(self._raw)
        head = bytes(self._raw[:end])
        del self._raw[:end]
        return head

    def _judge(self, response: h11.Response) -> str | None:
        """Choose how the answer passes; a reason where it must not."""
        headers = lower(response.headers)
        kind = joined(headers, b"content-type").partition(";")[0].strip().lower()
        coding = joined(headers, b"content-encoding").strip().lower()
        sized, chunked = joined(headers, b"content-length"), joined(headers, b"transfer-encoding")
        if kind.startswith(OPAQUE):
            return f"a stream of {kind} cannot be hidden"
        if kind != SSE and kind not in LINES:
            if not sized and kind == "application/json":
                self.told.append("an answer of application/json without a length passed as it was; is it a stream?")
            return None
        if coding not in ("", "identity"):
            return f"the server compressed its stream ({coding}), which was not asked for; it cannot be hidden"
        if sized and self._policy.pad:
            return "the stream has a fixed length, so it cannot be padded"
        self._stream = _Stream(self._policy, self._rng, lines=kind in LINES, chunked=bool(chunked))
        return None

    def _take(self, t_ns: int, blocks: Iterator[bytes]) -> None:
        assert self._stream is not None
        for block in blocks:
            self._stream.timing.take(t_ns)
            self._put(self._stream, block)

    def _finish(self, t_ns: int, stream: _Stream, event: h11.EndOfMessage) -> None:
        if rest := stream.blocks.rest():
            self._take(t_ns, iter((rest,)))
        if stream.chunked:
            trailers = b"".join(b"%s: %s\r\n" % (name, value) for name, value in event.headers)
            self._put(None, b"0\r\n" + trailers + b"\r\n")

    def _give_up(self, t_ns: int, reason: str) -> None:
        """Refuse the answer; where it has begun there is nothing to be said any more, so it breaks off."""
        self.told.append(f"refused: {reason}")
        if self._stream and (rest := self._stream.blocks.rest()):
            self._take(t_ns, iter((rest,)))
        if not self._headed:
            self._put(None, refusal(502, reason))
        self.closing = True

    def _put(self, stream: _Stream | None, data: bytes) -> None:
        if data:
            self._items.append((stream, data))
            self.waiting += len(data)

    # What leaves ----------------------------------------------------------------------------------------------------

    @property
    def due(self) -> int | None:
        """When something may leave next; None when nothing waits."""
        if not self._items:
            return None
        stream = self._items[0][0]
        return 0 if stream is None else stream.timing.due()

    def leave(self, now_ns: int) -> bytes:
        """What may leave by now."""
        out = bytearray()
        while (due := self.due) is not None and due <= now_ns:
            stream = self._items[0][0]
            out += self._pop() if stream is None else stream.wrap(self._together(stream, due))
        return bytes(out)

    def _pop(self) -> bytes:
        _, data = self._items.popleft()
        self.waiting -= len(data)
        return data

    def _together(self, stream: _Stream, due: int) -> bytes:
        """The events of `stream` that leave in one write."""
        write = bytearray()
        while self._items and self._items[0][0] is stream and stream.timing.due() == due:
            write += self._pop()
            stream.timing.leave()
        return bytes(write)
