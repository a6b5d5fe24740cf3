"""A program is recorded without a change to it, and does not notice: output, exit code and signals are its own."""

from __future__ import annotations

import os
import resource
import signal
import ssl
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from upstream import Upstream

from specsonar.importers import read
from specsonar.sources.proxy import notes
from specsonar.sources.recorder.inject import specsonar_hooks as hooks
from specsonar.sources.serve import Server
from specsonar.sources.service import Service

HERE = Path(__file__).parent
CLIENT = HERE / "client.py"
CERTIFICATE = HERE / "data" / "loopback-cert.pem"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "x.jsonl"


@pytest.fixture
def record(path):
    """Run `specsonar record ARGS...` in a process of its own; the result has returncode, stdout and stderr."""

    def call(*arguments, **options):
        command = [sys.executable, "-m", "specsonar", "record", "-o", str(path), *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, **options)

    return call


def python(code: str) -> list[str]:
    return ["--", sys.executable, "-c", code]


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("httpx", "urllib", "openai")]


@pytest.mark.parametrize("client", ["httpx2", "requests", "aiohttp", "openai async", *SLOW])
def test_clients(record, path, client):
    with Upstream(events=20, gap=0.002) as up:
        done = record("--", sys.executable, CLIENT, client, up.url)
    assert (done.returncode, done.stdout) == (0, "20\n"), done.stderr
    assert done.stderr.splitlines()[0] == f"recorded 1 stream, 20 events: {path}"
    (one,) = read(path).streams
    assert len(one) == 20 and one.start_ns < one.t_ns[0] and one.meta["model"] == "m"
    for secret in (b"a-secret-key", b"a secret prompt", b'"w1'):
        assert secret not in path.read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("client", ["anthropic", "ollama"])
def test_other_official_clients(record, path, client):
    with Server(Service(step_ms=1.0, ttft_ms=1.0)) as server:
        done = record("--", sys.executable, CLIENT, client, server.url)
    assert (done.returncode, done.stdout) == (0, "20\n"), done.stderr
    assert [len(one) for one in read(path).streams] == [20]


@pytest.mark.parametrize("client", ["httpx2", "openai async"])
def test_tls(record, path, client):
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(CERTIFICATE, CERTIFICATE.with_name("loopback-key.pem"))
    with Upstream(events=20, gap=0.002, context=context) as up:
        done = record(
            "--", sys.executable, CLIENT, client, up.url, env={**os.environ, "SSL_CERT_FILE": str(CERTIFICATE)}
        )
    assert (done.returncode, done.stdout) == (0, "20\n"), done.stderr
    assert [len(one) for one in read(path).streams] == [20]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs the kernel's stamps")
def test_a_program_that_reads_late_is_told_of_and_does_not_stretch_the_gaps(record, path):
    with Upstream(events=30, gap=0.002) as up:
        done = record("--", sys.executable, CLIENT, "httpx2", up.url, "0.02")
    assert (done.returncode, done.stdout) == (0, "30\n"), done.stderr
    trace = read(path)
    assert "Q015" in [f.code for f in trace.findings]
    (one,) = trace.streams
    assert one.span_s < 0.3 < 30 * 0.02, "the time of arrival, not of the program's reading"
    assert np.ptp(one.read) < 29, "what came meanwhile shares a read"


def test_exit_code_and_streams_are_the_programs_own(record, path):
    code = "import sys; print(sys.stdin.read()); print('err', file=sys.stderr); sys.exit(7)"
    done = record("-q", *python(code), input="in")
    assert (done.returncode, done.stdout, done.stderr) == (7, "in\n", "err\n")
    assert read(path).streams == ()


def test_a_program_without_http_is_told_of(record):
    done = record(*python("import sys; print('socket' in sys.modules, 'ssl' in sys.modules)"))
    assert (done.returncode, done.stdout) == (0, "False False\n"), "and pays nothing"
    assert "no HTTP client was seen" in done.stderr


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSEGV])
def test_a_program_that_crashes_leaves_its_record(record, path, how):
    code = f"""
import os, urllib.request
with urllib.request.urlopen(urllib.request.Request(os.environ["UP"], b"{{}}")) as answer:
    for line in answer:
        if b'"w9 ' in line:
            os.kill(os.getpid(), {int(how)})
"""
    with Upstream(events=100, gap=0.001) as up:
        done = record(*python(code), env={**os.environ, "UP": f"{up.url}/v1/completions"})
    assert done.returncode == 128 + how
    (one,) = read(path).streams
    assert 9 <= len(one) <= 12


