"""WebSocket frames of both directions, as seen by one who only looks on (RFC 6455, RFC 7692)."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Final

from websockets.exceptions import InvalidHeader, PayloadTooBig
from websockets.extensions.permessage_deflate import PerMessageDeflate
from websockets.frames import Frame, Opcode
from websockets.headers import parse_extension
from websockets.protocol import CLIENT, SERVER, Protocol, Side

from .broken import BrokenError
from .conversation import Conversation
from .limits import Limits, too_much

_SILENT: Final = logging.Logger("specsonar.websocket", logging.CRITICAL + 1)
_MESSAGE: Final = (Opcode.TEXT, Opcode.BINARY, Opcode.CONT)


class WebSocket:
    """The bytes after the handshake; whole messages go to a `Conversation`.

    Parameters
    ----------
    conversation : gets the messages.
    extensions : the `Sec-WebSocket-Extensions` header of the response.
    limits : see `Limits`.
    """

    def __init__(self, conversation: Conversation, extensions: str, limits: Limits) -> None:
        self._conversation = conversation
        told = _deflate_parameters(extensions)
        self._client = _Messages(SERVER, told, limits)
        self._server = _Messages(CLIENT, told, limits)

    def sent(self, t_ns: int, data: bytes) -> None:
        """Bytes of the client.

        Raises
        ------
        BrokenError : they break the rules.
        LimitError : a message is too large.
        """
        for message in self._client.feed(data):
            self._conversation.sent(t_ns, message)

    def received(self, t_ns: int, data: bytes, read: int) -> None:
        """Bytes of the server; raises as `sent` does."""
        for message in self._server.feed(data):
            self._conversation.received(t_ns, message, read)

    def closed(self, t_ns: int) -> None:
        """Nothing more comes."""
        self._conversation.closed(t_ns)


class _Messages:
    """One direction. `side` is the end that receives it: what it would answer (pongs) is thrown away."""

    def __init__(self, side: Side, deflate: dict[str, str | None] | None, limits: Limits) -> None:
        self._limit = limits.event_bytes
        self._protocol = Protocol(side, max_size=limits.event_bytes, logger=_SILENT)
        self._part = bytearray()
        if deflate is not None:
            sender = "server" if side is CLIENT else "client"
            self._protocol.extensions = [
                PerMessageDeflate(
                    remote_no_context_takeover=f"{sender}_no_context_takeover" in deflate,
                    local_no_context_takeover=True,
                    remote_max_window_bits=_bits(deflate.get(f"{sender}_max_window_bits")),
                    local_max_window_bits=15,
                )
            ]

    def feed(self, data: bytes) -> Iterator[bytes]:
        self._protocol.receive_data(data)
        self._protocol.data_to_send()
        for frame in self._protocol.events_received():
            assert isinstance(frame, Frame), "the handshake was seen to by HTTP"
            if frame.opcode in _MESSAGE:
                self._part += frame.data
                if frame.fin:
                    message = bytes(self._part)
                    self._part.clear()
                    yield message
        if isinstance(self._protocol.parser_exc, PayloadTooBig):
            raise too_much("a WebSocket message", self._limit)
        if self._protocol.parser_exc:
            raise BrokenError("a WebSocket frame breaks the rules of RFC 6455")


def _deflate_parameters(extensions: str) -> dict[str, str | None] | None:
    """Parameters of permessage-deflate, or None where it was not agreed on."""
    try:
        agreed = parse_extension(extensions) if extensions else []
    except InvalidHeader:
        raise BrokenError("the WebSocket extensions that the server chose cannot be read") from None
    return next((dict(parameters) for name, parameters in agreed if name == "permessage-deflate"), None)


def _bits(told: str | None) -> int:
    return int(told) if told in [str(n) for n in range(8, 16)] else 15
