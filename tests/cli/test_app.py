"""The root command: help that costs nothing, and every way to fail as one line and a code."""

import importlib
import json
import os
import signal
import subprocess
import sys
import time

import click
import pytest

from specsonar import __version__
from specsonar.cli.app import COMMANDS, cli
from specsonar.errors import InputError, LimitError, UsageError

HEAVY = ("numpy", "scipy", "numba", "rich", "msgspec", "zstandard", "concurrent.futures", "asyncio")


def python(*args, **extra):
    return subprocess.run([sys.executable, *args], capture_output=True, text=True, timeout=60, **extra)


@pytest.mark.parametrize("argument", ["--help", "--version"])
def test_help_imports_nothing_heavy(argument):
    code = (
        "import sys\nfrom specsonar.cli.app import cli\n"
        f"try: cli.main([{argument!r}])\nexcept SystemExit as e: assert not e.code\n"
        f"print([m for m in {HEAVY!r} if m in sys.modules], file=sys.stderr)"
    )
    done = python("-c", code)
    assert done.stderr.strip() == "[]"
    assert "specsonar" in done.stdout


def test_help_lists_every_command_with_the_first_line_of_its_own_help(run):
    text = " ".join(run("--help").stdout.split())
    for name, line in COMMANDS.items():
        assert f"{name} {line}" in text
        command = cli.get_command(click.Context(cli), name)
        assert " ".join(command.help.split("\n\n")[0].split()) == line


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(run, name):
    result = run(name, "--help")
    assert result.exit_code == 0
    assert result.stdout.startswith(f"Usage: specsonar {name}")
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_python_dash_m_is_the_same_program():
    done = python("-m", "specsonar", "--version")
    assert (done.returncode, done.stdout) == (0, f"specsonar {__version__}\n")


def test_no_arguments_show_the_help_and_are_wrong_usage(run):
    result = run()
    assert result.exit_code == 2
    assert "Commands:" in result.stderr


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("analzye",), "Did you mean 'analyze'?"),
        (("analyze",), "FILE"),
        (("analyze", "x", "--level", "1"), "--level"),
        (("analyze", "x", "--unit", "min"), "--unit"),
        (("analyze", "x", "--no-such"), "--no-such"),
        (("simulate", "--tokens", "0"), "--tokens"),
        (("explain", "Z999"), "Z999"),
        (("completion", "csh"), "csh"),
    ],
)
def test_wrong_usage_is_two_lines_and_exit_2(run, args, said):
    result = run(*args)
    assert result.exit_code == 2
    assert result.stdout == ""
    error, hint = result.stderr.splitlines()
    assert error.startswith("error: ")
    assert said in error
    assert hint.startswith("hint: ")


@pytest.fixture
def failing(monkeypatch):
    """Make `specsonar explain` raise what the test wants."""
    module = importlib.import_module("specsonar.cli.explain")

    def arrange(error):
        def body(*_args, **_options):
            raise error

        monkeypatch.setattr(module.command, "callback", body)

    return arrange


@pytest.mark.parametrize(
    ("error", "code", "first"),
    [
        (InputError("bad file", "mend it"), 3, "error: bad file"),
        (LimitError("too big", "cut it"), 3, "error: too big"),
        (UsageError("bad knob", "turn it"), 2, "error: bad knob"),
        (FileNotFoundError(2, "No such file or directory", "a.txt"), 3, "error: 'a.txt': No such file or directory"),
        (MemoryError(), 3, "error: out of memory"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (click.Abort(), 130, "interrupted"),
        (BrokenPipeError(32, "Broken pipe"), 141, None),
        (ZeroDivisionError("oh"), 3, f"error: this is a defect of specsonar {__version__}: ZeroDivisionError: oh"),
    ],
)
def test_every_failure_is_one_line_and_a_code(run, failing, error, code, first):
    failing(error)
    result = run("explain")
    assert result.exit_code == code
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    lines = [line for line in result.stderr.splitlines() if line]
    assert lines[:1] == ([] if first is None else [first])
    assert all(line.startswith("hint: ") for line in lines[1:])


@pytest.mark.parametrize("args", [("explain", "-v"), ("-v", "explain"), ("explain", "--verbose")])
def test_verbose_shows_the_traceback_of_a_defect(run, failing, args):
    failing(ZeroDivisionError("oh"))
    result = run(*args)
    assert "Traceback" in result.stderr
    assert result.stderr.splitlines()[-1].startswith("error: this is a defect")


def test_an_error_cannot_drive_the_terminal(run, failing):
    failing(InputError("file \x1b[2J\u202e\n\udcff", "x"))
    result = run("explain")
    assert result.stderr.splitlines()[0] == "error: file ?[2J? ?"


def test_a_reader_that_leaves_early_is_not_a_failure_to_report():
    command = f"{sys.executable} -m specsonar simulate --plain --tokens 200000 | head -n 1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines() == ["# seconds", "141"]
    assert done.stderr == ""


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_ctrl_c_ends_with_one_line_and_130():
    code = (
        "import sys; from specsonar.cli import explain, main\n"
        "def wait(*a, **k):\n"
        "    print('ready', flush=True)\n"
        "    import time; time.sleep(30)\n"
        "explain.command.callback = wait\n"
        "sys.argv = ['specsonar', 'explain']; main()"
    )
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "ready\n"
    time.sleep(0.05)
    child.send_signal(signal.SIGINT)
    _, talk = child.communicate(timeout=20)
    assert child.returncode == 130
    assert talk.split() == ["interrupted"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_call_back(run, shell):
    result = run("completion", shell)
    assert result.exit_code == 0
    assert "_SPECSONAR_COMPLETE" in result.stdout


def test_completion_answers():
    def complete(*words):
        env = os.environ | {"_SPECSONAR_COMPLETE": "bash_complete", "COMP_WORDS": " ".join(words),
                            "COMP_CWORD": str(len(words) - 1)}  # fmt: skip
        return python("-m", "specsonar", env=env).stdout.split()

    assert complete("specsonar", "ana") == ["plain,analyze"]
    assert "plain,I002" in complete("specsonar", "explain", "i00")
    assert "plain,J_paced" in complete("specsonar", "simulate", "--world", "j_p")


def test_explain_lists_and_explains(run):
    assert "I002" in run("explain").stdout
    page = run("explain", "i002").stdout
    assert page.startswith("I002: time unit guessed (info)\n")
    assert all(f"\n{head}: " in page for head in ("What", "Why", "Do"))


def test_explain_as_json(run):
    one = json.loads(run("explain", "I002", "--json").stdout)
    assert set(one) == {"code", "title", "severity", "what", "why", "do"}
    assert one in json.loads(run("explain", "--json").stdout)


def test_explain_names_near_codes(run):
    assert "V002" in run("explain", "V02").stderr
