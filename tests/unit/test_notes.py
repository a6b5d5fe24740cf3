"""Findings about the data: raised where they hold, and only there."""

import numpy as np
import pytest

from specsonar.findings import CATALOGUE, NOTHING, finding
from specsonar.fit import fingerprint
from specsonar.sources.service import Service
from specsonar.sources.simulate import simulate
from specsonar.sources.worlds import WORLDS
from specsonar.trace import ONE_EACH, Trace, stream


def codes(answer):
    return {f.code for f in answer.findings}


def plain(shared, n=60):
    """Plain decoding with a step of 20 ms, read in order; `shared` neighbours come in one read."""
    new_read = np.arange(n) > shared
    t_ns = np.arange(n) * 20_000_000 + np.arange(n) ** 2 % 7 * 100_000
    return Trace((stream(t_ns, read=np.cumsum(new_read), count_source=ONE_EACH),))


@pytest.mark.parametrize(("shared", "said"), [(0, False), (10, False), (30, True)])
def test_many_events_in_a_read_are_noticed(shared, said):
    assert ("Q003" in codes(fingerprint(plain(shared)))) == said


def test_unrecorded_reads_are_not_shared():
    t_ns = np.arange(60) // 3 * 20_000_000
    assert "Q003" not in codes(fingerprint(Trace((stream(t_ns),))))


@pytest.mark.parametrize(("plain_ms", "said"), [(10.0, True), (20.0, False)])
def test_steps_of_two_lengths_are_noticed_without_counts(plain_ms, said):
    service = Service(
        max_burst=6, acceptance=0.9, draft_probability=0.4, step_ms=20.0, plain_step_ms=plain_ms, step_cv=0.03
    )
    answer = fingerprint(simulate(service, tokens=800, seed=3).without_truth())
    assert answer.verdict == "speculative"
    assert answer.layer == "in-order"
    assert ("V006" in codes(answer)) == said


@pytest.mark.parametrize(("world", "said"), [("G_ngram_plain8", True), ("E_cv20", False)])
def test_steps_of_two_lengths_are_noticed_behind_delays(world, said):
    answer = fingerprint(simulate(WORLDS[world].service, tokens=1000, seed=1).without_truth())
    assert ("V006" in codes(answer)) == said


def test_a_finding_that_asks_for_nothing_has_no_hint():
    quiet = [code for code, entry in CATALOGUE.items() if entry.do == NOTHING]
    assert quiet
    assert all(finding(code, "x").hint == "" for code in quiet)
