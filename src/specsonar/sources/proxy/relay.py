"""The forwarding process: bytes go on as they come, and a note of each read is left for the recording process.

Nothing is decoded here but the heads of requests, so nothing waits for a decoder. It ends when the recording process
closes its end of the channel, or dies.
"""

from __future__ import annotations

import contextlib
import heapq
import resource
import selectors
import signal
import socket
import sys
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Final

from ..live import stamps
from ..precise import Selector
from . import notes
from .pair import ROOM, Pair
from .requests import BadRequestError, Requests
from .upstream import BLOCK, Line, Upstream, context_of, reason

if TYPE_CHECKING:
    from ..defences import Policy
    from .shield import Shield

READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE

MOST_CLIENTS: Final = 4096
MOST_NOTES: Final = 256 << 20
"""Bytes of notes that may wait for the recording process."""
SWEEP_S: Final = 1.0
HEAD_S: Final = 60.0
"""A client may take this long over the head of a request."""
LINGER_S: Final = 5.0
"""A client is given this long to close after the upstream has."""


class Relay:
    """Serves until the channel ends.

    Parameters
    ----------
    listener : a listening socket.
    channel : takes the notes; its end ends the relay.
    upstream : where requests go.
    policy : how answers are held back; None lets them pass at once.
    """

    def __init__(
        self, listener: socket.socket, channel: socket.socket, upstream: Upstream, policy: Policy | None = None
    ) -> None:
        self._listener, self._channel, self._upstream, self._policy = listener, channel, upstream, policy
        self._alarms: list[tuple[int, int, Pair]] = []
        self._context = context_of(upstream)
        self._selector = Selector()
        self._axis = stamps.Axis()
        self._notes = bytearray()
        self._pairs: set[Pair] = set()
        self._number = 0
        self._opened: deque[tuple[Pair, Line | OSError]] = deque()
        self._bell, self._ring = socket.socketpair()
        for sock in (listener, channel, self._bell, self._ring):
            sock.setblocking(False)
        self._masks: dict[socket.socket, int] = {}

    def run(self) -> None:
        """Serve."""
        self._watch(self._listener, READ, None)
        self._watch(self._channel, READ, None)
        self._watch(self._bell, READ, None)
        swept = time.monotonic()
        while True:
            for key, mask in self._selector.select(self._patience()):
                pair: Pair | None = key.data
                if pair is not None:
                    self._serve(pair, key.fileobj, mask)
                elif key.fileobj is self._listener:
                    self._accept()
                elif key.fileobj is self._bell:
                    self._connected()
                elif mask & READ and not self._channel.recv(BLOCK):
                    self._end()
                    return
            self._ring_alarms()
            if self._notes:
                self._hand_over()
            now = time.monotonic()
            if now - swept > SWEEP_S:
                swept = now
                self._sweep(now)

    # The two directions ---------------------------------------------------------------------------------------------

    def _serve(self, pair: Pair, sock: object, mask: int) -> None:
        if pair.closed:
            return  # closed in this very round
        try:
            if sock is pair.client:
                if mask & READ:
                    self._from_client(pair)
            elif mask & READ:
                self._from_upstream(pair)
            if not pair.closed:
                self._settle(pair)
        except OSError:  # (a TLS error is one) whoever is gone, the other side is told by the end
            self._close(pair)

    def _from_client(self, pair: Pair) -> None:
        try:
            data = pair.client.recv(BLOCK)
        except (BlockingIOError, InterruptedError):
            return
        if not data:
            pair.client_done = True
            return
        if pair.upstream_done:
            return  # it was refused, or the server is through with it
        pair.since = time.monotonic()
        try:
            data = pair.requests.feed(data)
        except BadRequestError as error:
            if pair.asked:  # an answer may be on its way, and ours must not get into it
                self._close(pair)
            else:
                pair.refuse(error.status, error.message)
            return
        if not data:
            return
        t_ns = time.perf_counter_ns()
        if pair.line:
            self._send_up(pair, pair.line.encrypt(data))
        else:
            pair.to_upstream += data
            if not pair.asked:
                pair.asked = True
                threading.Thread(target=self._connect, args=(pair,), daemon=True).start()
        self._note(pair, notes.SENT, t_ns, data)

    def _from_upstream(self, pair: Pair) -> None:
        line = pair.line
        assert line is not None
        try:
            data, t_ns = self._stamped(line.sock)
        except (BlockingIOError, InterruptedError):
            return
        end = not data
        if data and line.session:
            data, end = line.session.decrypt(data)
            if reply := line.encrypt(b""):
                self._send_up(pair, reply)
        if pair.shield:
            self._hold(pair, pair.shield, t_ns, data, end)
        elif data:
            self._send_down(pair, data)
        if data:
            self._note(pair, notes.RECEIVED, t_ns, data)
        pair.upstream_done = pair.upstream_done or end

    def _stamped(self, sock: socket.socket) -> tuple[bytes, int]:
        clock = time.perf_counter_ns
        data, ancillary, _, _ = sock.recvmsg(BLOCK, stamps.SPACE)
        before, wall, after = clock(), time.time_ns(), clock()
        stamp = stamps.stamp_of(ancillary)
        return data, before if stamp is None else self._axis.place(stamp, before, wall, after)

    def _send_down(self, pair: Pair, data: bytes) -> None:
        if pair.to_client:
            pair.to_client += data
            return
        sent = _send(pair.client, data)
        if sent < len(data):
            pair.to_client += data[sent:]

    def _hold(self, pair: Pair, shield: Shield, t_ns: int, data: bytes, end: bool) -> None:
        for piece in (data, b"") if data and end else (data,):  # b"" is the end
            shield.received(t_ns, piece)
        for line in shield.told:
            self._tell(line)
        shield.told.clear()
        pair.upstream_done = pair.upstream_done or shield.closing
        self._let_go(pair, shield)

    def _let_go(self, pair: Pair, shield: Shield) -> None:
        if data := shield.leave(time.perf_counter_ns()):
            self._send_down(pair, data)
        due = shield.due
        if due is not None and due != pair.alarm:
            heapq.heappush(self._alarms, (due, pair.number, pair))
        pair.alarm = due

    def _patience(self) -> float:
        """Seconds to wait for something to happen."""
        if not self._alarms:
            return SWEEP_S
        return min(SWEEP_S, max(self._alarms[0][0] - time.perf_counter_ns(), 0) / 1e9)

    def _ring_alarms(self) -> None:
        while self._alarms and self._alarms[0][0] <= time.perf_counter_ns():
            due, _, pair = heapq.heappop(self._alarms)
            if not pair.closed and pair.shield and due == pair.alarm:  # else something leaves before, or nothing
                pair.alarm = None
                self._let_go(pair, pair.shield)
                self._serve(pair, None, 0)

    def _send_up(self, pair: Pair, data: bytes) -> None:
        assert pair.line is not None
        if pair.to_upstream:
            pair.to_upstream += data
            return
        sent = _send(pair.line.sock, data)
        if sent < len(data):
            pair.to_upstream += data[sent:]

    def _settle(self, pair: Pair) -> None:
        """Send what waits, pass on ends, and say what to look for next."""
        if pair.to_client:
            del pair.to_client[: _send(pair.client, pair.to_client)]
        if pair.line and pair.to_upstream:
            del pair.to_upstream[: _send(pair.line.sock, pair.to_upstream)]
        if pair.upstream_done and not pair.waiting and not pair.client_shut:
            pair.client_shut = True
            pair.since = time.monotonic()
            pair.client.shutdown(socket.SHUT_WR)
        if pair.client_done and not pair.to_upstream and not pair.upstream_shut:
            if pair.line:
                pair.upstream_shut = True
                _send(pair.line.sock, pair.line.goodbye())
                pair.line.sock.shutdown(socket.SHUT_WR)
            elif not pair.asked:
                pair.upstream_done = True
        if pair.client_done and pair.upstream_done and not pair.waiting:
            self._close(pair)
            return
        read = not pair.client_done and len(pair.to_upstream) < ROOM
        self._watch(pair.client, READ * read | WRITE * bool(pair.to_client), pair)
        if pair.line:
            read = not pair.upstream_done and pair.waiting < ROOM
            self._watch(pair.line.sock, READ * read | WRITE * bool(pair.to_upstream), pair)

    def _watch(self, sock: socket.socket, mask: int, pair: Pair | None) -> None:
        before = self._masks.get(sock, 0)
        if mask == before:
            return
        if not before:
            self._selector.register(sock, mask, pair)
        elif mask:
            self._selector.modify(sock, mask, pair)
        else:  # a mask of nothing would still report a connection that was reset, over and over
            self._selector.unregister(sock)
        self._masks[sock] = mask

    def _forget(self, sock: socket.socket) -> None:
        if self._masks.pop(sock, 0):
            self._selector.unregister(sock)
        sock.close()

    # Coming and going -----------------------------------------------------------------------------------------------

    def _accept(self) -> None:
        try:
            client, _ = self._listener.accept()
        except (BlockingIOError, InterruptedError, ConnectionError):
            return
        except OSError as error:  # no more files: wait until a sweep, some may be closed then
            self._watch(self._listener, 0, None)
            self._tell(f"no further client can be taken: {error.strerror or error}")
            return
        self._number += 1
        client.setblocking(False)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        pair = self._pair(client)
        self._pairs.add(pair)
        self._note(pair, notes.OPENED, time.perf_counter_ns())
        if len(self._pairs) > MOST_CLIENTS:
            pair.refuse(503, f"{MOST_CLIENTS} clients are connected already")
        self._serve(pair, client, 0)

    def _pair(self, client: socket.socket) -> Pair:
        where = self._upstream
        if self._policy is None:
            return Pair(self._number, client, Requests(where.authority, where.prefix))
        from .shield import Shield  # only here: numpy takes longer to load than all the rest

        methods: deque[bytes] = deque()
        shield = Shield(self._policy, methods)
        return Pair(self._number, client, Requests(where.authority, where.prefix, methods), shield)

    def _connect(self, pair: Pair) -> None:
        """In a thread of its own, since looking up a name and a handshake take their time."""
        made: Line | OSError
        try:
            made = Line.open(self._upstream, self._context)
        except OSError as error:
            made = error
        except ValueError as error:  # a host name that cannot be one
            made = OSError(str(error))
        self._opened.append((pair, made))
        with contextlib.suppress(OSError):
            self._ring.send(b"\0")

    def _connected(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._bell.recv(BLOCK)
        while self._opened:
            pair, made = self._opened.popleft()
            if pair.closed:
                if isinstance(made, Line):
                    made.sock.close()
                continue
            if isinstance(made, Line):
                stamps.ask(made.sock)
                pair.line = made
                waiting = bytes(pair.to_upstream)
                pair.to_upstream.clear()
                pair.to_upstream += made.encrypt(waiting)
            else:
                message = f"cannot reach {self._upstream}: {reason(made)}"
                self._tell(message)
                pair.refuse(504 if isinstance(made, TimeoutError) else 502, message)
            self._serve(pair, pair.line, 0)

    def _close(self, pair: Pair) -> None:
        pair.closed = True
        self._pairs.discard(pair)
        self._forget(pair.client)
        if pair.line:
            self._forget(pair.line.sock)
        self._note(pair, notes.CLOSED, time.perf_counter_ns())

    def _sweep(self, now: float) -> None:
        for pair in list(self._pairs):
            if pair.client_shut and now - pair.since > LINGER_S:
                self._close(pair)
            elif pair.requests.waiting and not pair.asked and now - pair.since > HEAD_S:
                pair.refuse(408, f"no whole request head within {HEAD_S:.0f} s")
                self._serve(pair, pair.client, 0)
        self._watch(self._listener, READ, None)

    def _end(self) -> None:
        """The recording process wants no more: close everything and hand over the last notes."""
        self._listener.close()
        for pair in list(self._pairs):
            self._close(pair)
        self._channel.setblocking(True)
        with contextlib.suppress(OSError):  # it may have died
            self._channel.sendall(self._notes)

    # Notes ----------------------------------------------------------------------------------------------------------

    def _note(self, pair: Pair, kind: int, t_ns: int, data: bytes = b"") -> None:
        if len(self._notes) > MOST_NOTES and kind in (notes.SENT, notes.RECEIVED) and not pair.lost:
            pair.lost = True
            self._notes += notes.pack(notes.LOST, pair.number, t_ns)
        if not pair.lost or kind == notes.CLOSED:
            self._notes += notes.pack(kind, pair.number, t_ns, data)

    def _tell(self, message: str) -> None:
        self._notes += notes.pack(notes.TOLD, 0, time.perf_counter_ns(), message.encode("utf-8", "replace"))

    def _hand_over(self) -> None:
        """At once: what waits here is lost if the recording process is killed; a batch, when decoded, delays others."""
        del self._notes[: _send(self._channel, self._notes)]
        self._watch(self._channel, READ | WRITE * bool(self._notes), None)


def _send(sock: socket.socket, data: bytes | bytearray) -> int:
    try:
        return sock.send(data)
    except (BlockingIOError, InterruptedError):
        return 0


def main() -> None:
    """Run in the process that `Proxy` started: descriptors of listener and channel, the upstream, the policy."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the recording process decides when it is over
    with contextlib.suppress(OSError, ValueError):
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    listener, channel = (socket.socket(fileno=int(number)) for number in sys.argv[1:3])
    policy = None
    if len(sys.argv) > 4:
        from ..defences import Policy

        policy = Policy.parse(sys.argv[4])
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        Relay(listener, channel, Upstream.parse(sys.argv[3]), policy).run()


if __name__ == "__main__":
    main()
