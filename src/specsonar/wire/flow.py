"""What one captured TCP connection carries, told from its bytes: HTTP of any version, TLS around it, or neither."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from ..errors import LimitError
from ..fingerprint import Finding
from ..trace import Stream
from .answer import Answer
from .connection import Connection
from .limits import Limits
from .recordsizes import RecordSizes
from .tcp import CLIENT, SERVER, Piece
from .tlsdecrypt import KeyLog, Session
from .tlsrecords import APPLICATION, HANDSHAKE, Records, looks_like_record

Harvest = Callable[[list[Answer], list[Finding], Answer | None], None]
"""Gets answers that have ended, what was noticed about their connection, and which answer lacks its begin."""

_REQUEST: Final = re.compile(rb"(?:GET|POST|PUT|PATCH|DELETE|HEAD|OPTIONS) [/h*]|PRI \* HTTP/2")
_ANSWER: Final = b"HTTP/1."
_MANY: Final = 8
_EARLY_END: Final = "I014"

# Thousands of connections may be open in one capture, so each may hold less than a live one.
_LIMITS: Final = Limits(event_bytes=1 << 19, request_bytes=1 << 20, events=500_000)
_HEAD_END: Final = b"\r\n\r\n"

# What a segment begins with where a streamed body goes on: the size of a chunk, or an event.
_CHUNK: Final = re.compile(rb"[0-9a-fA-F]{1,8}\r\n(?:data|event|id|:|\{)")
_EVENT: Final = re.compile(rb"data:|event:|id:|:|\{")


def sender(data: bytes) -> int | None:
    """Which side sends a first payload like `data`; None when that cannot be told."""
    if _REQUEST.match(data):
        return CLIENT
    if data.startswith(_ANSWER):
        return SERVER
    if looks_like_record(data) and data[0] == HANDSHAKE and len(data) > 5:
        return CLIENT if data[5] == 1 else SERVER
    return None


class _Http:
    """HTTP in the clear, or decrypted.

    A hole ends the answers under way, since nobody knows what stood in it. The next message begins anew; a body of
    events that goes on behind the hole is read as an answer without its begin.
    """

    def __init__(self, harvest: Harvest) -> None:
        self._harvest = harvest
        self._connection: Connection | None = None
        self._head = b""
        self._headless: Answer | None = None
        self.seen = False
        self.cut = 0
        self.refused = ""

    def data(self, side: int, t_ns: int, data: bytes, lost: int) -> None:
        """Bytes of one side after `lost` missing ones."""
        if lost and self._connection is not None:
            self.cut += any(not answer.ended for answer in self._connection.answers)
            self.close(t_ns, why_known=True)
        begins = None if looks_like_record(data) else sender(data)
        if begins == side:
            end = data.find(_HEAD_END)
            self._head = data[: end + 4] if side == SERVER and end > 0 else b""
        try:
            if self._connection is None and not self._begin(side, t_ns, data, begins == side):
                return
            assert self._connection is not None
            if side == CLIENT:
                self._connection.sent(t_ns, data)
            else:
                self._connection.received(t_ns, data)
                self._give_ended()
        except LimitError as error:
            self.refused = error.message
            self.close(t_ns, why_known=True)

    def _begin(self, side: int, t_ns: int, data: bytes, is_message: bool) -> bool:
        """Begin to read, with a message or behind a hole; whether either is possible."""
        if not is_message and not (side == SERVER and self._goes_on(data)):
            return False
        self.seen = True
        self._connection = Connection(_LIMITS)
        if not is_message:
            self._connection.received(t_ns, self._head)
            self._headless = next(iter(self._connection.answers), None)
        return True

    def _goes_on(self, data: bytes) -> bool:
        head = self._head.lower()
        if b"content-encoding:" in head or not head:
            return False
        return bool((_CHUNK if b"chunked" in head else _EVENT).match(data))

    def _give_ended(self) -> None:
        """Hand on what is complete, so that a long connection does not keep all its answers."""
        answers = self._connection.answers if self._connection else []
        if (len(answers) > _MANY or (len(answers) > 1 and answers[0].ended)) and (
            ended := [answer for answer in answers if answer.ended]
        ):
            answers[:] = [answer for answer in answers if not answer.ended]
            self._harvest(ended, [], self._headless)

    def close(self, t_ns: int, *, why_known: bool = False) -> None:
        """The connection ends; its answers go where they are gathered. `why_known`: an early end is told elsewhere."""
        if self._connection is not None:
            try:
                self._connection.closed(t_ns)
            except LimitError as error:
                self.refused = error.message
            noticed = [one for one in self._connection.findings if not why_known or one.code != _EARLY_END]
            self._harvest(self._connection.answers, noticed, self._headless)
            self._connection = self._headless = None


class _Tls:
    """TLS: records always, their content where a key log has the secrets."""

    def __init__(self, keys: KeyLog, http: _Http) -> None:
        self._records = (Records(), Records())
        self._session = Session(keys)
        self._http = http
        self._finished = False
        self._reads = 0
        self.opened = False
        self.sizes = RecordSizes()

    def data(self, side: int, t_ns: int, data: bytes, lost: int) -> None:
        """Bytes of one side after `lost` missing ones."""
        plain: list[bytes] = []
        sizes: list[int] = []
        broken = 0
        self._reads += 1
        for record in self._records[side].feed(data, lost):
            if record.kind == APPLICATION:
                broken += record.body is None or record.after_loss
                sizes.append(record.size)
            plain.append(self._session.record(side, record))
        if self.opened:
            sizes.clear()  # the content is there
        if side == CLIENT:
            for size in sizes:
                if self._session.tls13 and not self._finished:
                    self._finished = True  # the first one ends the handshake
                else:
                    self.sizes.request(t_ns, size)
        elif sizes:
            self.sizes.answer(t_ns, self._reads, sizes)
        if text := b"".join(plain):
            self.opened = True
            self._http.data(side, t_ns, text, broken)

    def close(self, t_ns: int) -> None:
        """The connection ends."""
        self._http.close(t_ns)


class Flow:
    """Reads one connection of a capture (a `tcp.Reader`).

    Parameters
    ----------
    keys : secrets to decrypt with; may be empty, and may grow while reading.
    ended : called with this object when the connection has ended.
    harvest : gets answers as soon as they are complete.

    Attributes
    ----------
    is_http, is_tls : what was recognised.
    lost : bytes that were never captured.
    cut : answers or connections that a hole ended.
    refused : why reading was given up, or "".
    """

    def __init__(self, keys: KeyLog, harvest: Harvest, ended: Callable[[Flow], None]) -> None:
        self._keys = keys
        self._http = _Http(harvest)
        self._tls: _Tls | None = None
        self._ended = ended
        self.lost = 0

    @property
    def is_http(self) -> bool:
        """HTTP was read."""
        return self._http.seen

    @property
    def is_tls(self) -> bool:
        """TLS was seen."""
        return self._tls is not None

    @property
    def cut(self) -> int:
        """How often a hole ended what was under way."""
        return self._http.cut

    @property
    def refused(self) -> str:
        """Why reading was given up, or ""."""
        return self._http.refused

    def sizes(self) -> list[Stream]:
        """Streams of times and sizes of a connection that could not be decrypted."""
        return self._tls.sizes.streams() if self._tls and not self._tls.opened else []

    def data(self, side: int, pieces: list[Piece]) -> None:
        """Bytes of one side."""
        for piece in pieces:
            self.lost += piece.lost
            begins = looks_like_record(piece.data) and (not self._http.seen or sender(piece.data) == CLIENT)
            if begins and self._tls is None:  # at once, or through a proxy that was asked to connect
                self._http.close(piece.t_ns, why_known=True)
                self._tls = _Tls(self._keys, self._http)
            (self._tls or self._http).data(side, piece.t_ns, piece.data, piece.lost)

    def close(self, t_ns: int) -> None:
        """The connection ends."""
        (self._tls or self._http).close(t_ns)
        self._ended(self)
