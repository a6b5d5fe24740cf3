"""The checkup: what is said of a path, from made-up reads and over real sockets."""

import gzip
import json
import socket
import time
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner
from live_servers import END, chunk, request

from specsonar.cli.app import cli
from specsonar.doctor import Checkup, examine, path
from specsonar.doctor.listening import Ears, spread
from specsonar.doctor.machine import Clock, Local
from specsonar.doctor.service import Burst, Service, visit
from specsonar.errors import SpecsonarError

STEP_NS = 8_000_000


def answer(gaps_ms, events, size=250):
    t = np.cumsum(np.array([0, *gaps_ms]) * 1e6).astype(np.int64)
    return path.Arrivals(t, np.full(t.size, size, np.int64), np.array(events, np.int64))


PLAIN = answer([8] * 39, [1] * 40)
HELD = answer([45, *[8] * 31], [1, 8, *[1] * 31])


def test_arrivals_are_cut_to_the_answer():
    made = path.arrivals([10, 20, 30, 40, 50], [100, 1, 2, 3, 200], np.array([1, 1, 3]))
    assert made.t_ns.tolist() == [10, 20, 30, 40]
    assert (made.size.tolist(), made.events.tolist()) == ([100, 1, 2, 3], [0, 2, 0, 1])
    assert (made.total, made.per_read) == (3, 1.5)


def test_alone():
    assert path.alone([PLAIN]) == 1.0
    assert path.alone([answer([1], [1, 3])]) == 0.25
    assert np.isnan(path.alone([]))


def test_nagle_is_what_goes_away_with_quick_acknowledgements():
    assert path.nagle([HELD, HELD, PLAIN], [PLAIN] * 3)
    assert not path.nagle([HELD, PLAIN, PLAIN], [PLAIN] * 3)  # once is chance
    assert not path.nagle([PLAIN] * 3, [PLAIN] * 3)
    slow_steps_of_several_tokens = answer([40] * 20, [3] * 21)
    assert not path.nagle([slow_steps_of_several_tokens] * 3, [slow_steps_of_several_tokens] * 3)


def test_a_lump_may_be_cut_in_two_reads():
    assert path.holds(answer([8, 44, 0.2, 8], [1, 1, 1, 1, 1])) == 1
    assert path.holds(answer([8, 44, 8, 8], [1, 1, 1, 1, 1])) == 0


def test_a_buffer_that_is_passed_on_when_full():
    full = answer([100] * 4, [16, 17, 16, 17, 3])
    blocks = replace(full, size=np.array([4096, 4096, 4096, 4096, 700]))
    assert path.block([blocks]) == 4096
    assert path.block([replace(full, size=np.array([4000, 4250, 4010, 4240, 700]))]) is None
    assert path.block([PLAIN]) is None  # events of one size
    assert path.block([]) is None


def test_an_answer_in_one_piece():
    assert path.whole([answer([], [40]), answer([3], [1, 39])])
    assert not path.whole([PLAIN, answer([], [40])])
    assert not path.whole([answer([], [3])])


def test_packing_that_holds():
    assert path.packing_holds([answer([], [40])], [PLAIN])
    assert not path.packing_holds([PLAIN], [PLAIN])
    assert not path.packing_holds([], [PLAIN])


def test_spread():
    assert spread([1.0, 2.0, 3.0])["p50"] == 2.0
    assert spread([]) == {}


def lag(p99_us):
    return {"reads": 9, "p50_us": 30.0, "p99_us": p99_us, "max_us": 9_000.0}


def local(**extra):
    made = Local("kernel", {"p50": 7.0, "p99": 307.0, "max": 900.0}, lag(100.0), 1.0, ())
    return replace(made, **extra)


CLEAN = Burst(3, 144, 1.0, 1.0, False, None, False, None, None, False)
AFAR = Service(
    "https://x.example", "openai", "m", "HTTP/2", "TLSv1.3", {}, {"p50": 20.0, "p99": 31.0, "max": 31.0}, 3.0, CLEAN
)


def test_limits_follow_from_the_worst_part():
    here = Checkup(Clock(50, 60.0), local(), {})
    assert here.jitter_ms == pytest.approx(0.3)
    assert here.step_ms == pytest.approx(1.0)
    assert replace(here, local=local(lag=lag(8_000.0))).step_ms == pytest.approx(8.0)
    assert replace(here, service=AFAR).jitter_ms == 3.0
    assert replace(here, service=AFAR).step_ms == pytest.approx(10.0)
    hidden = replace(here, service=replace(AFAR, burst=replace(CLEAN, block=4096)))
    assert hidden.step_ms is None
    assert json.loads(json.dumps(hidden.to_dict()))["smallest_step_ms"] is None


