"""Streams that look like something else: each was taken for the wrong thing once."""

from __future__ import annotations

import numpy as np
import pytest

from specsonar.fingerprint import AUTOREGRESSIVE, BUFFERED, SPECULATIVE, UNDETERMINED
from specsonar.fit import fingerprint
from specsonar.models.buffered import instants
from specsonar.sources.simulate import simulate
from specsonar.sources.worlds import WORLDS


def plain(law, seed):
    """A stream of independent gaps, seconds."""
    return np.concatenate(([0.0], np.cumsum(law(np.random.default_rng(seed)))))


@pytest.mark.parametrize(("alpha", "burst"), [(0.5, 5), (0.6, 6), (0.3, 4), (0.4, 5)])
def test_nearly_geometric_bursts_are_not_independent_gaps(alpha, burst):
    """On a clean link with tokens 100 us apart, a mixture of two kinds of step imitates endless bursts."""
    knobs = {"max_burst": burst, "acceptance": alpha, "step_cv": 0.05, "in_burst_us": 100, "in_burst_cv": 0.5}
    answer = fingerprint(simulate(tokens=600, seed=0, **knobs).without_truth())
    assert answer.verdict == SPECULATIVE
    assert answer.max_burst is not None
    assert answer.max_burst.value == burst


@pytest.mark.parametrize(
    "law",
    [
        lambda rng: rng.uniform(0.005, 0.035, 600),
        lambda rng: 0.02 * np.exp(0.5 * rng.standard_normal(600)),
        lambda rng: rng.gamma(4, 0.005, 600),
    ],
    ids=["uniform", "log-normal", "gamma"],
)
@pytest.mark.parametrize("seed", range(3))
def test_irregular_steps_are_not_speculation(law, seed):
    """The shorter half of one law is no burst."""
    assert fingerprint(plain(law, seed), unit="s").verdict in (AUTOREGRESSIVE, UNDETERMINED)


def test_high_jitter_on_independent_paths_is_not_taken_for_an_ordered_link():
    """At 0.35 of the step; an earlier filter whose densities summed to more than one found M = 2 at 11 ms here."""
    answers = [fingerprint(simulate(WORLDS["B35"].service, tokens=600, seed=seed).without_truth()) for seed in range(3)]
    for answer in answers:
        assert answer.verdict in (SPECULATIVE, UNDETERMINED)
        if answer.step_ms is not None:
            assert answer.step_ms.value == pytest.approx(20.0, rel=0.01)
    assert any(a.max_burst is not None and a.max_burst.value == 4 for a in answers)


def test_a_timer_that_always_brings_some_is_a_buffer():
    """Four to six tokens every 100 ms, late by a few: no draft is never rejected first and mostly rejected last."""
    service = {"max_burst": 1, "flush_ms": 100.0, "step_delay": "lognormal:2,1", "step_cv": 0.05}
    assert fingerprint(simulate(tokens=600, seed=4, **service).without_truth()).verdict == BUFFERED


@pytest.mark.parametrize(
    ("step", "flush", "cv", "delay"),
    [
        (20.0, 24.0, 0.05, "lognormal:0.5,0.8"),
        (20.0, 24.0, 0.05, "lognormal:2,1"),
        (20.0, 30.0, 0.2, "lognormal:2,1"),
        (20.0, 35.0, 0.2, "lognormal:2,1"),
        (8.0, 15.0, 0.2, "lognormal:2,1"),
    ],
)
@pytest.mark.parametrize("seed", range(2))
def test_a_timer_hardly_slower_than_the_steps_is_a_buffer(step, flush, cv, delay, seed):
    """One token or two a flush passes for a short draft; but late packets apart, the count follows the timer."""
    service = {"max_burst": 1, "step_ms": step, "flush_ms": flush, "step_cv": cv, "step_delay": delay}
    found = fingerprint(simulate(tokens=600, seed=seed, **service).without_truth())
    assert found.verdict == BUFFERED
    if flush == 24.0 and delay.startswith("lognormal:0.5"):
        assert found.flush_ms == pytest.approx(flush, rel=0.001)


@pytest.mark.parametrize(("burst", "alpha"), [(2, 0.3), (3, 0.2), (4, 0.15)])
@pytest.mark.parametrize("cv", [0.0, 0.05])
def test_rarely_accepted_drafts_on_even_steps_are_no_timer(burst, alpha, cv):
    service = {"max_burst": burst, "acceptance": alpha, "step_cv": cv, "step_delay": "lognormal:2,1"}
    assert fingerprint(simulate(tokens=600, seed=100, **service).without_truth()).verdict == SPECULATIVE


