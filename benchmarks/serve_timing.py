"""How late the simulated service is with its own events: our event loop beside asyncio's own, in the same run.

    python benchmarks/serve_timing.py

Each server runs in a process of its own; the client only reads. Lateness is the time at which an event is handed to
the socket less the time at which it was due. What is due together is written one after the other, so the figures are
those of the first event of each write. Machines are noisy: look at the ratios.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import selectors
import socket
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.connection import Connection

import numpy as np

from specsonar.sources.serve import Server, server
from specsonar.sources.service import Service

TOKENS = 300
PLAIN = Service(max_burst=1, step_ms=20.0, step_cv=0.2, ttft_ms=300.0)
CASES = {
    "1 stream, 50 events/s": (1, PLAIN),
    "64 streams, 50 events/s each": (64, PLAIN),
    "64 streams, 50 events/s each, in bursts of 4": (
        64, replace(PLAIN, max_burst=4, k=None, acceptance=1.0, step_ms=80.0),
    ),
}  # fmt: skip


def serve(exact: bool, service: Service, pipe: Connection) -> None:
    """The process of a server: its URL goes out, and when something comes in, the lateness of its events."""
    if not exact:
        server.new_loop = asyncio.SelectorEventLoop
    with Server(service) as running:
        pipe.send(running.url)
        pipe.recv()
        late, events = [], 0
        for sent in running.sent_times():
            events += sent.due_ns.size
            first = np.diff(sent.due_ns, prepend=-1) > 0
            late.append((sent.sent_ns - sent.due_ns)[first])
        pipe.send((events, np.concatenate(late) / 1e3))


def listen(url: str, streams: int) -> None:
    """Read `streams` answers to their ends."""
    host, port = url.removeprefix("http://").split(":")
    body = json.dumps({"prompt": "hello", "n_predict": TOKENS, "stream": True}).encode()
    head = b"POST /completion HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(body)
    with selectors.DefaultSelector() as waiting:
        for _ in range(streams):
            one = socket.create_connection((host, int(port)))
            one.sendall(head + body)
            waiting.register(one, selectors.EVENT_READ, one.recv)
        while waiting.get_map():
            for key, _ in waiting.select():
                recv: Callable[[int], bytes] = key.data
                if not recv(1 << 16):
                    waiting.unregister(key.fileobj)
                    recv.__self__.close()  # type: ignore[attr-defined]


def measure(exact: bool, service: Service, streams: int) -> np.ndarray:
    """Lateness of the first event of each write, microseconds, sorted."""
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(exact, service, there))
    process.start()
    listen(here.recv(), streams)
    here.send("done")
    events, late = here.recv()
    process.join()
    assert events == streams * TOKENS, "an event is missing"
    return np.sort(late)


def main() -> None:
    """Print a table."""
    print("| load | loop | median, us | 90% | 99% | median to asyncio's |\n|---|---|---|---|---|---|")
    for name, (streams, service) in CASES.items():
        theirs = measure(False, service, streams)
        ours = measure(True, service, streams)
        for loop, late in (("asyncio's own", theirs), ("ours", ours)):
            median, high, most = np.percentile(late, (50, 90, 99))
            ratio = median / np.median(theirs)
            print(f"| {name} | {loop} | {median:.0f} | {high:.0f} | {most:.0f} | {ratio:.2f} |")


if __name__ == "__main__":
    main()
