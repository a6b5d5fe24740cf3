"""What lies between a socket and the bytes of HTTP: nothing, or TLS over memory.

A layer gives reads with their times. TLS is opened where the bytes are consumed, not where they are read: the
reader keeps ciphertext and its stamp, and opening it later changes neither.
"""

from __future__ import annotations

import selectors
import ssl
import threading
import time
from typing import Protocol

from .reader import BLOCK, Line, Read, Reader


class TimedOut(Exception):
    """Nothing could be sent, or nothing came, in time."""


class Deadline:
    """The seconds that are left of a timeout; None is for ever."""

    def __init__(self, timeout: float | None) -> None:
        self._end = None if timeout is None else time.monotonic() + timeout

    @property
    def left(self) -> float | None:
        """Seconds, never below zero."""
        return None if self._end is None else max(self._end - time.monotonic(), 0.0)


class Layer(Protocol):
    """Bytes in and out."""

    line: Line

    def take(self) -> Read | None:
        """The next read that brought something; None when there is none yet. Never waits."""

    def push(self, data: bytes | memoryview, deadline: Deadline) -> None:
        """Send all of it. Raises TimedOut or OSError."""


class Plain:
    """The socket itself."""

    def __init__(self, line: Line, reader: Reader) -> None:
        self.line = line
        self._reader = reader

    def take(self) -> Read | None:
        """The reader's next read."""
        line = self.line
        try:
            read = line.reads.popleft()
        except IndexError:
            return None
        line.consumed += len(read.data)
        if line.paused and line.waiting <= line.bound // 2:
            self._reader.resume(line)
        return read

    def push(self, data: bytes | memoryview, deadline: Deadline) -> None:
        """Send on a socket that does not block, since the reader shares it."""
        view = memoryview(data)
        while view:
            try:
                view = view[self.line.sock.send(view) :]
            except (BlockingIOError, InterruptedError):
                self._wait_for_room(deadline)
        self.line.acknowledge()

    def _wait_for_room(self, deadline: Deadline) -> None:
        with selectors.DefaultSelector() as selector:
            try:
                selector.register(self.line.sock, selectors.EVENT_WRITE)
            except ValueError:  # how a selector calls a closed socket
                raise OSError("closed at this end") from None
            if not selector.select(deadline.left):
                raise TimedOut


class Tls:
    """TLS over another layer, which may be TLS itself (a proxy that is spoken to in TLS)."""

    def __init__(self, below: Layer, context: ssl.SSLContext, server_hostname: str | None) -> None:
        self.line = below.line
        self._below = below
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.object = context.wrap_bio(self._incoming, self._outgoing, server_hostname=server_hostname)
        self._state = threading.RLock()  # one thread may send while another receives; the TLS state is one
        self._sending = threading.Lock()  # records go out in the order in which they were made
        self._last_ns = 0
        self._unopened = self._ended = False
        self._broken: ssl.SSLError | None = None

    def handshake(self, deadline: Deadline) -> None:
        """Agree with the server and check its certificate. Raises ssl.SSLError, OSError or TimedOut."""
        while True:
            try:
                self.object.do_handshake()
                self._unopened = True  # what the server said right after its handshake may be in already
                return self._flush(deadline)
            except ssl.SSLWantReadError:
                self._flush(deadline)
            except ssl.SSLError:
                self._flush(deadline)  # the server is told why
                raise
            self.line.ready.clear()
            while (read := self._below.take()) is None:
                if not self.line.ready.wait(deadline.left):
                    raise TimedOut
                self.line.ready.clear()
            self._feed(read)

    def take(self) -> Read | None:
        """The plaintext that the next read completed. An end without a farewell counts as an end, as in `ssl`.

        Raises ssl.SSLError for a record that cannot be opened.
        """
        with self._state:
            while not self._ended:
                if self._broken is not None:
                    raise self._broken
                if not self._unopened:
                    read = self._below.take()
                    if read is None:
                        return None
                    self._feed(read)
                self._unopened = False
                if data := self._open():
                    return Read(self._last_ns, data)
            return Read(self._last_ns, b"")

    def push(self, data: bytes | memoryview, deadline: Deadline) -> None:
        """Encrypt and send."""
        view = memoryview(data)
        with self._state:
            while view:
                view = view[self.object.write(view) :]
        self._flush(deadline)

    def _feed(self, read: Read) -> None:
        self._last_ns = read.t_ns
        if read.data:
            self._incoming.write(read.data)
        else:
            self._incoming.write_eof()

    def _open(self) -> bytes:
        parts = []
        try:
            while part := self.object.read(BLOCK):
                parts.append(part)
            self._ended = True
        except ssl.SSLWantReadError:
            pass
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
            self._ended = True
        except ssl.SSLError as error:  # what was good before it is still delivered
            self._broken = error
        return b"".join(parts)

    def _flush(self, deadline: Deadline) -> None:
        with self._sending:
            with self._state:
                data = self._outgoing.read()
            if data:
                self._below.push(data, deadline)
