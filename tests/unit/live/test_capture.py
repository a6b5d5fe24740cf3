"""The capture over plain HTTP/1.1 on real sockets."""

import socket
import struct
import sys
import threading
import time

import httpx2
import pytest
from live_servers import END, HEAD, Script, chunk, request, until

from specsonar.errors import UsageError
from specsonar.sources.live import Capture, reader, stream

EVENTS = [chunk(b'{"n": %d}' % i) for i in range(8)]
ONLY_LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="kernel stamps are Linux's")


def answer(connection):
    """Answers every request of a connection with all events at once."""
    while request(connection):
        connection.sendall(HEAD + b"".join(EVENTS) + END)


@pytest.mark.parametrize("kernel", [pytest.param(True, marks=ONLY_LINUX), False])
def test_stamps_do_not_wait_for_the_consumer(keeper, host, kernel):
    """The client reads nothing until all was sent; each read still has its own time, in step with the sends."""
    script = Script([HEAD, *EVENTS, END])
    server = host(script)
    with Capture(keeper, kernel=kernel) as capture, capture.client() as client:

        def reads():
            return capture.lag.count + capture._reader.unstamped

        script.go()
        with client.stream("POST", server.url, json={"stream": True}) as response:
            for _ in (*EVENTS, END):
                had = reads()
                script.go()
                until(lambda had=had: reads() > had)
            consumed = time.perf_counter_ns()
            assert response.read() == b"".join(b'data: {"n": %d}\n\n' % i for i in range(8))
        capture.poll()
        assert capture.stamps == ("kernel" if kernel else "clock")
        assert (capture.lag.count > 0) == kernel
        assert [f.code for f in capture.findings if f.code != "Q008"] == ([] if kernel else ["Q009"])
    (tap,) = keeper.taps
    stamps = tap.times("received")
    assert [data for kind, _, data in tap.log if kind == "received"] == script.pieces
    assert all(before <= t for before, t in zip(script.before, stamps, strict=True))
    assert all(t < following for t, following in zip(stamps, script.before[1:], strict=False))
    assert stamps[-1] < consumed
    assert tap.meta == {"stamps": "kernel" if kernel else "clock"}


def test_single_bytes_are_single_reads(keeper, host):
    """A slow loris: each byte has its time, and none is lost."""
    whole = HEAD + EVENTS[0] + END
    script = Script([whole[i : i + 1] for i in range(len(whole))])
    server = host(script)
    with Capture(keeper) as capture, capture.client() as client:
        thread = threading.Thread(target=client.get, args=(server.url,))
        thread.start()
        for sent in range(len(whole)):
            script.go()
            until(lambda sent=sent: capture.poll() and len(keeper.taps[0].times("received")) > sent)
        thread.join()
    stamps = keeper.taps[0].times("received")
    assert keeper.taps[0].bytes("received") == whole
    assert all(t < following for t, following in zip(stamps, script.before[1:], strict=False))


@ONLY_LINUX
def test_a_kernel_that_gives_no_stamps(keeper, host, monkeypatch):
    monkeypatch.setattr(reader.stamps, "stamp_of", lambda ancillary: None)
    server = host(answer)
    with Capture(keeper) as capture, capture.client() as client:
        assert capture.stamps == "kernel"  # what was asked for
        client.get(server.url)
        assert capture.stamps == "clock"  # what came
        assert [f.code for f in capture.findings] == ["Q009"]


def test_keep_alive_is_one_tap_with_what_was_sent(keeper, host):
    server = host(answer)
    with Capture(keeper) as capture:
        with capture.client() as client:
            for number in range(3):
                assert client.post(server.url, json={"model": f"m{number}"}).status_code == 200
        capture.poll()
    (tap,) = keeper.taps
    assert server.accepted == 1
    assert tap.bytes("sent").count(b"POST / HTTP/1.1") == 3
    assert b'{"model":"m2"}' in tap.bytes("sent").replace(b": ", b":")
    assert tap.bytes("received") == (HEAD + b"".join(EVENTS) + END) * 3
    assert [kind for kind, *_ in tap.log].count("closed") == 1
    assert tap.log[-1][0] == "closed"
    assert tap.times("sent") == sorted(tap.times("sent"))
    # each answer comes after its request, and before the next one
    kinds = [kind for kind, *_ in tap.log if kind != "closed"]
    assert [k for i, k in enumerate(kinds) if i == 0 or kinds[i - 1] != k] == ["sent", "received"] * 3


