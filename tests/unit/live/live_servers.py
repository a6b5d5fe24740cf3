"""Real servers on loopback, driven step by step, and a keeper that only remembers."""

import socket
import ssl
import threading
import time
from dataclasses import dataclass, field

PATIENCE_S = 20.0


class Tap:
    """Remembers what it was told."""

    def __init__(self, name, meta):
        self.name, self.meta = name, meta
        self.log = []

    def sent(self, t_ns, data):
        self.log.append(("sent", t_ns, data))

    def received(self, t_ns, data):
        self.log.append(("received", t_ns, data))

    def closed(self, t_ns):
        self.log.append(("closed", t_ns, b""))

    def bytes(self, kind):
        return b"".join(data for k, _, data in self.log if k == kind)

    def times(self, kind):
        return [t for k, t, _ in self.log if k == kind]


class Keeper:
    """Makes taps, and notes in which threads it was called."""

    def __init__(self):
        self.taps = []
        self.threads = set()

    def tap(self, name, meta=None):
        self.threads.add(threading.get_ident())
        self.taps.append(Tap(name, meta))
        return self.taps[-1]


def until(condition):
    """Wait for `condition()`; it has all the time it needs, and a test that hangs says where."""
    end = time.monotonic() + PATIENCE_S
    while not (value := condition()):
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.001)
    return value


@dataclass
class Host:
    """A listening socket; `handle(connection)` runs in a thread for each connection."""

    handle: object
    context: ssl.SSLContext | None = None
    listener: socket.socket = field(default_factory=lambda: socket.create_server(("127.0.0.1", 0)))
    threads: list = field(default_factory=list)
    errors: list = field(default_factory=list)
    accepted: int = 0

    @property
    def port(self):
        return self.listener.getsockname()[1]

    @property
    def url(self):
        return f"{'https' if self.context else 'http'}://127.0.0.1:{self.port}/"

    def run(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.accepted += 1
            connection.settimeout(PATIENCE_S)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            thread = threading.Thread(target=self.serve, args=(connection,))
            self.threads.append(thread)
            thread.start()

    def serve(self, connection):
        with connection:
            try:
                if self.context:
                    connection = self.context.wrap_socket(connection, server_side=True)
                with connection:
                    self.handle(connection)
            except (OSError, ssl.SSLError) as error:
                self.errors.append(error)


def request(connection):
    """The head and body of the next HTTP/1.1 request; b"" when the client has closed."""
    data = b""
    while b"\r\n\r\n" not in data:
        more = connection.recv(65536)
        if not more:
            return b""
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    lengths = [int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")]
    while lengths and len(body) < lengths[0]:
        body += connection.recv(65536)
    return head + b"\r\n\r\n" + body


HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"


def chunk(payload):
    """One server-sent event in one HTTP chunk."""
    event = b"data: %b\n\n" % payload
    return b"%x\r\n%b\r\n" % (len(event), event)


class Script:
    """A server that sends its next piece only when it is told to, and notes when it did."""

    def __init__(self, pieces):
        self.pieces = list(pieces)
        self.turn = threading.Semaphore(0)
        self.before, self.after = [], []

    def __call__(self, connection):
        while request(connection):
            for piece in self.pieces:
                assert self.turn.acquire(timeout=PATIENCE_S)
                self.before.append(time.perf_counter_ns())
                connection.sendall(piece)
                self.after.append(time.perf_counter_ns())

    def go(self):
        self.turn.release()
