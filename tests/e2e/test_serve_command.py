"""`specsonar serve` as a program: address on stdout, talk on stderr, an end at a signal."""

import os
import signal
import socket
import subprocess
import sys

import httpx2
import pytest
from click.testing import CliRunner

from specsonar.cli import serve, simulate
from specsonar.cli.app import cli
from specsonar.sources.listening import is_loopback


def start(*options, **environment):
    return subprocess.Popen(
        [sys.executable, "-m", "specsonar", "serve", "--port", "0", "--ttft-ms", "1", "--step-ms", "1", *options],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **environment},
    )  # fmt: skip


@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_serves_until_a_signal_and_says_how_late_it_was(end):
    with start("--k", "3", "--seed", "5") as program:
        url = program.stdout.readline().strip()
        body = {"prompt": "hello", "n_predict": 40, "stream": True}
        assert httpx2.post(f"{url}/completion", json=body).text.count("data: ") == 41
        assert httpx2.get(f"{url}/specsonar/timing").json()["events"] == 40
        assert httpx2.get(f"{url}/specsonar/truth").status_code == 404
        program.send_signal(end)
        out, talk = program.communicate()
    assert out == ""
    assert talk.startswith("40 events sent; late by ")
    assert program.returncode == 0


def test_a_running_answer_does_not_hold_up_the_end():
    with start("--step-ms", "3600000") as program:
        url = program.stdout.readline().strip()
        with httpx2.stream("POST", f"{url}/completion", json={"prompt": "x", "n_predict": 9, "stream": True}) as answer:
            assert "tokens_predicted" in next(answer.iter_text())
            program.send_signal(signal.SIGTERM)
            assert program.wait() == 0


def test_key_from_the_environment_and_truth_on_demand():
    with start("--api-key-env", "THE_KEY", "--expose-truth", "--max-burst", "5", THE_KEY="hush") as program:
        url = program.stdout.readline().strip()
        body = {"messages": [{"role": "user", "content": "x"}], "max_tokens": 4}
        assert httpx2.post(f"{url}/v1/chat/completions", json=body).status_code == 401
        headers = {"authorization": "Bearer hush"}
        assert httpx2.post(f"{url}/v1/chat/completions", json=body, headers=headers).status_code == 200
        truth = httpx2.get(f"{url}/specsonar/truth").json()["streams"]
        assert [t["max_burst"] for t in truth] == [5]
        program.terminate()
        assert "hush" not in "".join(program.communicate())


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (["--world", "nowhere"], 2, "no world is called 'nowhere'"),
        (["--api-key-env", "NO_SUCH_VARIABLE"], 2, "NO_SUCH_VARIABLE is empty"),
        (["--k", "3", "--max-burst", "9"], 2, "give one of them"),
        (["--host", "256.0.0.1", "--port", "0"], 3, "cannot listen on 256.0.0.1"),
        (["--host", "256.0.0.1"], 3, "warning: every machine that reaches 256.0.0.1 can use this server freely"),
    ],
)
def test_wrong_options_are_told_in_a_line(options, code, words):
    done = CliRunner().invoke(cli, ["serve", *options])
    assert done.exit_code == code
    assert words in done.stderr and "Traceback" not in done.stderr


def test_a_taken_port_is_told():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = CliRunner().invoke(cli, ["serve", "--port", str(port)])
    assert done.exit_code == 3
    assert f"cannot listen on 127.0.0.1:{port}" in done.stderr


@pytest.mark.parametrize(
    ("host", "alone"),
    [("127.0.0.1", True), ("127.8.9.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("::", False),
     ("10.0.0.1", False), ("example.org", False)],
)  # fmt: skip
def test_what_only_this_machine_reaches(host, alone):
    assert is_loopback(host) == alone


def test_has_every_knob_of_simulate():
    knobs = {p.name for p in simulate.command.params} - {"streams", "plain", "truth", "output"}
    assert knobs <= {p.name for p in serve.command.params}
