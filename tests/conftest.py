"""A Fingerprint built by hand, for everything that only reads one."""

from dataclasses import replace

import pytest

from specsonar.fingerprint import Alternative, Estimate, Finding, Fingerprint, Histogram

SENTENCE = "Speculative decoding is on: up to 4 tokens a step, 2.95 on average."


def estimate(value, low, high, method="profile likelihood"):
    return Estimate(value, low, high, 0.95, method)


def build():
    return Fingerprint(
        verdict="speculative",
        sentence=SENTENCE,
        max_burst=estimate(4.0, 4.0, 4.0, "penalised likelihood"),
        acceptance_rate=estimate(0.8, 0.77, 0.83),
        acceptance_by_position=tuple(estimate(a, a - 0.05, a + 0.05) for a in (0.79, 0.81, 0.8)),
        acceptance_length=estimate(2.952, 2.81, 3.1),
        step_ms=estimate(20.0, 19.9, 20.1),
        jitter_ms=estimate(6.0, 5.6, 6.4),
        tokens_per_s=estimate(147.6, 140.0, 155.0),
        efficiency=estimate(0.738, 0.7, 0.77),
        gap_tokens=estimate(1.05, 0.9, 1.2),
        alternatives=(Alternative("speculative", 0.99995), Alternative("autoregressive", 0.00005)),
        layer="in-order",
        count_source="one event per token",
        streams=1,
        tokens=600,
        events=600,
        steps=203,
        findings=(Finding("I002", "info", "taken as milliseconds", "say --unit"),),
        burst_sizes=Histogram((1.0, 2.0, 3.0, 4.0, 5.0), (41.0, 30.0, 21.0, 109.0), (40.6, 32.5, 26.0, 103.9)),
        gaps=Histogram(tuple(10 ** (k / 4 - 1) for k in range(13)), tuple(float(k) for k in range(12))),
        provenance={"version": "0.1.0", "inputs": [{"name": "a.txt", "sha256": "0" * 64}], "seed": 0},
    )


@pytest.fixture
def sample():
    return build()


@pytest.fixture
def bare(sample):
    """Nothing could be estimated."""
    empty = dict.fromkeys(
        ("max_burst", "acceptance_rate", "acceptance_by_position", "acceptance_length", "step_ms", "jitter_ms",
         "tokens_per_s", "efficiency", "gap_tokens", "layer", "tokens", "steps", "burst_sizes", "gaps")
    )  # fmt: skip
    return replace(sample, verdict="undetermined", alternatives=(), findings=(), needed_tokens=600, **empty)
