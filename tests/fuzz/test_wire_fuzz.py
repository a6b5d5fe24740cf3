"""Decoders against noise: broken copies of good connections and bodies, and a short coverage-guided search."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
import wire_fuzz
from hypothesis import given, settings
from hypothesis import strategies as st

FOLDER = Path(__file__).parent
CORPUS = sorted((FOLDER / "corpus").iterdir())
SEEDS = [path.read_bytes() for path in CORPUS]
SECONDS = int(os.environ.get("FUZZ_SECONDS", "30"))

edits = st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(0, 8), st.binary(max_size=8)), max_size=6)


def test_the_corpus_is_there_and_small() -> None:
    assert len(CORPUS) >= 10 and sum(map(len, SEEDS)) < 100_000
    assert {seed[0] == wire_fuzz.CONNECTION for seed in SEEDS} == {True, False}


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.name)
def test_the_corpus_passes(path: Path) -> None:
    wire_fuzz.check(path.read_bytes())


@settings(max_examples=400, deadline=None)
@given(seed=st.sampled_from(SEEDS), changes=edits, end=st.integers(0, 1 << 16))
def test_broken_copies(seed: bytes, changes: list[tuple[int, int, bytes]], end: int) -> None:
    data = bytearray(seed)
    for at, gone, new in changes:
        at %= len(data) + 1
        data[at : at + gone] = new
    wire_fuzz.check(bytes(data[: len(data) - end % (len(data) + 1)] if end % 4 == 0 else data))


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300))
def test_noise(data: bytes) -> None:
    wire_fuzz.check(data)


@pytest.mark.slow
def test_a_coverage_guided_search_finds_nothing(tmp_path: Path) -> None:
    if importlib.util.find_spec("atheris") is None:
        if sys.platform not in ("linux", "darwin"):
            pytest.skip("atheris does not exist for this platform")
        pytest.fail("atheris is missing: install the extra `fuzz`")
    folders = [str(tmp_path), str(FOLDER / "corpus")]
    limits = [f"-max_total_time={SECONDS}", "-timeout=10", "-rss_limit_mb=1024", "-max_len=20000"]
    command = [sys.executable, str(FOLDER / "wire_fuzz.py"), *folders, *limits, f"-artifact_prefix={tmp_path}/"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS + 120, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    assert "DONE" in done.stderr and "cov:" in done.stderr, "it did look"
