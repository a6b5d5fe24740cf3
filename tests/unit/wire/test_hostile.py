"""What a broken or hostile peer sends: a finding or one clear error, bounded memory, and what came before is kept."""

from __future__ import annotations

import gzip
import json
import struct
import zlib
from collections.abc import Callable

import brotli
import hpack
import pytest
import zstandard
from wire_bytes import REQUEST, http1, http2, js, websocket_frame

from specsonar.errors import LimitError
from specsonar.wire.answer import Answer
from specsonar.wire.body import Body
from specsonar.wire.connection import Connection
from specsonar.wire.limits import Limits

EVENT = b'data: {"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"a"}}]}\n\n'
SMALL = Limits(
    header_bytes=4096, header_count=20, event_bytes=10_000, frame_bytes=20_000, decoded_bytes=20 << 20,
    decoded_ratio=100, events=50, answers=5, streams=4, request_bytes=1000,
)  # fmt: skip
ASK = b"POST /v1/chat HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def answer_to(data: bytes, *, limits: Limits = SMALL) -> Connection:
    seen = Connection(limits)
    seen.sent(0, ASK)
    for at in range(0, len(data), 1000):
        seen.received(1, data[at : at + 1000])
    seen.closed(2)
    return seen


def codes(seen: Connection) -> list[str]:
    return [f.code for f in seen.findings]


def events(seen: Connection) -> list[int]:
    return [len(one) for answer in seen.answers for one in answer.streams()[0]]


# --- broken HTTP/1.1 ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "expected", "count"),
    [
        (CHUNKED + chunk(EVENT), ["I014"], 1),
        (CHUNKED + chunk(EVENT) + b"zz\r\n" + EVENT, ["I015"], 1),
        (CHUNKED + b"10\r\n" + EVENT + b"\r\n0\r\n\r\n", ["I015"], 0),
        (CHUNKED + b"%x\r\n" % (len(EVENT) + 9) + EVENT + b"\r\n0\r\n\r\n", ["I014"], 1),
        (CHUNKED + b"-1\r\n" + EVENT, ["I015"], 0),
        (CHUNKED + b"f" * 25 + b"\r\n" + EVENT, ["I015"], 0),
        (HEAD + b"\r\n" + EVENT, [], 1),
        (HEAD + b"Content-Length: 500\r\n\r\n" + EVENT, ["I014"], 1),
        (HEAD + b"Content-Length: 5\r\n\r\n" + EVENT, ["I018"], 0),
        (HEAD + b"Content-Length: -5\r\n\r\n" + EVENT, ["I015"], 0),
        (HEAD + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n" + EVENT, ["I015"], 0),
        (HEAD.replace(b"\r\n", b"\n") + b"\n" + EVENT, [], 1),
        (b"HTTP/1.1 200\r\n\r\n" + EVENT, [], 1),
        (b"HTTP/1.0 200 OK\r\n\r\n" + EVENT, [], 1),
        (b"HTTP/1.1 abc\r\n\r\n" + EVENT, ["I015"], 0),
        (b"HTTP/1.1 200 OK\r\n\xff\x00bad\r\n\r\n" + EVENT, ["I015"], 0),
        (b"HTTP/1.1 101 Switching\r\nUpgrade: smoke\r\n\r\n" + EVENT, ["I015"], 0),
        (b"\x16\x03\x01\x02\x00" + b"\x01" * 900, ["I018"], 0),
        (b"tail of a body\r\n", ["I018"], 0),
        (b"", [], 0),
    ],
)
def test_broken_responses(data: bytes, expected: list[str], count: int) -> None:
    seen = answer_to(data)
    assert codes(seen) == expected
    assert sum(events(seen)) == count and all(a.ended for a in seen.answers)


def test_a_capture_that_starts_in_the_middle_goes_on_with_the_next_request() -> None:
    seen = Connection()
    seen.received(0, b"1f\r\ndata: rest of an answer\n\n\r\n0\r\n\r\n")
    seen.sent(1, ASK)
    seen.received(2, CHUNKED + chunk(EVENT) + b"0\r\n\r\n")
    assert codes(seen) == ["I018"] and events(seen) == [1]


