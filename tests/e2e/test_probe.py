"""`specsonar probe` as a user runs it: the real program against the simulated service and against servers that fail."""

import json
import os
import signal
import subprocess
import sys
import time
from io import StringIO

import pytest
from probe_servers import Scripted, answer, page

import specsonar
from specsonar.probe import probe
from specsonar.sources.serve import Server
from specsonar.sources.service import Service

KEY = "sk-only-for-this-test"


def command(*args):
    return [sys.executable, "-m", "specsonar", "probe", *map(str, args)]


def run(*args, **variables):
    environment = {k: v for k, v in os.environ.items() if not k.endswith("_API_KEY")} | variables
    return subprocess.run(command(*args), capture_output=True, text=True, timeout=120, env=environment, check=False)


@pytest.mark.parametrize(
    ("service", "tokens"),
    [
        (Service(max_burst=4, acceptance=0.7, step_ms=12.0, step_cv=0.03, in_burst_us=80.0, ttft_ms=20.0), 300),
        (Service(max_burst=3, acceptance=0.5, step_ms=10.0, events="step", ttft_ms=20.0), 300),
        pytest.param(Service(max_burst=1, step_ms=8.0, step_cv=0.03, ttft_ms=20.0), 200, marks=pytest.mark.slow),
    ],
    ids=["tokens", "steps", "plain"],
)
def test_hidden_settings_are_found(service, tokens):
    with Server(service, process=True) as server:
        found = probe(server.url, streams=4, tokens=tokens, environment={})
        truth = server.truth[-1]
    answer = found.fingerprint
    assert answer.verdict == truth["verdict"]
    assert answer.max_burst.value == truth["max_burst"]
    assert answer.acceptance_length.low * 0.95 <= truth["acceptance_length"] <= answer.acceptance_length.high * 1.05
    assert answer.step_ms.value == pytest.approx(truth["step_ms"], rel=0.05)
    assert {s.meta["stamps"] for s in found.trace.streams} == {"kernel" if sys.platform == "linux" else "clock"}


@pytest.fixture(scope="module")
def fast():
    with Server(Service(max_burst=3, step_ms=6.0, ttft_ms=10.0), process=True) as server:
        yield server


def test_report_on_stdout_talk_on_stderr_and_the_trace_in_a_file(fast, tmp_path):
    path = tmp_path / "trace.jsonl.zst"
    done = run(fast.url, "--streams", 2, "--tokens", 150, "--json", "-o", path)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["verdict"] == "speculative"
    assert report["streams"] == 2
    assert "temperature 0" in done.stderr
    trace = specsonar.read(path)
    assert [s.known_tokens for s in trace.streams] == [150, 150]
    assert specsonar.fingerprint(trace).to_dict()["max_burst"] == report["max_burst"]
    assert run(fast.url, "--streams", 1, "--tokens", 60, "--quiet", "--format", "markdown").stderr == ""


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions", "/completion", "/v1/responses",
                                  "/v1/messages", "/api/chat", "/api/generate", "/generate_stream"])  # fmt: skip
def test_every_dialect_of_the_simulated_service(fast, path):
    found = probe(fast.url + path, streams=1, tokens=30, environment={})
    assert sum(s.known_tokens or len(s) for s in found.trace.streams) == 30


