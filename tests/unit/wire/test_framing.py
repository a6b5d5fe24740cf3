"""Bodies: what the framings make of what servers write, and of what they write wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest
from wire_bytes import eventstream_frame

from specsonar.wire.answer import Answer
from specsonar.wire.body import Body


class Seen(Answer):
    def __init__(self) -> None:
        super().__init__()
        self.said: list[tuple[Any, ...]] = []

    def event(self, t_ns: int, read: int, value: object, size: int, kind: str = "") -> None:
        super().event(t_ns, read, value, size, kind)
        self.said.append((value, kind, read, size))


def body(*pieces: bytes, kind: str = "text/event-stream", encoding: str = "") -> tuple[Seen, list[str]]:
    answer = Seen()
    decoder = Body(answer, kind, encoding)
    for read, piece in enumerate(pieces):
        decoder.feed(read, piece, read)
    decoder.end(99)
    assert answer.ended
    return answer, [f.code for f in decoder.findings]


def values(*pieces: bytes, **options: str) -> list[object]:
    return [said[0] for said in body(*pieces, **options)[0].said]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('data: {"a":1}\n\n', [{"a": 1}]),
        ('data:{"a":1}\n\n', [{"a": 1}]),
        ('data:  {"a":1} \n\n', [{"a": 1}]),
        ('data: {"a":1}\r\n\r\n', [{"a": 1}]),
        ('data: {"a":1}\r\r', [{"a": 1}]),
        ('data: {"a":1}\r\n\n', [{"a": 1}]),
        ('data: {"a":\ndata: 1}\n\n', [{"a": 1}]),
        ('data: {"a":"\u2028\u2029\x85\x0b\x0c"}\n\n', ["raw"]),
        ('data: {"a":1}\n', [{"a": 1}]),
        ('data: {"a":1}', [{"a": 1}]),
        ('data: {"a":1}\n\ndata: {"a"', [{"a": 1}, '{"a"']),
        ("data: [DONE]\n\n", ["[DONE]"]),
        ("data: [DONE] \n\n", ["[DONE]"]),
        ("data\n\n", [""]),
        ("data:\n\n", [""]),
        ("event: ping\n\n", []),
        (": OPENROUTER PROCESSING\n\n", [{"comment": "OPENROUTER PROCESSING"}]),
        (":\n\n", [{"comment": ""}]),
        ("id: 1\nretry: 5\n\n", []),
        ("database: 1\n\n", []),
        ('\ufeffdata: {"a":1}\n\n', [{"a": 1}]),
        ('\n\n\ndata: {"a":1}\n\n\n\n', [{"a": 1}]),
        ("", []),
    ],
)
def test_server_sent_events(text: str, expected: list[object]) -> None:
    data = text.encode()
    got = values(data)
    assert got == (expected if expected != ["raw"] else got) and len(got) == len(expected)
    assert values(*(bytes([b]) for b in data)) == got
    if expected == ["raw"]:
        assert isinstance(got[0], str), "JSON forbids raw control characters"


def test_line_separators_inside_json_are_text() -> None:
    text = "a\u2028b\u2029c\x85d"
    assert values(f'data: {{"a":"{text}"}}\n\n'.encode()) == [{"a": text}]


def test_a_carriage_return_at_the_end_of_a_read_ends_the_event_there() -> None:
    answer, _ = body(b'data: {"a":1}\r\n\r', b'\ndata: {"a":2}\r\n', b"\r\n")
    assert [(value, read) for value, _, read, _ in answer.said] == [({"a": 1}, 0), ({"a": 2}, 2)]


def test_the_name_of_an_event_goes_with_it_alone() -> None:
    answer, _ = body(b'event: delta\ndata: {"a":1}\n\ndata: {"a":2}\n\nevent: x\n\ndata: {"a":3}\n\n')
    assert [kind for _, kind, _, _ in answer.said] == ["delta", "", ""]
    assert [size for *_, size in answer.said] == [7, 7, 7]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b'{"a": NaN, "b": 1}', {"b": 1}),
        (b'{"a": "\xf0\x9f"}', {"a": "\ufffd"}),
        (b'{"usage": {"completion_tokens": NaN}}', None),
        (b'{"usage": {"completion_tokens": 1e400}}', None),
        (b'{"usage": {"completion_tokens": ' + b"9" * 5000 + b"}}", None),
        (b'{"a":' * 100_000, None),
        (b"[" * 100_000, None),
        (b"\xff\xfe\x00", None),
        (b'{"choices": {"a": 1}, "usage": [], "model": 7, "error": null}', None),
        (b'{"choices": [null, 7, {"index": -1, "delta": 3}], "object": "chat.completion.chunk"}', None),
    ],
)
def test_strange_payloads_are_survived(text: bytes, expected: dict[str, object] | None) -> None:
    for kind, whole in (("text/event-stream", b"data: " + text + b"\n\n"), ("application/x-ndjson", text + b"\n")):
        answer, _ = body(whole, kind=kind)
        assert expected is None or dict(answer.said[0][0]).items() >= expected.items()
        answer.streams()
        answer.fresh()


LINE = b'{"a":1}\n{"a":2}\n'
EVENTS = b'data: {"a":1}\n\ndata: {"a":2}\n\n'


@pytest.mark.parametrize("text", [LINE, EVENTS, b'[{"a":1}\n,\n{"a":2}]', b'{"a":1}{"a":2}', b'{"a":\n1}\n{"a":2}'])
@pytest.mark.parametrize(
    "kind", ["application/json", "text/plain", "", "application/octet-stream", "text/event-stream"]
)
def test_the_type_may_lie(text: bytes, kind: str) -> None:
    assert values(text, kind=kind) == [{"a": 1}, {"a": 2}]
    assert values(*(bytes([b]) for b in text), kind=kind) == [{"a": 1}, {"a": 2}]


def test_lines_under_another_name() -> None:
    assert values(EVENTS, kind="application/x-ndjson") == [{"a": 1}, {"a": 2}]
    assert values(b"\x1e" + LINE.replace(b"\n{", b"\n\x1e{"), kind="application/json-seq") == [{"a": 1}, {"a": 2}]
    assert values(b'{"a":1}\n{"a"\n{"a":3}', kind="application/x-ndjson") == [{"a": 1}, '{"a"', {"a": 3}]


def test_strings_hide_brackets_from_the_array() -> None:
    value = {"a": '}]"\\', "b": [{"c": "{["}], "d": "\\\\"}
    text = json.dumps([value, value]).encode()
    assert values(text, kind="application/json") == [value, value]
    assert values(*(bytes([b]) for b in text), kind="application/json") == [value, value]


def test_blanks_before_the_answer_keep_the_connection_alive() -> None:
    assert values(*[b"\n  "] * 500, LINE, kind="application/json") == [{"a": 1}, {"a": 2}]


def test_a_whole_answer_is_told_from_a_stream() -> None:
    whole = json.dumps({"object": "chat.completion", "choices": [{"message": {"content": "x"}}]}, indent=1).encode()
    answer, codes = body(whole[:30], whole[30:], kind="application/json")
    assert codes == ["I016"] and answer.said == []
    error = b'{"error": {"message": "no such model"}}'
    answer, codes = body(error, kind="application/json")
    assert codes == [] and answer.streams()[1][0].code == "I007"
    models = b'{"object": "list", "data": []}'
    assert body(models, kind="application/json")[1] == []


@pytest.mark.parametrize(
    "text", [b"<html><body>503</body></html>" * 9, b"# HELP vllm:x\n" * 9, b"\x89PNG\r\n\x1a\n" * 9]
)
def test_what_holds_no_events_gives_none(text: bytes) -> None:
    assert values(text, kind="text/plain") == []
    assert values(*(bytes([b]) for b in text), kind="") == []


def test_first_value_under_a_wrong_name_keeps_its_time() -> None:
    answer, _ = body(b'{"a":1}\n', b'{"a":2}\n', kind="application/json")
    assert [read for _, _, read, _ in answer.said] == [0, 1]
    answer, _ = body(b'{"a":1}\n', b"\n", kind="application/json")
    assert [read for _, _, read, _ in answer.said] == [0]


@pytest.mark.parametrize("encoding", ["gzip", "br", "zstd", "deflate"])
def test_a_body_in_another_encoding_is_said(encoding: str) -> None:
    answer, codes = body(b"\x00\x01\x02\x03" * 9, b"more", kind="text/event-stream", encoding=encoding)
    assert codes == ["I015"] and answer.said == []


def test_an_unknown_encoding_is_said() -> None:
    assert body(EVENTS, encoding="compress")[1] == ["I015"]


def test_event_stream_with_a_flipped_bit() -> None:
    good = eventstream_frame({":event-type": "x", ":message-type": "event"}, b'{"a":1}')
    for at in range(len(good)):
        bad = bytearray(good)
        bad[at] ^= 1
        answer, codes = body(good + bytes(bad), kind="application/vnd.amazon.eventstream")
        assert codes == ["I015"] and len(answer.said) == 1, at
    answer, codes = body(good + good[:-1], kind="application/vnd.amazon.eventstream")
    assert codes == ["I015"] and len(answer.said) == 1


def test_event_stream_exceptions_are_errors() -> None:
    bad = eventstream_frame(
        {":exception-type": "throttlingException", ":message-type": "exception"}, b'{"message":"slow down"}'
    )
    (found,) = body(bad, kind="application/vnd.amazon.eventstream")[0].streams()[1]
    assert found.code == "I007" and "throttlingException: slow down" in found.message
