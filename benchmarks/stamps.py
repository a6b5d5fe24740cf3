"""How well arrivals are stamped, against the sender's own log: ours, the official openai client, httpx lines.

    python benchmarks/stamps.py            # 64 streams, 50 events a second each, 10 s a row; needs the extra `clients`
    python benchmarks/stamps.py --streams 8 --seconds 2

A sender in a process of its own notes the time just before and just after each `send`; on Linux both processes read
the same monotonic clock. The error of a stamp is how far it lies behind the time before `send`, so it holds the cost
of sending, too. Each row is a run of its own, with the same sender and the same events.
"""

from __future__ import annotations

import argparse
import asyncio
import heapq
import os
import re
import selectors
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import openai

from specsonar.sources.live import Capture

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
EVENT = re.compile(rb'"content":" (\d+)"')
MODEL = re.compile(rb'"model": ?"(\d+)"')
WANTED = {"median": 50.0, "p99": 500.0, "ratio": 5.0}

Times = dict[int, dict[int, int]]
"""For each stream the time of each event, nanoseconds."""


# -- the sender, in its own process


def event(number: int) -> bytes:
    """One chunk of a chat completion whose text is its number."""
    data = (
        b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"m",'
        b'"choices":[{"index":0,"delta":{"content":" %d"},"finish_reason":null}]}\n\n' % number
    )
    return b"%x\r\n%b\r\n" % (len(data), data)


