"""Bytes cut anywhere give the same payloads, each in the read that completed it: all framings, encodings, protocols."""

from __future__ import annotations

import base64
import gzip
import itertools
import json
import zlib
from collections.abc import Callable, Iterable, Iterator
from unittest.mock import patch

import brotli
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from websockets.extensions.permessage_deflate import PerMessageDeflate
from websockets.frames import Frame, Opcode
from wire_bytes import Scene, eventstream_frame, http1, http2, js, websocket_frame

from specsonar.wire import conversation, exchange
from specsonar.wire.answer import Answer
from specsonar.wire.body import Body
from specsonar.wire.connection import Connection

Said = tuple[object, str]


class Seen(Answer):
    """An answer that keeps what it is given."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        self.said: list[Said] = []
        self.reads: list[int] = []

    def event(self, t_ns: int, read: int, value: object, size: int, kind: str = "") -> None:
        super().event(t_ns, read, value, size, kind)
        assert t_ns == 1000 + read
        self.said.append((value, kind))
        self.reads.append(read)


TEXTS = st.text(st.sampled_from('ab \\"{}[]:,\n\r\t\u2028\u2029\x85é漢🙂'), max_size=12)
VALUES = st.dictionaries(
    st.sampled_from(["content", "a", "data", "🙂"]), TEXTS | st.integers() | st.lists(TEXTS), min_size=1
)
MANY = st.lists(VALUES, min_size=1, max_size=6)


# --- framings: payloads to bytes, in pieces of one event -------------------------------------------------------------


@st.composite
def sse(draw: st.DrawFn) -> tuple[list[Said], list[bytes], str]:
    """Event streams of any line end, with comments, names, many lines of data, blanks, and perhaps without an end."""
    said: list[Said] = []
    pieces: list[bytes] = [draw(st.sampled_from([b"", b"\xef\xbb\xbf", b"\n\n", b"\r\n"]))]
    for value in draw(MANY):
        eol = draw(st.sampled_from([b"\n", b"\r\n", b"\r"]))
        lines = []
        if draw(st.booleans()):
            lines.append(b": keep-alive")
            said.append(({"comment": "keep-alive"}, ""))
        name = draw(st.sampled_from(["", "delta", "message_start"]))
        if name:
            lines.append(b"event:" + name.encode())
        blank = draw(st.sampled_from([b"", b" "]))
        indent = draw(st.sampled_from([None, 1]))
        text = json.dumps(value, ensure_ascii=False, indent=indent).encode()
        lines += [b"data:" + blank + line for line in text.split(b"\n")]
        if draw(st.booleans()):
            lines += [b"id: 7", b"retry:1", b"no colon", b""]
        elif draw(st.booleans()):
            lines[-1] += b" "
            lines.append(b"")
        else:
            lines.append(b"")
        said.append((value, name))
        pieces.append(eol.join(lines) + eol)
    said.append(("[DONE]", ""))
    pieces.append(draw(st.sampled_from([b"data: [DONE]\n\n", b"data:[DONE] \r\n\r\n", b"data: [DONE]"])))
    return said, pieces, "text/event-stream; charset=utf-8"


@st.composite
def lines(draw: st.DrawFn) -> tuple[list[Said], list[bytes], str]:
    values = draw(MANY)
    eol = draw(st.sampled_from([b"\n", b"\r\n", b"\n\n"]))
    pieces = [js(value) + eol for value in values]
    pieces[-1] = pieces[-1].strip() + draw(st.sampled_from([eol, b""]))
    return (
        [(value, "") for value in values],
        pieces,
        draw(st.sampled_from(["application/x-ndjson", "application/jsonl"])),
    )


@st.composite
def array(draw: st.DrawFn) -> tuple[list[Said], list[bytes], str]:
    values = draw(MANY)
    indent = draw(st.sampled_from([None, 2]))
    pieces = [b"["]
    for value in values:
        pieces.append(json.dumps(value, indent=indent, ensure_ascii=draw(st.booleans())).encode())
        pieces.append(b"\n,\r\n")
    pieces[-1] = b"]"
    return [(value, "") for value in values], pieces, draw(st.sampled_from(["application/json; charset=UTF-8", ""]))


@st.composite
def eventstream(draw: st.DrawFn) -> tuple[list[Said], list[bytes], str]:
    values = draw(MANY)
    pieces, said = [], []
    for value in values:
        if draw(st.booleans()):
            said.append((value, "contentBlockDelta"))
            pieces.append(eventstream_frame({":message-type": "event", ":event-type": "contentBlockDelta"}, js(value)))
        else:
            said.append((value, ""))
            inner = js({"bytes": base64.b64encode(js(value)).decode(), "p": "abc"})
            pieces.append(eventstream_frame({":event-type": "chunk", ":message-type": "event"}, inner))
    kind = draw(st.sampled_from(["application/vnd.amazon.eventstream", "application/octet-stream"]))
    return said, pieces, kind


BODIES = st.one_of(sse(), lines(), array(), eventstream())


# --- encodings, flushed for each event -------------------------------------------------------------------------------


def plain(pieces: Iterable[bytes]) -> Iterator[bytes]:
    yield from pieces


def zlibbed(wbits: int) -> Callable[[Iterable[bytes]], Iterator[bytes]]:
    def encode(pieces: Iterable[bytes]) -> Iterator[bytes]:
        codec = zlib.compressobj(wbits=wbits)
        for piece in pieces:
            yield codec.compress(piece) + codec.flush(zlib.Z_SYNC_FLUSH)
        yield codec.flush()

    return encode


def members(pieces: Iterable[bytes]) -> Iterator[bytes]:
    for piece in pieces:
        yield gzip.compress(piece)


def brotlied(pieces: Iterable[bytes]) -> Iterator[bytes]:
    codec = brotli.Compressor(quality=3)
    for piece in pieces:
        yield codec.process(piece) + codec.flush()
    yield codec.finish()


def zstdded(pieces: Iterable[bytes]) -> Iterator[bytes]:
    codec = zstandard.ZstdCompressor().compressobj()
    for piece in pieces:
        yield codec.compress(piece) + codec.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    yield codec.flush()


def frames(pieces: Iterable[bytes]) -> Iterator[bytes]:
    for piece in pieces:
        yield zstandard.compress(piece)


ENCODINGS = st.sampled_from(
    [
        ("", plain),
        ("identity", plain),
        ("gzip", zlibbed(31)),
        ("x-gzip", members),
        ("deflate", zlibbed(15)),
        ("deflate", zlibbed(-15)),
        ("br", brotlied),
        ("zstd", zstdded),
        ("zstd", frames),
        ("gzip, br", lambda pieces: brotlied(zlibbed(31)(pieces))),
    ]
)


# --- cutting ---------------------------------------------------------------------------------------------------------


def cut(data: bytes, at: Iterable[int]) -> list[bytes]:
    points = sorted({0, len(data), *(p % (len(data) + 1) for p in at)})
    return [data[a:b] for a, b in itertools.pairwise(points)]


CUTS = st.lists(st.integers(0, 1 << 20), max_size=8)


def check_reads(data: bytes, bytewise: list[int], pieces: list[bytes], reads: list[int]) -> None:
    """Each event belongs to the read with the byte that completed it, as reading byte by byte tells."""
    read_of = [index for index, piece in enumerate(pieces) for _ in piece]
    assert reads == [read_of[byte] for byte in bytewise]


def feed(body: tuple[list[Said], list[bytes], str], encoding: str, pieces: Iterable[bytes]) -> Seen:
    answer = Seen()
    decoder = Body(answer, body[2], encoding)
    for read, piece in enumerate(pieces):
        decoder.feed(1000 + read, piece, read)
    decoder.end(9999)
    assert decoder.findings == [] and answer.ended
    return answer


@settings(max_examples=150, deadline=None)
@given(body=BODIES, encoding=ENCODINGS, at=CUTS)
def test_bodies(body: tuple[list[Said], list[bytes], str], encoding: tuple[str, Callable], at: list[int]) -> None:
    data = b"".join(encoding[1](body[1]))
    bytewise = feed(body, encoding[0], cut(data, range(len(data))))
    assert bytewise.said == body[0]
    pieces = cut(data, at)
    answer = feed(body, encoding[0], pieces)
    assert answer.said == body[0]
    check_reads(data, bytewise.reads, pieces, answer.reads)


# --- protocols: (who, bytes) in order of time ------------------------------------------------------------------------


def run(
    scene: Scene, sent_at: Iterable[int], received: Callable[[int, bytes], list[bytes]]
) -> tuple[list[Seen], list[bytes]]:
    """Feed a scene, the client's bytes cut at `sent_at`; the server's as `received` cuts its nth part."""
    with patch.object(exchange, "Answer", Seen), patch.object(conversation, "Answer", Seen):
        connection = Connection()
        pieces: list[bytes] = []
        for number, (up, data) in enumerate(scene):
            for piece in cut(data, sent_at) if up else received(number, data):
                if up:
                    connection.sent(0, piece)
                else:
                    connection.received(1000 + len(pieces), piece)
                    pieces.append(piece)
        connection.closed(9999)
    assert connection.findings == []
    return connection.answers, pieces


def check_scene(scene: Scene, said: list[Said], answers: int, at: list[int]) -> None:
    whole, _ = run(scene, (), lambda _, data: [data])
    bytewise, _ = run(scene, range(200), lambda _, data: cut(data, range(len(data))))
    some, pieces = run(scene, at, lambda number, data: cut(data, [p // (number + 1) for p in at]))
    for seen in (whole, bytewise, some):
        assert [answer.said for answer in seen] == [said] * answers
        assert all(answer.ended for answer in seen)
    data = b"".join(pieces)
    for one, other in zip(bytewise, some, strict=True):
        check_reads(data, one.reads, pieces, other.reads)


@settings(max_examples=40, deadline=None)
@given(
    body=BODIES, encoding=ENCODINGS, at=CUTS, shape=st.sampled_from(["chunked", "length", "close"]), two=st.booleans()
)
def test_http(body: tuple, encoding: tuple[str, Callable], at: list[int], shape: str, two: bool) -> None:
    said, pieces, kind = body
    encoded = list(encoding[1](pieces))
    scene = (http2 if two else http1)(encoded, kind, encoding[0], shape)
    check_scene(scene, said, 1 if shape == "close" and not two else 2, at)


@st.composite
def websocket(draw: st.DrawFn) -> tuple[Scene, list[Said], int]:
    """Two questions with their answers; messages in several frames, control frames in between, perhaps deflated."""
    deflate = draw(st.sampled_from(["", "permessage-deflate", "permessage-deflate; server_no_context_takeover"]))
    forget = "server" in deflate
    server = PerMessageDeflate(False, forget, 15, 15)
    client = PerMessageDeflate(forget, False, 15, 15)
    values = draw(MANY)

    def message(value: object, mask: bool) -> bytes:
        codec = client if mask else server
        data = js(value)
        one = Frame(Opcode.TEXT, data)
        one = codec.encode(one) if deflate else one
        size = draw(st.integers(1, len(one.data) + 1))
        parts = [bytes(one.data[at : at + size]) for at in range(0, len(one.data), size)] or [b""]
        out = b""
        for index, part in enumerate(parts):
            kind = Opcode.CONT if index else Opcode.TEXT
            last = index == len(parts) - 1
            out += websocket_frame(kind, part, last, one.rsv1 and not index, mask)
            out += websocket_frame(Opcode.PING, b"?", True, False, mask) if draw(st.booleans()) else b""
        return out

    ask = (
        b"GET /live HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: eA==\r\n\r\n"
    )
    agree = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    agree += f"Sec-WebSocket-Extensions: {deflate}\r\n\r\n".encode() if deflate else b"\r\n"
    scene: Scene = [(True, ask), (False, agree)]
    for _ in range(2):
        scene.append((True, message({"prompt": "x"}, True)))
        scene.append((False, b"".join(message(value, False) for value in values)))
    scene.append((False, websocket_frame(Opcode.CLOSE, b"\x03\xe8", True, False, False)))
    return scene, [(value, "") for value in values], 2


@settings(max_examples=40, deadline=None)
@given(made=websocket(), at=CUTS)
def test_websocket(made: tuple[Scene, list[Said], int], at: list[int]) -> None:
    scene, said, answers = made
    check_scene(scene, said, answers, at)
