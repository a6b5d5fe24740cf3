"""The proxy between real sockets: bytes pass unchanged and at once, everything is recorded, trouble is survived."""

from __future__ import annotations

import contextlib
import json
import re
import resource
import signal
import socket
import ssl
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from upstream import Upstream

from specsonar.errors import InputError
from specsonar.importers import read
from specsonar.sources.keeper import Keeper
from specsonar.sources.proxy.proxy import Proxy
from specsonar.tracefile import Writer

CERTIFICATE = Path(__file__).parent / "data" / "loopback-cert.pem"
BODY = b'{"model": "m", "prompt": "a secret prompt"}'
REQUEST = (
    b"POST /v1/chat/completions HTTP/1.1\r\nhOst: client.example\r\nAuthorization: Bearer a-secret-key\r\n"
    b"x-odd:   kept\r\nContent-Length: %d\r\n\r\n%s" % (len(BODY), BODY)
)
END = b"0\r\n\r\n"


def connect(url: str) -> socket.socket:
    host, port = url.removeprefix("http://").split(":")
    sock = socket.create_connection((host, int(port)), 30)
    sock.settimeout(30)
    return sock


def receive(sock: socket.socket, until: bytes = END) -> bytes:
    got = bytearray()
    while not got.endswith(until):
        data = sock.recv(1 << 16)
        if not data:
            break
        got += data
    return bytes(got)


def ask(url: str, times: int = 1) -> list[bytes]:
    with connect(url) as sock:
        answers = []
        for _ in range(times):
            sock.sendall(REQUEST)
            answers.append(receive(sock))
    return answers


