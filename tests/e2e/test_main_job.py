"""The main job as a user runs it: the real program, the real analysis, files and pipes between them."""

import json
import subprocess
import sys

import pytest

import specsonar
from specsonar.sources.worlds import WORLDS


def program(*args, **extra):
    done = subprocess.run([sys.executable, "-m", "specsonar", *args], capture_output=True, timeout=120, **extra)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("world", ["D", "J_cv5"])
def test_what_simulate_writes_analyze_understands(world):
    trace = program("simulate", "--world", world)
    answer = json.loads(program("analyze", "-", "--json", input=trace))
    assert answer["schema"] == "specsonar.fingerprint/1"
    assert answer["verdict"] == WORLDS[world].verdict
    assert answer["max_burst"]["value"] == WORLDS[world].service.burst
    assert answer["events"] == WORLDS[world].tokens


def test_packed_files_are_pooled_and_text_leads_with_the_sentence(tmp_path):
    files = [str(tmp_path / f"{seed}.jsonl.zst") for seed in (1, 2)]
    for seed, file in enumerate(files, 1):
        program("simulate", "--world", "D", "--seed", str(seed), "--tokens", "300", "-o", file)
    text = program("analyze", *files).decode()
    assert text.startswith("Speculative decoding is on: up to 4 tokens")
    assert "2 streams" in text


def test_the_hidden_settings_do_not_change_the_answer():
    trace = WORLDS["D"].trace(seed=9)
    seen, blind = (specsonar.fingerprint(t).to_dict() for t in (trace, trace.without_truth()))
    assert seen == blind


def test_demo_exits_0_and_shows_truth_and_inference():
    text = program("demo", "--seed", "3").decode()
    assert "hidden" in text
    assert "inferred" in text
