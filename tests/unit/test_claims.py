"""The server's report against the inference: an honest server is not accused, a lying one is caught."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from specsonar.claims import Inferred, compared, pooled
from specsonar.fingerprint import AUTOREGRESSIVE, SPECULATIVE, UNDETERMINED, Estimate, Finding
from specsonar.fit import fingerprint
from specsonar.sources.simulate import simulate
from specsonar.trace import Stream, Trace, stream
from specsonar.wire.dialects.report import made, vllm

Lie = Callable[[int], int]


def reported(one: Stream, k: int, lie: Lie, draft: int | None = None) -> Stream:
    """`one` with what vLLM would say of its steps."""
    accepted = [lie(size - 1) for size in one.truth["bursts"]]
    said = {
        "num_draft_tokens": k * len(accepted), "num_accepted_draft_tokens": sum(accepted),
        "num_spec_steps": len(accepted), "num_spec_tokens": draft or k, "per_step_accepted": accepted,
        "per_step_drafted": [k] * len(accepted),
    }  # fmt: skip
    return replace(one, server_report=vllm({"speculative_decoding": said}, one.truth["tokens"]))


def verdict(trace: Trace, k: int, lie: Lie = lambda a: a, draft: int | None = None) -> Finding:
    told = fingerprint(replace(trace, streams=tuple(reported(s, k, lie, draft) for s in trace.streams)))
    (found,) = (f for f in told.findings if f.code.startswith("S"))
    return found


WORLDS = [
    (k, acceptance, events, delay)
    for k, acceptance in ((1, 0.6), (3, 0.8), (6, 0.9))
    for events, delay in (("token", "gauss:2"), ("step", "none"))
]


@pytest.mark.parametrize(("k", "acceptance", "events", "delay"), WORLDS)
def test_honest_and_lying_servers(k: int, acceptance: float, events: str, delay: str) -> None:
    trace = simulate(
        k=k, acceptance=acceptance, events=events, step_delay=delay, step_cv=0.05, tokens=500, streams=2, seed=7
    )
    assert verdict(trace, k).code == "S001"
    assert verdict(trace, k, lambda a: a // 2).code == "S002", "it hides half of what it accepts"
    boast = verdict(trace, k, lambda a: min(k, a + 1))
    assert boast.code == "S002" and "by the stream" in boast.message
    wrong = verdict(trace, k, draft=k + 2)
    assert wrong.code == "S002" and f"drafts of {k + 2}, by the stream {k}" in wrong.message


@pytest.mark.parametrize("knobs", [{"correlation": 0.4}, {"draft_probability": 0.4}, {"clip_draft": True}])
def test_honest_servers_whose_steps_are_not_alike(knobs: dict[str, Any]) -> None:
    trace = simulate(k=4, acceptance=0.75, step_cv=0.05, tokens=500, streams=2, seed=3, **knobs)
    assert verdict(trace, 4).code == "S001"


def test_a_server_without_speculation_that_reports_some() -> None:
    trace = simulate(max_burst=1, step_cv=0.05, tokens=300, seed=1)
    said = made("x", 400, 150, total=300)
    (found,) = compared(said, _inferred(1.0, 1.0, 1.0, verdict=AUTOREGRESSIVE, tokens=300))
    assert found.code == "S002" and "2.01 tokens a step (+101%), by the stream 1.00" in found.message
    honest = replace(trace.streams[0], server_report=made("x", 0, 0, total=300))
    assert [f.code for f in fingerprint(honest).findings if f.code[0] == "S"] == ["S001"]


def _inferred(value: float, low: float, high: float | None, **rest: Any) -> Inferred:
    fields: dict[str, Any] = {"verdict": SPECULATIVE, "burst": None, "positions": None, "streams": 1, "tokens": 1000}
    return Inferred(length=Estimate(value, low, high, 0.95, ""), **{**fields, **rest})


@pytest.mark.parametrize(
    ("report", "code"),
    [
        (made("x", 999, 600, total=1000), "S001"),
        (made("x", 999, 600, total=1000, steps=399), "S001"),
        (made("x", 999, 999, total=1000), "S002"),  # every token accepted: no length follows
        (made("x", 999, 400, total=1000, steps=900), "S002"),
        ({"source": "x", "acceptance_length": float("nan"), "steps": -4, "draft_length": "many"}, None),
        ({"acceptance_length": 2.49, "acceptance_by_position": "x", "tried_by_position": [None]}, "S001"),
        ({}, None), (None, None),
        (made("x", 9999, 6000, total=10_000), "S003"),
    ],
)  # fmt: skip
def test_single_quantities(report: Any, code: str | None) -> None:
    found = compared(report, _inferred(2.5, 2.4, 2.6))
    assert [f.code for f in found] == ([code] if code else [])


def test_draft_lengths() -> None:
    five = Estimate(5.0, 5.0, 5.0, 0.95, "")
    at_least = replace(five, high=None)
    for burst, draft, code in ((five, 4, "S001"), (five, 3, "S002"), (five, 8, "S002"), (at_least, 8, "S001"),
                               (at_least, 2, "S002")):  # fmt: skip
        said = made("x", None, None, draft_length=draft)
        assert [f.code for f in compared(said, _inferred(2.5, 2.4, 2.6, burst=burst))] == [code], (burst, draft)
    never = made("x", None, None, steps=400, draft_length=8, tried=[(400, 300), (300, 200), (200, 150), (150, 100),
                                                                   (100, 0)])  # fmt: skip
    (found,) = compared(never, _inferred(2.5, 2.4, 2.6, burst=five))
    assert found.code == "S001", "the server itself says that nothing beyond the fourth is accepted"
    blurred = _inferred(2.5, 2.4, 2.6, burst=five, blurred=True)
    assert compared(made("x", None, None, draft_length=8), blurred) == []


def test_the_position_that_differs_is_named() -> None:
    rates = tuple(Estimate(r, r - 0.05, r + 0.05, 0.95, "") for r in (0.8, 0.6))
    tried = [(400, 320), (320, 60)]
    report = made("x", 800, 380, total=781, steps=400, draft_length=2, tried=tried)
    inferred = _inferred(1.95, 1.9, 2.0, tokens=781, burst=Estimate(3.0, 3.0, 3.0, 0.95, ""), positions=rates)
    (found,) = compared(report, inferred)
    assert found.code == "S002" and found.message == "x: acceptance at position 2 0.19, by the stream 0.60"


def test_what_cannot_be_checked_is_said() -> None:
    unknown = Inferred(UNDETERMINED, None, None, None, 1, 500)
    assert [f.code for f in compared(made("x", 9, 5, total=50), unknown)] == ["S003"]


def test_reports_of_several_streams_are_added_up_and_one_of_all_counts_once() -> None:
    parts = [(100, 60, 240), (50, 10, 90)]
    told = [
        stream(range(n), server_report=made("x", 3 * s, n - 1 - s, total=n, steps=s)) for s, _, n in parts
    ]  # fmt: skip
    both = pooled([*told, stream([1, 2])])
    assert both is not None and both["steps"] == 150 and both["drafted"] == 450 and both["draft_length"] == 3
    assert both["acceptance_length"] == pytest.approx((239 + 89) / 150)
    whole = made("run", 300, 200, steps=100)
    assert pooled([stream([1], server_report=whole), stream([2], server_report=dict(whole))]) == whole
    assert pooled([stream([1])]) is None


def test_counters_of_the_run_are_compared_beside_the_report_in_the_answers() -> None:
    trace = simulate(k=3, acceptance=0.8, tokens=500, streams=1, seed=5)
    one = reported(trace.streams[0], 3, lambda a: a)
    lying = {**one.server_report, "source": "/metrics", "acceptance_length": 1.0}
    found = fingerprint(Trace((one,), {"server_report": lying})).findings
    assert [(f.code, f.message.split(":")[0]) for f in found if f.code[0] == "S"] == [
        ("S001", "vLLM metrics.speculative_decoding"), ("S002", "/metrics"),
    ]  # fmt: skip
