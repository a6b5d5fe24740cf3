"""Failures in one line, whoever made them."""

import ssl
import threading
import time
from email.utils import formatdate

import httpx2
import pytest

from specsonar.errors import ConnectionFailed
from specsonar.sources.dialing.address import parse
from specsonar.sources.dialing.keys import Secrets
from specsonar.sources.dialing.line import MOST_BYTES, Line, limited, within

KEY = "sk-123456789"


def line(handler=None):
    client = httpx2.Client(transport=httpx2.MockTransport(handler or (lambda request: httpx2.Response(200))))
    return Line(client, parse("http://h:1"), {}, Secrets([KEY]), 5.0)


def unread(status, body=b"", **headers):
    return httpx2.Response(status, headers=headers, stream=httpx2.ByteStream(body))


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (httpx2.ConnectError("refused"), "cannot reach http://h:1: refused"),
        (httpx2.ConnectTimeout("x"), "no connection to http://h:1 within 5 s"),
        (httpx2.ReadTimeout("x"), "said nothing for 5 s"),
        (httpx2.RemoteProtocolError("illegal chunk"), "breaks the rules of HTTP: illegal chunk"),
        (httpx2.RemoteProtocolError("peer closed connection"), "broke off: peer closed"),
        (httpx2.ReadError("reset"), "broke off: reset"),
        (httpx2.ProxyError("407"), "the proxy refuses: 407"),
        (OSError("odd"), "broke off: odd"),
    ],
)
def test_errors_of_the_library(error, said):
    def fail(request):
        raise error

    with pytest.raises(ConnectionFailed, match=said) as caught:
        line(fail).get("http://h:1/x")
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_an_untrusted_certificate_is_told_apart():
    error = httpx2.ConnectError("verify failed")
    error.__cause__ = ssl.SSLCertVerificationError("verify failed")
    assert "TLS with http://h:1 fails" in line().told(error).message


def test_text_of_others_is_one_short_line_without_the_key():
    shown = line().shown(f"a\n\tb\x1b[31m {KEY} " + "x" * 1000)
    assert shown.startswith("a b [31m [key] xxx")
    assert len(shown) < 210


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"error":{"message":"no"}}', "no"), (b'{"error":"no"}', "no"), (b'{"message":"no"}', "no"),
        (b'{"detail":[{"msg":"no"}]}', '{"detail":[{"msg":"no"}]}'), (b"no", "no"), (b"\xff", "\ufffd"),
        (b'{"error":{"message":""}}', '{"error":{"message":""}}'),
    ],
)  # fmt: skip
def test_the_words_of_a_refusal(body, said):
    refusal = line().refused(unread(500, body))
    assert refusal.message.endswith(f"HTTP 500: {said}")


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("7", 7.0), (" 0 ", 0.0), ("-1", None), ("1e9", None), ("nan", None), ("soon", None), ("", None), (None, None),
     ("9" * 400, 999999999999.0), ("Mon, 01 Jan 1990 00:00:00 GMT", 0.0)],
)  # fmt: skip
def test_when_to_ask_again(header, seconds):
    response = unread(429, **({} if header is None else {"retry-after": header}))
    assert line().refused(response).retry_after == seconds


def test_when_to_ask_again_as_a_date():
    response = unread(503, **{"retry-after": formatdate(time.time() + 100, usegmt=True)})
    assert 0 < line().refused(response).retry_after <= 100


def test_bodies_are_bounded():
    endless = httpx2.Response(200, stream=Endless())
    assert len(limited(endless)) == MOST_BYTES
    assert limited(httpx2.Response(200, headers={"content-encoding": "br"}, content=b"")) == b""


class Endless(httpx2.SyncByteStream):
    def __iter__(self):
        while True:
            yield bytes(100_000)


def test_what_takes_too_long_is_left_to_itself():
    forever = threading.Event()
    with pytest.raises(ConnectionFailed, match="said nothing"):
        within(0.01, forever.wait, line().silent)
    forever.set()
    assert within(10.0, lambda: 7, line().silent) == 7
    with pytest.raises(ZeroDivisionError):
        within(10.0, lambda: 1 // 0, line().silent)
