"""How much has to be recorded: the laws against their closed forms, and what cannot be."""

from dataclasses import replace
from math import exp, pi, sqrt

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from specsonar import fit, plan_data
from specsonar.errors import InputError, UsageError
from specsonar.fingerprint import Estimate, StreamTotals
from specsonar.plan.check import Size, _quarter, check, judge, service_of
from specsonar.plan.data import TARGETS
from specsonar.sources.simulate import simulate
from specsonar.stats import needed
from specsonar.stats.bursts import oracle_se, pmf
from specsonar.stats.intervals import quantile

Z = quantile(0.95)
patient = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
hazard = st.floats(0.05, 0.99)


def need(target, layer, **options):
    (found,) = plan_data(targets=[target], layers=[layer], **options).needs
    return found


@patient
@given(hazard, st.integers(2, 12), st.integers(10, 10_000))
def test_alpha_has_the_error_of_the_oracle(alpha, burst, steps):
    relative = sqrt(needed.alpha_variance([alpha] * (burst - 1)) / steps)
    assert relative * alpha == pytest.approx(oracle_se(alpha, burst, steps))


@patient
@given(st.lists(hazard, min_size=1, max_size=8))
def test_pooled_acceptance_lies_between_those_of_the_positions(hazards):
    assert min(hazards) - 1e-9 <= needed.pooled(hazards) <= max(hazards) + 1e-9


def test_the_variances_are_those_of_simulated_steps():
    hazards = (0.6, 0.8, 0.7)
    rng = np.random.default_rng(5)
    sizes = rng.choice(np.arange(1, 5), size=(4_000, 100), p=pmf(hazards))
    means = sizes.mean(1)
    assert means.var() / means.mean() ** 2 * 100 == pytest.approx(needed.length_variance(hazards), rel=0.1)
    rates = (sizes - 1).sum(1) / np.minimum(sizes, 3).sum(1)
    assert rates.mean() == pytest.approx(needed.pooled(hazards), abs=0.005)
    assert rates.var() / rates.mean() ** 2 * 100 == pytest.approx(needed.alpha_variance(hazards), rel=0.1)


@patient
@given(st.integers(2, 300), st.floats(0.001, 1), st.floats(0.001, 3))
def test_the_step_is_known_as_well_as_least_squares_knows_it(steps, walk, noise):
    gaps = (walk**2 + 2 * noise**2) * np.eye(steps) - noise**2 * (np.eye(steps, k=1) + np.eye(steps, k=-1))
    best = 1 / np.linalg.solve(gaps, np.ones(steps)).sum()
    assert needed.step_variance(steps, walk, noise) == pytest.approx(best, rel=2e-3)


@patient
@given(st.floats(50, 1e5), st.floats(0.01, 1))
def test_half_the_width_takes_four_times_the_data(have, width):
    assert needed.scaled(have, width, width / 2) == pytest.approx(4 * have)


@pytest.mark.parametrize("layer", ["counted", "in-order"])
def test_alpha_within_its_precision_by_hand(layer):
    found = need("acceptance_rate", layer, precision=0.05)
    steps = (found.tokens - 1) / 2.952 - 0.5
    assert oracle_se(0.8, 4, round(steps)) * Z == pytest.approx(0.05 * 0.8, rel=0.01)
    assert found.probability == 0.95


def test_half_the_precision_takes_four_times_the_tokens():
    for target in ("acceptance_rate", "acceptance_length"):
        wide, narrow = (need(target, "counted", precision=p, tokens_per_stream=10**6) for p in (0.05, 0.025))
        assert narrow.tokens / wide.tokens == pytest.approx(4, rel=0.01)


def test_independent_delays_first_have_to_show_the_step():
    for ratio, tokens in ((0.25, 177), (0.30, 524), (0.35, 1890), (0.40, 8305)):
        found = need("max_burst", "independent", jitter_ms=20 * ratio, step_ms=20.0)
        assert found.tokens == pytest.approx(15 * exp(4 * pi**2 * ratio**2), rel=0.01)
        assert found.tokens == pytest.approx(tokens, rel=0.01)
        assert found.limit == "finding the step"
        assert need("max_burst", "in-order", jitter_ms=20 * ratio).tokens == fit.ENOUGH


def test_jitter_beyond_all_recordings():
    found = need("max_burst", "independent", jitter_ms=20.0)
    assert (found.tokens, found.streams) == (None, None)
    assert "more tokens than anybody records" in plan_data(jitter_ms=20.0, layers=["independent"]).sentence


def test_full_bursts_are_rare_where_drafts_are_long_and_bad():
    assert (
        need("max_burst", "counted", k=7, alpha=0.6).tokens > 10 * need("max_burst", "counted", k=3, alpha=0.8).tokens
    )
    certain = need("max_burst", "counted", k=3, alpha=1.0)
    assert certain.tokens >= fit.FEWEST


def test_streams_are_as_many_as_their_length_asks_for():
    found = need("acceptance_length", "counted", tokens_per_stream=300)
    assert found.streams == 3
    assert found.tokens <= 3 * 300
    whole = need("acceptance_length", "counted", tokens_per_stream=10_000)
    assert whole.streams == 1
    assert whole.tokens < found.tokens  # every stream spends its first token and a cut step


