"""Traces of curl: `curl -N --trace FILE --trace-time URL`, or `--trace-ascii`.

    14:48:44.385158 <= Recv data, 330 bytes (0x14a)
    0000: 143
    0005: data: {"id":"chatcmpl-1583ee2cf1dd", ...

Each block is one read. The ascii form shows 64 bytes a line, ends a line at CRLF and swallows it, and shows every other
control character and every byte beyond ASCII as a dot; offsets give the exact lengths back. Only line feeds matter
to us, and they stand where JSON ends, so they are put back there.
"""

from __future__ import annotations

import re
from typing import Final

from ..bytefile import ByteFile
from ..errors import FormatError, LimitError
from ..findings import finding
from ..trace import Trace
from ..wire.answer import Answer
from ..wire.body import Body
from ..wire.connection import Connection
from ..wire.values import payload
from .answers import add_answers
from .gather import Gathered
from .refusals import no_times, refuse_gaps

NAME: Final = "curl trace"
LOOKS: Final = "text; blocks that begin like `14:48:44.385158 <= Recv data, 330 bytes (0x14a)`"

_STAMP: Final = rb"(?P<h>\d\d):(?P<m>\d\d):(?P<s>\d\d)\.(?P<us>\d{6}) "
_IDS: Final = rb"(?:\[(?P<ids>[^\]\n]{1,40})\] )?"
_BLOCK: Final = re.compile(
    _STAMP
    + _IDS
    + rb"(?P<arrow>=>|<=|==) (?P<what>(?:Send|Recv) (?:SSL )?\w+|Info)(?:, (?P<n>\d+) bytes? \(0x[0-9a-f]+\)|:)"
)
_UNTIMED: Final = re.compile(rb"(?:\[[^\]\n]{1,40}\] )?(?:== Info:|(?:=>|<=) (?:Send|Recv) \w+)")
_VERBOSE: Final = re.compile(_STAMP + _IDS + rb"[*<>{}] ")
_LINE: Final = re.compile(rb"([0-9a-f]{4,}): ")
_HEX: Final = re.compile(rb"(?:[0-9a-f]{2} ){1,16}(?=.{1,16}$|  )")

_CHUNK: Final = re.compile(rb"[0-9a-fA-F]{1,8}[ \t]*(?:;[^\r\n]*)?\r\n")

_DAY_US: Final = 86_400_000_000
_MOST: Final = 1 << 24

# Where a dot of the ascii form was a line feed: after the JSON of an event, and before the next field of its event.
_LINE_FEEDS: Final = re.compile(
    rb"(?<=[}\]])\.\.(?=data:|event:|id:|:|\r\n|$)|(?<=[}\]])\.(?=\{|\r\n|$)|\.(?=data: ?[{\[])"
)


def sniff(head: bytes) -> float:
    """How much `head` looks like this format, 0 to 1."""
    head = head.lstrip()
    return 0.95 if any(form.match(head) for form in (_BLOCK, _UNTIMED, _VERBOSE)) else 0.0


def read(source: ByteFile, *, unit: str | None = None, gaps: bool = False) -> Trace:
    """Read all answers of a trace. Times count from the midnight before its first line.

    Raises
    ------
    UsageError : `gaps` was asked for. FormatError : nothing was received.
    """
    refuse_gaps(gaps)
    head = source.head().lstrip(b"\xef\xbb\xbf \r\n")
    if _VERBOSE.match(head):
        return no_times(
            source,
            "is what `curl -v --trace-time` prints: one line for the first read, none for the others",
            "use `curl -N --trace-ascii FILE --trace-time` instead of -v",
        )
    if not _BLOCK.match(head):
        return no_times(source, "is a curl trace without times", "add --trace-time to curl's options")
    gathered = Gathered(source)
    transfers = _Transfers(gathered)
    parser = _Parser(transfers)
    for block in source.blocks():
        parser.lines(block)
    parser.end()
    transfers.end()
    if source.open_end and parser.cut:
        gathered.findings.append(finding("I001", f"{source.name} ends inside a block"))
    if not transfers.received and not gathered.streams:
        raise FormatError(f"{source.name} is a curl trace in which nothing was received", "the transfer failed")
    return gathered.trace()


class _Parser:
    """Lines to blocks."""

    def __init__(self, transfers: _Transfers) -> None:
        self._transfers = transfers
        self._us = 0
        self._open: tuple[int, bytes, bytes, int] | None = None  # time, ids, what, size
        self._data = bytearray()
        self._ascii: bool | None = None
        self.cut = False

    def lines(self, text: bytes) -> None:
        """Whole lines."""
        for line in text.replace(b"\r\n", b"\n").split(b"\n"):
            if (found := _BLOCK.match(line)) is not None:
                self.end()
                size = int(found["n"] or 0)
                if found["arrow"] != b"==" and size <= _MOST:
                    self._open = (self._time(found) * 1000, found["ids"] or b"", found["what"], size)
                    self._data.clear()
            elif self._open is not None:
                self._content(line)

    def _time(self, found: re.Match[bytes]) -> int:
        us = (int(found["h"]) * 3600 + int(found["m"]) * 60 + int(found["s"])) * 1_000_000 + int(found["us"])
        day = self._us - self._us % _DAY_US
        if day + us < self._us - _DAY_US // 2:  # past midnight
            day += _DAY_US
        self._us = max(self._us, day + us)
        return day + us

    def _content(self, line: bytes) -> None:
        assert self._open is not None
        size = self._open[3]
        mark = _LINE.match(line)
        if mark is None or len(self._data) >= size:
            return  # the body itself, where trace and body go to the same place
        at = int(mark[1], 16)
        if at == len(self._data) + 2:
            self._data += b"\r\n"
        if at != len(self._data):
            return
        shown = line[mark.end() :]
        if self._ascii is None:  # one form in the whole file; its first line is a request or a handshake
            self._ascii = not _HEX.match(shown)
        if self._ascii:
            self._data += shown[: min(64, size - at)]
        elif (pairs := _HEX.match(shown)) is not None:
            self._data += bytes.fromhex(pairs[0].decode())[: size - at]

    def end(self) -> None:
        """The block is complete."""
        if self._open is None:
            return
        t_ns, ids, what, size = self._open
        self._open = None
        data = bytes(self._data)
        if len(data) == size - 2:
            data += b"\r\n"
        self.cut = len(data) != size
        if self._ascii:
            data = _LINE_FEEDS.sub(lambda found: b"\n" * len(found[0]), data)
        self._transfers.block(t_ns, ids, what, data)


