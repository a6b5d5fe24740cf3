"""The way to the upstream: its address, and connections to it with TLS over memory, so that reads keep their stamps."""

from __future__ import annotations

import contextlib
import socket
import ssl
import time
from dataclasses import dataclass
from urllib.parse import urlsplit

from ...errors import UsageError

TIMEOUT_S = 15.0
"""For connecting and for the TLS handshake."""

BLOCK = 1 << 16


@dataclass(frozen=True, slots=True)
class Upstream:
    """Where requests go.

    Attributes
    ----------
    tls : whether TLS is spoken; certificates are verified.
    authority : value of the Host header.
    prefix : path before every path, "" or "/...".
    """

    host: str
    port: int
    tls: bool
    authority: str
    prefix: str

    @classmethod
    def parse(cls, url: str) -> Upstream:
        """From a URL; `http://` may be left out.

        Raises
        ------
        UsageError : it is no URL of a server.
        """
        hint = "for example http://127.0.0.1:8000 or https://api.example.com"
        try:
            parts = urlsplit(url if "://" in url else f"http://{url}")
            port = parts.port
        except ValueError as error:
            raise UsageError(f"the upstream is no URL: {error}", hint) from None
        tls = parts.scheme in ("https", "wss")
        if parts.scheme not in ("http", "https", "ws", "wss") or not parts.hostname:
            raise UsageError(f"the upstream {parts.scheme}://{parts.hostname or ''} is no HTTP server", hint)
        if parts.username or parts.password:
            raise UsageError("a password in the address is not passed on", "let the client send its own key")
        if parts.query or parts.fragment:
            raise UsageError("the upstream has a query or a fragment", hint)
        host = parts.hostname
        shown = f"[{host}]" if ":" in host else host
        authority = shown if port is None else f"{shown}:{port}"
        return cls(host, port or (443 if tls else 80), tls, authority, parts.path.rstrip("/"))

    def __str__(self) -> str:
        return f"{'https' if self.tls else 'http'}://{self.authority}{self.prefix}"


class Line:
    """A connection to the upstream that a loop can read and write without waiting.

    `session` is None without TLS. Use `encrypt` before sending, and `decrypt` after reading.
    """

    def __init__(self, sock: socket.socket, session: Session | None) -> None:
        self.sock = sock
        self.session = session

    @classmethod
    def open(cls, upstream: Upstream, context: ssl.SSLContext | None) -> Line:
        """Connect, and shake hands where TLS is spoken. It waits: call it in a thread of its own.

        Raises
        ------
        OSError : (ssl.SSLError is one) the upstream cannot be reached or is not who it should be.
        """
        sock = socket.create_connection((upstream.host, upstream.port), TIMEOUT_S)
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            session = Session(context, upstream.host) if context else None
            if session:
                session.shake(sock)
            sock.setblocking(False)
        except BaseException:
            sock.close()
            raise
        return cls(sock, session)

    def encrypt(self, data: bytes) -> bytes:
        """What has to be sent for `data`."""
        return self.session.encrypt(data) if self.session else data

    def goodbye(self) -> bytes:
        """What has to be sent before the sending direction is shut."""
        return self.session.goodbye() if self.session else b""


class Session:
    """TLS of one connection, over memory."""

    def __init__(self, context: ssl.SSLContext, host: str) -> None:
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out, server_hostname=host)

    def shake(self, sock: socket.socket) -> None:
        """The handshake, over a socket that waits."""
        end = time.monotonic() + TIMEOUT_S
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                sock.sendall(self._out.read())
                if time.monotonic() > end:
                    raise TimeoutError("the TLS handshake takes too long") from None
                data = sock.recv(BLOCK)
                if not data:
                    raise ConnectionResetError("the connection was closed in the TLS handshake") from None
                self._in.write(data)
            else:
                sock.sendall(self._out.read())
                return

    def encrypt(self, data: bytes) -> bytes:
        """TLS records with `data`, and whatever TLS itself has to say."""
        if data:
            self._tls.write(data)
        return self._out.read()

    def decrypt(self, data: bytes) -> tuple[bytes, bool]:
        """The plain bytes that `data` completes, and whether the other side has said that nothing more will come.

        Raises
        ------
        ssl.SSLError : damaged records.
        """
        self._in.write(data)
        plain = []
        try:
            while piece := self._tls.read(BLOCK):
                plain.append(piece)
        except (ssl.SSLWantReadError, ssl.SSLZeroReturnError) as told:
            return b"".join(plain), isinstance(told, ssl.SSLZeroReturnError)
        return b"".join(plain), True

    def goodbye(self) -> bytes:
        """The record that says that nothing more will be sent."""
        with contextlib.suppress(ssl.SSLError):
            self._tls.unwrap()
        return self._out.read()


def reason(error: OSError) -> str:
    """Why the upstream cannot be reached, in a few words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({error.verify_message})"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed ({error.reason or error})"
    return error.strerror or str(error) or type(error).__name__


def context_of(upstream: Upstream) -> ssl.SSLContext | None:
    """Verified TLS with HTTP/1.1 inside, or None where the upstream speaks none."""
    if not upstream.tls:
        return None
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context
