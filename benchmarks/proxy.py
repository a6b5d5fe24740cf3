"""The proxy: what it adds to an event, what it loses, and the memory it takes.

    python benchmarks/proxy.py                          # delays, 1,000 streams of 300 events, kill -9
    python benchmarks/proxy.py --streams 64 --rate 50   # another load

Delays are from the server's own time just before it sends an event to the kernel's stamp of its arrival at the client,
over a direct connection and through the proxy in turn, in one run; what the proxy adds is the difference of the
quantiles. A peer that forwards with asyncio streams and decodes nothing is measured in the same run. At last the
recording process is killed (SIGKILL) while all streams run: what clients had received is set against the file.
"""

from __future__ import annotations

import argparse
import asyncio
import heapq
import os
import re
import resource
import selectors
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

from specsonar.cli.recording import told_to_end
from specsonar.importers import read
from specsonar.sources.keeper import Keeper
from specsonar.sources.live import stamps
from specsonar.sources.proxy.proxy import Proxy
from specsonar.tracefile import Writer

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
EVENT = (
    '{"object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"content":"word"}}],"sent":%d,"k":%d}'
)
MARK = re.compile(rb'"sent":(\d+),"k":(\d+)')


def chunk(data: bytes) -> bytes:
    """A chunk of an HTTP body."""
    return b"%x\r\n%s\r\n" % (len(data), data)


def serve(events: int, rate: float) -> None:
    """A server: every request gets `events` events at absolute deadlines, `rate` a second."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
    print(listener.getsockname()[1], flush=True)
    selector = selectors.DefaultSelector()
    selector.register(listener, selectors.EVENT_READ)
    due: list[tuple[float, int, int, socket.socket]] = []
    number = 0
    while True:
        wait = max(0.0, due[0][0] - time.perf_counter()) if due else 1.0
        for key, _ in selector.select(wait):
            if key.fileobj is listener:
                client, _ = listener.accept()
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                selector.register(client, selectors.EVENT_READ)
            else:
                client = key.fileobj  # type: ignore[assignment]
                try:
                    data = client.recv(65536)
                except ConnectionError:
                    data = b""
                if not data:
                    selector.unregister(client)
                    client.close()
                    continue
                client.send(HEAD)
                number += 1
                # spread the streams over one gap, or they would all send at once
                heapq.heappush(due, (time.perf_counter() + (number * 0.618 % 1) / rate, number, 0, client))
        while due and due[0][0] <= time.perf_counter():
            at, which, k, client = heapq.heappop(due)
            data = b"data: %s\n\n" % (EVENT % (time.perf_counter_ns(), k)).encode()
            last = k == events - 1
            try:
                client.send(chunk(data) + (chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n" if last else b""))
            except OSError:
                continue
            if not last:
                heapq.heappush(due, (at + 1 / rate, which, k + 1, client))


async def forward(port: int) -> None:
    """The peer: asyncio streams, no decoding, no stamps."""

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.close()

    async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(pump(reader, up[1]), pump(up[0], writer), return_exceptions=True)

    server = await asyncio.start_server(client, "127.0.0.1", 0, backlog=2048)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def child(*arguments: str) -> tuple[subprocess.Popen[bytes], int]:
    """This program once more, in one of its roles, and the port that it listens on."""
    process = subprocess.Popen([sys.executable, __file__, *arguments], stdout=subprocess.PIPE)
    assert process.stdout
    return process, int(process.stdout.readline())


def listen(port: int, streams: int) -> tuple[np.ndarray, int, list[int]]:
    """Ask for `streams` answers at once. Delays in ns, events missing or out of order, events of each in that order."""
    selector, axis = selectors.DefaultSelector(), stamps.Axis()
    held: dict[socket.socket, bytes] = {}
    expected: dict[socket.socket, int] = {}
    delays, wrong = [], 0
    for _ in range(streams):
        sock = socket.create_connection(("127.0.0.1", port))
        sock.setblocking(False)
        stamps.ask(sock)
        sock.send(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
        selector.register(sock, selectors.EVENT_READ)
        held[sock], expected[sock] = b"", 0
    while held:
        for key, _ in selector.select(0.05):
            sock = key.fileobj
            try:
                data, ancillary, _, _ = sock.recvmsg(65536, stamps.SPACE)
            except ConnectionError:
                data, ancillary = b"", []
            before, wall, after = time.perf_counter_ns(), time.time_ns(), time.perf_counter_ns()
            stamp = stamps.stamp_of(ancillary)
            t_ns = before if stamp is None else axis.place(stamp, before, wall, after)
            text = held[sock] + data
            end = 0
            for found in MARK.finditer(text):
                delays.append(t_ns - int(found[1]))
                wrong += int(found[2]) != expected[sock]
                expected[sock] = int(found[2]) + 1
                end = found.end()
            held[sock] = text[end:]
            if held[sock].endswith(b"0\r\n\r\n") or not data:
                selector.unregister(sock)
                sock.close()
                del held[sock]
    return np.array(delays), wrong, list(expected.values())


def rss_mb(pid: int) -> float:
    """Memory of a process, megabytes."""
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 1e6


def cpu_s(pid: int) -> float:
    """Processor time that a process has used, seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def relay_of(recorder: subprocess.Popen[bytes]) -> int:
    """The forwarding process that a recorder has started."""
    return int(Path(f"/proc/{recorder.pid}/task/{recorder.pid}/children").read_text().split()[0])


