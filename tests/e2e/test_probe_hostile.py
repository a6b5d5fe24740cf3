"""Servers that mean harm, or are broken beyond reason: one line, in bounded time and memory; what was good stays."""

import json
import resource
import threading
import zlib
from itertools import islice

import pytest
from probe_servers import CHUNKED, HEAD, Scripted, answer, end, event, page

from specsonar.errors import ConnectionFailed, InputError, SpecsonarError
from specsonar.probe import probe

TIMEOUT_S = 1.0
PACKED = HEAD.replace(b"connection: close\r\n", b"content-encoding: gzip\r\nconnection: close\r\n")
MOST_BYTES = 300 << 20
"""What a probe may take of memory on top of what it had; a flood sends more."""


def ask(server, **settings):
    options = {"streams": 3, "tokens": 15, "timeout": TIMEOUT_S, "environment": {}, "model": "m", "dialect": "openai"}
    return probe(server.url, **(options | settings))


@pytest.fixture(autouse=True)
def bounded():
    """The process did not grow by more than a flood would make it."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10 < MOST_BYTES


def dripping(gone, first=b"", drop=b": \n"):
    """A byte now and then, for ever: no single read is ever late."""
    yield first
    while not gone.wait(TIMEOUT_S / 5):
        yield drop


def flood(first, piece, gone, times):
    yield first
    for _ in range(times):
        if gone.is_set():
            return
        yield piece


def bomb():
    """A gigabyte of nothing in a megabyte: after a full flush the same block may follow as often as one likes."""
    pack = zlib.compressobj(9, wbits=31)
    first, block = (pack.compress(bytes(1 << 20)) + pack.flush(zlib.Z_FULL_FLUSH) for _ in range(2))
    return [PACKED, first, *[block] * 1023]


def nonsense(gone):
    """Usage, ids and choices that nobody could mean."""
    yield HEAD
    for bad in ("NaN", "-5", "1e400", "1" * 400, '"x"', "null", "[]", "true"):
        choice = '{"index":%s,"delta":{"content":"a"},"finish_reason":null,"token_ids":%s,"logprobs":%s}'
        yield f'data: {{"choices":[{choice % (bad, bad, bad)}],"usage":{{"completion_tokens":{bad}}}}}\n\n'.encode()
        yield f'data: {{"choices":{bad},"timings":{bad},"error":null}}\n\n'.encode()
    yield b"data: {\n\ndata: \xff\xfe\x00\n\ndata: " + b"[" * 5000 + b"\n\n"


HARM = {
    "silence before the head": lambda gone: dripping(gone, b"", b""),
    "a slow head": lambda gone: dripping(gone, b"HTTP/1.1 200 OK\r\n", b"x: y\r\n"),
    "a slow body": lambda gone: dripping(gone, HEAD),
    "a slow line": lambda gone: dripping(gone, HEAD + b"data: ", b"a"),
    "headers without end": lambda gone: flood(b"HTTP/1.1 200 OK\r\n", b"x: y\r\n" * 10_000, gone, 10_000),
    "one header without end": lambda gone: flood(b"HTTP/1.1 200 OK\r\nx: ", b"y" * 100_000, gone, 10_000),
    "a line of a gigabyte": lambda gone: flood(HEAD + b"data: ", b"a" * (1 << 20), gone, 1024),
    "a chunk of a gigabyte": lambda gone: flood(CHUNKED + b"40000000\r\n", b"a" * (1 << 20), gone, 1024),
    "a bomb": lambda gone: bomb(),
    "broken gzip": lambda gone: [PACKED, b"\x1f\x8b" + b"no gzip" * 100],
    "a chunk size that is none": lambda gone: [CHUNKED, b"xyz\r\nabc\r\n"],
    "a chunk that is shorter than it says": lambda gone: [CHUNKED, b"ffff\r\ndata: x\n\n"],
    "invalid UTF-8": lambda gone: [HEAD, b"data: \xff\xff\n\n" * 100],
    "no HTTP": lambda gone: [b"SSH-2.0-OpenSSH_9.9\r\n"],
    "nothing": lambda gone: [b""],
    "deep JSON": lambda gone: [HEAD, b"data: " + b'{"choices":[' * 10_000 + b"\n\n"],
    "status 200 and a web page": lambda gone: [
        b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close\r\n\r\n<html>"
    ],
    "a refusal of a gigabyte": lambda gone: flood(
        b"HTTP/1.1 400 Bad\r\nconnection: close\r\n\r\n", b"stream_options " * 70_000, gone, 1024
    ),
    "a refusal that never ends": lambda gone: dripping(gone, b"HTTP/1.1 500 X\r\nconnection: close\r\n\r\n", b"x"),
    "usage of nobody": nonsense,
}


@pytest.mark.parametrize("harm", HARM)
def test_harm_from_the_first_answer_on(harm):
    gone = threading.Event()
    with Scripted(lambda r: HARM[harm](gone)) as server:
        try:
            found = ask(server)
        except SpecsonarError as error:
            assert "\n" not in error.message
            assert len(error.message) < 400
        else:
            assert harm == "usage of nobody"  # it does send events with text
            json.dumps(found.fingerprint.to_dict(), allow_nan=False)
        gone.set()


@pytest.mark.parametrize("harm", HARM)
def test_harm_after_a_good_answer(harm, tmp_path):
    gone, count = threading.Event(), []

    def respond(request):
        count.append(1)
        return HARM[harm](gone) if len(count) > 2 else answer()

    with Scripted(respond) as server:
        found = ask(server, output=tmp_path / "t.jsonl")
        gone.set()
    assert len(found.trace.streams[0]) == 15
    assert found.trace.streams[0].total_tokens == 15
    assert (
        found.errors
        or harm in ("invalid UTF-8", "usage of nobody", "deep JSON", "status 200 and a web page")
        or (found.trace.findings)
    )
    json.dumps(found.fingerprint.to_dict(), allow_nan=False)


def test_a_server_that_knows_no_limit():
    gone = threading.Event()
    with Scripted(lambda r: flood(HEAD, event(), gone, 1_000_000)) as server:
        with pytest.raises(ConnectionFailed, match=r"tokens were asked for|far more"):
            ask(server, timeout=20.0)
        gone.set()


def test_a_model_list_that_never_ends():
    gone = threading.Event()
    slow = lambda r: dripping(gone, b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n", b" ")  # noqa: E731
    with Scripted(lambda r: answer(), slow) as server:
        with pytest.raises(ConnectionFailed, match="said nothing"):
            ask(server, model=None, dialect=None)
        gone.set()


def test_a_model_list_of_a_gigabyte():
    gone = threading.Event()
    large = lambda r: flood(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n", b" " * (1 << 20), gone, 1024)  # noqa: E731
    with Scripted(lambda r: answer(), large) as server:
        with pytest.raises(ConnectionFailed):
            ask(server, model=None, dialect=None, timeout=20.0)
        gone.set()


def test_a_hundred_refusals_end():
    stubborn = page({"error": "temperature seed stream_options"}, 400)
    with Scripted(lambda r: stubborn) as server, pytest.raises(ConnectionFailed, match="HTTP 400"):
        ask(server, seed=1)
    assert len(server.posts) < 12


def test_a_stream_without_end_mark_is_as_good_as_its_events():
    with Scripted(lambda r: islice(answer(), 16)) as server:
        found = ask(server)
    assert [len(s) for s in found.trace.streams] == [15] * 3


def test_usage_that_lies_does_not_spend_the_budget():
    def respond(request):
        for piece in answer():
            yield piece.replace(b'"completion_tokens": 15', b'"completion_tokens": 4000000000000')

    with Scripted(respond) as server:
        found = ask(server)
    assert found.ended == ""
    assert [s.known_tokens for s in found.trace.streams] == [15] * 3


def test_an_answer_all_at_once_cannot_be_used():
    with (
        Scripted(lambda r: [HEAD + b"".join(event() for _ in range(15)) + end(15)]) as server,
        pytest.raises(InputError, match=r"equal|faster") as caught,
    ):
        ask(server)
    assert "unit" not in caught.value.hint
