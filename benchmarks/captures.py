"""Packet captures: megabytes a second beside dpkt on the same file, and the memory it takes.

    python benchmarks/captures.py                # a capture of 1 GB, written to a temporary folder
    python benchmarks/captures.py --megabytes 50

The capture holds many streamed answers at once over HTTP/1.1 with keep-alive: one event and one acknowledgement at a
time, which is the dearest there is (larger packets are read faster). dpkt does what it is used for: each packet read
and taken apart down to TCP, nothing reassembled. Each measurement runs in a process of its own.
"""

from __future__ import annotations

import argparse
import os
import resource
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

CONNECTIONS = 64
EVENTS = 300
HEAD = (
    b"HTTP/1.1 200 OK\r\nserver: uvicorn\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)
EVENT = (
    b'data: {"id":"chatcmpl-1583ee2cf1dd","object":"chat.completion.chunk","created":1795963724,"model":"m","choices":'
    b'[{"index":0,"delta":{"content":" token"},"logprobs":null,"finish_reason":null,"token_ids":[7]}]}\n\n'
)
BODY = b'{"model":"m","stream":true,"max_tokens":300,"messages":[{"role":"user","content":"hi"}]}'
REQUEST = (
    b"POST /v1/chat/completions HTTP/1.1\r\nhost: h\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s"
    % (len(BODY), BODY)
)


def chunk(data: bytes) -> bytes:
    """One chunk of a chunked body."""
    return b"%x\r\n%s\r\n" % (len(data), data)


class Peer:
    """One connection: packets of either side."""

    def __init__(self, port: int) -> None:
        self.ports = (port, 8000)
        self.next = [1, 1]

    def packet(self, side: int, data: bytes, flags: int = 0x18) -> bytes:
        """Ethernet, IP and TCP around `data`; side 0 is the client."""
        source, target = self.ports[side], self.ports[1 - side]
        tcp = struct.pack(">HHIIBBHHH", source, target, self.next[side], self.next[1 - side], 0x50, flags, 65535, 0, 0)
        ip = struct.pack(
            ">BBHHHBBH4s4s", 0x45, 0, 40 + len(data), 0, 0x4000, 64, 6, 0, b"\x0a\0\0\1", b"\x0a\0\0\2"
        )  # fmt: skip
        self.next[side] = (self.next[side] + len(data) + (flags & 2) // 2) & 0xFFFFFFFF
        return bytes(12) + b"\x08\x00" + ip + tcp + data


def packets() -> Iterator[tuple[int, bytes]]:
    """Times in nanoseconds and packets, without end."""
    peers = [Peer(20000 + i) for i in range(CONNECTIONS)]
    t_ns = 1_700_000_000 * 10**9
    for peer in peers:
        yield t_ns, peer.packet(0, b"", 2)
        yield t_ns, peer.packet(1, b"", 0x12)
    while True:
        for peer in peers:
            yield t_ns, peer.packet(0, REQUEST)
            yield t_ns, peer.packet(1, HEAD)
        for number in range(EVENTS):
            for index, peer in enumerate(peers):
                t_ns += 20_000_000 // CONNECTIONS + 1000 * ((number * 7 + index) % 5)
                yield t_ns, peer.packet(1, chunk(EVENT))
                yield t_ns + 30_000, peer.packet(0, b"", 0x10)
        for peer in peers:
            yield t_ns, peer.packet(1, chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n")


def write(path: Path, size: int) -> None:
    """A nanosecond pcap of about `size` bytes."""
    with path.open("wb", 1 << 20) as out:
        written = out.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262144, 1))
        for t_ns, data in packets():
            seconds, rest = divmod(t_ns, 10**9)
            written += out.write(struct.pack("<IIII", seconds, rest, len(data), len(data)) + data)
            if written >= size:
                return


def ours(path: str) -> int:
    """Read with specsonar; how many events."""
    from specsonar.importers import read

    return read(path).events


def theirs(path: str) -> int:
    """Iterate with dpkt, each packet down to TCP; how many packets."""
    import dpkt

    count = 0
    with open(path, "rb") as file:
        for _, data in dpkt.pcap.Reader(file):
            tcp = dpkt.ethernet.Ethernet(data).data.data
            count += isinstance(tcp, dpkt.tcp.TCP)
    return count


def measured(which: str, path: Path) -> tuple[float, int, int]:
    """Seconds of processor time, peak memory in MB, and what was counted, of one reader in a process of its own."""
    done = subprocess.run(
        [sys.executable, __file__, "--only", which, os.fspath(path)], check=True, capture_output=True, text=True
    )  # fmt: skip
    seconds, peak, count = done.stdout.split()
    return float(seconds), int(peak), int(count)


def main() -> int:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--only", nargs=2, metavar=("WHICH", "FILE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only:
        which, file = options.only
        begin = time.process_time()  # the machine may do other things at the same time
        count = ours(file) if which == "ours" else theirs(file)
        spent = time.process_time() - begin
        print(spent, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024, count)
        return 0
    with tempfile.TemporaryDirectory(prefix="specsonar.") as folder:
        path = Path(folder) / "large.pcap"
        write(path, options.megabytes * 1_000_000)
        size = path.stat().st_size / 1e6
        rows = {which: measured(which, path) for which in ("theirs", "ours")}
    print(f"capture of {size:,.0f} MB\n")
    print("| reader | MB per second of processor | peak memory, MB | counted |\n|---|---:|---:|---:|")
    print("| dpkt, packets only | {:.1f} | {} | {:,} packets |".format(size / rows["theirs"][0], *rows["theirs"][1:]))
    print("| specsonar | {:.1f} | {} | {:,} events |".format(size / rows["ours"][0], *rows["ours"][1:]))
    print(f"\ntime of specsonar over time of dpkt: {rows['ours'][0] / rows['theirs'][0]:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
