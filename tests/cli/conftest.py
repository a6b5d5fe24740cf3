"""The command line in this process, and an analysis that costs nothing."""

import sys
from types import ModuleType

import pytest
from click.testing import CliRunner

from specsonar.cli.app import cli


@pytest.fixture
def run():
    """Run `specsonar ARGS...` in this process; the result has exit_code, stdout and stderr."""

    def call(*args, **extra):
        return CliRunner().invoke(cli, [str(arg) for arg in args], **extra)

    return call


@pytest.fixture
def fake_fit(monkeypatch, sample):
    """Replace the analysis by one that returns `sample` and notes how it was called."""
    calls = []

    def fingerprint(trace, **options):
        calls.append((trace, options))
        return sample

    module = ModuleType("specsonar.fit")
    module.fingerprint = fingerprint
    monkeypatch.setitem(sys.modules, "specsonar.fit", module)
    return calls


@pytest.fixture
def times(tmp_path):
    """A plain file of arrival times: four steps of 20 ms."""
    path = tmp_path / "times.txt"
    path.write_text("".join(f"{0.02 * (i // 2):.4f}\n" for i in range(8)))
    return path