@pytest.mark.parametrize(
    ("burst", "code"),
    [
        ({"nagle": True}, "Q012"),
        ({"block": 4096}, "Q013"),
        ({"whole": True, "block": 4096}, "Q013"),
        ({"packing_holds": True, "encoding": "gzip", "packed_per_read": 48.0}, "Q014"),
    ],
)
def test_each_trouble_has_its_finding(burst, code):
    assert [f.code for f in replace(AFAR, burst=replace(CLEAN, **burst)).findings] == [code]
    assert AFAR.findings == ()
    assert replace(AFAR, burst=None).findings == ()


HERE = Checkup(Clock(50, 60.0), local(), {"p50": 110.0, "p99": 900.0, "max": 4000.0})


@pytest.fixture
def run(monkeypatch):
    """Run `specsonar doctor ARGS...` on a checkup that is made up; the result, and how `examine` was called."""

    def call(checkup, *args):
        asked = []

        def fake(url, **options):
            asked.append((url, options))
            options["tell"]("asking for something")
            return checkup

        monkeypatch.setattr("specsonar.doctor.examine", fake)
        return CliRunner().invoke(cli, ["doctor", *args]), asked

    return call


def test_the_page_of_this_machine(run):
    result, asked = run(HERE)
    assert result.exit_code == 0
    assert asked[0][0] is None
    text = " ".join(result.stdout.split())
    assert "send to stamp 7 us / 307 us / 900 us" in text
    assert "event loop late by 110 us / 900 us / 4 ms" in text
    assert "Steps down to 1 ms can be seen. Jitter below 300 us cannot be told from what is made here." in text


def test_the_page_of_a_service(run):
    burst = replace(CLEAN, block=4096, per_read=16.2, encoding="gzip", packed_per_read=48.0, packing_holds=True)
    result, asked = run(replace(HERE, service=replace(AFAR, burst=burst, told={"via": "1.1 \x1b[31mred"})), "https://x.example",
                        "--burst", "--model", "m")  # fmt: skip
    assert result.exit_code == 0
    assert asked[0][0] == "https://x.example"
    assert (asked[0][1]["burst"], asked[0][1]["model"]) == (True, "m")
    text = " ".join(result.stdout.split())
    assert "HTTP/2, TLSv1.3, model m" in text
    assert "buffer 4096 bytes" in text
    assert "The way hides the steps." in text
    assert "Q013" in text
    assert "Q014" in text
    assert "\x1b" not in result.stdout
    assert result.stderr == "asking for something\n"


def test_json_and_quiet(run):
    result, _ = run(HERE, "--json", "-q")
    assert result.exit_code == 0
    assert json.loads(result.stdout) == json.loads(json.dumps(HERE.to_dict()))
    assert result.stderr == ""


def test_a_burst_needs_a_service(run):
    result, asked = run(HERE, "--burst")
    assert result.exit_code == 2
    assert asked == []


def sse(number):
    choice = {"index": 0, "delta": {"content": f" {number}"}, "finish_reason": None}
    return chunk(json.dumps({"id": "1", "object": "chat.completion.chunk", "model": "m", "choices": [choice]}).encode())


MODELS = json.dumps({"object": "list", "data": [{"id": "m", "object": "model"}]}).encode()
HEAD = b"HTTP/1.1 200 OK\r\nserver: tiny/1\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n"


def service(stream):
    """A service of one model; `stream(connection, asked)` sends the body of an answer after its head."""

    def handle(connection):
        while asked := request(connection):
            if asked.startswith(b"POST"):
                stream(connection, asked)
            elif b"/v1/models" in asked.split(b"\r\n")[0]:
                connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
                                   b"content-length: %d\r\n\r\n%b" % (len(MODELS), MODELS))  # fmt: skip
            else:
                connection.sendall(b"HTTP/1.1 404 Not Found\r\nserver: tiny/1\r\ncontent-length: 0\r\n\r\n")

    return handle


def paced(connection, asked):
    connection.sendall(HEAD + b"\r\n")
    for number in range(40):
        time.sleep(0.002)
        connection.sendall(sse(number))
    connection.sendall(END)


def blocks(connection, asked):
    """A proxy with a buffer of 2000 bytes."""
    connection.sendall(HEAD + b"\r\n")
    body = b"".join(sse(number) for number in range(60)) + END
    for start in range(0, len(body), 2000):
        time.sleep(0.02)
        connection.sendall(body[start : start + 2000])


