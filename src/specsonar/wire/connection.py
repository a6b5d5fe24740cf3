"""Both directions of one TCP connection (after TLS), as seen by one who only looks on: bytes in, answers out.

Nothing is ever sent, no clock is read. The HTTP version is told from the first bytes of either side. A protocol error
becomes a finding, and what was read before it stays.
"""

from __future__ import annotations

from typing import Final

from ..errors import LimitError
from ..findings import finding
from ..fingerprint import Finding
from .answer import Answer
from .body import note
from .broken import BrokenError
from .http1 import After, Http1
from .http2 import PREFACE, Http2
from .limits import LIMITS, Limits

_PIECE: Final = 1 << 16
"""Bytes that are looked at together. A read of many short messages would else be copied once for each of them."""
_SETTINGS: Final = (b"\x04\x00", b"\x00\x00\x00\x00")  # kind and flags, stream: the first frame of an HTTP/2 server


class Connection:
    """One connection between a client and a server.

    Parameters
    ----------
    limits : see `Limits`.

    Attributes
    ----------
    answers : in the order of their response heads; over a WebSocket from the first message on. One that answers a GET
        is listed only when it streams. A consumer may remove ended answers.
    findings : what was noticed about the connection; that of an answer is told by `Answer.streams`.
    """

    def __init__(self, limits: Limits = LIMITS) -> None:
        self.answers: list[Answer] = []
        self.findings: list[Finding] = []
        self._limits = limits
        self._protocol: After | None = None
        self._first = b""  # of the client, as long as they do not tell the version
        self._first_received: list[tuple[int, bytes, int]] = []
        self._read = -1
        self._lost = False

    def sent(self, t_ns: int, data: bytes) -> None:
        """Bytes from the client to the server, at `t_ns` nanoseconds.

        Raises
        ------
        LimitError : something is too large to be kept; all that comes later is ignored.
        """
        if self._protocol is None and data and not self._lost:
            self._first += data
            if PREFACE.startswith(self._first):
                return
            data, self._first = self._first, b""
            self._begin(data.startswith(PREFACE))
        self._pass_on(t_ns, data, None)

    def received(self, t_ns: int, data: bytes, read: int | None = None) -> None:
        """Bytes from the server to the client, of one socket read; its index counts up where it is not given.

        Raises
        ------
        LimitError : as `sent`.
        """
        self._read = self._read + 1 if read is None else read
        if self._protocol is None and data and not self._lost:
            self._first_received.append((t_ns, data, self._read))
            begin = b"".join(d for _, d, _ in self._first_received)[:9]
            if len(begin) < 9 and (b"HTTP/1.".startswith(begin) or begin[:1] == b"\0"):
                return
            held, self._first_received = self._first_received, []
            self._begin((begin[3:5], begin[5:9]) == _SETTINGS)
            if self._first:
                first, self._first = self._first, b""
                self._pass_on(t_ns, first, None)
            for when, part, index in held:
                self._pass_on(when, part, index)
            return
        self._pass_on(t_ns, data, self._read)

    def closed(self, t_ns: int) -> None:
        """The connection ended, or nothing more is known of it."""
        protocol, self._protocol, self._lost = self._protocol, None, True
        if protocol:
            protocol.closed(t_ns)

    def _begin(self, is_http2: bool) -> None:
        if is_http2:
            self._protocol = Http2(self._limits, self.findings, self.answers)
        else:
            self._protocol = Http1(self._limits, self.findings, self.answers, self._tunnel)

    def _tunnel(self) -> Connection:
        """What looks on behind a CONNECT; it shares the lists of this one."""
        inner = Connection(self._limits)
        inner.answers, inner.findings = self.answers, self.findings
        return inner

    def _pass_on(self, t_ns: int, data: bytes, read: int | None) -> None:
        if self._lost or self._protocol is None:
            return
        try:
            for at in range(0, len(data), _PIECE):
                piece = data[at : at + _PIECE]
                if read is None:
                    self._protocol.sent(t_ns, piece)
                else:
                    self._protocol.received(t_ns, piece, read)
        except BrokenError as exc:
            note(self.findings, finding("I015", f"{exc}; the rest of the connection was left out"))
            self.closed(t_ns)
        except LimitError:
            self.closed(t_ns)
            raise
