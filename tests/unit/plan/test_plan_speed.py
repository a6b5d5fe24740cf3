"""The forward law against closed forms, brute force, public counters, and the simulator."""

from dataclasses import replace
from math import sqrt

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from specsonar import plan_speed, speedup
from specsonar.errors import InputError, UsageError
from specsonar.fingerprint import Estimate
from specsonar.plan import costs, plain_step
from specsonar.sources.simulate import simulate
from specsonar.stats.bursts import pmf
from specsonar.stats.speedup import break_even, fastest, interpolated, lengths

patient = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
probability = st.floats(0, 1)
cost = st.floats(0, 2)


def theorem(alpha, k, c):
    """Leviathan et al. 2023, theorem 3.8, as printed there."""
    return (1 - alpha ** (k + 1)) / ((1 - alpha) * (k * c + 1))


@patient
@given(st.floats(0, 0.999), st.integers(0, 40), cost)
def test_one_acceptance_is_the_theorem(alpha, k, c):
    assert speedup(alpha, k, c) == pytest.approx(theorem(alpha, k, c), rel=1e-9)


@patient
@given(st.lists(probability, min_size=1, max_size=8), cost)
def test_an_acceptance_for_each_position_is_the_mean_of_the_law(hazards, c):
    mean = float(pmf(hazards) @ np.arange(1, len(hazards) + 2))
    assert speedup(hazards, len(hazards), c) == pytest.approx(mean / (1 + len(hazards) * c))


@patient
@given(st.integers(1, 40), cost)
def test_certain_drafts(k, c):
    assert speedup(0.0, k, c) == pytest.approx(1 / (1 + k * c))
    assert speedup(1.0, k, c) == pytest.approx((k + 1) / (1 + k * c))


def test_long_drafts_that_cost_nothing_tend_to_one_over_what_is_rejected():
    assert speedup(0.8, 300) == pytest.approx(1 / 0.2)


@patient
@given(probability, probability, st.integers(1, 20), cost)
def test_more_acceptance_is_never_slower(a, b, k, c):
    low, high = sorted((a, b))
    assert speedup(low, k, c) <= speedup(high, k, c) * (1 + 1e-12)


@patient
@given(st.lists(probability, min_size=2, max_size=9))
def test_longer_drafts_give_more_tokens_and_a_wider_gap(hazards):
    tokens = lengths(hazards)
    assert (np.diff(tokens) >= 0).all() and (np.diff(tokens) <= 1).all()
    assert (np.diff(np.arange(1, len(tokens) + 1) - tokens) >= -1e-12).all()


def test_without_a_bonus_token_the_last_draft_is_for_nothing():
    assert speedup(0.8, 5, bonus=False) == speedup(0.8, 4)
    assert speedup(0.8, 5, 0.1, bonus=False) < speedup(0.8, 4, 0.1)


@patient
@given(st.floats(0.01, 0.99), st.integers(1, 12), st.floats(0, 0.3))
def test_at_the_break_even_acceptance_a_draft_neither_wins_nor_loses(alpha, k, c):
    at = break_even(1 + k * c, k + 1)
    if at is None:
        assert speedup(1.0, k, c) < 1
    else:
        assert speedup(at, k, c) == pytest.approx(1.0, abs=1e-9)
        assert (speedup(alpha, k, c) > 1) == (alpha > at) or abs(alpha - at) < 1e-6


@patient
@given(st.lists(probability, min_size=1, max_size=10), cost, st.floats(0, 0.5))
def test_the_fastest_is_that_of_brute_force(hazards, c, slope):
    tokens = lengths(hazards)
    k = np.arange(len(tokens))
    verify = 1 + slope * k
    (index,) = [i for low, high, i in fastest(tokens, verify, k) if low <= c < high]
    assert tokens[index] / (verify[index] + k[index] * c) == pytest.approx((tokens / (verify + k * c)).max())


@patient
@given(st.lists(probability, min_size=1, max_size=10), st.floats(0, 0.5))
def test_the_more_a_draft_costs_the_shorter_is_the_fastest(hazards, slope):
    tokens = lengths(hazards)
    k = np.arange(len(tokens))
    order = [i for *_, i in fastest(tokens, 1 + slope * k, k)]
    assert order == sorted(order, reverse=True) and order[-1] == 0


def test_the_best_of_the_table_is_that_of_brute_force():
    for alpha in (0.3, 0.6, 0.8, 0.9):
        for c in (0.02, 0.05, 0.1, 0.3):
            found = plan_speed(alpha, draft_cost=c, up_to=30)
            assert found.best[0] == max(range(31), key=lambda k: theorem(alpha, k, c))