def packing(connection, asked):
    """A packer that is never flushed; without it the events come one by one."""
    if b"gzip" not in asked:
        return paced(connection, asked)
    connection.sendall(HEAD + b"content-encoding: gzip\r\n\r\n")
    raw = b"".join(sse(number).split(b"\r\n", 1)[1][:-2] for number in range(40))
    data = gzip.compress(raw)
    connection.sendall(b"%x\r\n%b\r\n" % (len(data), data) + END)


def test_a_url_is_asked_cheap_things_only(host):
    asked = []

    def note(connection):
        while got := request(connection):
            asked.append(got.split(b" ")[0])
            connection.sendall(
                b"HTTP/1.1 200 OK\r\nserver: tiny/1\r\ncontent-length: %d\r\n\r\n%b" % (len(MODELS), MODELS)
            )

    found = visit(host(note).url, burst=False, model=None, key_env=None, timeout=20, tell=pytest.fail)
    assert set(asked) == {b"GET"}
    assert (found.burst, found.tls, found.http, dict(found.told)) == (None, None, "HTTP/1.1", {"server": "tiny/1"})
    assert 0 < found.round_trip_ms["p50"] <= found.round_trip_ms["max"]


def test_an_endless_answer_to_a_small_question_is_given_up(host):
    def endless(connection):
        request(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n")
        while True:
            connection.sendall(b"x")
            time.sleep(0.05)

    with pytest.raises(SpecsonarError, match="said nothing"):
        visit(host(endless).url, burst=False, model=None, key_env=None, timeout=0.3, tell=pytest.fail)


def burst_of(host, stream):
    said = []
    found = visit(host(service(stream)).url, burst=True, model=None, key_env=None, timeout=20, tell=said.append)
    assert len(said) == 1
    assert "10 short answers" in said[0]
    assert found.model == "m"
    return found


def test_a_clean_path(host):
    found = burst_of(host, paced)
    assert found.findings == ()
    assert (found.burst.answers, found.burst.events, found.burst.encoding) == (3, 120, None)


def test_a_buffer_on_the_path(host):
    found = burst_of(host, blocks)
    assert [f.code for f in found.findings] == ["Q013"]
    assert found.burst.block == 2000


def test_a_packer_on_the_path(host):
    found = burst_of(host, packing)
    assert [f.code for f in found.findings] == ["Q014"]
    assert (found.burst.encoding, found.burst.packed_per_read) == ("gzip", 40.0)


@pytest.mark.slow  # it rests on timers of the kernel
@pytest.mark.skipif(not hasattr(socket, "TCP_QUICKACK"), reason="elsewhere acknowledgements cannot be hastened")
def test_a_server_that_waits_for_acknowledgements(host):
    """Nagle's algorithm on, each event written in two pieces: the kernels of both ends do the rest."""

    def pieces(connection, asked):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 0)
        connection.sendall(HEAD + b"\r\n")
        for number in range(30):
            time.sleep(0.005)
            size, _, rest = sse(number).partition(b"\r\n")
            connection.sendall(size + b"\r\n")
            connection.sendall(rest)
        connection.sendall(END)

    found = burst_of(host, pieces)
    assert [f.code for f in found.findings] == ["Q012"]


def test_a_service_that_does_not_stream(host):
    def one(connection, asked):
        connection.sendall(HEAD + b"\r\n" + sse(1) + END)

    with pytest.raises(SpecsonarError, match="less than 2 events"):
        burst_of(host, one)


def test_a_service_that_refuses_is_an_error_in_one_line(host):
    def refuse(connection, asked):
        connection.sendall(b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n")

    with pytest.raises(SpecsonarError):
        burst_of(host, refuse)


def test_this_machine():
    found = examine()
    assert found.local.stamps in ("kernel", "clock")
    assert found.local.lag["reads"] > 0 or found.local.stamps == "clock"
    assert found.clock.tick_ns > 0
    assert 0 <= found.local.alone <= 1
    # a stamp after its send, as far as the one clock of both processes goes
    assert -1.0 < found.local.error_us["p50"] <= found.local.error_us["p99"] <= found.local.error_us["max"]
    assert found.step_ms >= found.jitter_ms > 0
    assert found.to_dict()["schema"] == "specsonar.doctor/1"


def test_ears_measure_round_trips():
    ears = Ears()
    ear = ears.tap("x")
    for start in (0, 1000):
        ear.sent(start, b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        ear.received(start + 300, b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n")
        ear.received(start + 400, b"body")
    ear.closed(3000)
    assert ear.round_trips_ns().tolist() == [300, 300]
    assert ears.arrivals() == []