def test_without_the_client_the_server_suffices() -> None:
    for make, count in ((http1, 2), (http2, 2)):
        seen = Connection()
        for up, data in make([EVENT, EVENT], "text/event-stream", "", "chunked"):
            if not up:
                seen.received(1, data)
        assert events(seen) == [2] * count and codes(seen) == []


def test_a_head_request_and_an_empty_answer_have_no_body() -> None:
    seen = Connection()
    seen.sent(0, b"HEAD /v1 HTTP/1.1\r\nHost: x\r\n\r\n" + b"DELETE /v1 HTTP/1.1\r\nHost: x\r\n\r\n" + ASK)
    seen.received(1, b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n" + b"HTTP/1.1 204 No Content\r\n\r\n" + CHUNKED)
    seen.received(2, chunk(EVENT) + b"0\r\n\r\n")
    assert events(seen) == [1] and codes(seen) == []


def test_behind_a_connect_another_connection_begins() -> None:
    seen = Connection()
    seen.sent(0, b"CONNECT api:443 HTTP/1.1\r\nHost: api:443\r\n\r\n")
    seen.received(1, b"HTTP/1.1 200 Connection established\r\n\r\n")
    for up, data in http2([EVENT], "text/event-stream", "", "chunked"):
        seen.sent(2, data) if up else seen.received(2, data)
    assert events(seen) == [1, 1] and codes(seen) == []


def test_upgrade_to_http_2_without_tls() -> None:
    seen = Connection()
    seen.sent(
        0, ASK.replace(b"Host", b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAM\r\nHost")
    )
    encoder = hpack.Encoder()
    head = encoder.encode([(":status", "200"), ("content-type", "text/event-stream")])
    frames = b"\0\0\0\x04\0\0\0\0\0" + h2_frame(1, 4, 1, head) + h2_frame(0, 1, 1, EVENT)
    seen.received(1, b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n" + frames)
    seen.sent(2, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\x04\0\0\0\0\0")
    assert events(seen) == [1] and codes(seen) == [] and seen.answers[0].ended


def test_a_refused_upgrade_goes_on_with_what_was_sent() -> None:
    seen = Connection(SMALL)
    body = js({"model": "m", "prompt": "x" * 900})
    ask = b"POST /v1 HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: %d\r\n\r\n" % len(
        body
    )
    for piece in (ask, body[:400], body[400:], ASK):
        seen.sent(0, piece)
    seen.received(1, CHUNKED + chunk(EVENT) + b"0\r\n\r\n")
    seen.received(2, CHUNKED + chunk(EVENT) + b"0\r\n\r\n")
    assert events(seen) == [1, 1] and codes(seen) == []
    assert [a.streams()[0][0].meta["route"] for a in seen.answers] == ["/v1", "/v1/chat"]
    assert seen.answers[0].streams()[0][0].meta["model"] == "m"


# --- limits -----------------------------------------------------------------------------------------------------------


def too_much(feed: Callable[[Connection], None], what: str, kept: int = 0) -> None:
    """The limit is named, what came before is kept, and the connection is left alone from then on."""
    seen = Connection(SMALL)
    with pytest.raises(LimitError, match=what):
        feed(seen)
    seen.received(9, CHUNKED + chunk(EVENT))
    seen.sent(9, ASK)
    seen.closed(9)
    assert sum(events(seen)) == kept and all(a.ended for a in seen.answers)


def stream(*parts: bytes, repeat: int = 1) -> Callable[[Connection], None]:
    def feed(seen: Connection) -> None:
        seen.sent(0, ASK)
        for part in parts:
            for _ in range(repeat):
                seen.received(1, part)

    return feed


def pieces(head: bytes, part: bytes) -> Callable[[Connection], None]:
    def feed(seen: Connection) -> None:
        seen.sent(0, ASK)
        seen.received(1, head)
        for _ in range(10_000):
            seen.received(1, part)

    return feed


OPEN = HEAD + b"\r\n"


def test_endless_headers() -> None:
    too_much(pieces(b"HTTP/1.1 200 OK\r\n", b"X: y\r\n"), "a head is larger than 4,096")
    too_much(pieces(b"HTTP/1.1 200 OK\r\nX: ", b"y" * 100), "a head")
    too_much(stream(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 21 + b"\r\n"), "the number of headers is larger than 20")
    too_much(
        lambda seen: [seen.sent(0, b"GET / HTTP/1.1\r\n"), *(seen.sent(0, b"X: y\r\n") for _ in range(999))], "a head"
    )


def test_endless_lines_and_values() -> None:
    too_much(pieces(OPEN + EVENT, b"x" * 1000), "a line of an event stream is larger than 10,000", 1)
    too_much(pieces(OPEN + EVENT, b"data: xxx\n"), "an event is larger", 1)
    too_much(pieces(OPEN.replace(b"event-stream", b"x-ndjson"), b'{"a":"' + b"x" * 999), "a line of JSON")
    too_much(pieces(OPEN.replace(b"text/event-stream", b"application/json"), b'{"a":' * 99), "a JSON value")
    aws = OPEN.replace(b"text/event-stream", b"application/vnd.amazon.eventstream")
    prelude = struct.pack(">II", 1 << 30, 0)
    too_much(stream(aws + prelude + struct.pack(">I", zlib.crc32(prelude))), "a frame of an event stream")


def test_endless_events_answers_and_requests() -> None:
    too_much(pieces(OPEN, EVENT), "events of an answer is larger than 50", 50)
    whole = CHUNKED + chunk(EVENT) + b"0\r\n\r\n"
    too_much(
        lambda seen: [(seen.sent(0, ASK), seen.received(1, whole)) for _ in range(9)], "answers of a connection", 5
    )
    too_much(lambda seen: [seen.sent(0, ASK) for _ in range(9)], "unanswered requests")


@pytest.mark.parametrize(
    ("encoding", "bomb"),
    [
        ("gzip", gzip.compress(bytes(30 << 20))),
        ("deflate", zlib.compress(bytes(30 << 20))),
        ("br", brotli.compress(bytes(30 << 20))),
        ("zstd", zstandard.compress(bytes(30 << 20))),
        ("gzip, gzip", gzip.compress(gzip.compress(bytes(30 << 20)))),
    ],
    ids=["gzip", "deflate", "br", "zstd", "twice"],
)
def test_bombs(encoding: str, bomb: bytes) -> None:
    head = HEAD + f"Content-Encoding: {encoding}\r\n\r\n".encode()
    for kind in (b"text/event-stream", b"text/plain"):
        too_much(stream(head.replace(b"text/event-stream", kind) + bomb), "decompress|line of an event stream")


def test_a_long_body_that_is_no_bomb_has_an_end_too() -> None:
    answer = Answer()
    body = Body(answer, "text/plain", "gzip", Limits(decoded_bytes=10_000))
    body.feed(0, gzip.compress(EVENT * 3), 0)
    with pytest.raises(LimitError, match="the decompressed body is larger than 10,000"):
        body.feed(1, gzip.compress(EVENT * 300), 1)
    body.feed(2, b"more", 2)
    body.end(3)
    assert len(answer.streams()[0][0]) >= 3


def test_a_limit_at_the_very_end_ends_the_answer() -> None:
    seen = answer_to(CHUNKED + chunk(EVENT * 50 + EVENT.strip()) + b"0\r\n\r\n")
    assert events(seen) == [50] and codes(seen) == ["I015"] and seen.answers[0].ended


# --- HTTP/2 -----------------------------------------------------------------------------------------------------------


def h2_frame(kind: int, flags: int, stream_id: int, body: bytes) -> bytes:
    return len(body).to_bytes(3, "big") + bytes([kind, flags]) + stream_id.to_bytes(4, "big") + body


PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + h2_frame(4, 0, 0, b"")
BEGIN = h2_frame(4, 0, 0, b"")


def head2(*pairs: tuple[str, str]) -> bytes:
    return hpack.Encoder().encode(pairs)


@pytest.mark.parametrize(
    "data",
    [
        h2_frame(1, 4, 1, b"\xff\xff\xff\xff\xff"),
        h2_frame(1, 4, 1, b"\xbe"),  # an entry of a table that is empty
        h2_frame(1, 0, 1, b"") + h2_frame(0, 0, 1, EVENT),
        h2_frame(1, 0, 1, b"") + h2_frame(9, 4, 3, b""),
        h2_frame(0, 8, 1, b"\xff"),
        h2_frame(4, 0, 0, b"123"),
        h2_frame(4, 0, 1, b""),
        h2_frame(3, 0, 1, b""),
        h2_frame(1, 4 | 0x20, 1, b"\0"),
        h2_frame(5, 4, 1, b""),
    ],
)
def test_broken_frames(data: bytes) -> None:
    seen = Connection(SMALL)
    seen.sent(0, PREFACE + h2_frame(1, 5, 1, head2((":method", "POST"), (":path", "/v1"))))
    seen.received(1, BEGIN + data)
    seen.received(2, data)
    assert codes(seen) == ["I015"]


def test_limits_of_http_2() -> None:
    too_much(
        lambda seen: seen.received(0, BEGIN + b"\xff\xff\xff\0\0\0\0\0\1"), "an HTTP/2 frame is larger than 20,000"
    )
    flood = h2_frame(1, 0, 1, b"x") + h2_frame(9, 0, 1, b"x" * 1000) * 9
    too_much(lambda seen: seen.received(0, BEGIN + flood), "a head")
    twice = head2(*[(f"x{n}", "y" * 90) for n in range(60)])
    too_much(lambda seen: seen.received(0, BEGIN + h2_frame(1, 4, 1, twice)), "a head|headers")
    ask = head2((":method", "POST"), (":path", "/v1"))
    many = b"".join(h2_frame(1, 4, n, ask) for n in range(1, 99, 2))
    too_much(lambda seen: seen.sent(0, PREFACE + many), "streams at once is larger than 4")


def test_a_stream_that_is_reset() -> None:
    ask = head2((":method", "POST"), (":path", "/v1"))
    reply = head2((":status", "200"), ("content-type", "text/event-stream"))
    for who, code, expected in (("server", 2, ["I014"]), ("server", 0, []), ("client", 8, [])):
        seen = Connection()
        seen.sent(0, PREFACE + h2_frame(1, 5, 1, ask))
        seen.received(1, BEGIN + h2_frame(1, 4, 1, reply) + h2_frame(0, 0, 1, EVENT))
        reset = h2_frame(3, 0, 1, code.to_bytes(4, "big"))
        seen.received(2, reset) if who == "server" else seen.sent(2, reset)
        seen.received(3, h2_frame(0, 0, 1, EVENT))
        assert codes(seen) == expected and events(seen) == [1] and seen.answers[0].ended


# --- WebSocket --------------------------------------------------------------------------------------------------------

UPGRADE = b"GET /live HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
AGREE = b"HTTP/1.1 101 Go\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
DEFLATE = b"Sec-WebSocket-Extensions: permessage-deflate\r\n"


def socket(limits: Limits = SMALL, extra: bytes = b"") -> Connection:
    seen = Connection(limits)
    seen.sent(0, UPGRADE)
    seen.received(1, AGREE + extra + b"\r\n" + websocket_frame(1, js({"a": 1}), True, False, False))
    return seen


@pytest.mark.parametrize(
    "data",
    [
        websocket_frame(1, b"{}", True, False, True),
        websocket_frame(1, b"{}", True, True, False),
        websocket_frame(3, b"{}", True, False, False),
        websocket_frame(0, b"{}", True, False, False),
        websocket_frame(9, b"x" * 126, True, False, False),
        websocket_frame(9, b"x", False, False, False),
    ],
)
def test_broken_websocket_frames(data: bytes) -> None:
    seen = socket()
    seen.received(2, data)
    seen.received(3, websocket_frame(1, js({"a": 1}), True, False, False))
    assert codes(seen) == ["I015"] and len(seen.answers) == 1 and seen.answers[0].ended


@pytest.mark.parametrize("extra", [b"", DEFLATE])
def test_websocket_messages_that_are_too_large(extra: bytes) -> None:
    codec = zlib.compressobj(wbits=-15)
    bomb = codec.compress(bytes(1 << 20)) + codec.flush(zlib.Z_SYNC_FLUSH)
    for data in (
        websocket_frame(1, b"x" * 10_001, True, False, False),
        websocket_frame(1, b"x" * 6000, False, False, False) + websocket_frame(0, b"x" * 6000, False, False, False),
        websocket_frame(1, bomb, True, True, False) if extra else b"\x81\x7f" + b"\x7f" + b"\xff" * 7,
    ):
        seen = socket(extra=extra)
        with pytest.raises(LimitError, match="a WebSocket message is larger than 10,000"):
            seen.received(2, data)
        assert len(seen.answers) == 1 and seen.answers[0].ended


def test_extensions_that_cannot_be_read() -> None:
    seen = Connection()
    seen.sent(0, UPGRADE)
    seen.received(1, AGREE + b"Sec-WebSocket-Extensions: ;;=\r\n\r\n")
    assert codes(seen) == ["I015"]


def test_a_socket_without_questions_is_one_answer() -> None:
    seen = socket()
    for value in ({"a": 2}, {"type": "session.updated"}, {"a": 3}):
        seen.received(2, websocket_frame(1, js(value), True, False, False))
    seen.received(3, websocket_frame(2, b"\0\1", True, False, False))
    seen.closed(4)
    assert len(seen.answers) == 1 and seen.answers[0].ended


# --- secrets ----------------------------------------------------------------------------------------------------------


def test_no_secret_of_a_request_is_kept() -> None:
    import gc

    secret = "s3cret-" + "k" * 20
    body = json.dumps({"model": "m", "messages": [{"content": secret}], "user": secret, "max_tokens": 3}).encode()
    ask = f"POST /v1?key={secret} HTTP/1.1\r\nHost: {secret}\r\nAuthorization: Bearer {secret}\r\nX-Key: {secret}\r\n"
    seen = Connection()
    seen.sent(0, f"{ask}Cookie: {secret}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
    seen.received(1, CHUNKED.replace(b"\r\n\r\n", f"\r\nSet-Cookie: {secret}\r\n\r\n".encode()) + chunk(EVENT))
    seen.received(1, chunk(b'data: {"choices":[{"delta":{"content":"%s"}}]}\n\n' % secret.encode()) + b"0\r\n\r\n")
    found, todo = set(), [seen]
    while todo:
        one = todo.pop()
        if id(one) in found or isinstance(one, type) or type(one).__name__ in ("module", "function"):
            continue
        found.add(id(one))
        assert not (
            isinstance(one, str | bytes | bytearray)
            and secret in (one if isinstance(one, str) else one.decode("latin-1"))
        )
        todo += gc.get_referents(one)
    assert len(found) > 30 and seen.answers[0].streams()[0][0].meta["max_tokens"] == 3


def test_a_large_request_is_left_out() -> None:
    seen = Connection(SMALL)
    body = json.dumps({"max_tokens": 3, "prompt": "x" * 2000}).encode()
    seen.sent(0, b"POST /v1 HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
    seen.received(1, CHUNKED + chunk(EVENT))
    assert codes(seen) == ["I017"] and "max_tokens" not in seen.answers[0].streams()[0][0].meta


def test_a_compressed_request_is_read() -> None:
    body = gzip.compress(REQUEST)
    seen = Connection()
    seen.sent(
        0, b"POST /v1 HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    )
    seen.received(1, CHUNKED + chunk(EVENT))
    assert seen.answers[0].streams()[0][0].meta["model"] == "m"
