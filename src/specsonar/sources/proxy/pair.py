"""One client, its connection upstream, and what waits between them."""

from __future__ import annotations

import json
import socket
import time
from typing import TYPE_CHECKING

from .requests import Requests
from .upstream import Line

if TYPE_CHECKING:
    from .shield import Shield

ROOM = 4 << 20
"""Bytes that may wait for a slow reader before the other side is not read any more."""


class Pair:
    """A client and the upstream that it is connected with.

    Attributes
    ----------
    to_client, to_upstream : what could not be sent yet; plain bytes as long as there is no `line`.
    asked : the connection upstream was begun.
    client_done, upstream_done : nothing more comes from there.
    client_shut, upstream_shut : nothing more is sent there.
    shield : holds answers back until they may leave; None where they pass at once.
    alarm : when the shield is to be asked next, nanoseconds; None when it holds nothing.
    lost : its notes are left out, since the recording process is too far behind.
    """

    def __init__(self, number: int, client: socket.socket, requests: Requests, shield: Shield | None = None) -> None:
        self.number = number
        self.client = client
        self.requests = requests
        self.shield = shield
        self.alarm: int | None = None
        self.line: Line | None = None
        self.to_client = bytearray()
        self.to_upstream = bytearray()
        self.asked = self.closed = self.lost = False
        self.client_done = self.upstream_done = False
        self.client_shut = self.upstream_shut = False
        self.since = time.monotonic()
        """When the client last began or completed something; for the timeouts."""

    @property
    def waiting(self) -> int:
        """Bytes for the client that could not be sent yet, or may not be."""
        return len(self.to_client) + (self.shield.waiting if self.shield else 0)

    def refuse(self, status: int, message: str) -> None:
        """Answer the client ourselves, and let it go."""
        self.to_client += refusal(status, message)
        self.to_upstream.clear()
        self.upstream_done = True


def refusal(status: int, message: str) -> bytes:
    """An answer of the proxy itself, after which the connection is closed."""
    body = json.dumps({"error": {"message": f"specsonar proxy: {message}", "type": "proxy_error"}}).encode()
    head = f"HTTP/1.1 {status} {_WORDS.get(status, 'Error')}\r\nContent-Type: application/json\r\n"
    head += f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return head.encode() + body


_WORDS = {
    400: "Bad Request",
    405: "Method Not Allowed",
    408: "Request Timeout",
    431: "Request Header Fields Too Large",
    502: "Bad Gateway",
    501: "Not Implemented",
    503: "Service Unavailable",
    504: "Gateway Timeout",
    505: "HTTP Version Not Supported",
}
