"""The gate in CI: the script of the GitHub Action and the pytest plugin, against a real server."""

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest

import specsonar
from specsonar.compare import compare
from specsonar.errors import InputError
from specsonar.fingerprint import Estimate
from specsonar.probe import probe
from specsonar.pytest_plugin import Undetermined, assert_equivalent, assert_speculative
from specsonar.render import json
from specsonar.saved import side
from specsonar.sources.serve import Server
from specsonar.sources.service import Service
from specsonar.sources.simulate import simulate

ROOT = Path(__file__).resolve().parents[2]
ACTION = (ROOT / "action.yml").read_text(encoding="utf-8")
SERVICE = Service(max_burst=4, acceptance=0.8, step_ms=15.0, events="step", ttft_ms=10.0)
ASKED = {"streams": 6, "tokens": 120}
# Margins against real servers are wide: steps on a busy machine wander. Acceptance comes from counts, which do not.


@pytest.fixture(scope="module")
def server():
    with Server(SERVICE, process=True) as running:
        yield running


@pytest.fixture(scope="module")
def base(server, tmp_path_factory):
    path = tmp_path_factory.mktemp("base") / "base.json"
    path.write_text(json.render(probe(server.url, environment={}, **ASKED).fingerprint), encoding="utf-8")
    return path


def act(folder, url, **inputs):
    """Run the script of the action as its runner would, with the defaults that action.yml gives."""
    defaults = dict(re.findall(r"^  (\w+):\n    description: .*\n    default: \"?(.*?)\"?$", ACTION, re.MULTILINE))
    given = defaults | {k: str(v) for k, v in ASKED.items()} | {"url": url} | inputs
    named = set(re.findall(r"^        (INPUT_\w+): ", ACTION, re.MULTILINE))
    assert {f"INPUT_{name.upper()}" for name in given} == named
    command = folder / "bin" / "specsonar"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m specsonar "$@"\n')
    command.chmod(0o755)
    environment = os.environ | {f"INPUT_{name.upper()}": value for name, value in given.items()}
    environment |= {"PATH": f"{command.parent}:{os.environ['PATH']}", "GITHUB_STEP_SUMMARY": str(folder / "summary.md")}
    return subprocess.run(
        ["bash", str(ROOT / "tools" / "gate.sh")], cwd=folder, env=environment, capture_output=True, text=True,
        check=False, timeout=200,
    )  # fmt: skip


def test_the_action_passes_what_is_alike(server, base, tmp_path):
    done = act(tmp_path, server.url, base=str(base), margin="100%", expect="k=3\n\nacceptance >= 0.6\n")
    summary = (tmp_path / "summary.md").read_text()
    assert done.returncode == 0, done.stderr + summary
    assert "**held** k=3" in summary
    assert "### specsonar gate: held" in summary
    for name in ("expect.xml", "compare.xml"):
        assert Xml.parse(tmp_path / "specsonar" / name).getroot()[0].get("failures") == "0"
    assert specsonar.read(tmp_path / "specsonar" / "candidate.jsonl.zst").streams


@pytest.mark.slow
def test_the_action_fails_what_is_worse(base, tmp_path):
    with Server(replace(SERVICE, acceptance=0.3), process=True) as worse:
        done = act(tmp_path, worse.url, base=str(base), margin="5%", expect="acceptance>=0.6")
    assert done.returncode == 1, done.stderr
    summary = (tmp_path / "summary.md").read_text()
    assert "**failed** acceptance" in summary
    assert "### specsonar gate: failed" in summary


def test_the_action_says_when_the_service_is_not_there(tmp_path):
    with Server(SERVICE) as gone:
        url = gone.url
    done = act(tmp_path, url)
    assert done.returncode == 3
    assert "error:" in done.stderr


def test_the_action_hands_inputs_over_as_variables_only():
    scripts = re.findall(r"^      run: (.*)$", ACTION, re.MULTILINE)
    assert len(scripts) == 2
    assert not [script for script in scripts if "${{" in script]
    assert not re.search(r"uses: \S+@(main|master|latest)", ACTION)