def test_many_connections_at_once(keeper, host):
    server = host(answer)
    with Capture(keeper) as capture, capture.client() as client:

        def one():
            bodies.append(client.post(server.url, json={}).content)

        bodies = []
        threads = [threading.Thread(target=one) for _ in range(40)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(set(bodies)) == 1
    assert len(bodies) == 40
    assert sum(tap.bytes("received").count(HEAD) for tap in keeper.taps) == 40
    assert all(tap.log[-1][0] == "closed" for tap in keeper.taps)


def test_taps_are_called_by_the_thread_that_polls(keeper, host):
    server = host(answer)
    with Capture(keeper) as capture, capture.client() as client:
        thread = threading.Thread(target=client.get, args=(server.url,))
        thread.start()
        thread.join()
        capture.poll()
    assert keeper.threads == {threading.get_ident()}


def test_server_closes_in_the_middle(keeper, host):
    def half(connection):
        request(connection)
        connection.sendall(HEAD + EVENTS[0] + EVENTS[1][:5])

    server = host(half)
    with Capture(keeper) as capture, capture.client() as client:
        with pytest.raises(httpx2.RemoteProtocolError):
            client.get(server.url)
        capture.poll()
        assert keeper.taps[0].bytes("received") == HEAD + EVENTS[0] + EVENTS[1][:5]
        assert keeper.taps[0].log[-1][0] == "closed"


def test_reset_by_the_server(keeper, host):
    def reset(connection):
        request(connection)
        connection.sendall(HEAD + EVENTS[0])
        assert connection.recv(1) == b"x"
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    server = host(reset)
    with Capture(keeper) as capture, capture.client() as client:
        with client.stream("POST", server.url, content=b"") as response:
            response.extensions["network_stream"].write(b"x")
            with pytest.raises(httpx2.ReadError):
                response.read()
        capture.poll()
    assert keeper.taps[0].bytes("received") == HEAD + EVENTS[0]


def test_a_server_that_says_nothing_times_out(keeper, host):
    silent = threading.Event()
    server = host(lambda connection: silent.wait(20))
    with Capture(keeper) as capture, capture.client(timeout=0.05) as client:
        with pytest.raises(httpx2.ReadTimeout):
            client.get(server.url)
        capture.poll()
        silent.set()
    (tap,) = keeper.taps
    assert [kind for kind, *_ in tap.log] == ["sent", "closed"]


def test_a_server_that_takes_nothing_times_out(keeper, host):
    silent = threading.Event()
    server = host(lambda connection: silent.wait(20))
    with Capture(keeper) as capture, capture.client(timeout=0.05) as client:
        with pytest.raises(httpx2.TimeoutException):
            client.post(server.url, content=b"x" * 50_000_000)
        silent.set()


def test_nobody_listens(keeper):
    with socket.socket() as bound:  # a port that is taken, and does not listen
        bound.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{bound.getsockname()[1]}/"
        with Capture(keeper) as capture, capture.client() as client, pytest.raises(httpx2.ConnectError):
            client.get(url)
    assert keeper.taps == []


def test_a_client_that_leaves_early_still_records_what_came(keeper, host):
    script = Script([HEAD, *EVENTS, END])
    server = host(script)
    with Capture(keeper) as capture, capture.client() as client:
        for _ in range(3):
            script.go()
        with client.stream("GET", server.url):
            until(lambda: capture.poll() and keeper.taps[0].bytes("received").endswith(EVENTS[1]))
        capture.poll()
        assert keeper.taps[0].log[-1][0] == "closed"
        for _ in EVENTS:
            script.go()


def test_bytes_wait_when_nobody_consumes(keeper, host, monkeypatch):
    """Neither client nor recorder takes anything: reading pauses, says so, and nothing is lost."""
    monkeypatch.setattr(stream, "BOUND", 100_000)
    monkeypatch.setattr(reader.Line.__init__, "__kwdefaults__", {"kernel": True, "quick": True, "bound": 100_000})
    body = b"".join(chunk(b'{"n": %06d}' % i) for i in range(60_000))

    def pour(connection):
        request(connection)
        connection.sendall(HEAD + body + END)

    server = host(pour)
    with Capture(keeper) as capture, capture.client() as client:
        with client.stream("GET", server.url) as response:
            until(lambda: capture.findings)
            assert [f.code for f in capture.findings if f.code != "Q008"] == ["Q011"]
            got = bytearray()
            for piece in response.iter_raw():
                got += piece
                capture.poll()
        capture.poll()
    assert keeper.taps[0].bytes("received") == HEAD + body + END
    assert got.count(b"data: ") == 60_000


def test_closing_wakes_whoever_waits(keeper, host):
    silent = threading.Event()
    server = host(lambda connection: silent.wait(20))
    failed = []

    def wait():
        with pytest.raises(httpx2.ReadError) as caught:
            client.get(server.url)
        failed.append(str(caught.value))

    capture = Capture(keeper)
    with capture.client(timeout=None) as client:
        thread = threading.Thread(target=wait)
        thread.start()
        until(lambda: capture.poll() or keeper.taps)
        capture.close()
        thread.join(20)
    silent.set()
    assert failed == ["closed at this end"]


@ONLY_LINUX
@pytest.mark.parametrize("quick", [True, False])
def test_everything_is_acknowledged_at_once(keeper, host, quick):
    """In a conversation Linux delays acknowledgements, which a server with Nagle's algorithm waits for."""
    server = host(answer)
    with Capture(keeper, quick=quick) as capture, capture.client() as client:
        for _ in range(5):
            with client.stream("GET", server.url) as response:
                sock = response.extensions["network_stream"].get_extra_info("socket")
                response.read()
        at_once = until(lambda: sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK)) if quick else 0
        assert quick or not sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK)
    assert at_once == quick


