"""What this machine can measure: its clock, its event loop, and a service of known send times on loopback."""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import dataclass
from typing import Final

import numpy as np

from ..errors import InputError
from ..fingerprint import Finding
from ..sources.live import Capture
from ..sources.serve import Server
from ..sources.service import Service
from .listening import Ears, spread
from .path import alone

STREAMS: Final = 8
EVENTS: Final = 300
STEP_MS: Final = 5.0

_READINGS: Final = 20_000
_NAPS: Final = 300
_NAP_S: Final = 0.001


@dataclass(frozen=True, slots=True)
class Clock:
    """The program's clock: its smallest visible step and what it costs to read it, nanoseconds."""

    tick_ns: int
    reading_ns: float


@dataclass(frozen=True, slots=True)
class Local:
    """A capture on this machine beside the send times of the server, a process of its own.

    Attributes
    ----------
    stamps : "kernel" or "clock".
    error_us : from each send to its stamp: p50, p99, max in microseconds.
    lag : how late the reader was; see `live.Lag.to_dict`.
    alone : share of the events that came in a read of their own.
    findings : those of the capture.
    """

    stamps: str
    error_us: dict[str, float]
    lag: dict[str, float]
    alone: float
    findings: tuple[Finding, ...]


def clock() -> Clock:
    """Look at the clock many times."""
    begin = time.perf_counter_ns()
    times = [time.perf_counter_ns() for _ in range(_READINGS)]
    spent = time.perf_counter_ns() - begin
    steps = np.diff(times)
    return Clock(int(steps[steps > 0].min()) if (steps > 0).any() else spent, spent / _READINGS)


def loop_lag_us() -> dict[str, float]:
    """How late the timers of asyncio's event loop are, microseconds."""

    async def nap() -> list[float]:
        loop, late = asyncio.get_running_loop(), []
        for _ in range(_NAPS):
            due = loop.time() + _NAP_S
            await asyncio.sleep(_NAP_S)
            late.append((loop.time() - due) * 1e6)
        return late

    return spread(asyncio.run(nap()))


def local(*, streams: int = STREAMS, events: int = EVENTS, kernel: bool = True) -> Local:
    """Listen to `streams` answers at once of a server on loopback, an event every 5 ms in each."""
    service = Service(max_burst=1, step_ms=STEP_MS, ttft_ms=50.0)
    keeper = Ears()
    with Server(service, process=True) as server, Capture(keeper, kernel=kernel) as capture:
        with capture.client(timeout=60.0, trust_env=False) as client:

            def ask(length: int) -> None:
                client.post(f"{server.url}/completion", json={"prompt": "x", "stream": True, "n_predict": length})

            # Each answer has a length of its own, by which it is found among what the server sent.
            running = [threading.Thread(target=ask, args=(events + i,)) for i in range(streams)]
            for thread in running:
                thread.start()
            for thread in running:
                while thread.is_alive():
                    capture.poll()
                    thread.join(0.05)
        capture.poll()
        sent = {len(one.sent_ns): one.sent_ns for one in server.sent_times()}
    answers = [one for ear in keeper.ears for one in ear.streams() if len(one) in sent]
    if not answers:
        raise InputError("the answers of the local server did not come through", "run it again with --verbose")
    errors = np.concatenate([one.t_ns - sent[len(one)] for one in answers]) / 1e3
    return Local(capture.stamps, spread(errors), capture.lag.to_dict(), alone(keeper.arrivals()), capture.findings)
