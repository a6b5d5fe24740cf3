"""The demonstration's bookkeeping: what counts as right, and that the analysis is blind."""

from dataclasses import replace

import pytest

from specsonar import demo
from specsonar.fingerprint import Estimate

TRUTH = {"verdict": "speculative", "max_burst": 4, "acceptance_length": 2.95, "alpha": 0.8, "step_ms": 20.0}


def right(truth, answer):
    return {check.quantity: check.right for check in demo.compare(truth, answer)}


def test_truth_inside_every_interval_is_right(sample):
    assert set(right(TRUTH, sample).values()) == {True}


@pytest.mark.parametrize(
    ("changed", "quantity"),
    [({"max_burst": 5}, "max burst M"), ({"alpha": 0.9}, "acceptance rate"), ({"step_ms": 25.0}, "step time, ms"),
     ({"acceptance_length": 2.0}, "acceptance length"), ({"verdict": "paced"}, "verdict")],
)  # fmt: skip
def test_truth_outside_an_interval_is_wrong(sample, changed, quantity):
    verdicts = right(TRUTH | changed, sample)
    assert verdicts.pop(quantity) is False
    assert set(verdicts.values()) == {True}


def test_no_answer_is_neither_right_nor_wrong(bare):
    assert set(right(TRUTH, bare).values()) == {None}


def test_a_one_sided_interval_holds_everything_above(sample):
    answer = replace(sample, max_burst=Estimate(3.0, 3.0, None, 0.95, ""))
    check = next(c for c in demo.compare(TRUTH, answer) if c.quantity == "max burst M")
    assert (check.right, check.interval) == (True, "3 or more")


def test_an_exact_answer_is_right_to_the_digits_shown(sample):
    answer = replace(sample, step_ms=Estimate(20.004, 20.004, 20.004, 0.95, ""))
    assert right(TRUTH, answer)["step time, ms"] is True


def test_several_acceptances_have_no_common_one(sample):
    assert "acceptance rate" not in right(TRUTH | {"alpha": None}, sample)


def test_the_analysis_is_blind_and_the_seed_decides(monkeypatch, sample):
    seen = []
    monkeypatch.setattr(demo, "fingerprint", lambda trace, **options: seen.append((trace, options)) or sample)
    first, again, other = demo.virtual(7), demo.virtual(7), demo.virtual(8)
    assert all(one.truth is None for trace, _ in seen for one in trace.streams)
    assert seen[0][0].events == demo.TOKENS or first.service["events"] == "step"
    assert first.service == again.service
    assert first.service != other.service