def send_all(streams: int, events: int, gap_s: float, log: str) -> None:
    """Wait for `streams` requests, answer them at absolute times with spread phases, and save when that was."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    print(listener.getsockname()[1], flush=True)
    connections: dict[int, socket.socket] = {}
    while len(connections) < streams:
        connection, _ = listener.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        got = b""
        while not (found := MODEL.search(got)):
            got += connection.recv(65536)
        connection.sendall(HEAD)
        connections[int(found[1])] = connection
    clock = time.perf_counter_ns
    before, after = np.zeros((2, streams, events), np.int64)
    gap = round(gap_s * 1e9)
    start = clock() + 200_000_000
    due = [(start + gap * i // streams, i, 0) for i in range(streams)]
    heapq.heapify(due)
    pieces = [event(k) for k in range(events)]
    while due:
        when, i, k = due[0]
        if (wait := when - clock()) > 0:
            time.sleep(wait * 1e-9)
        t = clock()
        connections[i].send(pieces[k])
        after[i, k] = clock()
        before[i, k] = t
        if k + 1 < events:
            heapq.heapreplace(due, (when + gap, i, k + 1))
        else:
            heapq.heappop(due)
    end = b"data: [DONE]\n\n"
    for connection in connections.values():
        connection.sendall(b"%x\r\n%b\r\n0\r\n\r\n" % (len(end), end))
    np.savez(log, before=before, after=after)
    with selectors.DefaultSelector() as selector:  # stay until the clients have gone
        for connection in connections.values():
            selector.register(connection, selectors.EVENT_READ)
        while selector.get_map():
            for key, _ in selector.select(60.0):
                if not key.fileobj.recv(4096):  # type: ignore[union-attr]
                    selector.unregister(key.fileobj)


# -- the receivers; each gets the base URL and the number of streams


class Tap:
    """What one connection said, for looking at it afterwards."""

    def __init__(self) -> None:
        self.request = bytearray()
        self.times: list[int] = []
        self.reads: list[bytes] = []

    def sent(self, _t_ns: int, data: bytes) -> None:
        """The request names the stream."""
        self.request += data

    def received(self, t_ns: int, data: bytes) -> None:
        """One read."""
        self.times.append(t_ns)
        self.reads.append(data)

    def closed(self, _t_ns: int) -> None:
        """Nothing to do."""

    def events(self) -> dict[int, int]:
        """The time of the read that completed each event."""
        ends = np.cumsum([len(data) for data in self.reads])
        body = b"".join(self.reads)
        return {
            int(m[1]): self.times[int(np.searchsorted(ends, body.index(b"\n\n", m.end()) + 2))]
            for m in EVENT.finditer(body)
        }


class Taps:
    """A keeper that keeps everything in memory."""

    def __init__(self) -> None:
        self.taps: list[Tap] = []

    def tap(self, _name: str, _meta: Mapping[str, Any] | None = None) -> Tap:
        """A tap for a new connection."""
        self.taps.append(Tap())
        return self.taps[-1]


def body(stream: int) -> dict[str, Any]:
    """The request of a stream."""
    return {"model": str(stream), "messages": [{"role": "user", "content": "count"}], "stream": True}


def threads(streams: int, work: Callable[[int], None], meanwhile: Callable[[], object] = lambda: None) -> None:
    """Run `work(stream)` in a thread for each stream, and `meanwhile` every 20 ms."""
    running = [threading.Thread(target=work, args=(i,)) for i in range(streams)]
    for thread in running:
        thread.start()
    for thread in running:
        while thread.is_alive():
            meanwhile()
            thread.join(0.02)


def ours(url: str, streams: int, *, sleep_s: float = 0.0, kernel: bool = True) -> Times:
    """Our capture under httpx line iteration."""
    keeper = Taps()
    with Capture(keeper, kernel=kernel) as capture, capture.client(timeout=60) as client:

        def work(i: int) -> None:
            with client.stream("POST", f"{url}/chat/completions", json=body(i)) as response:
                for line in response.iter_lines():
                    if line and sleep_s:
                        time.sleep(sleep_s)

        threads(streams, work, capture.poll)
    print(f"    {capture.stamps} stamps, reader's lag {capture.lag.to_dict()}", file=sys.stderr)
    for one in capture.findings:
        print(f"    {one.code}: {one.message}", file=sys.stderr)
    found: Times = {}
    for tap in keeper.taps:
        match = MODEL.search(tap.request)
        assert match
        found[int(match[1])] = tap.events()
    return found


def httpx_lines(url: str, streams: int) -> Times:
    """The time after each line of httpx."""
    times: Times = {i: {} for i in range(streams)}
    with httpx2.Client(timeout=60) as client:

        def work(i: int) -> None:
            mine = times[i]
            with client.stream("POST", f"{url}/chat/completions", json=body(i)) as response:
                for line in response.iter_lines():
                    t = time.perf_counter_ns()
                    if found := EVENT.search(line.encode()):
                        mine[int(found[1])] = t

        threads(streams, work)
    return times


def openai_threads(url: str, streams: int) -> Times:
    """The time after each event of the official client, a thread a stream."""
    times: Times = {i: {} for i in range(streams)}
    with openai.OpenAI(base_url=url, api_key="none", timeout=60) as client:

        def work(i: int) -> None:
            mine = times[i]
            for chunk in client.chat.completions.create(**body(i)):
                t = time.perf_counter_ns()
                mine[int(chunk.choices[0].delta.content)] = t

        threads(streams, work)
    return times


def openai_async(url: str, streams: int) -> Times:
    """The same with the official asynchronous client, all streams in one loop."""
    times: Times = {i: {} for i in range(streams)}

    async def work(client: openai.AsyncOpenAI, i: int) -> None:
        mine = times[i]
        async for chunk in await client.chat.completions.create(**body(i)):
            t = time.perf_counter_ns()
            mine[int(chunk.choices[0].delta.content)] = t

    async def everything() -> None:
        async with openai.AsyncOpenAI(base_url=url, api_key="none", timeout=60) as client:
            await asyncio.gather(*(work(client, i) for i in range(streams)))

    asyncio.run(everything())
    return times


ROWS: dict[str, Callable[[str, int], Times]] = {
    "ours": ours,
    "ours, the consumer sleeps 50 ms an event": lambda url, n: ours(url, n, sleep_s=0.05),
    "ours, program's clock": lambda url, n: ours(url, n, kernel=False),
    "openai client, one loop": openai_async,
    "openai client, threads": openai_threads,
    "httpx lines, threads": httpx_lines,
}


def errors_us(receive: Callable[[str, int], Times], streams: int, events: int, gap_s: float) -> np.ndarray:
    """Microseconds from just before each send to its stamp, shape (streams * events,)."""
    with tempfile.TemporaryDirectory() as folder:
        log = str(Path(folder) / "sent.npz")
        command = [sys.executable, __file__, "--send", str(streams), str(events), str(gap_s), log]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as sender:
            assert sender.stdout is not None
            times = receive(f"http://127.0.0.1:{int(sender.stdout.readline())}", streams)
        before = np.load(log)["before"]
    stamped = np.array([[times[i][k] for k in range(events)] for i in range(streams)])
    return ((stamped - before) / 1e3).ravel()


def main() -> None:
    """Print the table."""
    if sys.argv[1:2] == ["--send"]:
        streams, events, gap, log = sys.argv[2:]
        send_all(int(streams), int(events), float(gap), log)
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=64)
    parser.add_argument("--rate", type=float, default=50.0, help="events a second and stream")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each row")
    args = parser.parse_args()
    events = round(args.rate * args.seconds)
    print(f"{args.streams} streams, {args.rate:g} events/s each, {events} events; {os.cpu_count()} cores, ", end="")
    print(f"load average {os.getloadavg()[0]:.1f} before the run\n")
    print("| stamps by | median us | p99 us | max us | p99 over ours | load |\n|---|---|---|---|---|---|")
    first = None
    for name, receive in ROWS.items():
        error = errors_us(receive, args.streams, events, 1 / args.rate)
        p99 = float(np.quantile(error, 0.99))
        first = first or p99
        print(
            f"| {name} | {np.median(error):.0f} | {p99:.0f} | {error.max():.0f} | {p99 / first:.1f} "
            f"| {os.getloadavg()[0]:.1f} |", flush=True,
        )  # fmt: skip
    print(f"\nwanted of ours: median <= {WANTED['median']:.0f}, p99 <= {WANTED['p99']:.0f}, ", end="")
    print(f"others at least {WANTED['ratio']:.0f} times ours at p99; unchanged when the consumer sleeps")


if __name__ == "__main__":
    main()