def test_bytes_pass_unchanged_and_the_events_are_in_the_trace(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    with Upstream(events=7) as up, Keeper(Writer(path)) as keeper, Proxy(up.url, keeper) as proxy:
        assert ask(proxy.url, times=2) == up.sent
    host = up.url.removeprefix("http://").encode()
    assert up.heads == [REQUEST[: -len(BODY)].replace(b"client.example", host)] * 2
    assert up.bodies == [BODY] * 2
    trace = read(path)
    assert trace.findings == ()
    assert [(one.name, len(one)) for one in trace.streams] == [("client 1", 7), ("client 1:2", 7)]
    for one in trace.streams:
        assert one.start_ns is not None and one.start_ns < one.t_ns[0]
        assert one.meta["status"] == 200 and one.meta["route"] == "/v1/chat/completions"
    assert trace.streams[0].t_ns[-1] < trace.streams[1].start_ns
    for secret in (b"a-secret-key", b"a secret prompt", b"w0", b"client.example"):
        assert secret not in path.read_bytes()


def test_every_event_is_passed_on_before_the_next_is_sent() -> None:
    with Upstream(events=5, gated=True) as up, Keeper() as keeper, Proxy(up.url, keeper) as proxy:
        with connect(proxy.url) as sock:
            sock.sendall(REQUEST)
            receive(sock, b": hello\n\n\r\n")
            for k in range(5):
                up.go()
                assert f'"w{k} "'.encode() in receive(sock, b"\n\n\r\n" if k < 4 else END)
        while keeper.events != 5:
            proxy.poll(10)
        (one,) = keeper.trace().streams
    assert len(set(one.read.tolist())) == 5, "each in a read of its own"


def count(streams: int, events: int, path: Path) -> None:
    with (
        Upstream(events=events) as up,
        Keeper(Writer(path), keep=False) as keeper,
        Proxy(up.url, keeper) as proxy,
        ThreadPoolExecutor(min(streams, 50)) as pool,
    ):
        answers = [done.result()[0] for done in [pool.submit(ask, proxy.url) for _ in range(streams)]]
    for answer in answers:
        assert [int(k) for k in re.findall(rb'"w(\d+) "', answer)] == list(range(events))
    trace = read(path)
    assert [len(one) for one in trace.streams] == [events] * streams
    assert trace.findings == ()
    assert keeper.trace().streams == ()


def test_many_streams_at_once_lose_nothing(tmp_path: Path) -> None:
    count(50, 40, tmp_path / "x.jsonl")


@pytest.mark.slow
def test_very_many_streams_lose_nothing(tmp_path: Path) -> None:
    count(400, 300, tmp_path / "x.jsonl")


def test_an_upstream_that_is_not_there_costs_one_answer_only() -> None:
    lines = []
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with Keeper() as keeper, Proxy(f"http://127.0.0.1:{port}", keeper, tell=lines.append) as proxy:
        for _ in range(2):
            (answer,) = ask(proxy.url)
            head, _, body = answer.partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 502 Bad Gateway\r\n")
            message = json.loads(body)["error"]["message"]
            assert message == f"specsonar proxy: cannot reach http://127.0.0.1:{port}: Connection refused"
        with Upstream(port=port) as up:
            assert ask(proxy.url) == up.sent
    assert lines == [f"cannot reach http://127.0.0.1:{port}: Connection refused"], "said once"


@pytest.mark.parametrize(
    ("sent", "status"),
    [(b"\x16\x03\x01 this is TLS", 400), (b"hello\r\n\r\n", 400), (b"CONNECT x:1 HTTP/1.1\r\n\r\n", 405)],
)
def test_a_client_that_cannot_be_understood_is_told(sent: bytes, status: int) -> None:
    with Upstream() as up, Keeper() as keeper, Proxy(up.url, keeper) as proxy:
        with connect(proxy.url) as sock:
            sock.sendall(sent)
            assert receive(sock).startswith(b"HTTP/1.1 %d " % status)
        assert ask(proxy.url) == up.sent
    assert len(up.heads) == 1


def test_a_client_that_goes_away_ends_the_answer_upstream() -> None:
    with Upstream(events=1000, gated=True) as up, Keeper() as keeper, Proxy(up.url, keeper) as proxy:
        with connect(proxy.url) as sock:
            sock.sendall(REQUEST)
            receive(sock, b": hello\n\n\r\n")
        for _ in range(1000):
            up.go()
            if up.gone.wait(0.01):
                break
        assert up.gone.is_set()
        assert ask(proxy.url, times=0) == []


def test_a_slow_client_slows_its_own_answer_and_loses_nothing() -> None:
    with (
        Upstream(events=300, word=100_000 * "x") as up,
        Keeper() as keeper,
        Proxy(up.url, keeper) as proxy,
        connect(proxy.url) as slow,
        connect(proxy.url) as other,
    ):
        slow.sendall(REQUEST)
        begin = slow.recv(100)  # and no more for a while
        other.sendall(REQUEST)
        assert receive(other) == up.sent[0], "the fast one is through before the slow one"
        assert begin + receive(slow) == up.sent[1]


def test_tls_upstream(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(CERTIFICATE, CERTIFICATE.with_name("loopback-key.pem"))
    lines: list[str] = []
    with Upstream(events=30, context=context) as up:
        with Keeper() as keeper, Proxy(up.url, keeper, tell=lines.append) as proxy, connect(proxy.url) as sock:
            sock.sendall(REQUEST)
            assert receive(sock).startswith(b"HTTP/1.1 502 ")
        assert "certificate is not trusted" in lines[0]
        monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
        with Keeper() as keeper:
            with Proxy(up.url.replace("127.0.0.1", "localhost"), keeper) as proxy:
                assert ask(proxy.url, times=2) == up.sent
            assert [len(one) for one in keeper.trace().streams] == [30, 30]
    assert b"localhost:" in up.heads[0]


def test_a_port_that_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(InputError, match="cannot listen on") as caught:
        Proxy("http://127.0.0.1:1", Keeper(), port=taken.getsockname()[1])
    assert "--port" in caught.value.hint


# The command -------------------------------------------------------------------------------------------------------


class Command:
    """`specsonar proxy` in a process of its own."""

    def __init__(self, *arguments: str, **options: object) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "specsonar", "proxy", *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options,
        )  # fmt: skip
        assert self.process.stderr
        self.lines = []
        while "is http" not in "".join(self.lines):
            line = self.process.stderr.readline()
            assert line, self.lines
            self.lines.append(line)
        self.url = self.lines[-1].split()[0]

    def end(self, how: int) -> tuple[int, str, str]:
        self.process.send_signal(how)
        out, err = self.process.communicate(timeout=60)
        return self.process.returncode, out, err


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_it_with_a_summary(tmp_path: Path, how: int) -> None:
    path = tmp_path / "x.jsonl"
    with Upstream(events=9) as up:
        command = Command(up.url, "-o", str(path))
        assert ask(command.url) == up.sent
        code, out, err = command.end(how)
    assert (code, out, err) == (0, "", f"recorded 1 stream, 9 events: {path}\n")
    assert read(path).findings == ()


def test_fingerprint_when_asked(tmp_path: Path) -> None:
    with Upstream(events=8, gap=0.001) as up:
        command = Command(up.url, "-o", str(tmp_path), "--fingerprint", "--format", "json", "-q", "--rotate", "400B")
        for _ in range(3):
            ask(command.url)
        code, out, err = command.end(signal.SIGINT)
    assert (code, err) == (0, "")
    assert json.loads(out)["streams"] == 3
    names = sorted(path.name for path in tmp_path.iterdir())
    assert len(names) > 1 and names[0].startswith("specsonar-proxy-")
    assert sum(read(tmp_path / name).events for name in names) == 24


@pytest.mark.parametrize("streams", [1, 16])
def test_kill_9_loses_at_most_what_is_in_flight(tmp_path: Path, streams: int) -> None:
    path = tmp_path / "x.jsonl"
    with Upstream(events=1000, gated=True) as up, contextlib.ExitStack() as stack:
        command = Command(up.url, "-o", str(path))
        clients = [stack.enter_context(connect(command.url)) for _ in range(streams)]
        for sock in clients:
            sock.sendall(REQUEST)
            receive(sock, b": hello\n\n\r\n")
        for k in range(50):
            while len(re.findall(rb"\n\[\d", path.read_bytes())) < streams * (k - 1):  # the recorder is another process
                assert command.process.poll() is None
            up.go(streams)
            for sock in clients:
                receive(sock, b"\n\n\r\n")
        code, _, _ = command.end(signal.SIGKILL)
        assert code == -signal.SIGKILL
        for sock in clients:
            assert receive(sock) == b"", "the forwarding process ends too"
    trace = read(path)
    assert [f.code for f in trace.findings] == ["I001"]
    assert len(trace.streams) == streams
    for one in trace.streams:
        assert len(one) in (48, 49, 50), "all that were written, and no more than two were on their way"


def test_a_full_disk_ends_the_recording_not_the_service(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    with Upstream(events=1000) as up:
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))  # noqa: E731
        command = Command(up.url, "-o", str(path), preexec_fn=limit)
        assert ask(command.url, times=2) == up.sent
        code, _, err = command.end(signal.SIGINT)
    assert code == 3
    assert "error: cannot write" in err and "File too large" in err and "Traceback" not in err
    trace = read(path)
    assert 100 < trace.events < 1000
    assert [f.code for f in trace.findings] == ["I001"]


def test_other_machines_are_let_in_only_when_asked_and_with_a_warning(tmp_path: Path) -> None:
    command = Command("http://127.0.0.1:1", "-o", str(tmp_path), "--host", "0.0.0.0")
    command.end(signal.SIGINT)
    assert "warning: every machine that reaches 0.0.0.0" in command.lines[0]