def test_streams_that_differ_take_more_streams_however_long_they_are():
    for tokens in (600, 60_000):
        found = need("acceptance_length", "counted", spread=0.1, precision=0.05, tokens_per_stream=tokens)
        assert found.streams >= (Z * 0.1 / 0.05) ** 2
    assert need("acceptance_length_change", "counted", spread=0.1).streams > need(
        "acceptance_length_change", "counted"
    ).streams  # fmt: skip


def test_a_smaller_change_takes_more_streams():
    sizes = [need("acceptance_length_change", "counted", change=c).streams for c in (0.2, 0.1, 0.05, 0.02)]
    assert sizes == sorted(sizes) and sizes[-1] > 50
    assert sizes[0] == 6


@patient
@given(st.sampled_from(TARGETS), st.sampled_from(["counted", "in-order", "independent"]), st.floats(0.01, 0.2))
def test_more_precision_never_takes_less(target, layer, precision):
    some, more = (need(target, layer, precision=p, jitter_ms=3.0) for p in (precision, precision / 2))
    assert some.tokens <= more.tokens
    assert some.tokens <= some.streams * 600 or some.streams == 1


def test_a_recording_that_is_too_wide_says_how_much_more(sample):
    wide = replace(sample, acceptance_length=Estimate(3.0, 2.7, 3.3, 0.95, ""))
    found = plan_data(wide, precision=0.05, targets=["acceptance_length"])
    (only,) = found.needs
    assert only.layer == "in-order"
    assert only.tokens == pytest.approx(600 * 4, abs=4)
    assert only.limit == "its interval in this recording"


def test_streams_of_a_recording_tell_how_they_differ(sample):
    rng = np.random.default_rng(0)
    lengths = 2.95 * (1 + 0.2 * rng.standard_normal(40))
    told = tuple(StreamTotals(100 * length, 100.0) for length in lengths.tolist())
    found = plan_data(replace(sample, by_stream=told), targets=["acceptance_length_change"])
    assert found.setting.spread == pytest.approx(0.2, rel=0.35)
    assert plan_data(sample).setting.spread == 0.0


def test_a_recording_without_speculation_is_refused(bare):
    with pytest.raises(InputError):
        plan_data(bare)


@pytest.mark.parametrize(
    "options",
    [
        {"precision": 0.0}, {"precision": float("nan")}, {"precision": 2.0}, {"change": -0.1}, {"level": 1.0},
        {"sure": 0.2}, {"targets": ["luck"]}, {"layers": ["cake"]}, {"k": 0}, {"k": 600}, {"alpha": 0.0},
        {"alpha": [0.8, 0.0]}, {"alpha": [0.8], "k": 4}, {"step_ms": 0.0}, {"jitter_ms": -1.0},
        {"jitter_ms": float("inf")}, {"step_cv": 5.0}, {"spread": 2.0}, {"tokens_per_stream": 1},
    ],
)  # fmt: skip
def test_what_cannot_be_asked(options):
    with pytest.raises(UsageError) as caught:
        plan_data(**options)
    assert caught.value.hint


# --- the check, small enough to be quick; tests/calibration has the real one ---


def test_the_check_simulates_what_was_planned():
    setting = plan_data(jitter_ms=5.0, step_ms=25.0, alpha=(0.7, 0.8), bonus=True).setting
    assert service_of(setting, "independent") == {
        "max_burst": 3, "acceptance": (0.7, 0.8), "step_ms": 25.0, "step_cv": 0.0, "order": "independent",
        "token_delay": "gauss:5",
    }  # fmt: skip
    late = simulate(tokens=20_000, seed=1, **{**service_of(setting, "counted"), "step_cv": 0.0, "max_burst": 1,
                                              "acceptance": 0.5, "step_ms": 1e3})  # fmt: skip
    one = late.streams[0]
    delay = (one.t_ns - one.start_ns) / 1e6 - 150 - 1e3 * np.arange(len(one))
    assert delay.std() == pytest.approx(5.0, rel=0.15)


def test_a_quarter():
    assert _quarter(1, 468) == (1, 117)
    assert _quarter(2, 770) == (1, 192)
    assert _quarter(14, 8400) == (3, 1800)


def test_enough_is_enough_and_a_quarter_is_not():
    plan = plan_data(targets=["speculation", "max_burst", "acceptance_rate"], layers=["counted"], precision=0.1)
    shares = []
    found = check(plan, recordings=16, seed=3, jobs=1, progress=lambda done, what: shares.append(done))
    assert [n.reached for n in found.needs] == [True] * 3
    assert [n.tight for n in found.needs] == [True] * 3
    assert shares == sorted(shares) and shares[-1] == pytest.approx(1.0)
    assert all(n.trial.recordings == 16 for n in found.needs)


def test_a_plan_that_asks_for_too_little_is_found_out():
    plan = plan_data(targets=["acceptance_rate"], layers=["counted"], precision=0.1)
    (only,) = plan.needs
    short = replace(plan, needs=(replace(only, tokens=44),))
    found = check(short, recordings=24, jobs=1)
    assert found.needs[0].reached is False
    assert check(short, recordings=24, jobs=2) == found  # wherever it runs


def test_a_change_that_is_not_there_is_not_found():
    setting = plan_data().setting
    size = Size("counted", 6, 1_200, ("acceptance_length_change", "step_ms_change"), setting, 0.05, 1e-9, 0.95)
    assert not any(any(judge((size, 1, n))) for n in range(4))
