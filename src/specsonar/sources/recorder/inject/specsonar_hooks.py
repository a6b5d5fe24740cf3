"""Hooks on the sockets of the recorded program: what HTTP clients send and receive, and when, goes to the recorder.

Sockets, not libraries, so that every client library is seen, sync or async. The kernel's stamp of arrival is used
where there is one, so that a program that reads late does not move the times. The standard library only, and of that
only what is cheap; no error of ours may reach the program.
"""

from __future__ import annotations

import os
import struct
import sys
import time

TYPE_CHECKING = False  # type checkers take it for true; `typing` would cost the program more than all the rest
if TYPE_CHECKING:
    from typing import Any

    Socket = Any

OPENED, SENT, RECEIVED, CLOSED, LOST, PULLED = 0, 1, 2, 3, 4, 7
"""Kinds of notes, as in `sources.proxy.notes`. PULLED: received, but it had been waiting for the program."""

HEAD = struct.Struct("!BIqI")
MOST_HELD = 64 << 20
"""Bytes that may wait for the recorder; the program does not wait for it."""
AT_ONCE_NS = 30_000
"""A read that took no longer did not wait for the network."""
LATE_NS = 2_000_000
"""Bytes that are read, or decrypted, so much later than they came had been waiting for the program."""

_REQUESTS = (b"GET ", b"POST ", b"PUT ", b"PATCH ", b"DELETE ", b"HEAD ", b"OPTIONS ", b"CONNECT ", b"PRI * HTTP/2")
_PEEK = 1 << 16
_STAMPS = 35  # SO_TIMESTAMPNS, which Python names in few versions
_RECORD = struct.Struct("!BHH")  # head of a TLS record: type, version, length


