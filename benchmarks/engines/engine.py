"""What all engines share: a case to run, and a server that is started, waited for and ended."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from urllib.request import urlopen

START_S = 600.0
"""Seconds after which a server that is not ready is given up."""

HERE = Path(__file__).parent
Note = Mapping[str, Any]
"""What a server writes down of one answer; one JSON line each."""


class Counted(NamedTuple):
    """What the engine counted of one answer: tokens after the first, steps that made them, the largest step."""

    tokens: int
    steps: int
    largest: int


@dataclass(frozen=True)
class Case:
    """One way to run one engine.

    Attributes
    ----------
    name : of the engine and the way.
    command : that starts the server, with PORT and NOTES to be filled in.
    counted : the engine's own count from its note of an answer.
    environment : for the server.
    ask : further arguments of `probe`.
    draft : draft length k; 0 without drafts.
    hidden : why M or the length of steps cannot be seen from outside, or "".
    """

    name: str
    command: Sequence[str | Path]
    counted: Callable[[Note], Counted]
    environment: Mapping[str, str] = field(default_factory=dict)
    ask: Mapping[str, Any] = field(default_factory=dict)
    draft: int = 0
    hidden: str = ""


def sizes(note: Note) -> Counted:
    """From a note with the tokens of each step; the first of them came with the prompt."""
    _, *steps = note["steps"]
    return Counted(sum(steps), len(steps), max(steps))


@contextmanager
def running(case: Case, notes: Path) -> Iterator[str]:
    """The URL of a server for `case`, which writes down what it does in `notes`."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # one thread: two that wait for each other on two cores leave none to the listener
    environment = {"OMP_NUM_THREADS": "1", **os.environ, **case.environment, "SPECSONAR_NOTES": str(notes)}
    fill = {"PORT": str(port), "NOTES": str(notes)}
    command = [fill.get(str(word), str(word)) for word in case.command]
    with notes.with_suffix(".log").open("w") as log:
        server = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
        try:
            url = f"http://127.0.0.1:{port}"
            _wait(server, url, notes.with_suffix(".log"))
            yield url
        finally:
            _end(server)


def _wait(server: subprocess.Popen[bytes], url: str, log: Path) -> None:
    began = time.monotonic()
    while time.monotonic() - began < START_S:
        if server.poll() is not None:
            break
        try:
            with urlopen(f"{url}/health", timeout=5) as answer:
                if answer.status == 200:
                    return
        except OSError:
            time.sleep(0.5)
    raise SystemExit(f"the server did not start; see {log}")


def _end(server: subprocess.Popen[bytes]) -> None:
    """End it and the processes that it started."""
    for how in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(server.pid, how)
            server.wait(60)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


def noted(notes: Path, answers: int) -> list[Note]:
    """The notes of the last `answers` answers; those before belong to the warm-up."""
    return [json.loads(line) for line in notes.read_text().splitlines()][-answers:]