def test_a_draft_that_does_not_pay():
    found = plan_speed(0.2, draft_cost=0.5)
    assert found.best == (0,)
    assert "plain decoding is the fastest" in found.sentence


def test_public_counters_of_eight_drafts():
    """vLLM pull request 48892: share of drafts accepted at each position, and the acceptance length it printed."""
    reached = np.array([0.7617, 0.6158, 0.5125, 0.4243, 0.3640, 0.3094, 0.2722, 0.2365])
    hazards = reached / np.concatenate(([1.0], reached[:-1]))
    found = plan_speed(hazards.tolist(), k=8)
    assert found.draft(8).acceptance_length.value == pytest.approx(4.50, abs=0.005)
    assert found.draft(1).acceptance_length.value == pytest.approx(1.7617)


def test_published_verification_costs():
    cost = costs.parse("nemotron-30b-a3b-m5max")
    assert cost.plain_ms == 8.47
    assert cost.costs[-1] == pytest.approx(28.13 / 8.47)
    # "caps any speculative speedup on this stack near 2x", says the source: four in five accepted stay below
    assert max(speedup(0.8, k, verify_cost=dict(zip(cost.widths, cost.costs, strict=True))) for k in range(1, 8)) < 2


def test_costs_between_and_beyond_the_measured_widths():
    assert interpolated([1, 2, 5], [1.0, 1.2, 1.5], 3) == pytest.approx(1.3)
    assert interpolated([1, 2, 5], [1.0, 1.2, 1.5], 8) == pytest.approx(1.8)
    assert interpolated([1, 2, 5], [1.0, 1.2, 1.1], 8) == pytest.approx(1.1)  # noise makes nothing cheaper


@pytest.mark.parametrize(
    "text", ["1=x", "1=1,1=2", "0=1", "1=1,2=-1", "1=1ms,2=3", "2=3ms", "1=inf", "nothing", "1.5=2", "1=0"]
)
def test_verification_costs_that_cannot_be(text):
    with pytest.raises(UsageError) as caught:
        costs.parse(text)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("about", "options"),
    [
        (1.2, {}), (float("nan"), {}), ([], {}), ([0.5, -0.1], {}), (0.8, {"k": 0}), (0.8, {"k": 600}),
        (0.8, {"draft_cost": -1}), (0.8, {"draft_cost": [0.1] * 6}), (0.8, {"draft_cost": []}),
        (0.8, {"step_ms": 20.0}), (0.8, {"k": 4, "step_ms": -1.0}),
        (0.8, {"k": 4, "step_ms": 20.0, "plain_step_ms": 30}),
        (0.8, {"k": 4, "step_ms": 20.0, "plain_step_ms": 15, "draft_cost": 0.1}),
        (0.8, {"plain_step_ms": 10.0, "verify_cost": costs.parse("1=8ms,5=9ms")}), (0.8, {"up_to": 0}),
    ],
)  # fmt: skip
def test_plans_that_cannot_be(about, options):
    with pytest.raises(UsageError) as caught:
        plan_speed(about, **options)
    assert caught.value.hint


@pytest.mark.parametrize("arguments", [(0.8, -1), (0.8, 2.5), ([0.8], 4), (0.8, 4, float("inf"))])
def test_speedups_that_cannot_be(arguments):
    with pytest.raises(UsageError):
        speedup(*arguments)


# --- against the simulator, which knows nothing of the law ---

TOKENS = 40_000
PLAIN_MS = 10.0
MEASURED = costs.parse("1=10ms,2=10.4ms,5=12ms,8=15ms")
COST = 0.08
HAZARDS = (0.7, 0.75, 0.8, 0.85, 0.85, 0.8)


def rate_of(k, seed, *, bonus=True):
    """Tokens per second that a simulated service with k drafts reaches, and its relative standard error."""
    burst = k + 1 if bonus else k
    step = PLAIN_MS * (interpolated(MEASURED.widths, MEASURED.costs, burst) + k * COST)
    trace = simulate(
        k=k, bonus=bonus, acceptance=HAZARDS[: burst - 1] or 0.5, step_ms=step, step_cv=0.05, tokens=TOKENS, seed=seed
    )
    one = trace.streams[0]
    law = pmf(HAZARDS[: burst - 1])
    size = np.arange(1, burst + 1)
    mean, square = law @ size, law @ size**2
    error = sqrt(((square - mean**2) / mean**2 + 0.05**2) / (TOKENS / mean))
    return (TOKENS - 1) / ((one.t_ns[-1] - one.t_ns[0]) * 1e-9), error


