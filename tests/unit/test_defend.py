"""Policies in front of observers: what counts as learnt, what is asked of whom, and what is said of it."""

import json
import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binomtest

from specsonar.defend import PRESETS, defend, grids
from specsonar.defend.informed import Guess, observe
from specsonar.defend.trials import Outcome, Trial, hidden, measure, sizes
from specsonar.defended import BASELINE, INFORMED, OURS, Share
from specsonar.errors import InputError, UsageError
from specsonar.sources.defences import Cost, Policy
from specsonar.sources.service import Service
from specsonar.sources.simulate import simulate
from specsonar.trace import Trace, stream

MS = 1_000_000
NOTHING = Cost(0.0, 0.0, 0.0, 0.0, 0.0, 100.0, 1000, 0)


@pytest.mark.parametrize(("count", "of"), [(0, 8), (3, 8), (8, 8), (100, 400)])
def test_the_interval_of_a_share_is_wilsons(count, of):
    low, high = Share(count, of).interval
    wilson = binomtest(count, of).proportion_ci(0.95, "wilson")
    assert (low, high) == pytest.approx((wilson.low, wilson.high), abs=1e-9)


def times(service, **knobs):
    return [(one.t_ns - one.t_ns[0]) / 1e6 for one in simulate(service, **knobs).streams]


@pytest.mark.parametrize("cv", [0.0, 0.05])
def test_one_who_knows_of_the_split_reads_everything_from_the_gaps(cv):
    policy = Policy.parse("split")
    seen = observe(policy, times(Service(defence=policy, max_burst=4, acceptance=0.8, step_cv=cv), tokens=600, seed=2))
    assert seen.speculative and seen.max_burst == 4
    assert seen.alpha == pytest.approx(0.8, abs=0.05)
    assert seen.step_ms == pytest.approx(20, rel=0.03)
    plain = observe(policy, times(Service(defence=policy, max_burst=1, step_cv=cv), tokens=600, seed=2))
    assert not plain.speculative and plain.max_burst == 1


@pytest.mark.parametrize(("text", "sees"), [("batch=100ms", True), ("pace=5ms", True), ("pace=8ms", False)])
def test_one_who_knows_of_batches_or_places_sees_whether_they_scatter(text, sees):
    policy = Policy.parse(text)
    for seed in range(3):
        drafts, plain = (Service(defence=policy, max_burst=m, step_cv=0.05) for m in (4, 1))
        assert observe(policy, times(drafts, tokens=600, seed=seed)).speculative is sees
        assert not observe(policy, times(plain, tokens=600, seed=seed)).speculative


def test_nobody_knows_of_a_policy_without_an_observer():
    assert observe(Policy.parse("pad=512"), [np.arange(9.0)]) is None


@pytest.mark.parametrize("text", ["scatter=uniform:40ms", "scatter=uniform:20ms", "scatter=exponential:10ms"])
def test_no_delay_hides_the_scatter_of_counts(text):
    policy = Policy.parse(text)
    for seed in range(3):
        drafts = times(Service(defence=policy), tokens=1200, seed=seed)
        plain = times(Service(defence=policy, max_burst=1, step_ms=6.775, step_cv=0.1), tokens=1200, seed=seed)
        assert observe(policy, drafts).speculative and not observe(policy, plain).speculative


def writes(tokens, size):
    return Trace((stream(np.arange(len(tokens)) * MS, tokens, size=size),))


def test_sizes_that_grow_with_the_tokens_tell_them():
    tokens = np.array([1, 4, 2, 4, 3, 4])
    seen = sizes(writes(tokens, 240 + 4 * tokens))
    assert (seen.correlation, seen.bytes_per_token, seen.told) == (pytest.approx(1), pytest.approx(4), 1.0)
    assert (seen.guessed, seen.tokens_per_write) == (0.5, 3.0)


def test_sizes_that_are_all_alike_tell_nothing_but_the_mean():
    seen = sizes(writes([1, 4, 2, 4, 3, 4], [512] * 6))
    assert (seen.correlation, seen.bytes_per_token, seen.told) == (0.0, 0.0, 1 / 6)


def test_one_event_a_token_shows_its_number_whatever_its_size():
    seen = sizes(writes([1] * 6, [512] * 6))
    assert (seen.correlation, seen.told, seen.tokens_per_write) == (None, 1.0, 1.0)