def wait_for(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.parametrize(
    "extra", [[], pytest.param(["--concurrency", "3"], marks=pytest.mark.slow)], ids=["one", "three"]
)
def test_an_interrupt_keeps_and_reports_what_there_is(fast, tmp_path, extra):
    path = tmp_path / "trace.jsonl"
    running = subprocess.Popen(
        command(fast.url, "--tokens", 5000, "--budget", 100_000, "--json", "-o", path, *extra),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    wait_for(lambda: path.exists() and path.read_bytes().count(b"\n") > 200)
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "interrupted" in err
    report = json.loads(out)
    assert report["verdict"] == "speculative"
    assert specsonar.read(path).events == report["events"] >= 190


def test_an_interrupt_before_anything_came():
    with Scripted(lambda r: iter(lambda: server.gone.wait(60) or b"", b"")) as server:
        running = subprocess.Popen(command(server.url), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        wait_for(lambda: server.posts)
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=60)
    assert (running.returncode, out) == (130, "")
    assert err.splitlines()[-1] == "interrupted"


def test_a_killed_probe_leaves_a_file_that_loads(fast, tmp_path):
    path = tmp_path / "trace.jsonl"
    running = subprocess.Popen(
        command(fast.url, "--tokens", 5000, "-o", path), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    wait_for(lambda: path.exists() and path.read_bytes().count(b"\n") > 200)
    running.kill()
    running.wait(60)
    trace = specsonar.read(path)
    assert trace.events > 190
    assert [f.code for f in trace.findings if f.code == "I001"] == ["I001"]


def test_a_server_that_dies_on_the_way():
    count = []

    def respond(request):
        count.append(1)
        return answer(60) if len(count) < 3 else page({"error": "out of memory"}, 500)

    with Scripted(respond) as server:
        done = run(server.url, "--tokens", 60)
    assert done.returncode == 3
    assert "tokens" in done.stdout
    assert "error: " in done.stderr
    assert "HTTP 500: out of memory" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_full_disk(fast):
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full here")
    done = run(fast.url, "--streams", 1, "--tokens", 60, "-o", "/dev/full", "--json")
    assert done.returncode == 3
    assert "cannot write /dev/full" in done.stderr


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (["http://127.0.0.1:9"], 3, "cannot reach http://127.0.0.1:9"),
        (["http://user:pass@h"], 2, "holds a name or a password"),
        (["http://127.0.0.1:9", "--workload", "poetry"], 2, "no workload is called"),
        (["http://127.0.0.1:9", "--until", "200%"], 2, "no share"),
        (["http://127.0.0.1:9", "--prompt-file", "no-such-file"], 3, "cannot read"),
        (["http://127.0.0.1:9", "-o", "-"], 2, "cannot go to stdout"),
        (["http://127.0.0.1:9", "--key-env", "NO_SUCH_KEY"], 2, "NO_SUCH_KEY is not set"),
        ([], 2, "Missing argument"),
    ],
)
def test_what_cannot_be_is_one_line(args, code, said):
    done = run(*args)
    assert done.returncode == code
    assert done.stdout == ""
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("args", "variable"), [([], "OPENAI_API_KEY"), (["--key-env", "MY_KEY"], "MY_KEY")])
def test_the_key_comes_from_the_environment_and_stays_out_of_everything(tmp_path, args, variable):
    seen = []

    def respond(request):
        seen.append(request.headers.get("authorization"))
        return answer() if len(seen) < 3 else page({"error": f"not with {KEY}"}, 403)

    path = tmp_path / "trace.jsonl"
    with Scripted(respond) as server:
        done = run(server.url, "--tokens", 15, "--verbose", "-o", path, *args, **{variable: KEY})
    assert set(seen) == {f"Bearer {KEY}"}
    assert KEY not in done.stdout + done.stderr + path.read_text()
    assert "not with [key]" in done.stderr


def test_the_live_view():
    from rich.console import Console

    from specsonar.cli.probe import _view
    from specsonar.probe import SoFar

    console = Console(width=80, file=StringIO())
    console.print(_view(SoFar(1234, 3, 0.5, 211.4, None)))
    text = console.file.getvalue()
    assert "1,234 tokens in 3 answers, 211 tokens/s" in text
    assert "listening" in text


@pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")
def test_on_a_terminal_one_sees_it_come(fast):
    import pty

    ours, theirs = pty.openpty()
    running = subprocess.Popen(
        command(fast.url, "--streams", 2, "--tokens", 100), stdout=subprocess.DEVNULL, stderr=theirs,
        env=os.environ | {"TERM": "xterm"},
    )  # fmt: skip
    os.close(theirs)
    seen = b""
    try:
        while part := os.read(ours, 65536):
            seen += part
    except OSError:  # how Linux tells that the other side has closed
        pass
    os.close(ours)
    assert running.wait(60) == 0
    assert b" tokens in " in seen
