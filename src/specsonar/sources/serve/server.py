"""The server as a context manager, in a thread of its own or in a process of its own."""

from __future__ import annotations

import asyncio
import math
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Final

import msgspec
import numpy as np
import uvicorn

from ...errors import InputError, UsageError
from ..listening import listen, url_of
from ..service import Service
from .app import make
from .ledger import Sent, Timing
from .pacing import new_loop
from .simulation import Options, Simulation

_PATIENCE_S: Final = 30.0


class Host(uvicorn.Server):
    """uvicorn for one simulation; it says when it is ready and lets go of its clients when it stops."""

    def __init__(self, simulation: Simulation) -> None:
        config = uvicorn.Config(
            make(simulation), http=simulation.clock.protocol(), ws="websockets-sansio", lifespan="off", log_config=None,
            log_level="error", access_log=False, server_header=False, proxy_headers=False, timeout_keep_alive=60,
        )  # fmt: skip
        super().__init__(config)
        self.ready = threading.Event()

    def serve_on(self, listener: socket.socket) -> None:
        """Serve until `should_exit` is set; only a main thread stops at a signal."""
        with asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(self.serve(sockets=[listener]))

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin, and say so."""
        await super().startup(sockets)
        self.ready.set()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop at a signal, which is the ordinary way to end a server and no reason to end the program with it."""
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop at once: whoever still listens is cut off, since a stream could go on for hours."""
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        await super().shutdown(sockets)


def run(service: Service, options: Options, host: str, port: int, announce: Callable[[str], None]) -> Timing:
    """Serve in the calling thread until a signal comes; how late the events were.

    Parameters
    ----------
    service, options : what is served.
    host, port : where; port 0 takes a free one.
    announce : called with the URL when the server listens.

    Raises
    ------
    InputError : it cannot listen there.
    """
    simulation = Simulation(service, options)
    listener = listen(host, port)
    announce(url_of(listener))
    Host(simulation).serve_on(listener)
    return simulation.ledger.timing()


class Server:
    """A simulated service behind a real HTTP server, while the `with` block lasts.

    Parameters
    ----------
    service : the hidden settings; the default ones if None.
    process : run in a process of its own, so that server and client do not wait for each other's interpreter.
    host, port : where; port 0 takes a free one. Other machines can reach it only through an address that is not
        loopback.
    options : fields of `Options`.

    Attributes
    ----------
    url : where it listens, without a path; from the beginning of the `with` block.

    >>> import httpx2
    >>> with Server(Service(step_ms=1.0, ttft_ms=1.0)) as server:
    ...     answer = httpx2.post(f"{server.url}/completion", json={"prompt": "hello", "n_predict": 8})
    >>> answer.json()["tokens_predicted"]
    8
    """

    url: str

    def __init__(
        self,
        service: Service | None = None,
        *,
        process: bool = False,
        host: str = "127.0.0.1",
        port: int = 0,
        **options: Any,
    ) -> None:
        self._service = service or Service()
        self._options = Options(**options)
        self._where = (host, port)
        self._runner: _Thread | _Process | None = None
        self._in_process = process

    def __enter__(self) -> Server:
        runner: _Thread | _Process = (
            _Process(self._service, self._options, self._where)
            if self._in_process
            else _Thread(self._service, self._options, self._where)
        )
        self._runner = runner
        self.url = runner.url
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._runner is not None:
            self._runner.stop()

    def _ask(self, what: str) -> Any:
        if self._runner is None:
            raise UsageError("the server has not been started", "use it in a `with` block")
        return self._runner.ask(what)

    @property
    def truth(self) -> list[dict[str, Any]]:
        """Hidden settings and what happened, of each stream in the order of the requests; `id` is the answer's."""
        truth: list[dict[str, Any]] = self._ask("truth")
        return truth

    def timing(self) -> Timing:
        """How late the server's own events were."""
        # JSON has no NaN; what a process tells has None in its place.
        events, *late = self._ask("timing").values()
        return Timing(events, *(math.nan if value is None else value for value in late))

    def sent_times(self) -> list[Sent]:
        """When each event of each stream was due and was handed to the socket."""
        return [Sent(i, np.array(due, np.int64), np.array(sent, np.int64)) for i, due, sent in self._ask("sent_times")]


def tell(simulation: Simulation, what: str) -> Any:
    """What a `Server` may ask its runner, in plain JSON types."""
    ledger = simulation.ledger
    match what:
        case "truth":
            return ledger.truth()
        case "timing":
            return ledger.timing()._asdict()
        case "sent_times":
            return [(s.id, s.due_ns.tolist(), s.sent_ns.tolist()) for s in ledger.sent_times()]
        case _:
            raise ValueError(what)


class _Thread:
    """The server in a thread of this process. What it knows can still be asked for after it has stopped."""

    def __init__(self, service: Service, options: Options, where: tuple[str, int]) -> None:
        self._simulation = Simulation(service, options)
        listener = listen(*where)
        self.url = url_of(listener)
        self._host = Host(self._simulation)
        self._thread = threading.Thread(target=self._host.serve_on, args=(listener,), name="specsonar serve")
        self._thread.start()
        if not self._host.ready.wait(_PATIENCE_S):
            self.stop()
            raise InputError("the server did not start")

    def ask(self, what: str) -> Any:
        return tell(self._simulation, what)

    def stop(self) -> None:
        self._host.should_exit = True
        self._thread.join()


class _Process:
    """The server in a child process, which ends when its standard input does: no orphan survives its parent."""

    def __init__(self, service: Service, options: Options, where: tuple[str, int]) -> None:
        self._child = subprocess.Popen(
            [sys.executable, "-m", f"{__package__}.child"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._lock = threading.Lock()
        self._last: dict[str, Any] = {}
        first = {"service": service.to_dict(), "options": msgspec.to_builtins(options), "where": where}
        try:
            self.url = str(self._exchange(first))
        except BaseException:
            self._end()
            raise

    def _exchange(self, message: object) -> Any:
        with self._lock:
            assert self._child.stdin is not None
            assert self._child.stdout is not None
            try:
                self._child.stdin.write(msgspec.json.encode(message) + b"\n")
                self._child.stdin.flush()
                line = self._child.stdout.readline()
            except BrokenPipeError:
                line = b""
        if not line:
            raise InputError("the process of the server has ended", "what it wrote to stderr says why")
        reply = msgspec.json.decode(line)
        if "error" in reply:
            raise InputError(*reply["error"])
        return reply["value"]

    def ask(self, what: str) -> Any:
        return self._last[what] if self._last else self._exchange(what)

    def stop(self) -> None:
        """End it; what it knew stays."""
        try:
            self._last = {what: self._exchange(what) for what in ("truth", "timing", "sent_times")}
        finally:
            self._end()

    def _end(self) -> None:
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.close()
        try:
            self._child.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        self._child.stdout.close()
