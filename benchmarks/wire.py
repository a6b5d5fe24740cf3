"""Speed of the wire decoders: bytes to events beside h11 alone, which every HTTP/1.1 client in Python pays.

    python benchmarks/wire.py

The ratio is the figure: it says what decoding costs on top of taking HTTP apart. Each time is the smallest of five.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import h11

from specsonar.wire import exchange
from specsonar.wire.answer import Answer
from specsonar.wire.connection import Connection

EVENTS = 20_000
ASK = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def event(number: int) -> bytes:
    """One token of a chat, as a service sends it."""
    value = {
        "id": "chatcmpl-0123456789abcdef", "object": "chat.completion.chunk", "created": 1700000000, "model": "a-model",
        "choices": [{"index": 0, "delta": {"content": f" word{number}"}, "logprobs": None, "finish_reason": None}],
    }  # fmt: skip
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def chunked(per_chunk: int) -> bytes:
    """A response of `EVENTS` events, this many in a chunk."""
    parts = []
    for first in range(0, EVENTS, per_chunk):
        data = b"".join(map(event, range(first, min(EVENTS, first + per_chunk))))
        parts.append(b"%x\r\n%s\r\n" % (len(data), data))
    return HEAD + b"".join(parts) + b"0\r\n\r\n"


def by_h11(data: bytes, read: int) -> None:
    """The body, taken out of HTTP and thrown away."""
    parser = h11.Connection(h11.CLIENT)
    parser.send(h11.Request(method="POST", target="/", headers=[("host", "x")]))
    parser.send(h11.EndOfMessage())
    for at in range(0, len(data), read):
        parser.receive_data(data[at : at + read])
        while type(parser.next_event()) not in (type(h11.NEED_DATA), h11.EndOfMessage):
            pass


def by_connection(data: bytes, read: int) -> None:
    """All that is done with a connection: HTTP, event stream, JSON, dialect."""
    seen = Connection()
    seen.sent(0, ASK)
    for at in range(0, len(data), read):
        seen.received(at, data[at : at + read])
    (answer,) = seen.answers
    assert answer.ended and len(answer.fresh()) == EVENTS


class Counting(Answer):
    """An answer that looks at nothing: what is left is HTTP, framing and JSON."""

    def event(self, *_: object) -> None:
        """One event."""
        self.seen = getattr(self, "seen", 0) + 1

    def fresh(self) -> Any:
        """As many as there were."""
        return range(self.seen)


def by_framing(data: bytes, read: int) -> None:
    """The same without the dialect."""
    with patch.object(exchange, "Answer", Counting):
        by_connection(data, read)


def best(work: Callable[[bytes, int], None], data: bytes, read: int) -> float:
    """Smallest processor time of five, seconds."""
    found = []
    for _ in range(5):
        begin = time.process_time()
        work(data, read)
        found.append(time.process_time() - begin)
    return min(found)


def main() -> None:
    """Print the table."""
    print(f"{EVENTS:,} events of about {len(event(10_000))} bytes\n")
    print("| events a chunk | bytes a read | h11 alone, µs an event | to JSON | all of it | all over h11 | MB/s |")
    print("|---|---|---|---|---|---|---|")
    for per_chunk, read in ((1, 300), (1, 65_536), (16, 65_536)):
        data = chunked(per_chunk)
        alone, framing, ours = (best(work, data, read) for work in (by_h11, by_framing, by_connection))
        each = " | ".join(f"{t / EVENTS * 1e6:.1f}" for t in (alone, framing, ours))
        print(f"| {per_chunk} | {read:,} | {each} | {ours / alone:.1f} | {len(data) / ours / 1e6:.1f} |")


if __name__ == "__main__":
    main()
