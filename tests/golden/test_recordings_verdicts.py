"""Recordings of real engines: verdict, M, acceptance length and steps against the engine's own counters."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from specsonar.fingerprint import AUTOREGRESSIVE, SPECULATIVE, UNDETERMINED, Estimate


def load():
    """benchmarks/recordings.py, which prints the same checks as a table."""
    path = Path(__file__).parents[2] / "benchmarks" / "recordings.py"
    spec = importlib.util.spec_from_file_location("specsonar_recordings", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


report = load()
NAMES = report.names()


@pytest.mark.parametrize("name", NAMES)
def test_the_answer_is_the_engines_own(name):
    found, truth = report.analysed(name)
    missed = [f"{c.what}: {c.found}, right is {c.truth}" for c in report.checks(found, truth) if not c.good]
    assert missed == []
    if found.verdict == SPECULATIVE and truth.length is not None:
        assert found.acceptance_length.low <= truth.length <= (found.acceptance_length.high or float("inf"))


def test_every_recording_has_a_truth_and_every_kind_is_there():
    assert len(NAMES) >= 42
    truths = {name: report.analysed(name)[1] for name in ("vllm.noise.k4.chat", "ov.draft.conf", "vllm.ngram.k4")}
    assert (truths["vllm.noise.k4.chat"].steps, truths["vllm.noise.k4.chat"].length) == (62, 299 / 62)
    assert truths["ov.draft.conf"].max_burst is None and truths["ov.draft.conf"].steps == 52
    assert truths["vllm.ngram.k4"].verdicts == (AUTOREGRESSIVE,)


def test_the_checks_notice_a_wrong_answer():
    found, truth = report.analysed("llama-bin.f32.k4.t2")
    length, burst = found.acceptance_length, found.max_burst
    wrong = {
        "verdict": replace(found, verdict=UNDETERMINED),
        "M": replace(found, max_burst=Estimate(4.0, 4.0, 4.0, 0.95, "")),
        "length": replace(found, acceptance_length=replace(length, value=length.value * 1.021)),
        "steps": replace(found, steps=round(found.steps * 1.03)),
    }
    for what, answer in wrong.items():
        assert [c.what for c in report.checks(answer, truth) if not c.good] == [what]
    one_sided = replace(found, max_burst=replace(burst, value=4.0, low=4.0, high=None))
    assert all(c.good for c in report.checks(one_sided, truth))
    too_high = replace(found, max_burst=replace(burst, value=6.0, low=6.0, high=None))
    assert not all(c.good for c in report.checks(too_high, truth))
    assert not all(c.good for c in report.checks(replace(found, max_burst=None), truth))
