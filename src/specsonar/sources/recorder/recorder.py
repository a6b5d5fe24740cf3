"""The recording process: it runs the program, and decodes what the hooks inside it tell."""

from __future__ import annotations

import contextlib
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import FrameType, TracebackType
from typing import Final, Self

from ...errors import InputError, SpecsonarError, UsageError
from ...findings import finding
from ..keeper import Keeper, Tap
from ..proxy import notes
from .inject.specsonar_hooks import PULLED

_INJECT: Final = Path(__file__).with_name("inject")
_BLOCK: Final = 1 << 20
_WAIT_S: Final = 0.1
_MANY: Final = 0.05
"""Share of late reads from which on it is told."""
_PASSED_ON: Final = ("SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2")


class Recorder:
    """Runs a Python program and records the HTTP streams that it and its child processes receive.

    Parameters
    ----------
    keeper : takes the answers.

    Attributes
    ----------
    connections : of HTTP that were seen.
    reads, late : how many reads were seen, and how many of those had been waiting for the program.
    error : what the file could not take, once that has happened. The program runs on.
    """

    def __init__(self, keeper: Keeper) -> None:
        if not hasattr(socket, "AF_UNIX"):
            raise UsageError("`record` does not run on Windows", "use WSL")
        self.connections = self.reads = self.late = 0
        self.error: SpecsonarError | OSError | None = None
        self._keeper = keeper
        self._taps: dict[tuple[int, int], Tap] = {}
        self._folder = tempfile.TemporaryDirectory(prefix="specsonar-")  # only this user can reach into it
        self._place = os.path.join(self._folder.name, "s")
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self._place)
        self._listener.listen(128)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._processes = 0

    def run(self, command: Sequence[str]) -> int:
        """Run a program to its end; its exit code, negative for a signal that ended it.

        Signals that are sent here go to the program; Ctrl-C reaches it by itself, and is not taken for our own end.

        Raises
        ------
        InputError : there is no such program.
        """
        try:
            child = subprocess.Popen(_resolved(command), env=self._environment())
        except OSError as error:
            raise InputError(
                f"cannot run {command[0]}: {error.strerror or error}", "name a program, a .py file, or -m MODULE"
            ) from None

        def pass_on(number: int, frame: FrameType | None) -> None:
            with contextlib.suppress(ProcessLookupError):
                child.send_signal(number)

        numbers = [getattr(signal, name) for name in _PASSED_ON if hasattr(signal, name)]
        before = [(number, signal.signal(number, pass_on)) for number in numbers]
        before.append((signal.SIGINT, signal.signal(signal.SIGINT, signal.SIG_IGN)))
        try:
            while child.poll() is None:
                self.poll(_WAIT_S)
            while self.poll(0.0):
                pass
        finally:
            for number, handler in before:
                signal.signal(number, handler)
        return child.returncode

    def poll(self, timeout: float) -> bool:
        """Decode what has come, waiting up to `timeout` seconds for something; whether there was anything."""
        ready = self._selector.select(timeout)
        for key, _ in ready:
            if key.data is None:
                channel, _ = self._listener.accept()
                self._processes += 1
                self._selector.register(channel, selectors.EVENT_READ, (self._processes, notes.Unpacker()))
            else:
                self._read(key.fileobj, *key.data)
        return bool(ready)

    def _read(self, channel: object, process: int, unpacker: notes.Unpacker) -> None:
        assert isinstance(channel, socket.socket)
        try:
            data = channel.recv(_BLOCK)
        except ConnectionError:
            data = b""
        if not data:
            self._selector.unregister(channel)
            channel.close()
        for note in unpacker.feed(data):
            try:
                self._take(process, note)
            except (SpecsonarError, OSError) as error:
                self.error = self.error or error

    def _take(self, process: int, note: notes.Note) -> None:
        key = process, note.connection
        if note.kind == notes.OPENED:
            self.connections += 1
            self._taps[key] = self._keeper.tap(f"connection {self.connections}", {"capture": "record"})
            return
        tap = self._taps.get(key)
        if tap is None:
            return
        if note.kind == notes.SENT:
            tap.sent(note.t_ns, note.data)
        elif note.kind in (notes.RECEIVED, PULLED):
            self.reads += 1
            self.late += note.kind == PULLED
            tap.received(note.t_ns, note.data)
        else:
            del self._taps[key]
            tap.closed(note.t_ns)

    def close(self) -> None:
        """Say what the times are worth, and take nothing more. A second call does nothing."""
        if self._listener.fileno() < 0:
            return
        if self.late > _MANY * self.reads:
            self._keeper.note([finding("Q015", f"{self.late} of {self.reads} reads had been waiting for the program")])
        for key in list(self._selector.get_map().values()):
            if isinstance(key.fileobj, socket.socket):
                key.fileobj.close()
        self._selector.close()
        self._folder.cleanup()

    def _environment(self) -> dict[str, str]:
        paths = [str(_INJECT), *filter(None, [os.environ.get("PYTHONPATH")])]
        return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "SPECSONAR_RECORD": self._place}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


def _resolved(command: Sequence[str]) -> list[str]:
    """The program to run: a .py file and -m MODULE are given to this Python."""
    if command[0] == "-m" or (command[0].endswith(".py") and not shutil.which(command[0])):
        return [sys.executable, *command]
    return list(command)
