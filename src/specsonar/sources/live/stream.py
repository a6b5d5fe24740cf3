"""httpcore's view of a connection: read, write, start TLS; beside it everything is noted for the recorder."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final, Literal, NamedTuple

import httpcore2

from .layers import Deadline, Layer, Plain, TimedOut, Tls
from .reader import BOUND, Line, Reader

SENT: Final = "sent"
RECEIVED: Final = "received"
CLOSED: Final = "closed"


class Note(NamedTuple):
    """Something that happened on a connection, for the recorder."""

    kind: Literal["sent", "received", "closed"]
    t_ns: int
    data: bytes


class Stream(httpcore2.NetworkStream):
    """One connection from the place of HTTP: above TLS, when there is any.

    Whoever comes first, the HTTP client or the recorder, takes what the reader has read, opens it, and leaves it for
    both: in `_buffer` for the client, in `notes` for the recorder.
    """

    def __init__(self, layer: Layer, reader: Reader, opened: Opened) -> None:
        self._layer = layer
        self._reader = reader
        self._opened = opened
        self._lock = threading.Lock()
        self._buffer = bytearray()
        self._error: OSError | None = None
        self._ended = self._closed = self._untapped = False
        self._speaking = False  # from the first write on, until TLS takes over what comes
        self.notes: deque[Note] = deque()
        self._noted = 0
        self.handed = 0
        """Bytes of `notes` that the recorder has taken; the recorder counts them."""

    # -- what httpcore calls

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Bytes as they come, b"" at the end; raises ReadTimeout or ReadError."""
        deadline, ready = Deadline(timeout), self._layer.line.ready
        while True:
            ready.clear()
            self.collect()
            with self._lock:
                if self._buffer:
                    data = bytes(self._buffer[:max_bytes])
                    del self._buffer[:max_bytes]
                    return data
            if self._error is not None:
                raise httpcore2.ReadError(str(self._error)) from self._error
            if self._ended:
                return b""
            if not ready.wait(deadline.left):
                raise httpcore2.ReadTimeout("nothing came in time")

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Send all of it; raises WriteTimeout or WriteError."""
        if not buffer:
            return
        with self._lock:
            if not self._speaking:
                # A proxy that is asked for a tunnel is not the service.
                self._speaking, self._untapped = True, buffer.startswith(b"CONNECT ")
            self._note(SENT, time.perf_counter_ns(), bytes(buffer))
        try:
            self._layer.push(buffer, Deadline(timeout))
        except TimedOut:
            raise httpcore2.WriteTimeout("the server takes nothing more") from None
        except OSError as error:
            raise httpcore2.WriteError(str(error)) from error

    def close(self) -> None:
        """Close; what was read is still handed to the recorder."""
        if self._closed:
            return
        self.collect()
        with self._lock:
            self._closed = True
            if not self._ended:
                self._end(OSError("closed at this end"), time.perf_counter_ns())
            self._buffer.clear()
        self._layer.line.ready.set()  # for another thread that still waits in `read`
        self._reader.drop(self._layer.line)

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.NetworkStream:
        """The same connection inside TLS; raises ConnectTimeout or ConnectError."""
        with self._lock:
            self._speaking = False
        try:
            layer = Tls(self._layer, ssl_context, server_hostname)
            layer.handshake(Deadline(timeout))
        except TimedOut:
            self.close()
            raise httpcore2.ConnectTimeout("no TLS handshake in time") from None
        except (OSError, ValueError) as error:  # ValueError: a name that no certificate could have
            self.close()
            raise httpcore2.ConnectError(str(error)) from error
        inner = Stream(layer, self._reader, self._opened)
        self._opened(inner, self)
        return inner

    def get_extra_info(self, info: str) -> Any:
        """What httpcore and httpx ask for."""
        sock = self._layer.line.sock
        if info == "ssl_object":
            return getattr(self._layer, "object", None)
        if info == "client_addr":
            return sock.getsockname()
        if info == "server_addr":
            return sock.getpeername()
        if info == "socket":
            return sock
        if info == "is_readable":  # asked of an idle connection: has the server closed it, or said something unasked?
            self.collect()
            return bool(self._buffer) or self._ended
        return None

    # -- what the capture calls

    def collect(self) -> None:
        """Take what the reader has; stop where the client or the recorder has not kept up, and the reader will.

        Any thread may call it. What belongs to a TLS handshake is left to the thread that shakes hands.
        """
        with self._lock:
            while (
                self._speaking and not self._ended and len(self._buffer) <= BOUND and self._noted - self.handed <= BOUND
            ):
                try:
                    read = self._layer.take()
                except OSError as error:  # a TLS record that cannot be opened
                    self._end(error, time.perf_counter_ns())
                    return
                if read is None:
                    return
                if read.data:
                    self._buffer += read.data
                    self._note(RECEIVED, read.t_ns, read.data)
                else:
                    self._end(self._layer.line.error, read.t_ns)

    def _end(self, error: OSError | None, t_ns: int) -> None:
        self._ended, self._error = True, error
        self._note(CLOSED, t_ns)

    def _note(self, kind: Literal["sent", "received", "closed"], t_ns: int, data: bytes = b"") -> None:
        if kind == CLOSED or not self._untapped:
            self._noted += len(data)
            self.notes.append(Note(kind, t_ns, data))


Opened = Callable[[Stream, Stream | None], None]
"""Called with a new stream, and with the one that it goes on from inside TLS."""


class Backend(httpcore2.NetworkBackend):
    """Opens connections that the reader reads.

    Parameters
    ----------
    reader : the thread that reads.
    opened : called with each new stream.
    kernel, quick : of each `Line`.
    """

    def __init__(self, reader: Reader, opened: Opened, *, kernel: bool = True, quick: bool = True) -> None:
        self._reader, self._opened = reader, opened
        self._kernel, self._quick = kernel, quick

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.NetworkStream:
        """As httpcore's own; raises ConnectTimeout or ConnectError."""
        source = None if local_address is None else (local_address, 0)
        try:
            sock = socket.create_connection((host, port), timeout, source_address=source)
            for option in socket_options or ():
                sock.setsockopt(*option)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except TimeoutError as error:
            raise httpcore2.ConnectTimeout(str(error)) from error
        except OSError as error:
            raise httpcore2.ConnectError(str(error)) from error
        line = Line(sock, kernel=self._kernel, quick=self._quick)
        self._reader.add(line)
        stream = Stream(Plain(line, self._reader), self._reader, self._opened)
        self._opened(stream, None)
        return stream