@pytest.mark.parametrize("bonus", [True, False])
def test_simulated_services_are_as_fast_as_planned(bonus):
    found = plan_speed(HAZARDS, draft_cost=COST, verify_cost=MEASURED, bonus=bonus)
    seen = []
    for draft in found.drafts:
        rate, error = rate_of(draft.k, 100 + draft.k, bonus=bonus)
        assert rate == pytest.approx(draft.at[0].tokens_per_s.value, rel=4 * max(error, 1e-4)), draft.k
        seen.append(rate)
    assert int(np.argmax(seen)) + 1 == found.best[0]
    # the same service without this law's cost of verification would be told from it
    flat = plan_speed(HAZARDS, draft_cost=COST, plain_step_ms=PLAIN_MS, bonus=bonus)
    assert flat.draft(6).at[0].tokens_per_s.value > 1.08 * seen[5]


# --- from a measured service ---


def of(values, width=0.02):
    return tuple(Estimate(a, a - width, a + width, 0.95, "") for a in values)


@pytest.fixture
def service(sample):
    """M = 5 with hazards of .7 .8 .8 .9, steps of 20 ms."""
    hazards = (0.7, 0.8, 0.8, 0.9)
    mean = float(lengths(hazards)[-1])
    return replace(
        sample, max_burst=Estimate(5.0, 5.0, 5.0, 0.95, ""), acceptance_by_position=of(hazards),
        acceptance_length=Estimate(mean, mean - 0.1, mean + 0.1, 0.95, ""),
    )  # fmt: skip


def test_the_present_draft_is_as_it_was_measured(service):
    found = plan_speed(service)
    assert found.now == 4
    now = found.draft(4)
    assert now.acceptance_length == service.acceptance_length
    assert now.at[0].against_now.value == 1.0
    assert now.gap_tokens.value == pytest.approx(5 - service.acceptance_length.value)


def test_a_shorter_draft_keeps_the_acceptance_of_its_positions(service):
    draft = plan_speed(service, k=2).draft(2)
    assert draft.acceptance_length.value == pytest.approx(1 + 0.7 + 0.7 * 0.8)
    # delta method: 1.8 and .7 per unit of the two acceptances
    half = sqrt((1.8 * 0.02) ** 2 + (0.7 * 0.02) ** 2)
    assert draft.acceptance_length.high - draft.acceptance_length.low == pytest.approx(2 * half, rel=0.02)
    assert not draft.assumed


def test_a_longer_draft_is_an_assumption_and_says_so(service):
    found = plan_speed(service)
    assert [d.assumed for d in found.drafts] == [False] * 4 + [True] * 2
    assert any("beyond position 4 is not known" in note for note in found.assumptions)
    assert not any("beyond position" in note for note in plan_speed(service, up_to=4).assumptions)


def test_the_speed_of_today_against_another_is_only_as_uncertain_as_what_they_do_not_share(service):
    at = plan_speed(service, draft_cost=0.1).draft(3).at[0]
    alone = at.speedup.high / at.speedup.low
    assert 1 < at.against_now.high / at.against_now.low < alone


def test_a_plain_step_tells_the_draft_cost(service):
    found = plan_speed(service, plain_step_ms=16.0)
    assert found.cost_known
    assert found.draft_costs[0] == pytest.approx((20.0 / 16.0 - 1) / 4)
    now = found.draft(4).at[0]
    assert now.step_ms == pytest.approx(20.0)
    assert now.tokens_per_s.value == pytest.approx(service.acceptance_length.value / 0.020)
    assert now.speedup.value == pytest.approx(service.acceptance_length.value * 16 / 20)


def test_every_draft_cost_explains_the_measured_step(service):
    for at in plan_speed(service, draft_cost=[0.0, 0.1, 0.3]).draft(4).at:
        assert at.step_ms == pytest.approx(20.0)


def test_where_the_two_are_equal_they_are_equal(service):
    even = plan_speed(service).draft(2).even_cost
    found = plan_speed(service, draft_cost=even)
    assert found.draft(2).at[0].against_now.value == pytest.approx(1.0)


def test_without_an_upper_end_of_m_the_draft_may_be_longer(service):
    found = plan_speed(replace(service, max_burst=replace(service.max_burst, high=None)))
    assert "5 or more" in found.sentence
    assert any("may be longer" in note for note in found.assumptions)


def test_services_without_drafts(sample, bare):
    plain = replace(sample, verdict="autoregressive", acceptance_by_position=None)
    with pytest.raises(InputError, match="cannot be seen") as caught:
        plan_speed(plain)
    assert "--alpha" in caught.value.hint
    assert plain_step(plain) == 20.0
    assert plain_step(sample) is None
    with pytest.raises(InputError, match="no speculation to plan with"):
        plan_speed(bare)
    with pytest.raises(InputError, match="at each position is not known"):
        plan_speed(replace(sample, acceptance_by_position=None))
