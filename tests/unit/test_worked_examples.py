"""Two public reports, simulated at their figures and compared: which half of tokens/s changed.

The first: 3.19 tokens a step at 120.5 tokens/s became 2.66 at 101.4, so that the step went from 26.47 to 26.23 ms. The
second: no speculation, and a step of 6.68 ms became one of 23.88 ms.
"""

import pytest
from scipy.optimize import brentq

from specsonar import fingerprint
from specsonar.compare import compare
from specsonar.fingerprint import AUTOREGRESSIVE, CHANGED, EQUIVALENT, HELD
from specsonar.sources.service import Delay, Service
from specsonar.sources.simulate import simulate

LINK = {"step_cv": 0.05, "step_delay": Delay("lognormal", 1.0, 0.8)}


def heard(service, seed, tokens=400, streams=20):
    return fingerprint(simulate(service, tokens=tokens, streams=streams, seed=seed).without_truth())


def drafting(length, step_ms, **knobs):
    """Five drafts and a bonus token with `length` tokens a step on average."""
    alpha = brentq(lambda a: (1 - a**6) / (1 - a) - length, 0.01, 0.99)
    return Service(max_burst=6, acceptance=alpha, step_ms=step_ms, **LINK, **knobs)


@pytest.mark.parametrize("events", ["step", pytest.param("token", marks=pytest.mark.slow)])
def test_acceptance_fell_and_the_step_did_not(events):
    base, candidate = (
        heard(drafting(length, step, events=events), seed)
        for seed, (length, step) in enumerate([(3.19, 26.47), (2.66, 26.23)])
    )
    found = compare(base, candidate)
    assert found.verdict == "acceptance"
    assert found.acceptance_length.low < 2.66 / 3.19 < found.acceptance_length.high
    assert found.step_ms.verdict == EQUIVALENT
    assert found.step_ms.low < 26.23 / 26.47 < found.step_ms.high
    assert found.tokens_per_s.low < 101.4 / 120.5 < found.tokens_per_s.high
    assert found.tokens_per_s.base == pytest.approx(120.5, rel=0.03)
    assert found.sentence.startswith("Tokens/s fell 1")
    assert "acceptance length 3." in found.sentence and "changed, the step did not (26." in found.sentence


def test_the_step_grew_without_any_speculation():
    base, candidate = (
        heard(Service(max_burst=1, step_ms=step, events="step", **LINK), seed)
        for seed, step in enumerate([6.68, 23.88])
    )
    assert base.verdict == candidate.verdict == AUTOREGRESSIVE
    found = compare(base, candidate)
    assert found.verdict == "step"
    assert found.step_ms.verdict == CHANGED
    assert found.step_ms.ratio == pytest.approx(23.88 / 6.68, rel=0.01)
    assert found.acceptance_length.verdict == EQUIVALENT
    assert "the step 6.7 -> 23.9 ms (+257" in found.sentence
    assert {c.name: c.verdict for c in found.checks}["acceptance_length"] == HELD
