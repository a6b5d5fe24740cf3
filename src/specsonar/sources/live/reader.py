"""One thread that does nothing but wait for sockets, read them and keep what it read with its time.

It shares the interpreter with the program that parses and draws, so it can be kept waiting. The kernel's stamp does
not mind; and it tells by how much the reader was late.
"""

from __future__ import annotations

import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from . import stamps
from .lag import Lag

BLOCK: Final = 65536
"""Bytes of one read at most."""

_QUICK_ACK: Final[int] = getattr(socket, "TCP_QUICKACK", 0)

BOUND: Final = 16 * 1024 * 1024
"""Bytes of one connection that may wait for a consumer. It is minutes of a fast stream; beyond it the sender waits."""


class Read(NamedTuple):
    """What one read of a socket brought: its time on the monotonic axis, and the bytes; b"" is the end."""

    t_ns: int
    data: bytes


class Line:
    """A connected socket and what the reader has read from it.

    `reads` is filled by the reader and emptied by whoever consumes; `ready` is set when something was added, and
    cleared by the consumer that waits on it. Two counters of one writer each need no lock.

    Parameters
    ----------
    kernel : ask for kernel stamps.
    quick : acknowledge at once; see `acknowledge`.
    bound : bytes that may wait.
    """

    def __init__(self, sock: socket.socket, *, kernel: bool = True, quick: bool = True, bound: int = BOUND) -> None:
        sock.setblocking(False)
        self.sock = sock
        self.kernel = kernel and stamps.ask(sock)
        self._quick = quick and _QUICK_ACK > 0
        self.reads: deque[Read] = deque()
        self.ready = threading.Event()
        self.error: OSError | None = None
        self.bound = bound
        self.received = 0
        self.consumed = 0
        self.paused = False

    @property
    def waiting(self) -> int:
        """Bytes that nobody has consumed."""
        return self.received - self.consumed

    def acknowledge(self) -> None:
        """Acknowledge what has come now, not up to 40 ms later.

        A server that did not switch Nagle's algorithm off waits for that before it sends the next small piece, and
        its first steps would come in one lump. Linux forgets the wish whenever something is sent or received.
        """
        if self._quick:
            try:
                self.sock.setsockopt(socket.IPPROTO_TCP, _QUICK_ACK, 1)
            except OSError:
                self._quick = False  # closed meanwhile


class Reader:
    """Reads all lines of a capture in one thread; start it with the first `add`.

    Attributes
    ----------
    lag : how long after the kernel's stamp a read was finished; empty without kernel stamps.
    axis : the mapping of the kernel's stamps.
    unstamped : reads that were stamped by the program's clock.
    pauses : how often a line was not read because its bytes waited for the consumer.
    """

    def __init__(self) -> None:
        self.lag = Lag()
        self.axis = stamps.Axis()
        self.unstamped = 0
        self.pauses = 0
        # The kernel begins to stamp some time after the first socket has asked for it; this one asks early.
        self._first = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        stamps.ask(self._first)
        self._selector = selectors.DefaultSelector()
        self._orders: deque[tuple[Callable[[Line], None], Line]] = deque()
        self._alarm, self._wake = socket.socketpair()
        for end in (self._alarm, self._wake):
            end.setblocking(False)
        self._selector.register(self._alarm, selectors.EVENT_READ)
        self._lines: set[Line] = set()
        self._thread: threading.Thread | None = None
        self._stopped = False
        self._starting = threading.Lock()

    def add(self, line: Line) -> None:
        """Read `line` from now on. Raises RuntimeError after `stop`, as for any closed file."""
        with self._starting:
            if self._stopped:
                line.sock.close()
                raise RuntimeError("the capture is closed")
            self._lines.add(line)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="specsonar-reader", daemon=True)
                self._thread.start()
        self._order(self._watch, line)

    def drop(self, line: Line) -> None:
        """Stop reading `line` and close its socket. Returns at once; the reader's thread does it."""
        self._order(self._close, line)

    def resume(self, line: Line) -> None:
        """Read a paused line again."""
        self._order(self._resume, line)

    def stop(self) -> None:
        """End the thread and close every socket."""
        with self._starting:
            self._stopped = True
        if self._thread is not None:
            self._ring()
            self._thread.join()
        for line in self._lines:
            line.sock.close()
        self._selector.close()
        for own in (self._alarm, self._wake, self._first):
            own.close()

    def _order(self, what: Callable[[Line], None], line: Line) -> None:
        self._orders.append((what, line))
        self._ring()

    def _ring(self) -> None:
        try:
            self._wake.send(b"\0")
        except (BlockingIOError, OSError):
            return  # it is ringing already, or everything is closed

    def _run(self) -> None:
        try:
            while not self._stopped:
                for key, _ in self._selector.select():
                    if key.data is None:
                        self._obey()
                    else:
                        self._take(key.data)
        except BaseException:
            for line in tuple(self._lines):  # nobody may wait for a reader that is gone
                self._end(line, OSError("the reader has failed"))
            raise

    def _obey(self) -> None:
        self._alarm.recv(4096)
        while self._orders:
            what, line = self._orders.popleft()
            what(line)

    def _watch(self, line: Line) -> None:
        self._selector.register(line.sock, selectors.EVENT_READ, line)

    def _close(self, line: Line) -> None:
        self._forget(line)
        self._lines.discard(line)
        line.sock.close()

    def _end(self, line: Line, error: OSError) -> None:
        line.error = error
        line.reads.append(Read(time.perf_counter_ns(), b""))
        line.ready.set()

    def _forget(self, line: Line) -> None:
        try:
            self._selector.unregister(line.sock)
        except (KeyError, ValueError):
            return  # paused, ended, or closed in the same round

    def _resume(self, line: Line) -> None:
        if line.paused and line.sock.fileno() >= 0:
            line.paused = False
            self._watch(line)

    def _take(self, line: Line) -> None:
        """One read, stamped. Nothing is looked at here."""
        clock, wall = time.perf_counter_ns, time.time_ns
        stamp = None
        try:
            if line.kernel:
                data, ancillary, _, _ = line.sock.recvmsg(BLOCK, stamps.SPACE)
                t, w, after = clock(), wall(), clock()
                stamp = stamps.stamp_of(ancillary)
            else:
                data = line.sock.recv(BLOCK)
                t = clock()
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._forget(line)
            self._end(line, error)
            return
        if stamp is not None:
            now, t = t, self.axis.place(stamp, t, w, after)
            self.lag.add(now - t)
        elif data:
            self.unstamped += 1
        line.received += len(data)
        line.reads.append(Read(t, data))
        if not line.ready.is_set():
            line.ready.set()
        if not data:
            self._forget(line)
            return
        line.acknowledge()
        if line.waiting > line.bound:
            self._pause(line)

    def _pause(self, line: Line) -> None:
        self.pauses += 1
        self._forget(line)
        line.paused = True
        if line.waiting <= line.bound // 2:  # consumed between the two looks at it
            self._resume(line)
