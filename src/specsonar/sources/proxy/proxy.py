"""The recording process: it starts the forwarding one, decodes what that one notes, and keeps the answers."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from ...errors import SpecsonarError, UsageError
from ...findings import finding
from ..defences import Policy
from ..keeper import Keeper, Tap
from ..listening import listen, url_of
from . import notes
from .upstream import Upstream

_BLOCK: Final = 1 << 20
_GOODBYE_S: Final = 10.0


class Proxy:
    """A recording reverse proxy. Call `poll` again and again; clients are served whether or not it is called.

    Parameters
    ----------
    upstream : URL that requests go to.
    keeper : takes the answers.
    host, port : where to listen; port 0 for any free one.
    defence : how streamed answers are held back, noted with each; None to pass bytes as they come.
    tell : is given lines for people: an upstream that cannot be reached, for one.

    Attributes
    ----------
    url : base URL for clients.
    clients : how many are connected, as far as notes were read.
    error : what the file could not take, once that has happened. Clients are served on.

    Raises
    ------
    UsageError : no URL of a server. InputError : the port is taken.
    """

    def __init__(
        self,
        upstream: str,
        keeper: Keeper,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        defence: Policy | None = None,
        tell: Callable[[str], None] = lambda line: None,
    ) -> None:
        if sys.platform == "win32":  # sockets are handed to a child process by their descriptors
            raise UsageError("the proxy does not run on Windows", "use WSL, or `specsonar record`")
        where = Upstream.parse(upstream)
        self.upstream = str(where)
        self.error: SpecsonarError | OSError | None = None
        self._keeper, self._tell = keeper, tell
        self._hides = {"defence": str(defence)} if defence and defence.active else {}
        self._taps: dict[int, Tap] = {}
        self._told: deque[str] = deque(maxlen=16)
        self._unpacker = notes.Unpacker()
        listener = listen(host, port)
        self.url = url_of(listener)
        self._channel, theirs = socket.socketpair()
        with listener, theirs:
            ends = [listener.fileno(), theirs.fileno()]
            command = [sys.executable, "-P", "-m", f"{__package__}.relay", *map(str, ends), str(where)]
            command += [str(defence)] if self._hides else []
            home = os.pathsep.join([str(Path(__file__).parents[3]), *filter(None, [os.environ.get("PYTHONPATH")])])
            self._relay = subprocess.Popen(
                command, pass_fds=ends, stdin=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": home}
            )

    @property
    def clients(self) -> int:
        """Connections of clients now."""
        return len(self._taps)

    def poll(self, timeout: float = 0.0) -> bool:
        """Decode and keep what has come, waiting up to `timeout` seconds for something; False when it is over."""
        return not select.select([self._channel], [], [], timeout)[0] or self._read()

    def _read(self) -> bool:
        data = self._channel.recv(_BLOCK)
        for note in self._unpacker.feed(data):
            try:
                self._take(note)
            except (SpecsonarError, OSError) as error:
                self.error = self.error or error
        return bool(data)

    def _take(self, note: notes.Note) -> None:
        if note.kind == notes.TOLD:
            line = note.data.decode("utf-8", "replace")
            if line not in self._told:
                self._told.append(line)
                self._tell(line)
        elif note.kind == notes.OPENED:
            self._taps[note.connection] = self._keeper.tap(
                f"client {note.connection}", {"capture": "proxy", **self._hides}
            )
        elif tap := self._taps.get(note.connection):
            if note.kind == notes.SENT:
                tap.sent(note.t_ns, note.data)
            elif note.kind == notes.RECEIVED:
                tap.received(note.t_ns, note.data)
            elif note.kind == notes.LOST:
                self._keeper.note([finding("I009", f"{tap.name}: the recorder fell too far behind")])
                tap.closed(note.t_ns)
            else:
                del self._taps[note.connection]
                tap.closed(note.t_ns)

    def close(self) -> None:
        """Close every connection, and keep what came up to now. A second call does nothing."""
        if self._channel.fileno() < 0:
            return
        with contextlib.suppress(OSError):
            self._channel.shutdown(socket.SHUT_WR)
        with contextlib.suppress(OSError):
            while select.select([self._channel], [], [], _GOODBYE_S)[0] and self._read():
                pass
        self._channel.close()
        try:
            self._relay.wait(_GOODBYE_S)
        except subprocess.TimeoutExpired:
            self._relay.kill()
            self._relay.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()