def quantiles(delays: np.ndarray) -> str:
    """Of delays in nanoseconds, for people."""
    p50, p99, most = (np.quantile(delays, q) / 1e3 for q in (0.5, 0.99, 1))
    return f"median {p50:7.0f} us   p99 {p99:7.0f} us   max {most:7.0f} us"


def delay(streams: int, rate: float, seconds: float, rounds: int) -> None:
    """Direct, through the peer, through the proxy; in turn."""
    server, port = child("--serve", str(int(seconds * rate)), str(rate))
    peer, peer_port = child("--forward", str(port))
    found: dict[str, list[np.ndarray]] = {"direct": [], "asyncio": [], "proxy": []}
    with tempfile.TemporaryDirectory() as folder:
        recorder, proxy_port = child("--record", str(port), folder)
        for _ in range(rounds):
            for name, at in (("direct", port), ("asyncio", peer_port), ("proxy", proxy_port)):
                delays, wrong, _ = listen(at, streams)
                assert not wrong, name
                found[name].append(delays)
        cpu = cpu_s(relay_of(recorder)), cpu_s(recorder.pid)
        for process in (recorder, peer, server):
            process.terminate()
            process.wait()
    print(f"{streams} streams, {rate:g} events/s each, {rounds} rounds of {seconds:g} s")
    per_event = [1e6 * used / (rounds * seconds * rate * streams) for used in cpu]
    print(f"  processor time per event: {per_event[0]:.0f} us to forward, {per_event[1]:.0f} us to decode and keep")
    all_ = {name: np.concatenate(parts) for name, parts in found.items()}
    for name, delays in all_.items():
        print(f"  {name:8} {quantiles(delays)}")
    for name in ("asyncio", "proxy"):
        p50, p99 = (np.quantile(all_[name], q) - np.quantile(all_["direct"], q) for q in (0.5, 0.99))
        print(f"  {name} adds {p50 / 1e3:.0f} us to the median, {p99 / 1e3:.0f} us to the 99th percentile")


def count(streams: int, at_once: int, events: int, rate: float) -> None:
    """Every event arrives, in order, and is in the trace; memory at the first and the last third."""
    server, port = child("--serve", str(events), str(rate))
    rss: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        recorder, proxy_port = child("--record", str(port), folder)
        inner = relay_of(recorder)
        seen = wrong = 0
        for _ in range(streams // at_once):
            _, bad, got = listen(proxy_port, at_once)
            seen, wrong = seen + sum(got), wrong + bad
            rss.append((rss_mb(recorder.pid), rss_mb(inner)))
        recorder.terminate()
        recorder.wait()
        server.terminate()
        server.wait()
        trace = read(Path(folder) / "x.jsonl")
    third = len(rss) // 3
    recorded = [len(one) for one in trace.streams]
    print(f"{streams} streams of {events} events, {at_once} at a time, {rate:g} events/s each")
    print(f"  client: {seen} of {streams * events} events, {wrong} missing or out of order")
    print(f"  trace:  {sum(recorded)} events in {len(recorded)} streams, {len(set(recorded))} different length(s)")
    for name, column in (("recorder", 0), ("relay", 1)):
        first, last = (np.mean([r[column] for r in part]) for part in (rss[:third], rss[-third:]))
        print(f"  {name}: {first:.0f} MB in the first third, {last:.0f} MB in the last")


def killed(streams: int, rate: float, rounds: int) -> None:
    """The recording process is killed in the middle: events that clients have and the file has not."""
    server, port = child("--serve", "1000000", str(rate))
    missing: list[int] = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            recorder, proxy_port = child("--record", str(port), folder)
            death = threading.Timer(2.0, recorder.kill)
            death.start()
            _, _, got = listen(proxy_port, streams)
            recorder.wait()
            kept = {one.name: len(one) for one in read(Path(folder) / "x.jsonl").streams}
        missing += [events - kept.get(f"client {k}", 0) for k, events in enumerate(got, 1)]
    server.terminate()
    server.wait()
    print(f"kill -9 of the recorder, {rounds} times, {streams} streams, {rate:g} events/s each")
    print(f"  {sum(missing)} events missing in {len(missing)} streams, {max(missing)} in the worst")


def record(port: int, folder: str) -> None:
    """The recording process; a SIGTERM ends it, once it has decoded what has come."""
    with (
        told_to_end() as ended,
        Keeper(Writer(Path(folder) / "x.jsonl"), keep=False) as keeper,
        Proxy(f"http://127.0.0.1:{port}", keeper) as proxy,
    ):
        print(proxy.url.rpartition(":")[2], flush=True)
        while not ended():
            proxy.poll(0.1)


def main() -> None:
    """Run a role, or everything."""
    if sys.argv[1:2] == ["--serve"]:
        return serve(int(sys.argv[2]), float(sys.argv[3]))
    if sys.argv[1:2] == ["--forward"]:
        return asyncio.run(forward(int(sys.argv[2])))
    if sys.argv[1:2] == ["--record"]:
        return record(int(sys.argv[2]), sys.argv[3])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=64)
    parser.add_argument("--rate", type=float, default=50.0)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--many", type=int, default=1000, help="streams of the count; 0 for none")
    options = parser.parse_args()
    print(f"{os.cpu_count()} processors, load average {os.getloadavg()[0]:.1f}")
    delay(options.streams, options.rate, options.seconds, options.rounds)
    if options.many:
        count(options.many, min(100, options.many), 300, options.rate)
    killed(options.streams, options.rate, options.rounds)
    print(f"load average {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
