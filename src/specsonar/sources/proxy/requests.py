"""The client's side of HTTP/1, followed just far enough to find every head: its Host names the upstream.

All else passes as it is. No I/O here.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from typing import Final

MOST_HEAD: Final = 256 << 10
"""Bytes of a request head."""

_END: Final = re.compile(rb"\r?\n\r?\n")
_LINE: Final = re.compile(rb"([!-~]{1,40}) ([!-~]+) HTTP/1\.[01]")
_METHOD: Final = re.compile(rb"[A-Z-]{3,20} [/*h]")
_CHUNK: Final = re.compile(rb"\s*([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\n]*)?\r?\n")
_HTTP2: Final = b"PRI * HTTP/2.0\r\n"
_MOST_CHUNK_LINE: Final = 4096

Step = Callable[[bytes], tuple[bytes, bytes]]


class BadRequestError(Exception):
    """What the client sent cannot be passed on; `status` says why in the terms of HTTP."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class Requests:
    """Rewrites the requests of one connection.

    Parameters
    ----------
    host : value of the Host header, as the upstream expects it.
    prefix : path of the upstream that goes before every path; "" or "/...".
    methods : is given the method of each request. Then answers are to be followed: compressed ones are not asked for,
        and a change of protocol is refused.

    Attributes
    ----------
    waiting : a head has begun and is not complete.
    """

    def __init__(self, host: str, prefix: str = "", methods: deque[bytes] | None = None) -> None:
        self._host = host.encode()
        self._prefix = prefix.rstrip("/").encode()
        self._methods = methods
        self._held = b""
        self._left = 0
        self._step: Step = self._head

    @property
    def waiting(self) -> bool:
        """Whether a head has begun that is not complete."""
        return bool(self._held)

    def feed(self, data: bytes) -> bytes:
        """What to send upstream for `data` of the client.

        Raises
        ------
        BadRequestError : no HTTP, or a head that is too long or cannot be understood.
        """
        data, self._held = self._held + data, b""
        out = []
        while data:
            passed, data = self._step(data)
            out.append(passed)
            if not passed and data:
                self._held = data
                break
        return b"".join(out)

    # Each step takes what it can from the front: what goes upstream, and what is left. Nothing taken: wait for more.

    def _raw(self, data: bytes) -> tuple[bytes, bytes]:
        return data, b""

    def _head(self, data: bytes) -> tuple[bytes, bytes]:
        if data.startswith(_HTTP2[: len(data)]):
            if len(data) < len(_HTTP2):
                return b"", data
            self._step = self._raw
            if self._methods is not None:
                raise BadRequestError(505, "HTTP/2 cannot be hidden here; use HTTP/1.1")
            return data, b""
        found = _END.search(data)
        if not found or found.end() > MOST_HEAD:
            if len(data) > MOST_HEAD:
                raise BadRequestError(431, f"a request head of more than {MOST_HEAD >> 10} KiB")
            if not re.match(rb"[\r\n!-~]", data):
                raise BadRequestError(400, "this is not HTTP; TLS is spoken on the other side only")
            return b"", data
        return self._rewritten(data[: found.end()]), data[found.end() :]

    def _rewritten(self, head: bytes) -> bytes:
        lines = head.lstrip(b"\r\n").split(b"\n")
        line = _LINE.fullmatch(lines[0].rstrip(b"\r"))
        if not line:
            raise BadRequestError(400, "the first line is no HTTP/1 request")
        method, target = line[1], line[2]
        if method == b"CONNECT":
            raise BadRequestError(405, "this proxy stands for one upstream; use its address as the base URL")
        if self._prefix and target.startswith(b"/"):
            lines[0] = lines[0].replace(b" " + target, b" " + self._prefix + target, 1)
        told: dict[bytes, bytes] = {}
        for index, text in enumerate(lines[1:], 1):
            name, colon, value = text.partition(b":")
            name = name.lower()
            if colon and name == b"host":
                lines[index] = text[:5] + b" " + self._host + (b"\r" if text.endswith(b"\r") else b"")
            if colon and name == b"accept-encoding" and self._methods is not None:
                lines[index] = text[:16] + b" identity" + (b"\r" if text.endswith(b"\r") else b"")
            if colon and name in told and name in (b"content-length", b"transfer-encoding", b"host"):
                raise BadRequestError(400, f"two {name.decode()} headers")
            if colon:
                told[name] = value.strip()
        if b"host" not in told:
            lines.insert(1, b"Host: " + self._host + b"\r")
        self._step = self._body(told)
        if self._methods is not None:
            if self._step == self._upgraded:
                raise BadRequestError(501, "a WebSocket cannot be hidden here; only HTTP streams can")
            self._methods.append(method)
        return b"\n".join(lines)

    def _body(self, told: dict[bytes, bytes]) -> Step:
        coding, length = told.get(b"transfer-encoding"), told.get(b"content-length")
        if coding is not None:
            if length is not None or coding.lower().rpartition(b",")[2].strip() != b"chunked":
                raise BadRequestError(400, "the length of the request body is not clear")
            return self._chunk
        if b"upgrade" in told and b"upgrade" in told.get(b"connection", b"").lower():
            return self._upgraded
        if length is None or length == b"0":
            return self._head
        if not re.fullmatch(rb"\d{1,15}", length):
            raise BadRequestError(400, "the length of the request body is not a number")
        self._left = int(length)
        return self._sized

    def _sized(self, data: bytes) -> tuple[bytes, bytes]:
        passed, rest = data[: self._left], data[self._left :]
        self._left -= len(passed)
        if not self._left:
            self._step = self._head
        return passed, rest

    def _chunk(self, data: bytes) -> tuple[bytes, bytes]:
        found = _CHUNK.match(data)
        if not found:
            if len(data) > _MOST_CHUNK_LINE or (b"\n" in data.lstrip()):
                raise BadRequestError(400, "a broken chunk in the request body")
            return b"", data
        size = int(found[1], 16)
        self._left = size
        self._step = self._chunk_data if size else self._trailers
        return data[: found.end()], data[found.end() :]

    def _chunk_data(self, data: bytes) -> tuple[bytes, bytes]:
        passed, rest = data[: self._left], data[self._left :]
        self._left -= len(passed)
        if not self._left:
            self._step = self._chunk
        return passed, rest

    def _trailers(self, data: bytes) -> tuple[bytes, bytes]:
        line, newline, rest = data.partition(b"\n")
        if not newline:
            if len(data) > MOST_HEAD:
                raise BadRequestError(431, "endless trailers")
            return b"", data
        if not line.strip():
            self._step = self._head
        return line + newline, rest

    def _upgraded(self, data: bytes) -> tuple[bytes, bytes]:
        """Frames of a client are masked and do not look like a request; a refused upgrade goes on with one."""
        if len(data) < 24 and re.match(rb"[A-Z-]+ ?$", data):
            return b"", data
        self._step = self._head if _METHOD.match(data) else self._raw
        return self._step(data)
