"""The progress bar: silent for quick work, for quiet runs, and where nobody looks."""

import io
import sys

import pytest

from specsonar.cli.progress import Bar, progress
from specsonar.cli.state import State


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    """Call it inside the test: pytest puts its own stderr back after the fixtures."""

    def put():
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setattr(sys, "stderr", Terminal())
        return sys.stderr

    return put


def test_quick_work_shows_nothing(terminal):
    stderr = terminal()
    bar = Bar(clock=iter([0.0, 0.3, 0.9]).__next__)
    bar(0.1, "a")
    bar(0.9, "b")
    bar.close()
    assert stderr.getvalue() == ""


def test_slow_work_shows_its_message_and_share(terminal):
    stderr = terminal()
    bar = Bar(clock=iter([0.0, 1.5]).__next__)
    bar(0.5, "fitting [M=4]")
    bar(7.0, "fitting [M=5]")
    bar.close()
    assert "fitting [M=5]" in stderr.getvalue()
    assert "100%" in stderr.getvalue()


def test_nobody_looking_means_no_callable(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with progress(State()) as report:
        assert report is None


def test_quiet_means_no_callable(terminal):
    terminal()
    with progress(State(quiet=True)) as report:
        assert report is None


def test_a_terminal_gets_a_callable(terminal):
    stderr = terminal()
    with progress(State()) as report:
        report(0.5, "x")
    assert stderr.getvalue() == ""
