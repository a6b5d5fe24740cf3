"""HTTP/1 of both directions, for one who only looks on.

h11 speaks for one end of a connection, so there is one of it for each direction, and each is told what its own end
would have said. Its answers are thrown away.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, Protocol

import h11

from ..findings import finding
from ..fingerprint import Finding
from .answer import Answer
from .body import note
from .broken import BrokenError
from .exchange import Exchange, Headers, check, joined
from .http2 import Http2
from .limits import Limits, too_much

_METHODS: Final = (b"POST ", b"GET ", b"PUT ", b"HEAD ", b"DELETE ", b"OPTIONS ", b"PATCH ", b"CONNECT ")
_VERSION: Final = (b"HTTP/1.",)
_TLS: Final = (b"\x16\x03", b"\x17\x03")
_ANY_HOST: Final = [(b"host", b"-"), (b"connection", b"upgrade"), (b"upgrade", b"-")]
"""Headers of the request that stands in for the real one. With these h11 takes a 101 for what it is."""


class After(Protocol):
    """What takes over a connection after HTTP/1 let go of it."""

    def sent(self, t_ns: int, data: bytes) -> None:
        """Bytes of the client."""

    def received(self, t_ns: int, data: bytes, read: int) -> None:
        """Bytes of the server."""

    def closed(self, t_ns: int) -> None:
        """Nothing more comes."""


class Http1:
    """Requests and responses in order, keep-alive and pipelined.

    Parameters
    ----------
    limits : see `Limits`.
    findings, answers : the lists of the connection.
    tunnel : makes what looks on behind a CONNECT.
    """

    def __init__(
        self, limits: Limits, findings: list[Finding], answers: list[Answer], tunnel: Callable[[], After]
    ) -> None:
        self._limits = limits
        self._findings = findings
        self._answers = answers
        self._tunnel = tunnel
        self._waiting: deque[Exchange] = deque()  # asked, the response not complete; the first is being answered
        self._asking: Exchange | None = None  # its request is not complete
        self._requests: h11.Connection | None = None
        self._responses: h11.Connection | None = None
        self._held_sent = b""
        self._held_received = b""
        self._offer: Exchange | None = None  # a request after which another protocol may begin
        self._after: After | None = None
        self._said_why = False  # whether a finding tells already why bytes are left out

    # --- requests ---------------------------------------------------------------------------------------------------

    def sent(self, t_ns: int, data: bytes) -> None:
        """Bytes of the client.

        Raises
        ------
        LimitError : endless headers, too many requests.
        """
        if self._after:
            self._after.sent(t_ns, data)
            return
        self._held_sent += data
        if self._offer and not self._asking:
            if len(self._held_sent) > self._limits.header_bytes:
                raise too_much("what was sent before a change of protocol", self._limits.header_bytes)
            return
        while self._held_sent and not (self._offer and not self._asking):
            if self._requests is None:
                begins = _begins(self._held_sent, _METHODS)
                if not begins:
                    if begins is not None:
                        self._leave_out(self._held_sent)
                        self._held_sent = b""
                    return
                self._requests = h11.Connection(h11.SERVER, self._limits.header_bytes)
            data, self._held_sent = self._held_sent, b""
            try:
                self._read_requests(t_ns, self._requests, data)
            except h11.ProtocolError as exc:
                self._requests, self._asking = None, None
                self._protocol_error(exc, "a request")
                return

    def _read_requests(self, t_ns: int, parser: h11.Connection, data: bytes) -> None:
        parser.receive_data(data)
        while True:
            event = parser.next_event()
            if isinstance(event, h11.Request):
                self._begin(t_ns, event)
            elif isinstance(event, h11.Data) and self._asking:
                self._asking.request(t_ns, bytes(event.data))
            elif isinstance(event, h11.EndOfMessage):
                if self._asking:
                    self._asking.request(t_ns)
                self._asking, self._requests = None, None
                self._held_sent = parser.trailing_data[0]
                return
            else:
                return  # NEED_DATA

    def _begin(self, t_ns: int, event: h11.Request) -> None:
        headers = lower(event.headers)
        check(headers, self._limits)
        if len(self._waiting) >= self._limits.streams:
            raise too_much("the number of unanswered requests", self._limits.streams)
        method = event.method.decode("ascii")
        exchange = Exchange(
            self._limits,
            self._findings,
            self._answers,
            method=method,
            target=event.target.decode("latin-1"),
            headers=headers,
        )
        exchange.request(t_ns)
        self._waiting.append(exchange)
        self._asking = exchange
        if method == "CONNECT" or joined(headers, b"upgrade"):
            self._offer = exchange

    # --- responses --------------------------------------------------------------------------------------------------

    def received(self, t_ns: int, data: bytes, read: int) -> None:
        """Bytes of the server, from the read with this index; raises as `sent` does."""
        if self._after:
            self._after.received(t_ns, data, read)
            return
        self._held_received += data
        while self._held_received and not self._after:
            if self._responses is None:
                begins = _begins(self._held_received, _VERSION)
                if not begins:
                    if begins is not None:
                        self._leave_out(self._held_received)
                        self._held_received = b""
                    return
                self._responses = self._response_parser()
            data, self._held_received = self._held_received, b""
            try:
                self._read_responses(t_ns, self._responses, data, read)
            except h11.ProtocolError as exc:
                self._responses = None
                if self._waiting:
                    self._waiting.popleft().end(t_ns)
                self._protocol_error(exc, "a response")
                return

    def _response_parser(self) -> h11.Connection:
        if not self._waiting:  # the request was not seen
            self._waiting.append(Exchange(self._limits, self._findings, self._answers))
        parser = h11.Connection(h11.CLIENT, self._limits.header_bytes)
        parser.send(h11.Request(method=self._waiting[0].method, target="/", headers=_ANY_HOST))
        parser.send(h11.EndOfMessage())
        return parser

    def _read_responses(self, t_ns: int, parser: h11.Connection, data: bytes, read: int) -> None:
        exchange = self._waiting[0]
        parser.receive_data(data)
        while True:
            event = parser.next_event()
            if isinstance(event, h11.Data):
                exchange.data(t_ns, bytes(event.data), read)
            elif isinstance(event, h11.Response):
                self._head(t_ns, exchange, event)
            elif isinstance(event, h11.InformationalResponse):
                headers = lower(event.headers)
                check(headers, self._limits)
                if event.status_code == 101:
                    after = self._upgrade(exchange, headers)
                    self._switch(t_ns, after, parser.trailing_data[0], read)
                    return
            elif isinstance(event, h11.EndOfMessage):
                exchange.end(t_ns)
                self._waiting.popleft()
                self._responses = None
                self._held_received = parser.trailing_data[0]
                return
            elif event is h11.PAUSED:  # the other end of a CONNECT was reached
                exchange.end(t_ns)
                self._switch(t_ns, self._tunnel(), parser.trailing_data[0], read)
                return
            else:
                return  # NEED_DATA

    def _head(self, t_ns: int, exchange: Exchange, event: h11.Response) -> None:
        headers = lower(event.headers)
        check(headers, self._limits)
        if exchange.method == "CONNECT" and event.status_code < 300:
            return  # the tunnel comes next
        exchange.response(t_ns, event.status_code, headers)
        if exchange is self._offer:
            self._offer = None  # refused
            self.sent(t_ns, b"")

    # --- other protocols, and the end -------------------------------------------------------------------------------

    def _upgrade(self, exchange: Exchange, headers: Headers) -> After:
        name = joined(headers, b"upgrade").lower()
        if name == "h2c":
            after = Http2(self._limits, self._findings, self._answers)
            after.adopt(exchange)
            return after
        if name != "websocket":
            raise BrokenError("the connection changed to a protocol that is not known")
        return exchange.websocket(joined(headers, b"sec-websocket-extensions"))

    def _switch(self, t_ns: int, after: After, rest: bytes, read: int) -> None:
        self._after, self._offer = after, None
        self._waiting.clear()
        held, self._held_sent = self._held_sent, b""
        if held:
            after.sent(t_ns, held)
        if rest:
            after.received(t_ns, rest, read)

    def closed(self, t_ns: int) -> None:
        """The connection ended: that ends a body without a length, and breaks any other off."""
        if self._after:
            self._after.closed(t_ns)
            return
        if self._responses:
            exchange = self._waiting.popleft()
            self._responses.receive_data(b"")
            try:
                self._responses.next_event()
                exchange.end(t_ns)
            except h11.ProtocolError:
                exchange.end(t_ns, "the connection ended in the middle of an answer")
            self._responses = None
        for exchange in self._waiting:
            exchange.end(t_ns)
        self._waiting.clear()

    def _protocol_error(self, exc: h11.ProtocolError, where: str) -> None:
        if exc.error_status_hint == 431:
            raise too_much("a head", self._limits.header_bytes)
        self._said_why = True
        # Its message may quote the bytes, and those may hold a key or a prompt.
        note(self._findings, finding("I015", f"{where} breaks the rules of HTTP/1.1; the rest of it was left out"))

    def _leave_out(self, data: bytes) -> None:
        if not self._said_why:
            self._said_why = True
            what = "encrypted (TLS)" if data.startswith(_TLS) else "not the begin of a request or a response"
            note(self._findings, finding("I018", f"the first bytes of a connection are {what}"))


def lower(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """The headers with their names in lower case, as plain bytes."""
    return [(bytes(name), bytes(value)) for name, value in headers]


def _begins(data: bytes, words: tuple[bytes, ...]) -> bool | None:
    """Whether `data` begins with one of `words`; None while it is too short to tell."""
    if data.startswith(words):
        return True
    return None if any(word.startswith(data) for word in words) else False
