"""The proxy changes the Host of each request and nothing else, however the bytes are cut."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specsonar.sources.proxy.requests import MOST_HEAD, BadRequestError, Requests

GET = b"GET /v1/models HTTP/1.1\r\nHOST:  127.0.0.1:9\r\nAccept: */*\r\n\r\n"
POST = b"POST /a?b=/c HTTP/1.1\r\ncontent-LENGTH: 7\r\nhost: x\r\n\r\nHost: y"
CHUNKED = (
    b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, Chunked\r\n\r\n"
    b"5;a=b\r\nGET /\r\n1A\r\n HTTP/1.1\r\nHost: inside\r\n\r\n\r\n0\r\nHost: trailer\r\n\r\n"
)
UPGRADE = b"GET /ws HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\r\n"
FRAMES = b"\x81\x85\x01\x02\x03\x04GET /" * 5
HTTP2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"


def told(data: bytes, cuts=(), prefix="") -> bytes:
    requests = Requests("api.example:8", prefix)
    edges = [0, *sorted(cuts), len(data)]
    return b"".join(requests.feed(data[a:b]) for a, b in itertools.pairwise(edges))


EXPECTED = {
    GET: GET.replace(b"HOST:  127.0.0.1:9", b"HOST: api.example:8"),
    POST: POST.replace(b"host: x", b"host: api.example:8"),
    CHUNKED: CHUNKED.replace(b"Host: x", b"Host: api.example:8"),
    UPGRADE + FRAMES: UPGRADE.replace(b"Host: x", b"Host: api.example:8") + FRAMES,
    HTTP2: HTTP2,
}


@pytest.mark.parametrize("data", EXPECTED, ids=["get", "sized", "chunked", "websocket", "http2"])
def test_only_the_host_changes(data: bytes) -> None:
    assert told(data) == EXPECTED[data]


@given(st.data())
def test_cuts_make_no_difference(data: st.DataObject) -> None:
    parts = data.draw(st.lists(st.sampled_from([GET, POST, CHUNKED]), min_size=1, max_size=4))
    last = data.draw(st.sampled_from([GET, UPGRADE + FRAMES]))
    whole = b"".join(parts) + last
    cuts = data.draw(st.lists(st.integers(0, len(whole)), max_size=12))
    assert told(whole, cuts) == b"".join(EXPECTED[part] for part in [*parts, last])


def test_after_a_refused_upgrade_the_next_request_is_found() -> None:
    assert told(UPGRADE + GET, range(len(UPGRADE + GET))).endswith(EXPECTED[GET])


def test_a_host_is_added_where_there_is_none() -> None:
    assert told(b"GET / HTTP/1.0\r\n\r\n") == b"GET / HTTP/1.0\r\nHost: api.example:8\r\n\r\n"


def test_the_path_of_the_upstream_goes_before_every_path() -> None:
    assert told(GET + POST, prefix="/api/").startswith(b"GET /api/v1/models HTTP/1.1\r\n")
    assert b"POST /api/a?b=/c HTTP/1.1\r\n" in told(GET + POST, prefix="/api/")


def test_a_body_passes_before_it_is_complete() -> None:
    requests = Requests("h")
    assert requests.feed(POST[:-3]).endswith(b"Host")
    assert not requests.waiting
    assert requests.feed(b"GET")[-3:] == b"GET"
    assert requests.feed(b"GET") == b"" and requests.waiting


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
        (b"hello\r\n\r\n", 400),
        (b"GET / HTTP/3\r\n\r\n", 400),
        (b"CONNECT a:443 HTTP/1.1\r\n\r\n", 405),
        (b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: identity\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", 400),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1" * 5000, 400),
        (b"GET / HTTP/1.1\r\nA: " + b"a" * MOST_HEAD, 431),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA: " + b"a" * MOST_HEAD, 431),
    ],
)
def test_what_cannot_be_passed_on_is_refused(data: bytes, status: int) -> None:
    with pytest.raises(BadRequestError) as caught:
        told(data)
    assert caught.value.status == status
    assert "\n" not in caught.value.message