USER_TEST = """
import sys

from specsonar.pytest_plugin import assert_equivalent, assert_speculative


def test_light():
    heavy = {"numpy", "scipy", "numba", "httpx2", "rich", "click"} & set(sys.modules)
    assert not heavy


def test_decoding(specsonar_probe):
    found = specsonar_probe(URL, streams=6, tokens=120)
    assert specsonar_probe(URL, streams=6, tokens=120) is found
    assert_speculative(found, min_acceptance_length=2)
    assert_equivalent(BASE, found, margin=1.0)


def test_that_fails(specsonar_probe):
    assert_speculative(specsonar_probe(URL, streams=6, tokens=120), min_acceptance_length=3.9)
"""


def test_the_plugin_in_a_project_of_its_own(server, base, tmp_path):
    (tmp_path / "test_service.py").write_text(f"URL = {server.url!r}\nBASE = {str(base)!r}\n{USER_TEST}")
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "specsonar.pytest_plugin",
               "-p", "no:cacheprovider", "-p", "no:hypothesispytest"]  # fmt: skip
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=200)
    assert "2 passed" in done.stdout, done.stdout + done.stderr
    assert "1 failed" in done.stdout
    assert "expected acceptance_length>=3.9: failed" in done.stdout


def test_answers_of_a_probe_are_known_by_what_was_asked(base):
    names = [one.question for one in side([str(base)]).by_stream]
    assert len(set(names)) == ASKED["streams"]
    assert [name.split()[0] for name in names] == ["prose", "code", "json", "repeat", "prose", "code"]


def counted(seed, streams=20, **knobs):
    return simulate(replace(SERVICE, **knobs), tokens=300, streams=streams, seed=seed).without_truth()


def test_assert_equivalent_tells_the_figures():
    assert assert_equivalent(counted(1), counted(2), margin=0.15).verdict == "equivalent"
    with pytest.raises(AssertionError, match=r"acceptance length 2\.\d+ -> 2\.\d+ .*changed") as told:
        assert_equivalent(counted(1), counted(2, acceptance=0.6))
    assert "save a new base" in str(told.value)
    assert not isinstance(told.value, Undetermined)


def test_what_is_undetermined_fails_or_skips():
    few = (counted(1, streams=3), counted(2, streams=3))
    with pytest.raises(Undetermined, match="streams a side"):
        assert_equivalent(*few, margin=0.01)
    with pytest.raises(pytest.skip.Exception, match="streams a side"):
        assert_equivalent(*few, margin=0.01, undetermined="skip")
    with pytest.raises(ValueError, match="undetermined"):
        assert_equivalent(*few, undetermined="pass")


def test_assert_speculative(sample, bare):
    assert assert_speculative(sample, min_acceptance_length=2.5) is sample
    with pytest.raises(AssertionError, match="expected verdict=speculative: failed, it is autoregressive"):
        assert_speculative(replace(sample, verdict="autoregressive"))
    with pytest.raises(Undetermined, match="verdict=speculative"):
        assert_speculative(bare)
    wide = replace(sample, acceptance_length=Estimate(2.95, 2.4, 3.5, 0.95, ""))
    with pytest.raises(Undetermined, match="tokens are needed"):
        assert_speculative(wide, min_acceptance_length=2.5)


@pytest.mark.slow
def test_probes_that_ask_otherwise_are_unlike(server, tmp_path):
    """What was asked is in the file, also when several files make a side; prompts of the user's own as a digest."""
    asked = ("--streams", 1, "--tokens", 60, "--quiet")
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("A secret of mine.\n\nAnother one.\n")
    made = {}
    for name, more in {"plain": (), "own": ("--prompt-file", prompts), "crowd": ("--concurrency", 2)}.items():
        made[name] = tmp_path / f"{name}.jsonl"
        words = [sys.executable, "-m", "specsonar", "probe", server.url, *asked, *more, "-o", made[name]]
        subprocess.run([str(word) for word in words], check=True, capture_output=True, timeout=60)
    plain, own, crowd = (side([str(path)]) for path in made.values())
    assert plain.by_stream[0].question.startswith("prose ") and own.by_stream[0].question.endswith(" 1")
    with pytest.raises(InputError, match="workload 'prose code json repeat' and 'prompts "):
        compare(plain, own)
    with pytest.raises(InputError, match="concurrency 1 and 2"):
        compare(side([str(made["plain"])] * 2), crowd)
    assert b"secret" not in made["own"].read_bytes()
