"""The capture inside TLS: handshake, verification, HTTP/2, tunnels through proxies."""

import socket
import ssl
import threading
import time

import h2.config
import h2.connection
import h2.events
import httpx2
import pytest
from live_servers import END, HEAD, PATIENCE_S, Script, chunk, request, until

from specsonar.sources.live import Capture

EVENTS = [chunk(b'{"n": %d}' % i) for i in range(5)]


def answer(connection):
    while request(connection):
        connection.sendall(HEAD + b"".join(EVENTS) + END)


def test_https_keeps_alive_and_is_recorded_as_plaintext(keeper, host, certificates, trusting):
    server = host(answer, certificates[1])
    with Capture(keeper) as capture, capture.client(verify=trusting) as client:
        for _ in range(3):
            assert client.post(server.url, json={"model": "m"}).content.count(b"data: ") == 5
    (tap,) = keeper.taps
    assert server.accepted == 1
    assert tap.bytes("sent").count(b"POST / HTTP/1.1") == 3
    assert tap.bytes("received") == (HEAD + b"".join(EVENTS) + END) * 3
    assert tap.log[-1][0] == "closed"


def test_polling_takes_nothing_from_a_handshake(keeper, host, certificates, trusting):
    server = host(answer, certificates[1])
    bodies = []

    def one():
        with capture.client(verify=trusting) as client:
            bodies.append(client.get(server.url).content)

    with Capture(keeper) as capture:
        threads = [threading.Thread(target=one) for _ in range(10)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            capture.poll()
    assert [body.count(b"data: ") for body in bodies] == [5] * 10
    assert [tap.bytes("received") for tap in keeper.taps] == [HEAD + b"".join(EVENTS) + END] * 10


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_stamps_inside_tls_are_those_of_the_ciphertext(keeper, host, certificates, trusting, version):
    """Everything is opened at the end, in one go; the times are still those of the single reads."""
    script = Script([HEAD, *EVENTS, END])
    server = host(script, certificates[1])
    trusting.minimum_version = trusting.maximum_version = version
    with Capture(keeper) as capture, capture.client(verify=trusting) as client:

        def reads():
            return capture.lag.count + capture._reader.unstamped

        script.go()
        with client.stream("GET", server.url) as response:
            inside = response.extensions["network_stream"].get_extra_info("ssl_object")
            assert inside.version() == version.name.replace("_", ".")
            for _ in (*EVENTS, END):
                had = reads()
                script.go()
                until(lambda had=had: reads() > had)
            opened = time.perf_counter_ns()
            response.read()
    (tap,) = keeper.taps
    stamps = tap.times("received")
    assert [data for kind, _, data in tap.log if kind == "received"] == script.pieces
    assert all(before <= t for before, t in zip(script.before, stamps, strict=True))
    assert all(t < following for t, following in zip(stamps, script.before[1:], strict=False))
    assert stamps[-1] < opened


def test_an_unknown_certificate_is_refused(keeper, host, certificates):
    server = host(answer, certificates[1])
    with (
        Capture(keeper) as capture,
        capture.client() as client,
        pytest.raises(httpx2.ConnectError, match="certificate verify failed"),
    ):
        client.get(server.url)
    assert keeper.taps == []
    assert "unknown ca" in str(until(lambda: server.errors)[0])  # it was told why


def test_a_certificate_for_another_name_is_refused(keeper, host, certificates, trusting):
    server = host(answer, certificates[1])
    with (
        Capture(keeper) as capture,
        capture.client(verify=trusting) as client,
        pytest.raises(httpx2.ConnectError, match="mismatch"),
    ):
        client.get(server.url, extensions={"sni_hostname": "somewhere.example"})


def test_the_server_name_is_sent(keeper, host, certificates, trusting):
    names = []
    certificates[1].sni_callback = lambda sock, name, context: names.append(name)
    try:
        server = host(answer, certificates[1])
        with Capture(keeper) as capture, capture.client(verify=trusting) as client:
            client.get(server.url.replace("127.0.0.1", "localhost"))
    finally:
        certificates[1].sni_callback = None
    assert names == ["localhost"]


def test_no_handshake_in_time(keeper, host, certificates, trusting):
    silent = threading.Event()
    server = host(lambda connection: silent.wait(PATIENCE_S))
    with Capture(keeper) as capture, capture.client(verify=trusting, timeout=0.05) as client:
        with pytest.raises(httpx2.ConnectTimeout):
            client.get(server.url.replace("http:", "https:"))
        silent.set()


def test_plain_http_where_tls_was_expected(keeper, host, certificates, trusting):
    server = host(lambda connection: connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n"))
    with (
        Capture(keeper) as capture,
        capture.client(verify=trusting) as client,
        pytest.raises(httpx2.ConnectError),
    ):
        client.get(server.url.replace("http:", "https:"))


def test_a_damaged_record_is_an_error_not_a_hang(keeper, host, certificates, trusting):
    def damage(connection):
        request(connection)
        connection.sendall(HEAD + EVENTS[0])
        with socket.socket(fileno=connection.detach()) as raw:
            raw.settimeout(PATIENCE_S)
            raw.sendall(b"\x17\x03\x03\x00\x20" + bytes(32))
            raw.recv(65536)

    server = host(damage, certificates[1])
    with (
        Capture(keeper) as capture,
        capture.client(verify=trusting) as client,
        pytest.raises(httpx2.ReadError),
    ):
        client.get(server.url)
    assert keeper.taps[0].bytes("received") == HEAD + EVENTS[0]


def test_a_farewell_ends_the_answer_though_the_socket_stays_open(keeper, host, certificates, trusting):
    def farewell(connection):
        request(connection)
        connection.sendall(b"HTTP/1.0 200 OK\r\n\r\nuntil the end")
        with pytest.raises(OSError):  # noqa: PT011 - the client closes without a farewell of its own
            connection.unwrap()

    server = host(farewell, certificates[1])
    with Capture(keeper) as capture, capture.client(verify=trusting) as client:
        assert client.get(server.url).text == "until the end"


def http2(connection):
    """Answers each request of an HTTP/2 connection with its events, in frames of their own."""
    state = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
    state.initiate_connection()
    connection.sendall(state.data_to_send())
    while data := connection.recv(65536):
        for event in state.receive_data(data):
            if isinstance(event, h2.events.RequestReceived):
                state.send_headers(event.stream_id, [(":status", "200"), ("content-type", "text/event-stream")])
            if isinstance(event, h2.events.StreamEnded):
                for piece in (b"data: 1\n\n", b"data: 2\n\n"):
                    state.send_data(event.stream_id, piece)
                    connection.sendall(state.data_to_send())
                state.end_stream(event.stream_id)
        connection.sendall(state.data_to_send())


def test_http2(keeper, host, certificates, trusting):
    certificates[1].set_alpn_protocols(["h2"])
    try:
        server = host(http2, certificates[1])
        with Capture(keeper) as capture, capture.client(verify=trusting, http2=True) as client:
            first = client.get(server.url)
            assert (first.http_version, first.text) == ("HTTP/2", "data: 1\n\ndata: 2\n\n")
            # one after the other: the client's own threads now and then reset each other's HTTP/2 streams
            bodies = [client.get(server.url).text for _ in range(20)]
    finally:
        certificates[1].set_alpn_protocols(["http/1.1"])
    assert bodies == [first.text] * 20
    assert server.accepted == 1
    (tap,) = keeper.taps
    assert tap.bytes("sent").startswith(b"PRI * HTTP/2.0\r\n")
    assert tap.bytes("received").count(b"data: 2\n\n") == 21


class Tunnel:
    """A proxy: CONNECT opens a tunnel to the host that is named, anything else is passed on."""

    def __init__(self):
        self.asked = []

    def __call__(self, connection):
        first = request(connection)
        self.asked.append(first)
        method, target, _ = first.split(b"\r\n")[0].split(b" ")
        where = target if method == b"CONNECT" else httpx2.URL(target.decode()).netloc
        name, _, port = where.decode().partition(":")
        with socket.create_connection((name, int(port)), PATIENCE_S) as upstream:
            if method == b"CONNECT":
                connection.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                upstream.sendall(first)
            back = threading.Thread(target=self.copy, args=(upstream, connection))
            back.start()
            self.copy(connection, upstream)
            back.join()

    @staticmethod
    def copy(source, target):
        try:
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            return


def test_a_tunnel_through_a_proxy(keeper, host, certificates, trusting):
    """The service's bytes are recorded; what was said to the proxy, its password above all, is not."""
    server, tunnel = host(answer, certificates[1]), Tunnel()
    proxy = host(tunnel)
    address = proxy.url.replace("http://", "http://user:secret@")
    with Capture(keeper) as capture, capture.client(verify=trusting, proxy=address) as client:
        for _ in range(2):
            assert client.get(server.url).content.count(b"data: ") == 5
    assert tunnel.asked[0].startswith(b"CONNECT 127.0.0.1:%d " % server.port)
    assert b"Proxy-Authorization" in tunnel.asked[0]
    (tap,) = keeper.taps
    assert tap.bytes("sent").startswith(b"GET / HTTP/1.1")
    assert b"Proxy-" not in tap.bytes("sent")
    assert tap.bytes("received") == (HEAD + b"".join(EVENTS) + END) * 2


def test_tls_in_tls(keeper, host, certificates, trusting):
    """A proxy that is itself spoken to in TLS."""
    server = host(answer, certificates[1])
    proxy = host(relay_in_tls, certificates[1])
    through = httpx2.Proxy(proxy.url, ssl_context=trusting)
    with Capture(keeper) as capture, capture.client(verify=trusting, proxy=through) as client:
        assert client.get(server.url).content.count(b"data: ") == 5
    (tap,) = keeper.taps
    assert tap.bytes("sent").startswith(b"GET / HTTP/1.1")
    assert tap.bytes("received") == HEAD + b"".join(EVENTS) + END


def relay_in_tls(connection):
    """A tunnel whose two directions take turns: an SSLSocket must not be read and written at once."""
    name, _, port = request(connection).split(b" ")[1].decode().partition(":")
    with socket.create_connection((name, int(port)), PATIENCE_S) as upstream:
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        for end in (connection, upstream):
            end.settimeout(0.01)
        ends = {connection: upstream, upstream: connection}
        while True:
            for source, target in ends.items():
                try:
                    data = source.recv(65536)
                except TimeoutError:
                    continue
                if not data:
                    return
                target.sendall(data)


def test_a_proxy_of_the_environment(keeper, host, monkeypatch):
    tunnel = Tunnel()
    proxy, server = host(tunnel), host(answer)
    monkeypatch.setenv("HTTP_PROXY", proxy.url)
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    with Capture(keeper) as capture, capture.client() as client:
        assert client.get(server.url).content.count(b"data: ") == 5
    assert tunnel.asked[0].startswith(b"GET http://127.0.0.1:")
    assert len(keeper.taps) == 1


def test_a_proxy_that_refuses(keeper, host, trusting):
    proxy = host(lambda connection: request(connection) and connection.sendall(b"HTTP/1.1 407 No\r\n\r\n"))
    with (
        Capture(keeper) as capture,
        capture.client(verify=trusting, proxy=proxy.url) as client,
        pytest.raises(httpx2.ProxyError),
    ):
        client.get("https://127.0.0.1:1/")
    assert keeper.taps == []
