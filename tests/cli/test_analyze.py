"""`specsonar analyze` with an analysis that costs nothing: what goes in, and what comes out where."""

import json
import os
import subprocess
import sys

import pytest

from specsonar.cli import output as output_module

ESCAPE = "\x1b"


def test_text_goes_to_stdout_and_nothing_to_stderr(run, fake_fit, times, sample):
    result = run("analyze", times)
    assert result.exit_code == 0
    assert result.stdout.startswith(sample.sentence)
    assert result.stderr == ""
    assert ESCAPE not in result.stdout


def test_options_reach_the_analysis(run, fake_fit, times):
    run("analyze", times, "--level", "0.9", "--seed", "7", "--method", "baseline", "--unit", "ms")
    ((trace, options),) = fake_fit
    assert options == {"level": 0.9, "seed": 7, "method": "baseline", "progress": None}
    assert trace.streams[0].t_ns[-1] == 60_000


def test_gaps_are_summed(run, fake_fit, tmp_path):
    path = tmp_path / "gaps.txt"
    path.write_text("20\n0\n20\n")
    run("analyze", path, "--gaps", "--unit", "ms")
    assert (fake_fit[0][0].streams[0].t_ns / 1e6).tolist() == [0, 20, 20, 40]


def test_several_files_are_pooled(run, fake_fit, times):
    run("analyze", times, times, times)
    assert len(fake_fit[0][0].streams) == 3


def test_dash_reads_stdin(run, fake_fit, times):
    run("analyze", "-", input=times.read_bytes())
    assert len(fake_fit[0][0].streams[0]) == 8


@pytest.mark.parametrize("flags", [("--json",), ("--format", "json")])
def test_json_is_the_contract(run, fake_fit, times, sample, flags):
    assert json.loads(run("analyze", times, *flags).stdout) == json.loads(json.dumps(sample.to_dict()))


def test_markdown(run, fake_fit, times, sample):
    assert run("analyze", times, "--format", "markdown").stdout.startswith(f"**{sample.sentence}**")


def test_output_file_takes_the_place_of_stdout(run, fake_fit, times, tmp_path):
    target = tmp_path / "answer.json"
    result = run("analyze", times, "--json", "-o", target)
    assert (result.exit_code, result.stdout) == (0, "")
    assert json.loads(target.read_text())["verdict"] == "speculative"
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


def test_output_dash_is_stdout(run, fake_fit, times, sample):
    assert sample.sentence in run("analyze", times, "-o", "-").stdout


def test_a_failed_write_leaves_the_old_file_and_no_litter(tmp_path):
    target = tmp_path / "answer.txt"
    target.write_text("old")

    def half():
        with output_module.replacing(target) as file:
            file.write(b"new")
            raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match="half way"):
        half()
    assert target.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["answer.txt"]


def test_a_new_file_has_ordinary_permissions(tmp_path):
    if os.name == "nt":
        pytest.skip("permissions")
    target, other = tmp_path / "answer.txt", tmp_path / "other.txt"
    other.write_text("x")
    with output_module.replacing(target) as file:
        file.write(b"x")
    assert target.stat().st_mode == other.stat().st_mode


def test_a_link_stays_a_link(tmp_path):
    target, link = tmp_path / "target.txt", tmp_path / "link.txt"
    target.write_text("old")
    link.symlink_to(target)
    with output_module.replacing(link) as file:
        file.write(b"new")
    assert link.is_symlink()
    assert target.read_text() == "new"


@pytest.mark.parametrize("place", [".", "no/such/folder/x.json"])
def test_an_output_that_cannot_be_written_is_one_line(run, fake_fit, times, tmp_path, place):
    result = run("analyze", times, "-o", tmp_path / place)
    assert result.exit_code == 3
    assert result.stderr.startswith("error: cannot write ")
    assert "Traceback" not in result.stderr


def test_devices_can_be_written_to(run, fake_fit, times):
    assert run("analyze", times, "-o", os.devnull).exit_code == 0
    assert not os.path.isfile(os.devnull)


def test_verbose_tells_what_was_read(run, fake_fit, times):
    assert ": 1 stream, 8 events" in run("analyze", times, "-v").stderr


FAKE = """
import sys
from types import ModuleType
sys.path.insert(0, {tests!r})
import conftest
module = ModuleType("specsonar.fit")
module.fingerprint = lambda trace, **options: conftest.build()
sys.modules["specsonar.fit"] = module
sys.argv = ["specsonar", "analyze", {times!r}]
from specsonar.cli import main
main()
"""


def on_a_terminal(times, **environment):
    """What a terminal of 80 columns would show; None where the platform has none."""
    pty = pytest.importorskip("pty")
    tests = os.path.dirname(os.path.dirname(__file__))
    code = FAKE.format(tests=tests, times=str(times))
    ours, theirs = pty.openpty()
    env = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "TERM", "COLUMNS")} | environment
    child = subprocess.Popen([sys.executable, "-c", code], stdout=theirs, stderr=theirs, env=env)
    os.close(theirs)
    shown = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:
            break
        if not part:
            break
        shown += part
    os.close(ours)
    assert child.wait(20) == 0
    return shown.decode()


def test_a_terminal_gets_colour(times):
    assert ESCAPE in on_a_terminal(times, TERM="xterm-256color")


@pytest.mark.parametrize("environment", [{"TERM": "xterm", "NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_no_color_and_dumb_terminals_get_none(times, environment):
    assert ESCAPE not in on_a_terminal(times, **environment)


def test_an_ascii_terminal_gets_ascii(times):
    shown = on_a_terminal(times, TERM="dumb", PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert shown.isascii()
    assert "####" in shown