class Recorder:
    """The connection to the recording process, and the connections that are recorded."""

    def __init__(self, place: str, module: Any) -> None:
        self._place = place
        self._socket = module
        self._base = module.SocketType  # the type below `socket.socket`, whose methods are not ours
        self._linux = sys.platform.startswith("linux")
        self._channel: Any = None
        self._reset()

    def _reset(self) -> None:
        """At the start, and in a forked child, which must not write into the parent's connection."""
        import _thread
        import weakref

        if self._channel is not None:
            self._channel.close()
        self._lines: Any = weakref.WeakKeyDictionary()
        self._lock = _thread.RLock()
        self._local = _thread._local()
        self._channel = None
        self._held = bytearray()
        self._number = 0
        self._busy = self._dead = False

    # What the hooks call ---------------------------------------------------------------------------------------------

    def sent(self, sock: Socket, t_ns: int, data: bytes) -> None:
        """Bytes are sent since `t_ns`; the first tell whether this is a client of HTTP."""
        line = self._lines.get(sock)
        if line is None:
            if not data:
                return
            line = self._lines[sock] = self._open(sock) if data.startswith(_REQUESTS) else self._other(sock, data)
        if line:
            self._note(SENT, line[0], t_ns, data)

    def before(self, sock: Socket) -> int | None:
        """Called before a read of a plain socket: arrival of what is waiting, or None."""
        return self._arrival(sock, _PEEK) if self._linux else None

    def received(self, sock: Socket, data: bytes, begin: int, arrival: int | None, at_once: bool) -> None:
        """A read is done that the program began at `begin`; `at_once`: it would have waited, but had not to."""
        now = time.perf_counter_ns()
        self._local.raw = now if arrival is None else arrival
        line = self._lines.get(sock)
        if line:
            late = at_once if arrival is None else begin - arrival > LATE_NS
            self._got(line, data, now if arrival is None else arrival, late)

    def tls_before(self, sock: Socket) -> int | None:
        """The same before a read of a TLS socket, where the first record that is waiting counts."""
        if not self._linux or sock.pending():
            return None
        try:
            head = self._base.recv(sock, _RECORD.size, self._socket.MSG_PEEK | self._socket.MSG_DONTWAIT)
            exact = self._arrival(sock, _RECORD.size + _RECORD.unpack(head)[2]) if len(head) == _RECORD.size else None
            return exact or self._arrival(sock, _PEEK)  # segments that the kernel has joined have one stamp
        except OSError:
            return None

    def decrypted(self, tls: Any, data: bytes) -> None:
        """Bytes came out of TLS over memory; what they came from was read by this thread before."""
        line = self._lines.get(tls)
        if line:
            now, raw = time.perf_counter_ns(), getattr(self._local, "raw", 0)
            late = now - raw > LATE_NS
            self._got(line, data, now if late else raw, late)

    def closed(self, sock: Socket) -> None:
        """A connection was closed."""
        line = self._lines.pop(sock, None)
        if line:
            self._note(CLOSED, line[0], time.perf_counter_ns(), b"")

    def recorded(self, sock: Socket) -> bool:
        """Whether a read of `sock` has to be looked at."""
        return self._lines.get(sock, False) is not False

    # ------------------------------------------------------------------------------------------------------------------

    def _open(self, sock: Socket) -> list[int]:
        self._number += 1
        self.ask(sock)
        self._note(OPENED, self._number, time.perf_counter_ns(), b"")
        return [self._number, 0]

    def _other(self, sock: Socket, data: bytes) -> Any:
        """What is no HTTP: the arrival of TLS matters to what is decrypted from it, the rest does not."""
        if not data.startswith(b"\x16\x03"):
            return False
        self.ask(sock)
        return ()

    def ask(self, sock: Socket) -> None:
        """Ask the kernel for stamps; what has no socket cannot have them."""
        if self._linux and hasattr(sock, "setsockopt"):
            try:
                sock.setsockopt(self._socket.SOL_SOCKET, _STAMPS, 1)
            except OSError:
                return

    def _got(self, line: list[int], data: bytes, t_ns: int, pulled: bool) -> None:
        line[1] = t_ns = max(t_ns, line[1])
        self._note(PULLED if pulled else RECEIVED, line[0], t_ns, data)

    def _arrival(self, sock: Socket, size: int) -> int | None:
        """Arrival of the last segment among the next `size` bytes, on the monotonic clock; None when not known."""
        try:
            flags = self._socket.MSG_PEEK | self._socket.MSG_DONTWAIT
            _, ancillary, _, _ = self._base.recvmsg(sock, size, 64, flags)
        except (OSError, AttributeError):
            return None
        before, wall = time.perf_counter_ns(), time.time_ns()
        for level, kind, data in ancillary:
            if level == self._socket.SOL_SOCKET and kind == _STAMPS and len(data) >= 16:
                seconds, nanoseconds = struct.unpack_from("@ll", data)
                age: int = wall - seconds * 1_000_000_000 - nanoseconds
                return before - max(0, age)
        return None

    def _note(self, kind: int, number: int, t_ns: int, data: bytes) -> None:
        with self._lock:
            if self._dead:
                return
            self._held += HEAD.pack(kind, number, t_ns, len(data)) + data
            if self._busy:  # a signal handler of the program got in between
                return
            self._busy = True
            try:
                self._flush()
            except OSError:
                self._dead = True
            self._busy = False
            if self._dead or len(self._held) > MOST_HELD:
                self._dead = True
                self._held.clear()

    def _flush(self) -> None:
        if self._channel is None:
            self._channel = self._base(self._socket.AF_UNIX, self._socket.SOCK_STREAM)
            self._channel.connect(self._place)
            self._channel.setblocking(False)
        while self._held:
            try:
                del self._held[: self._channel.send(bytes(self._held))]
            except BlockingIOError:
                return

    def finish(self) -> None:
        """At the end of the program: hand over what is held."""
        with self._lock:
            if self._channel is not None:
                try:
                    self._channel.settimeout(5.0)
                    self._channel.sendall(self._held)
                except OSError:
                    pass
                self._dead = True
                self._channel.close()


def _quietly(call: Any, *arguments: Any) -> Any:
    try:
        return call(*arguments)
    except Exception:
        return None


