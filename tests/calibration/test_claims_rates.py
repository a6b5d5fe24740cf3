"""How often an honest server is accused of a false report, and a lying one is not."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from specsonar.fit import fingerprint
from specsonar.sources.simulate import simulate
from specsonar.wire.dialects.report import llamacpp, vllm

WORLDS = list(itertools.product((1, 3, 6), (0.4, 0.7, 0.9), ("none", "gauss:3"), (0.0, 0.3), range(2)))


@pytest.fixture(scope="module")
def accused() -> dict[str, list[bool]]:
    """For each kind of report whether it was called false, over all worlds in which speculation was seen."""
    found: dict[str, list[bool]] = {"honest": [], "llama.cpp": [], "half": [], "boast": []}
    for number, (k, acceptance, delay, correlation, seed) in enumerate(WORLDS):
        (one,) = simulate(
            k=k, acceptance=acceptance, step_delay=delay, correlation=correlation, step_cv=0.05, tokens=500,
            seed=100 * number + seed,
        ).streams  # fmt: skip
        sizes = one.truth["bursts"]
        for kind, lie in (("honest", 0), ("llama.cpp", 0), ("half", -1), ("boast", 1)):
            accepted = [(a // 2 if lie < 0 else min(k, a + lie)) for a in (size - 1 for size in sizes)]
            drafted = [k] * len(sizes)
            said = llamacpp({"draft_n": sum(drafted), "draft_n_accepted": sum(accepted), "predicted_n": 500})
            if kind != "llama.cpp":
                counts = {"num_draft_tokens": sum(drafted), "num_accepted_draft_tokens": sum(accepted)}
                steps = {"num_spec_steps": len(sizes), "num_spec_tokens": k, "per_step_accepted": accepted}
                said = vllm({"speculative_decoding": {**counts, **steps, "per_step_drafted": drafted}}, 500)
            codes = [f.code for f in fingerprint(replace(one, server_report=said)).findings]
            if "S001" in codes or "S002" in codes:
                found[kind].append("S002" in codes)
    return found


def test_honest_servers_are_not_accused(accused: dict[str, list[bool]]) -> None:
    for kind in ("honest", "llama.cpp"):
        assert len(accused[kind]) > 60
        # more than 4 of 72 happens once in 1,000 where the rate is 1 %
        assert sum(accused[kind]) <= 4, kind


def test_lying_servers_are_caught(accused: dict[str, list[bool]]) -> None:
    for kind in ("half", "boast"):
        assert sum(accused[kind]) >= 0.95 * len(accused[kind]), kind
