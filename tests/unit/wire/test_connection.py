"""One connection, seen from the middle: HTTP/1.1, HTTP/2, WebSocket; what breaks becomes a finding."""

from __future__ import annotations

import json

import h2.config
import h2.connection
import pytest
from hyperframe.frame import HeadersFrame
from websockets.client import ClientProtocol
from websockets.server import ServerProtocol
from websockets.uri import parse_uri

from specsonar.wire.answer import Answer
from specsonar.wire.connection import Connection
from specsonar.wire.conversation import Conversation
from specsonar.wire.limits import LIMITS


def event(text: str) -> bytes:
    value = {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": text}}]}
    return b"data: " + json.dumps(value).encode() + b"\n\n"


REQUEST = json.dumps({"model": "m", "stream": True, "max_tokens": 7, "messages": [{"content": "a secret"}]}).encode()
POST = (
    b"POST /v1/chat/completions?key=hidden HTTP/1.1\r\nHost: x\r\n"
    b"Authorization: Bearer hidden\r\nContent-Length: %d\r\n\r\n"
)
CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def post(body: bytes = REQUEST) -> bytes:
    return POST % len(body) + body


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def lengths(connection: Connection) -> list[int]:
    return [len(answer.streams()[0][0]) for answer in connection.answers]


def codes(connection: Connection) -> list[str]:
    return [f.code for f in connection.findings]


def test_one_answer_by_http_1() -> None:
    c = Connection()
    c.sent(5, post())
    c.received(10, CHUNKED + chunk(event("a")))
    assert not c.answers[0].ended
    c.received(20, chunk(event("b") + event("c")))
    c.received(30, chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n")
    assert c.answers[0].ended
    (one,) = c.answers[0].streams()[0]
    assert one.t_ns.tolist() == [10, 20, 20] and one.read.tolist() == [0, 1, 1] and one.start_ns == 5
    assert one.meta["max_tokens"] == 7 and one.meta["route"] == "/v1/chat/completions" and one.meta["status"] == 200
    assert "hidden" not in repr(one.meta) and c.findings == []


def test_keep_alive_and_pipelined() -> None:
    c = Connection()
    c.sent(0, post() + post() + b"GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n")
    answer = CHUNKED + chunk(event("a")) + b"0\r\n\r\n"
    models = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
    c.received(1, answer + answer + models)
    c.sent(2, post())
    c.received(3, answer)
    assert lengths(c) == [1, 1, 1] and all(a.ended for a in c.answers) and c.findings == []


class Pair:
    """A client and a server of HTTP/2 whose bytes pass a Connection."""

    def __init__(self) -> None:
        self.seen = Connection()
        self.client = h2.connection.H2Connection()
        self.server = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
        self.client.initiate_connection()
        self.server.initiate_connection()
        self.now = 0
        self.turn()

    def turn(self) -> None:
        self.now += 1
        up = self.client.data_to_send()
        self.seen.sent(self.now, up)
        self.server.receive_data(up)
        down = self.server.data_to_send()
        self.seen.received(self.now, down)
        self.client.receive_data(down)

    def ask(self, number: int) -> None:
        head = [(":method", "POST"), (":path", "/v1/chat/completions"), (":scheme", "https"), (":authority", "x")]
        self.client.send_headers(number, [*head, ("authorization", "Bearer hidden")])
        self.client.send_data(number, REQUEST, end_stream=True)
        self.turn()


def test_a_second_response_head_does_not_replace_the_first_answer() -> None:
    """The first one was forgotten and never ended; the fuzzer found it."""
    pair = Pair()
    pair.ask(1)
    head = [(":status", "200"), ("content-type", "text/event-stream")]
    pair.server.send_headers(1, head)
    pair.turn()
    again = HeadersFrame(1, pair.server.encoder.encode(head), flags=["END_HEADERS"])
    pair.seen.received(9, again.serialize())
    pair.server.send_data(1, event("a"), end_stream=True)
    pair.turn()
    assert lengths(pair.seen) == [1] and pair.seen.answers[0].ended


def test_streams_of_http_2_interleave() -> None:
    pair = Pair()
    for number in (1, 3, 5):
        pair.ask(number)
        pair.server.send_headers(number, [(":status", "200"), ("content-type", "text/event-stream")])
    for text in "ab":
        for number in (1, 3, 5):
            pair.server.send_data(number, event(text), end_stream=text == "b" and number != 5)
            pair.turn()
    assert lengths(pair.seen) == [2, 2, 2] and pair.seen.findings == []
    assert [a.ended for a in pair.seen.answers] == [True, True, False]
    pair.seen.closed(99)
    assert codes(pair.seen) == ["I014"] and pair.seen.answers[2].ended


@pytest.mark.parametrize("deflate", [True, False])
def test_a_websocket_carries_several_answers(deflate: bool) -> None:
    from websockets.extensions.permessage_deflate import ClientPerMessageDeflateFactory, ServerPerMessageDeflateFactory

    client = ClientProtocol(
        parse_uri("ws://x/v1/realtime"), extensions=[ClientPerMessageDeflateFactory()] if deflate else None
    )
    server = ServerProtocol(extensions=[ServerPerMessageDeflateFactory()] if deflate else None)
    seen = Connection()

    def turn(now: int) -> None:
        up = b"".join(client.data_to_send())
        seen.sent(now, up)
        server.receive_data(up)
        for got in server.events_received():
            if got.__class__.__name__ == "Request":
                server.send_response(server.accept(got))
        down = b"".join(server.data_to_send())
        seen.received(now, down)
        client.receive_data(down)
        client.events_received()

    def say(now: int, value: object) -> None:
        server.send_text(json.dumps(value).encode())
        turn(now)

    client.send_request(client.connect())
    turn(1)
    say(2, {"type": "session.created"})
    for at in (10, 20):
        client.send_text(json.dumps({"type": "response.create", "response": {"max_output_tokens": 9}}).encode())
        turn(at)
        say(at + 1, {"type": "response.created", "response": {"id": f"r{at}"}})
        say(at + 2, {"type": "response.output_text.delta", "response_id": f"r{at}", "delta": "a"})
        say(at + 3, {"type": "response.done", "response": {"id": f"r{at}"}})
    assert len(seen.answers) == 2 and all(a.ended for a in seen.answers) and seen.findings == []
    (one,) = seen.answers[1].streams()[0]
    assert one.start_ns == 20 and one.t_ns.tolist() == [22] and one.meta["max_tokens"] == 9


def conversation(*messages: tuple[str, dict[str, object]]) -> list[Answer]:
    """Messages of the client (">") and of the server ("<"), ten nanoseconds apart."""
    answers: list[Answer] = []
    seen = Conversation(LIMITS, answers, "/live")
    for number, (who, value) in enumerate(messages):
        data = json.dumps(value).encode()
        seen.sent(10 * number, data) if who == ">" else seen.received(10 * number, data, number)
    seen.closed(999)
    assert all(answer.ended for answer in answers)
    return answers


def named(kind: str, number: str = "", **more: object) -> dict[str, object]:
    return {"type": f"response.{kind}", **({"response_id": number} if number else {}), **more}


def test_two_answers_at_once_are_told_apart_by_their_id() -> None:
    delta = "output_text.delta"
    one, two = conversation(
        (">", named("create")),
        (">", named("create")),
        ("<", named("created", response={"id": "a"})),
        ("<", named("created", response={"id": "b"})),
        ("<", named(delta, "a", delta="x")),
        ("<", named(delta, "b", delta="x")),
        ("<", named(delta, "a", delta="x")),
        ("<", named("done", response={"id": "a"})),
        ("<", named(delta, "b", delta="x")),
    )
    assert one.streams()[0][0].t_ns.tolist() == [40, 60] and two.streams()[0][0].t_ns.tolist() == [50, 80]
    assert [a.streams()[0][0].start_ns for a in (one, two)] == [0, 10]


def test_an_answer_that_nobody_asked_for_and_a_refused_question() -> None:
    answers = conversation(
        ("<", {"type": "session.created"}),
        (">", {"type": "input_audio_buffer.append", "audio": ""}),
        ("<", named("created", response={"id": "a"})),
        ("<", named("done", response={"id": "a"})),
        ("<", {"type": "rate_limits.updated"}),
        (">", named("create")),
        ("<", {"type": "error", "error": {"message": "no"}}),
    )
    assert [a.streams()[0][0].start_ns for a in answers] == [None, 50]
    assert [[f.code for f in a.streams()[1]] for a in answers] == [[], ["I007"]]


def test_each_message_of_a_client_begins_an_answer_where_answers_have_no_name() -> None:
    said = {"choices": [{"index": 0, "delta": {"content": "x"}}]}
    answers = conversation(
        (">", {"setup": {}}), (">", {"realtimeInput": {}}), *([(">", {"prompt": "x"}), ("<", said), ("<", said)] * 3)
    )
    assert [a.streams()[0][0].t_ns.tolist() for a in answers] == [[30, 40], [60, 70], [90, 100]]