class _Transfers:
    """Blocks to answers. A request begins a transfer; without ids there is one at a time."""

    def __init__(self, gathered: Gathered) -> None:
        self._gathered = gathered
        self._open: dict[bytes, _Transfer] = {}
        self.received = False

    def block(self, t_ns: int, ids: bytes, what: bytes, data: bytes) -> None:
        """One block."""
        if what not in (b"Send header", b"Send data", b"Recv header", b"Recv data"):
            return
        transfer = self._open.get(ids)
        if what == b"Send header" and (transfer is None or transfer.answered):
            self._end(ids)
            if len(self._open) > 1000:
                self._end(next(iter(self._open)))
            transfer = self._open[ids] = _Transfer()
        if transfer is None:
            transfer = self._open[ids] = _Transfer()
        self.received = self.received or what.startswith(b"Recv")
        try:
            getattr(transfer, what.decode().replace(" ", "_").lower())(t_ns, data)
        except LimitError as error:
            self._gathered.skip(error.message)
            self._end(ids)

    def end(self) -> None:
        """The trace is complete."""
        for ids in list(self._open):
            self._end(ids)

    def _end(self, ids: bytes) -> None:
        if (transfer := self._open.pop(ids, None)) is not None:
            add_answers(self._gathered, transfer.end(), 1000)


class _Transfer:
    """One request and its answer."""

    def __init__(self) -> None:
        self._sent: list[tuple[int, bytes]] = []
        self._kept = 0
        self._head = bytearray()
        self._head_ns = 0
        self._connection: Connection | None = None
        self._answer: Answer | None = None
        self._body: Body | None = None
        self._reads = 0
        self._last_ns = 0
        self.answered = False

    def send_header(self, t_ns: int, data: bytes) -> None:
        """Part of the request head."""
        self._kept += len(data)
        if self._kept < _MOST:
            self._sent.append((t_ns, data))

    send_data = send_header

    def recv_header(self, t_ns: int, data: bytes) -> None:
        """Part of the response head; curl gives it line by line."""
        self.answered = True
        if data.startswith(b"HTTP/") and self._head.endswith(b"\r\n\r\n"):
            self._head.clear()  # the one before was an interim answer
        if len(self._head) < _MOST:
            self._head += data
        self._head_ns = self._last_ns = t_ns

    def recv_data(self, t_ns: int, data: bytes) -> None:
        """One read of the response body."""
        self._last_ns = t_ns
        if self._connection is None and self._body is None:
            self._begin(data)
        if self._connection is not None:
            self._connection.received(t_ns, data)
        elif self._body is not None:
            self._body.feed(t_ns, data, self._reads)
        self._reads += 1

    def end(self) -> list[Answer]:
        """The answers, complete or not."""
        if self._connection is not None:
            self._connection.closed(self._last_ns)
            return self._connection.answers
        if self._body is not None:
            self._body.end(self._last_ns)
        return [self._answer] if self._answer is not None else []

    def _begin(self, first: bytes) -> None:
        """HTTP/1 chunks come with their sizes and are left to the parser of connections; else curl took them off."""
        lines = bytes(self._head).split(b"\r\n")
        status = re.match(rb"HTTP/(\S+) (\d{3})", lines[0])
        headers = {
            name.decode("latin-1").strip().lower(): value.decode("latin-1").strip()
            for name, colon, value in (line.partition(b":") for line in lines[1:])
            if colon
        }
        chunked = "chunked" in headers.get("transfer-encoding", "") and _CHUNK.match(first)
        if chunked or (status and status[2] == b"101"):
            self._connection = Connection()
            for t_ns, data in self._sent:
                self._connection.sent(t_ns, data)
            self._connection.received(self._head_ns, bytes(self._head))
            return
        sent = b"".join(data for _, data in self._sent)
        request_head, _, request = sent.partition(b"\r\n\r\n")
        words = request_head.split(b" ", 2)
        settings = payload(request)
        self._answer = Answer(
            settings if isinstance(settings, dict) else None,
            url=words[1].decode("latin-1") if len(words) > 1 else "",
            headers=headers,
            status=int(status[2]) if status else None,
            start_ns=self._sent[-1][0] if self._sent else None,
        )
        self._body = Body(self._answer, headers.get("content-type", ""), headers.get("content-encoding", ""))
