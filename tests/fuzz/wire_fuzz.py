"""One input of a fuzzer: bytes that say what is fed to which decoder, and what must hold whatever they are.

With coverage guidance (needs the extra `fuzz`), for a minute, new inputs into the first folder:
`python tests/fuzz/wire_fuzz.py -max_total_time=60 "$(mktemp -d)" tests/fuzz/corpus`
"""

from __future__ import annotations

import contextlib
import sys

if __name__ == "__main__":
    import atheris

    watched = atheris.instrument_imports(include=["specsonar.wire"])
else:  # the quick tests use `check` alone
    watched = contextlib.nullcontext()

with watched:
    from specsonar.errors import LimitError
    from specsonar.wire.answer import Answer
    from specsonar.wire.body import Body
    from specsonar.wire.connection import Connection
    from specsonar.wire.limits import Limits
    from specsonar.wire.websocket import WebSocket  # noqa: F401  loaded late otherwise, and not looked into

LIMITS = Limits(
    header_bytes=4096, header_count=32, event_bytes=1 << 14, frame_bytes=1 << 14, decoded_bytes=1 << 20,
    decoded_ratio=100, events=200, answers=20, streams=8, request_bytes=4096,
)  # fmt: skip
TYPES = (
    "text/event-stream",
    "application/x-ndjson",
    "application/json",
    "application/vnd.amazon.eventstream",
    "text/plain",
    "",
)
ENCODINGS = ("", "gzip", "deflate", "br", "zstd", "gzip, br")
CONNECTION = 0xFF
"""First byte of an input for a whole connection; any smaller one is a body of that type and encoding."""


def pack(parts: list[tuple[bool, bytes]]) -> bytes:
    """An input that feeds these (from the client?, bytes) to a connection."""
    out = bytearray([CONNECTION])
    for up, data in parts:
        for at in range(0, len(data), 0x7FFF):
            piece = data[at : at + 0x7FFF]
            out += (len(piece) | up << 15).to_bytes(2, "big") + piece
    return bytes(out)


def check(data: bytes) -> None:
    """Feed one input. Nothing but LimitError may come out, and what was read stays readable."""
    if not data:
        return
    if data[0] == CONNECTION:
        answers, findings = _connection(data[1:])
    else:
        answers, findings = _body(data)
    assert len(findings) < 30 and len(answers) <= LIMITS.answers
    for answer in answers:
        assert answer.ended
        fresh = answer.fresh()
        streams, _ = answer.streams("x")
        assert len(fresh) <= LIMITS.events and sum(len(one) for one in streams) <= LIMITS.events * 300
        assert all((one.t_ns[1:] >= one.t_ns[:-1]).all() for one in streams)


def _connection(data: bytes) -> tuple[list[Answer], list[object]]:
    seen = Connection(LIMITS)
    at = now = 0
    with contextlib.suppress(LimitError):
        while at + 2 <= len(data):
            size = int.from_bytes(data[at : at + 2], "big")
            piece = data[at + 2 : at + 2 + (size & 0x7FFF)]
            at += 2 + len(piece)
            now += 1
            seen.sent(now, piece) if size >> 15 else seen.received(now, piece)
    seen.closed(now + 1)
    return seen.answers, seen.findings


def _body(data: bytes) -> tuple[list[Answer], list[object]]:
    answer = Answer()
    body = Body(answer, TYPES[data[0] % len(TYPES)], ENCODINGS[data[0] // len(TYPES) % len(ENCODINGS)], LIMITS)
    step = 1 + (data[0] // 36) * 50
    with contextlib.suppress(LimitError):
        for now, at in enumerate(range(1, len(data), step)):
            body.feed(now, data[at : at + step], now)
    body.end(len(data))
    return [answer], body.findings


if __name__ == "__main__":
    atheris.Setup(sys.argv, check)
    atheris.Fuzz()
