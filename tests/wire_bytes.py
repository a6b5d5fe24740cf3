"""Bytes as servers and clients send them, for the tests of the wire decoders."""

from __future__ import annotations

import json
import struct
import zlib

import h2.config
import h2.connection

Scene = list[tuple[bool, bytes]]
"""Who spoke (True: the client) and what, in order of time."""


def js(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def eventstream_frame(headers: dict[str, str], body: bytes) -> bytes:
    head = b"".join(
        bytes([len(k)]) + k.encode() + b"\x07" + struct.pack(">H", len(v)) + v.encode() for k, v in headers.items()
    )
    prelude = struct.pack(">II", 16 + len(head) + len(body), len(head))
    whole = prelude + struct.pack(">I", zlib.crc32(prelude)) + head + body
    return whole + struct.pack(">I", zlib.crc32(whole))


def websocket_frame(kind: int, data: bytes, last: bool, compressed: bool, mask: bool) -> bytes:
    """One frame, with the smallest form of its length."""
    n = len(data)
    size = bytes([n]) if n < 126 else b"\x7e" + struct.pack(">H", n) if n < 1 << 16 else b"\x7f" + struct.pack(">Q", n)
    size = bytes([size[0] | mask << 7]) + size[1:]
    head = bytes([last << 7 | compressed << 6 | kind]) + size
    return head + (b"\1\2\3\4" + bytes(b ^ (i % 4 + 1) for i, b in enumerate(data)) if mask else data)


REQUEST = js({"model": "m", "stream": True, "messages": [{"role": "user", "content": "x"}]})


def http1(body: list[bytes], kind: str, encoding: str, shape: str) -> Scene:
    head = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-encoding: {encoding}\r\n".encode()
    ask = b"POST /v1/chat HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (len(REQUEST), REQUEST)
    data = b"".join(body)
    if shape == "chunked":
        parts = [b"%X;x=y\r\n%s\r\n" % (len(piece), piece) for piece in body if piece]
        answer = head + b"Transfer-Encoding: chunked\r\n\r\n" + b"".join(parts) + b"0\r\nX-Trailer: 1\r\n\r\n"
    elif shape == "length":
        answer = head + b"Content-Length: %d\r\n\r\n" % len(data) + data
    else:
        return [(True, ask), (False, b"HTTP/1.1 100 Continue\r\n\r\n" + head + b"\r\n" + data)]
    return [(True, ask), (False, answer), (True, ask), (False, answer)]


def http2(body: list[bytes], kind: str, encoding: str, shape: str) -> Scene:
    client = h2.connection.H2Connection()
    server = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding=None))
    scene: Scene = []

    def turn() -> None:
        for _ in range(2):
            for up, one, other in ((True, client, server), (False, server, client)):
                if data := one.data_to_send():
                    scene.append((up, data))
                    other.receive_data(data)

    client.initiate_connection()
    server.initiate_connection()
    turn()
    head = [(":method", "POST"), (":path", "/v1/chat"), (":scheme", "https"), (":authority", "x")]
    for number in (1, 3):
        client.send_headers(number, [*head, ("x-long", "y" * (40_000 if shape == "length" else 1))])
        client.send_data(number, REQUEST, end_stream=True)
        turn()
    for number in (1, 3):
        server.send_headers(number, [(":status", "200"), ("content-type", kind), ("content-encoding", encoding)])
    for piece in body:
        for number in (1, 3):
            for at in range(0, len(piece), 16_000):
                server.send_data(number, piece[at : at + 16_000], pad_length=3 if shape == "chunked" else None)
        client.increment_flow_control_window(1 << 20)
        turn()
    for number in (1, 3):
        server.end_stream(number)
    turn()
    return scene