def _hook_sockets(recorder: Recorder, module: Any) -> None:
    cls, peek, clock = module.socket, getattr(module, "MSG_PEEK", 0), time.perf_counter_ns
    recv, recv_into, send, sendall = cls.recv, cls.recv_into, cls.send, cls.sendall
    sendmsg, close = getattr(cls, "sendmsg", None), cls._real_close  # `close` may come long before the last read

    def read(sock: Socket, call: Any, arguments: Any, named: Any, into: Any) -> Any:
        flags = named.get("flags") or (arguments[-1] if len(arguments) > (1 if into is None else 2) else 0)
        if flags & peek or not _quietly(recorder.recorded, sock):
            return call(sock, *arguments, **named)
        arrival = _quietly(recorder.before, sock)
        begin = clock()
        result = call(sock, *arguments, **named)
        took = clock() - begin

        def note() -> None:
            data = result if into is None else bytes(memoryview(into).cast("B")[:result])
            recorder.received(sock, data, begin, arrival, sock.gettimeout() != 0 and took < AT_ONCE_NS)

        _quietly(note)
        return result

    def new_recv(self: Socket, *arguments: Any, **named: Any) -> Any:
        return read(self, recv, arguments, named, None)

    def new_recv_into(self: Socket, buffer: Any, *arguments: Any, **named: Any) -> Any:
        return read(self, recv_into, (buffer, *arguments), named, buffer)

    def new_send(self: Socket, data: Any, *arguments: Any) -> Any:
        t_ns = clock()
        result = send(self, data, *arguments)
        _quietly(lambda: recorder.sent(self, t_ns, bytes(memoryview(data).cast("B")[:result])))
        return result

    def new_sendall(self: Socket, data: Any, *arguments: Any) -> Any:
        _quietly(lambda: recorder.sent(self, clock(), bytes(memoryview(data).cast("B"))))
        return sendall(self, data, *arguments)

    def new_sendmsg(self: Socket, buffers: Any, *arguments: Any) -> Any:
        buffers, t_ns = list(buffers), clock()
        result = sendmsg(self, buffers, *arguments)  # type: ignore[misc]
        _quietly(lambda: recorder.sent(self, t_ns, b"".join(bytes(memoryview(b).cast("B")) for b in buffers)[:result]))
        return result

    def new_close(self: Socket, *arguments: Any) -> None:
        _quietly(recorder.closed, self)
        close(self, *arguments)

    cls.recv, cls.recv_into, cls._real_close = new_recv, new_recv_into, new_close
    cls.send, cls.sendall = new_send, new_sendall
    if sendmsg is not None:
        cls.sendmsg = new_sendmsg


def _hook_tls(recorder: Recorder, module: Any) -> None:
    sock, memory, clock = module.SSLSocket, module.SSLObject, time.perf_counter_ns
    send, write, read = sock.send, sock.write, sock.read
    memory_write, memory_read = memory.write, memory.read

    def new_send(self: Any, data: Any, flags: int = 0) -> Any:
        t_ns = clock()
        result = send(self, data, flags)
        if self._sslobj is not None:  # otherwise the hook of the plain socket has seen it
            _quietly(lambda: recorder.sent(self, t_ns, bytes(memoryview(data).cast("B")[:result])))
        return result

    def new_write(self: Any, data: Any) -> Any:
        t_ns = clock()
        result = write(self, data)
        _quietly(lambda: recorder.sent(self, t_ns, bytes(memoryview(data).cast("B")[:result])))
        return result

    def new_read(self: Any, len: int = 1024, buffer: Any = None) -> Any:
        if not _quietly(recorder.recorded, self):
            return read(self, len, buffer)
        arrival = _quietly(recorder.tls_before, self)
        begin = clock()
        result = read(self, len, buffer)
        took = clock() - begin

        def note() -> None:
            data = result if buffer is None else bytes(memoryview(buffer).cast("B")[:result])
            recorder.received(self, data, begin, arrival, took < AT_ONCE_NS)

        _quietly(note)
        return result

    def new_memory_write(self: Any, data: Any) -> Any:
        t_ns = clock()
        result = memory_write(self, data)
        _quietly(lambda: recorder.sent(self, t_ns, bytes(memoryview(data).cast("B")[:result])))
        return result

    def new_memory_read(self: Any, len: int = 1024, buffer: Any = None) -> Any:
        result = memory_read(self, len, buffer)
        _quietly(
            lambda: recorder.decrypted(self, result if buffer is None else bytes(memoryview(buffer).cast("B")[:result]))
        )
        return result

    sock.send, sock.write, sock.read = new_send, new_write, new_read
    memory.write, memory.read = new_memory_write, new_memory_read


class _Finder:
    """Hooks `socket` and `ssl` when the program imports them, so that one that does not pays nothing."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._recorder: Recorder | None = None
        self._waiting = {"socket", "ssl"}

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name not in self._waiting:
            return None
        self._waiting.discard(name)
        from importlib.machinery import PathFinder

        spec = PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return spec
        run = spec.loader.exec_module

        def exec_module(module: Any) -> None:
            run(module)
            _quietly(self.hook, name, module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec

    def hook(self, name: str, module: Any) -> None:
        """Hook a module that has just been imported, or was before us."""
        if name == "socket":
            import atexit

            self._recorder = Recorder(self._place, module)
            _hook_sockets(self._recorder, module)
            atexit.register(self._recorder.finish)
            if hasattr(os, "register_at_fork"):
                os.register_at_fork(after_in_child=self._recorder._reset)
        elif self._recorder is not None:
            _hook_tls(self._recorder, module)


def install(place: str) -> None:
    """Record to the recorder that listens at `place`."""
    finder = _Finder(place)
    for name in ("socket", "ssl"):
        if name in sys.modules:
            finder._waiting.discard(name)
            _quietly(finder.hook, name, sys.modules[name])
    sys.meta_path.insert(0, finder)