def test_signals_reach_the_program(path):
    code = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))
print("ready", flush=True)
time.sleep(60)
"""
    command = [sys.executable, "-m", "specsonar", "record", "-q", "-o", str(path), *python(code)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert child.stdout.readline() == b"ready\n"
    child.send_signal(signal.SIGTERM)
    assert child.wait(60) == 5
    child.stdout.close()


def test_child_processes_and_forks_are_recorded(record, path):
    code = f"""
import os, subprocess, sys, urllib.request
def ask():
    with urllib.request.urlopen(urllib.request.Request(sys.argv[1] + "/v1/completions", b"{{}}")) as answer:
        answer.read()
ask()
if os.fork() == 0:
    ask()
    os._exit(0)
os.wait()
subprocess.run([sys.executable, {str(CLIENT)!r}, "urllib", sys.argv[1]], check=True)
"""
    with Upstream(events=5) as up:
        done = record(*python(code), up.url)
    assert done.returncode == 0, done.stderr
    assert [len(one) for one in read(path).streams] == [5, 5, 5]


def with_path(folder: Path) -> dict[str, str]:
    places = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(places)}


def test_scripts_and_modules(record, tmp_path):
    app = tmp_path / "app.py"
    app.write_text("import sys; print(sys.argv[1:], __name__)")
    assert record("-q", app, "-o", "x").stdout == "['-o', 'x'] __main__\n"
    assert record("-q", "--", "-m", "app", "-v", env=with_path(tmp_path)).stdout == "['-v'] __main__\n"
    done = record("no-such-program")
    assert done.returncode == 3 and done.stderr.startswith("error: cannot run no-such-program: No such file")


def test_the_programs_own_sitecustomize_has_its_turn(record, tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import builtins; builtins.mine = 'ran'")
    code = "import sys, sitecustomize; print(mine, sitecustomize.__file__, [p for p in sys.path if 'inject' in p])"
    done = record("-q", *python(code), env=with_path(tmp_path))
    assert done.stdout == f"ran {tmp_path / 'sitecustomize.py'} []\n", done.stderr


def test_a_recorder_that_dies_does_not_take_the_program_with_it(path):
    code = f"""
import os, signal, sys
sys.argv = ["client", "urllib", os.environ["UP"]]
os.kill(os.getppid(), signal.SIGKILL)
exec(open({str(CLIENT)!r}).read())
"""
    with Upstream(events=5) as up:
        command = [sys.executable, "-m", "specsonar", "record", "-o", str(path), *python(code)]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, "UP": up.url})
        assert child.stdout.read() == b"5\n"
        child.stdout.close()
        assert child.wait() == -signal.SIGKILL
    assert [f.code for f in read(path).findings] == ["I001"]


def test_hooks_and_recorder_speak_the_same():
    """The hooks run where specsonar may not be installed, so they have their own copy."""
    assert hooks.HEAD.format == notes.HEAD.format
    kinds = ("OPENED", "SENT", "RECEIVED", "CLOSED", "LOST")
    assert [getattr(hooks, kind) for kind in kinds] == [getattr(notes, kind) for kind in kinds]
    assert hooks.PULLED not in range(7)


def test_a_full_disk_ends_the_recording_not_the_program(record, path):
    with Upstream(events=1000) as up:
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))  # noqa: E731
        done = record("--", sys.executable, CLIENT, "urllib", up.url, preexec_fn=limit)
    assert (done.returncode, done.stdout) == (3, "1000\n")
    assert "error: cannot write" in done.stderr and "Traceback" not in done.stderr
    assert 100 < read(path).events < 1000
    assert "I001" in [f.code for f in read(path).findings]


def test_a_place_that_cannot_be_written_is_told_before_the_program_runs(tmp_path):
    command = [sys.executable, "-m", "specsonar", "record", "-o", str(tmp_path / "no" / "x.jsonl")]
    done = subprocess.run([*command, *python("print('ran')")], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("error: cannot write") and len(done.stderr.splitlines()) <= 2