@pytest.mark.parametrize("poll", [10.0, 15.0])
@pytest.mark.parametrize("seed", range(2))
def test_a_loop_that_polls_makes_pairs_but_no_drafts(poll, seed):
    """Two irregular steps now and then end between two polls. Counts would show drafts that are accepted so rarely."""
    found = fingerprint(simulate(tokens=600, seed=seed, max_burst=1, step_cv=0.35, flush_ms=poll).without_truth())
    assert found.verdict in (AUTOREGRESSIVE, UNDETERMINED)
    rare = simulate(tokens=600, seed=seed, max_burst=2, acceptance=0.06, step_cv=0.35, events="step")
    assert fingerprint(rare.without_truth()).verdict == SPECULATIVE


def test_rarely_accepted_drafts_of_one_token_are_not_told_from_coincidences():
    found = fingerprint(simulate(tokens=600, seed=0, max_burst=2, acceptance=0.05, step_cv=0.05).without_truth())
    assert found.verdict == UNDETERMINED
    assert [f.code for f in found.findings if f.code.startswith("V")] == ["V007"]


@pytest.mark.parametrize("world", ["J_size2k", "J_size16k", "J_block512"])
def test_a_buffer_of_bytes_has_no_timer(world):
    found = fingerprint(simulate(WORLDS[world].service, tokens=WORLDS[world].tokens, seed=1).without_truth())
    assert found.verdict == BUFFERED
    assert found.flush_ms is None


def test_the_instants_of_a_timer_behind_late_packets():
    """Delays are up to several periods; one flush in a hundred brings nothing and is not seen."""
    rng = np.random.default_rng(5)
    made = np.flatnonzero(rng.random(2000) > 0.01) * 0.0217 + 0.4
    seen = np.maximum.accumulate(made + 0.002 * np.exp(rng.standard_normal(made.size)))
    (found,) = instants([seen])
    apart = np.diff(found) - np.diff(made)
    assert np.mean(np.abs(apart) < 1e-4) > 0.98
    assert found[-1] - found[0] == pytest.approx(made[-1] - made[0], abs=0.0217)
    walk = np.cumsum(rng.gamma(100, 0.0217 / 100, 500))
    (found,) = instants([walk])
    assert np.std(found - walk) > 0.002, "steady steps are no timer: they walk away from it"


@pytest.mark.parametrize(("burst", "step", "flush"), [(4, 12.0, 80.0), (8, 30.0, 200.0)])
def test_drafts_behind_a_timer_are_a_buffer(burst, step, flush):
    """Counts scatter by several tokens, since drafts do; but a step of 28 tokens that never fails early is none."""
    service = {"max_burst": burst, "acceptance": 0.75, "step_ms": step, "flush_ms": flush, "step_cv": 0.05}
    found = fingerprint(simulate(tokens=400, streams=4, seed=1, step_delay="lognormal:0.5,0.8", **service))
    assert found.verdict == BUFFERED
    assert found.flush_ms == pytest.approx(flush, rel=0.01)


@pytest.mark.parametrize(
    "times",
    [[0.0] * 99 + [0.5], [0.0] * 50 + [1.0] * 50, [0.0] * 50 + [1.0] * 50 + [2.0] * 50],
    ids=["one step", "two clumps", "three clumps"],
)
def test_a_handful_of_steps_says_nothing(times):
    answer = fingerprint(times, unit="s")
    assert answer.verdict == UNDETERMINED
    assert answer.needed_tokens is not None


def test_one_endless_pause_is_no_wrong_unit():
    """Eleven days in the middle of a good stream."""
    times = np.concatenate((np.arange(300) * 0.02, 1e6 + np.arange(300) * 0.02))
    assert fingerprint(times, unit="s").verdict != SPECULATIVE


@pytest.mark.parametrize("seed", [0, 2])
def test_short_steps_without_a_draft_do_not_spoil_the_check(seed):
    """Lookup on a repeated text: half of the steps have no draft, and take a fifth of the time of the others."""
    rng = np.random.default_rng(seed)
    sizes = np.where(rng.random(200) < 0.5, 1, 7)
    ends = np.cumsum(np.where(sizes == 1, 0.019, 0.09) * rng.normal(1, 0.06, 200))
    found = fingerprint(np.repeat(ends, sizes), unit="s")
    assert found.verdict == SPECULATIVE
    assert found.max_burst.value == 7