@pytest.mark.parametrize("text", ["pace=7ms", "batch=50ms+pad=512", "split"])
def test_a_recording_behind_a_policy_is_what_the_service_with_it_gives(text):
    policy = Policy.parse(text)
    plain, expected = (simulate(seed=4, tokens=200, defence=p).streams[0] for p in (Policy(), policy))
    made, cost = hidden(plain, policy, np.random.default_rng(0))
    assert made.t_ns.tolist() == expected.t_ns.tolist()
    assert made.size.tolist() == expected.size.tolist()
    assert made.read.tolist() == expected.read.tolist()
    assert cost.to_dict() == pytest.approx(expected.truth["defence"])


def known(monkeypatch, guess):
    """Observers that say what `guess(trial)` says, so that what is made of it can be worked out by hand."""
    monkeypatch.setattr("specsonar.defend.measure", lambda trial: guess(trial))


def outcome(ours):
    base = Guess(True, 9.0, 0.7, 15.0)
    return Outcome({OURS: ours, BASELINE: base}, (NOTHING,), sizes(writes([1, 2], [10, 20])))


def test_what_counts_as_learnt(monkeypatch):
    said = iter([Guess(True, 4.0, 0.84, 20.9), Guess(True, 5.0, 0.86, 21.1), Guess(False), Guess(True, 4.0, 0.8, 20.0)])

    def guess(trial):
        return outcome(Guess(trial.seed % 2 == 0)) if trial.plain else outcome(next(said))

    known(monkeypatch, guess)
    found = defend(policies=["none"], reps=4, executor="serial")
    (row,) = found.rows
    ours = row.by(OURS)
    assert [s.count for s in (ours.speculative, ours.max_burst, ours.alpha, ours.step)] == [3, 2, 2, 2]
    assert ours.alpha_error == pytest.approx(0.04) and ours.step_error == pytest.approx(0.045)
    assert ours.verdict == ours.speculative.value - ours.falsely.value
    base = row.by(BASELINE)
    assert (base.speculative.count, base.max_burst.count, base.leak) == (4, 0, 0.0)
    assert row.by(INFORMED) is None
    assert row.leak == max(ours.verdict, 0.5)


def strength_of(trial):
    return grids.strength(trial.policy, 20.0)


def test_enough_is_the_smallest_delay_from_which_on_it_stays_hidden(monkeypatch):
    """Seen up to .2 steps and, by a fluke, at .4 again: so .5 is enough, not .3."""

    def guess(trial):
        leaks = strength_of(trial) in (0.1, 0.2, 0.4)
        return outcome(Guess(leaks and not trial.plain, 4.0 if leaks else math.nan))

    known(monkeypatch, guess)
    found = defend(preset="delay", tokens=[600], reps=1, executor="serial")
    ours = [one for one in found.enough if one.observer == OURS]
    assert {(one.way, one.quantity, one.delay) for one in ours} == {
        (way, quantity, 0.5)
        for way in ("delay=exponential", "scatter=exponential", "scatter=uniform")
        for quantity in ("speculative", "max_burst")
    }
    assert {one.delay for one in found.enough if one.observer == BASELINE} == {0.1}, "it never has M"


def test_no_delay_is_enough_where_the_longest_leaks(monkeypatch):
    known(monkeypatch, lambda trial: outcome(Guess(not trial.plain, 4.0)))
    found = defend(preset="delay", tokens=[600], reps=1, executor="serial")
    assert {one.delay for one in found.enough if one.observer == OURS} == {None}
    assert found.cheapest is None and found.sentence.startswith("Nothing that was tried hides")


def test_the_cheapest_is_the_one_that_delays_least_and_hides_from_all(monkeypatch):
    def guess(trial):
        made = outcome(Guess(trial.policy.kind == "none" and not trial.plain, math.nan))
        wait = {"none": 0.0, "pace": 9.0, "batch": 4.0, "scatter": 5.0}[trial.policy.kind]
        cost = replace(NOTHING, mean_ms=wait)
        informed = {INFORMED: Guess(not trial.plain)} if trial.policy.kind == "batch" else {}
        return replace(made, guesses={**made.guesses, **informed}, costs=(cost,))

    known(monkeypatch, guess)
    found = defend(policies=["none", "pace=8ms", "batch=50ms", "scatter=uniform:10ms"], reps=2, executor="serial")
    assert found.cheapest.policy == "scatter=uniform:10ms"
    assert "scatter=uniform:10ms" in found.sentence and "0.25 steps" in found.sentence