def test_interpreter_settings_come_back(keeper):
    before = sys.getswitchinterval()
    with Capture(keeper):
        assert sys.getswitchinterval() <= 0.0005
    assert sys.getswitchinterval() == before


def test_closing_twice_and_using_afterwards(keeper, host):
    server = host(answer)
    capture = Capture(keeper)
    client = capture.client()
    capture.close()
    capture.close()
    with client, pytest.raises(RuntimeError, match="closed"):
        client.get(server.url)


@pytest.mark.parametrize("options", [{"transport": httpx2.HTTPTransport()}, {"mounts": {"all://": None}}])
def test_a_transport_of_ones_own_is_refused(keeper, options):
    with Capture(keeper) as capture, pytest.raises(UsageError):
        capture.client(**options)


def test_a_socks_proxy_is_refused_in_one_line(keeper, monkeypatch):
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:1")
    with Capture(keeper) as capture, pytest.raises(UsageError, match="SOCKS"):
        capture.client()


def test_findings_say_how_much(keeper):
    with Capture(keeper) as capture:
        assert capture.findings == ()
        for _ in range(980):
            capture.lag.add(50_000)
        for _ in range(9):
            capture.lag.add(20_000_000)
        assert capture.findings == ()  # below one in a hundred
        for _ in range(11):
            capture.lag.add(20_000_000)
        axis = capture._reader.axis
        axis.steps, axis.largest_step_ns = 1, 3_600_000_000_000
        capture._reader.pauses = 2
        late, step, paused = capture.findings
    assert (late.code, step.code, paused.code) == ("Q008", "Q010", "Q011")
    assert late.message.startswith("2.0% of 1000 reads were late by more than 5 ms")
    assert step.message == "the wall clock was set once, by up to 3.6e+03 s"
    assert paused.message.startswith("reading paused 2 times")
