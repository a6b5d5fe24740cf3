"""HTTP/2 of both directions, for one who only looks on.

h2's connection object takes part: it answers, keeps windows and refuses what its own side did not ask for. So this
uses the two layers below it, frames (hyperframe) and header compression (hpack), one decoder for each direction.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import hpack
import hyperframe.exceptions
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    Frame,
    HeadersFrame,
    PushPromiseFrame,
    RstStreamFrame,
    SettingsFrame,
)

from ..fingerprint import Finding
from .answer import Answer
from .broken import BrokenError
from .exchange import Exchange, Headers, check, joined
from .limits import Limits, too_much

if TYPE_CHECKING:
    from .websocket import WebSocket

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_HEAD: Final = 9  # bytes of a frame before its body
_TABLE: Final = 1 << 16  # the largest header table that a peer may have us keep


class _Side:
    """One direction: bytes that do not make a frame yet, and the state of header compression."""

    def __init__(self, limits: Limits) -> None:
        self.buffer = bytearray()
        self.decoder = hpack.Decoder(max_header_list_size=limits.header_bytes)
        self.block = bytearray()  # a head whose last frame is still to come
        self.first: HeadersFrame | PushPromiseFrame | None = None


class Http2:
    """Many requests and responses, interleaved.

    Parameters
    ----------
    limits : see `Limits`.
    findings, answers : the lists of the connection.
    """

    def __init__(self, limits: Limits, findings: list[Finding], answers: list[Answer]) -> None:
        self._limits = limits
        self._findings = findings
        self._answers = answers
        self._client = _Side(limits)
        self._server = _Side(limits)
        self._preface = PREFACE
        self._streams: dict[int, Exchange] = {}
        self._sockets: dict[int, WebSocket] = {}
        self._newest = 0  # the highest stream that the client opened

    def adopt(self, exchange: Exchange) -> None:
        """Take over a request that was sent by HTTP/1.1 together with the wish to upgrade; its stream is the first."""
        self._streams[1] = exchange
        self._newest = 1

    def sent(self, t_ns: int, data: bytes) -> None:
        """Bytes of the client.

        Raises
        ------
        BrokenError : they are not HTTP/2, and so no later byte can be read.
        LimitError : frames or headers that are too large, too many streams.
        """
        if self._preface:
            begin, data = data[: len(self._preface)], data[len(self._preface) :]
            if self._preface.startswith(begin):
                self._preface = self._preface[len(begin) :]
            else:  # the begin of the connection was not seen
                self._preface, data = b"", begin + data
        for frame in self._frames(self._client, data):
            self._from_client(t_ns, frame)

    def received(self, t_ns: int, data: bytes, read: int) -> None:
        """Bytes of the server, from the read with this index; raises as `sent` does."""
        for frame in self._frames(self._server, data):
            self._from_server(t_ns, frame, read)

    def closed(self, t_ns: int) -> None:
        """Nothing more comes."""
        for socket in self._sockets.values():
            socket.closed(t_ns)
        for exchange in self._streams.values():
            exchange.end(t_ns, "the connection ended in the middle of an answer")
        self._streams.clear()
        self._sockets.clear()

    # --- frames -----------------------------------------------------------------------------------------------------

    def _frames(self, side: _Side, data: bytes) -> Iterator[Frame]:
        side.buffer += data
        at = 0
        try:
            while len(side.buffer) - at >= _HEAD:
                size = int.from_bytes(side.buffer[at : at + 3], "big")
                if size > self._limits.frame_bytes:
                    raise too_much("an HTTP/2 frame", self._limits.frame_bytes)
                end = at + _HEAD + size
                if len(side.buffer) < end:
                    break
                whole = memoryview(bytes(side.buffer[at:end]))
                at = end
                frame, _ = Frame.parse_frame_header(whole[:_HEAD])
                frame.parse_body(whole[_HEAD:])
                yield frame
        except hyperframe.exceptions.HyperframeError:
            raise BrokenError("a frame breaks the rules of HTTP/2") from None
        finally:
            del side.buffer[:at]

    def _headers(self, side: _Side, frame: Frame) -> tuple[HeadersFrame, Headers] | None:
        """The head that `frame` completes, with the frame that began it; None where it completes none.

        Every head has to be decoded, also of what does not matter: the compression depends on all before.
        """
        if side.first is None:
            if not isinstance(frame, (HeadersFrame, PushPromiseFrame)):
                return None
            side.first = frame
        elif not isinstance(frame, ContinuationFrame) or frame.stream_id != side.first.stream_id:
            raise BrokenError("an HTTP/2 head is not continued")
        side.block += frame.data
        if len(side.block) > self._limits.header_bytes:
            raise too_much("a head", self._limits.header_bytes)
        if "END_HEADERS" not in frame.flags:
            return None
        try:
            pairs = side.decoder.decode(bytes(side.block), raw=True)
        except hpack.OversizedHeaderListError:
            raise too_much("a head", self._limits.header_bytes) from None
        except hpack.HPACKError:
            raise BrokenError("an HTTP/2 head cannot be decompressed") from None
        first, side.first = side.first, None
        side.block.clear()
        headers = [(bytes(name), bytes(value)) for name, value in pairs]
        check(headers, self._limits)
        return (first, headers) if isinstance(first, HeadersFrame) else None

    def _from_client(self, t_ns: int, frame: Frame) -> None:
        number = frame.stream_id
        if head := self._headers(self._client, frame):
            if number > self._newest:
                self._open(t_ns, number, head[1])
        elif isinstance(frame, DataFrame):
            if socket := self._sockets.get(number):
                socket.sent(t_ns, frame.data)
            elif exchange := self._streams.get(number):
                exchange.request(t_ns, frame.data)
        elif isinstance(frame, RstStreamFrame):
            self._end(t_ns, number)
        elif isinstance(frame, SettingsFrame):
            _resize(self._server.decoder, frame)

    def _open(self, t_ns: int, number: int, headers: Headers) -> None:
        if len(self._streams) >= self._limits.streams:
            raise too_much("the number of HTTP/2 streams at once", self._limits.streams)
        protocol = joined(headers, b":protocol")
        exchange = Exchange(
            self._limits,
            self._findings,
            self._answers,
            method=protocol or joined(headers, b":method") or "POST",
            target=joined(headers, b":path"),
            headers=headers,
        )
        exchange.request(t_ns)
        self._streams[number] = exchange
        self._newest = max(self._newest, number)

    def _from_server(self, t_ns: int, frame: Frame, read: int) -> None:
        number = frame.stream_id
        ends = "END_STREAM" in frame.flags
        if head := self._headers(self._server, frame):
            ends = "END_STREAM" in head[0].flags
            self._response(t_ns, number, head[1])
        elif isinstance(frame, DataFrame):
            if socket := self._sockets.get(number):
                socket.received(t_ns, frame.data, read)
            elif exchange := self._streams.get(number):
                exchange.data(t_ns, frame.data, read)
        elif isinstance(frame, RstStreamFrame):
            # Error 0 is how a server ends the rest of a request that it has answered already.
            self._end(t_ns, number, "the server broke an answer off" if frame.error_code else "")
        elif isinstance(frame, SettingsFrame):
            _resize(self._client.decoder, frame)
        if ends and self._server.first is None:
            self._end(t_ns, number)

    def _response(self, t_ns: int, number: int, headers: Headers) -> None:
        status = joined(headers, b":status")
        if not status.isdigit() or status.startswith("1"):
            return  # trailers, or a head before the real one
        if number not in self._streams and (self._preface or number > self._newest):  # the request was not seen
            self._open(t_ns, number, ())
        exchange = self._streams.get(number)
        if exchange is None or exchange.answered:
            return  # the client gave it up, or the server breaks the rules with a second head
        if exchange.method == "websocket" and status == "200":
            self._sockets[number] = exchange.websocket(joined(headers, b"sec-websocket-extensions"))
        else:
            exchange.response(t_ns, int(status), headers)

    def _end(self, t_ns: int, number: int, why: str = "") -> None:
        if socket := self._sockets.pop(number, None):
            socket.closed(t_ns)
        if exchange := self._streams.pop(number, None):
            exchange.end(t_ns, why)


def _resize(decoder: hpack.Decoder, frame: SettingsFrame) -> None:
    """One end's settings say how large a header table the other end may use.

    When the other end begins to obey is not told, so a smaller table is never insisted on.
    """
    size = frame.settings.get(SettingsFrame.HEADER_TABLE_SIZE)
    if size is not None:
        decoder.max_allowed_table_size = max(decoder.max_allowed_table_size, min(size, _TABLE))