def test_every_row_tries_the_same_services_with_and_without_drafts(monkeypatch):
    tried = []

    def guess(trial):
        tried.append(trial)
        return outcome(Guess(False))

    known(monkeypatch, guess)
    defend(policies=["none", "pace=8ms"], tokens=[300, 600], reps=3, seed=7, executor="serial")
    rows = {row: {(t.seed, t.plain) for t in tried if t.row == row} for row in range(4)}
    assert len(rows[0]) == 6 and all(seeds == rows[0] for seeds in rows.values())
    assert {t.service.burst for t in tried if t.plain} == {1} and {t.service.burst for t in tried if not t.plain} == {4}


def test_trials_that_fail_are_counted_and_only_all_of_them_are_an_error():
    def broken(trial):
        if trial.policy.kind == "pace":
            raise InputError("broken", "")
        return outcome(Guess(False))

    with pytest.MonkeyPatch.context() as patch:
        known(patch, broken)
        with ThreadPoolExecutor(2) as pool:  # any executor with `submit`
            found = defend(policies=["none", "split"], reps=2, executor=pool)
            assert [row.failed for row in found.rows] == [0, 0]
            with pytest.raises(InputError, match="no trial succeeded: broken"):
                defend(policies=["pace=8ms"], reps=2, executor=pool)


def test_real_observers_of_a_real_simulation():
    """No defence leaks everything, an even pace nothing."""
    found = defend(policies=["none", "pace=8ms"], tokens=[400], reps=2, seed=1, executor="serial")
    bare, paced = found.rows
    assert (bare.leak, bare.by(OURS).falsely.count, bare.by(BASELINE).max_burst.count) == (1.0, 0, 2)
    assert (paced.leak, paced.by(OURS).speculative.count) == (0.0, 0)
    assert paced.price.mean_ms > 20 and bare.price.mean_ms == 0
    assert (found.max_burst, found.alpha, found.step_ms) == (4, 0.8, 20.0)
    assert json.loads(json.dumps(found.to_dict()))["schema"] == "specsonar.defend/1"


def test_a_recording_is_its_own_truth():
    trace = simulate(seed=3, tokens=300, streams=2)
    found = defend(trace, policies=["none", "batch=100ms"], reps=1, source="x.jsonl", executor="serial")
    assert (found.source, found.max_burst, found.service) == ("x.jsonl", 4, None)
    bare, batched = found.rows
    assert bare.by(OURS).falsely is None and bare.leak == 1.0
    assert batched.by(OURS).max_burst.count == 0
    assert batched.tokens == 300


def test_a_recording_without_steps_has_nothing_to_hide():
    with pytest.raises(InputError, match="nothing is left to hide"):
        defend(simulate(flush_ms=200, max_burst=1, tokens=300), policies=["none"], executor="serial")


@pytest.mark.parametrize(
    "asked",
    [{"preset": "all"}, {"reps": 0}, {"streams": 0}, {"tokens": [1]}, {"policies": ["pace"]},
     {"service": Service(defence="pace=8ms")}],
)  # fmt: skip
def test_what_cannot_be_asked(asked):
    with pytest.raises(UsageError):
        defend(**{"executor": "serial", **asked})


@pytest.mark.parametrize("preset", PRESETS)
def test_grids_scale_with_the_service(preset):
    for step, token in ((20.0, 6.8), (33.3, 11.1)):
        policies = grids.PRESETS[preset](step, token)
        assert len(set(policies)) == len(policies)
        assert [Policy.parse(str(p)) for p in policies] == list(policies)
    fast, slow = (grids.PRESETS[preset](step, step / 3) for step in (10.0, 20.0))
    strengths = [[grids.strength(p, step) for p in made] for made, step in ((fast, 10.0), (slow, 20.0))]
    assert strengths[0] == pytest.approx(strengths[1], rel=1e-3, nan_ok=True)


@pytest.mark.parametrize(
    "text", ["delay=uniform:10ms", "delay=exponential:5ms", "delay=lognormal:5ms,0.8", "delay=pareto:2ms,3"]
)
def test_the_mean_of_a_delay_is_that_of_its_draws(text):
    law = Policy.parse(text).law
    draws = law.draw(np.random.default_rng(1), 200_000)
    assert grids.mean_ms(law) == pytest.approx(draws.mean(), rel=0.02)


def test_a_task_can_be_sent_to_another_process():
    import pickle

    trace = simulate(tokens=50)
    kept = replace(trace.streams[0], meta={}, truth=None)
    trial = pickle.loads(pickle.dumps(Trial(0, Policy.parse("split+pad=64"), None, (kept,), 50, 1, False, 3)))
    assert measure(trial).costs[0].padding > 0
