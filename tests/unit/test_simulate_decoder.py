"""The mechanism against cases worked out by hand, and against laws derived here by enumeration."""

from itertools import product

import numpy as np
import pytest
from scipy.stats import binomtest, chisquare

from specsonar.errors import UsageError
from specsonar.sources import drift
from specsonar.sources.decoder import Decoded, Dice, decode
from specsonar.sources.service import Service

LEVEL = 1e-4  # false alarms of one statistical test; seeds are fixed, so a test that passes keeps passing


def run(tokens, seed=0, **knobs):
    return decode(Service(**knobs), tokens, Dice(seed, 0))


def enumerated_law(accept, bonus):
    """P(B = b), b = 0..k+1, by going through all 2^k outcomes of k independent verdicts."""
    k = len(accept)
    law = np.zeros(k + 2)
    for verdicts in product((True, False), repeat=k):
        chance = np.prod([a if v else 1 - a for a, v in zip(accept, verdicts, strict=True)])
        kept = verdicts.index(False) if False in verdicts else k
        law[kept + 1 if kept < k or bonus else k] += chance
    return law


def p_value(sizes, law):
    counts = np.bincount(sizes, minlength=law.size)
    assert counts[law == 0].sum() == 0
    return chisquare(counts[law > 0], law[law > 0] * sizes.size).pvalue


class Fixed(Dice):
    """Dice whose verdicts are written down: each row is one step's uniform numbers."""

    def __init__(self, rows):
        super().__init__(0, 0)
        self.rows = np.array(rows, float)

    def __getitem__(self, purpose):
        return self if purpose == "accept" else super().__getitem__(purpose)

    def random(self, shape):
        assert shape[1] == self.rows.shape[1]
        return np.concatenate((self.rows, np.ones(shape)))[: shape[0]]


# acceptance 0.5: a number below 0.5 accepts its draft token
ROWS = [[0.1, 0.1, 0.1], [0.9, 0.1, 0.1], [0.1, 0.1, 0.9], [0.1, 0.9, 0.1], [0.4, 0.4, 0.4]]


@pytest.mark.parametrize(
    ("tokens", "knobs", "sizes", "complete", "truncated"),
    [
        (11, {"k": 3}, [4, 1, 3, 2], 4, False),
        (10, {"k": 3}, [4, 1, 3, 1], 3, True),
        (9, {"k": 3}, [4, 1, 3], 3, False),
        (2, {"k": 3}, [1], 0, True),
        (1, {"k": 3}, [], 0, False),
        (10, {"k": 3, "bonus": False}, [3, 1, 3, 2], 4, False),
        (9, {"k": 3, "bonus": False}, [3, 1, 3, 1], 3, True),
        (10, {"k": 3, "clip_draft": True}, [4, 1, 3, 1], 3, False),
        (5, {"k": 3, "clip_draft": True}, [4], 1, False),
        (4, {"k": 3, "clip_draft": True}, [3], 0, False),
        (10, {"k": 3, "bonus": False, "clip_draft": True}, [3, 1, 3, 2], 3, False),
    ],
)
def test_small_answers_worked_out_by_hand(tokens, knobs, sizes, complete, truncated):
    got = decode(Service(acceptance=0.5, **knobs), tokens, Fixed(ROWS))
    assert (got.sizes.tolist(), got.complete, got.last_truncated) == (sizes, complete, truncated)


def test_a_draft_clipped_to_nothing_is_a_plain_step():
    got = decode(Service(k=3, acceptance=0.5, clip_draft=True, step_ms=20, plain_step_ms=7), 10, Fixed(ROWS))
    assert got.drafted.tolist() == [True, True, True, False]
    assert got.took_ns.tolist() == [20_000_000] * 3 + [7_000_000]


def test_without_clipping_the_last_step_drafts_in_full():
    got = decode(Service(k=3, acceptance=0.5, step_ms=20, plain_step_ms=7), 10, Fixed(ROWS))
    assert got.drafted.all()
    assert (got.took_ns == 20_000_000).all()


@pytest.mark.parametrize(
    ("accept", "bonus"),
    [([0.8] * 3, True), ([0.8] * 4, False), ([0.6] * 8, False), ([0.85], True), ([0.3, 0.9, 0.5], True)],
)
def test_burst_sizes_follow_the_law_of_the_enumeration(accept, bonus):
    visible = accept if bonus else accept[:-1]
    got = run(100_000, k=len(accept), bonus=bonus, acceptance=tuple(visible))
    assert p_value(got.sizes[: got.complete], enumerated_law(accept, bonus)) > LEVEL


def test_the_test_of_the_law_could_fail():
    got = run(100_000, k=3, acceptance=0.8)
    assert p_value(got.sizes[: got.complete], enumerated_law([0.785] * 3, True)) < LEVEL


def test_both_conventions_are_one_law():
    with_bonus, without = (run(50_000, max_burst=4, bonus=b) for b in (True, False))
    assert p_value(without.sizes[: without.complete], enumerated_law([0.8] * 3, True)) > LEVEL
    assert p_value(with_bonus.sizes[: with_bonus.complete], enumerated_law([0.8] * 4, False)) > LEVEL


@pytest.mark.parametrize(("acceptance", "size"), [(0.0, 1), (1.0, 4)])
def test_certain_verdicts_give_one_size(acceptance, size):
    got = run(401, acceptance=acceptance)
    assert set(got.sizes.tolist()) == {size}


def test_one_draft_without_a_bonus_shows_nothing():
    got = run(200, k=1, bonus=False, acceptance=0.7)
    assert got.sizes.tolist() == [1] * 199
    assert got.drafted.all()


def test_plain_decoding_gives_one_token_a_step_and_drafts_nothing():
    got = run(100, max_burst=1)
    assert got.sizes.tolist() == [1] * 99
    assert not got.drafted.any()


def test_steps_without_a_draft_give_one_token_and_take_their_own_time():
    got = run(30_000, max_burst=6, acceptance=0.9, draft_probability=0.4, step_ms=20, plain_step_ms=8)
    assert (got.sizes[~got.drafted] == 1).all()
    assert set(got.took_ns[~got.drafted].tolist()) == {8_000_000}
    assert set(got.took_ns[got.drafted].tolist()) == {20_000_000}
    assert binomtest(int(got.drafted.sum()), got.drafted.size, 0.4).pvalue > LEVEL
    drafting = got.sizes[: got.complete][got.drafted[: got.complete]]
    assert p_value(drafting, enumerated_law([0.9] * 5, True)) > LEVEL


def test_acceptance_changes_at_its_share_of_the_tokens_and_nowhere_else():
    before, both = run(20_000), run(20_000, acceptance_after=0.3, change_at=0.25)
    start = 1 + np.concatenate(([0], np.cumsum(both.sizes)[:-1]))
    first = int(np.flatnonzero(start >= 5_000)[0])
    assert np.array_equal(both.sizes[:first], before.sizes[:first])
    late = both.sizes[first : both.complete]
    assert p_value(late, enumerated_law([0.3] * 3, True)) > LEVEL
    assert p_value(late, enumerated_law([0.33] * 3, True)) < LEVEL


def test_the_first_step_that_starts_at_the_change_is_changed():
    # one token a step while nothing is accepted; the fifth step starts with 5 of 10 tokens out
    assert run(10, acceptance=0.0, acceptance_after=1.0).sizes.tolist() == [1, 1, 1, 1, 4, 1]


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_a_change_at_either_end_is_no_change(share):
    changed = run(2_000, acceptance=0.8, acceptance_after=0.4, change_at=share)
    constant = run(2_000, acceptance=0.8 if share else 0.4)
    assert np.array_equal(changed.sizes, constant.sizes)


def test_an_answer_is_the_beginning_of_a_longer_one():
    short, long = run(1_000, step_cv=0.1, correlation=0.5), run(200_000, step_cv=0.1, correlation=0.5)
    n = short.complete
    assert np.array_equal(short.sizes[:n], long.sizes[:n])
    assert np.array_equal(short.took_ns[:n], long.took_ns[:n])


def test_step_times_are_whole_nanoseconds_with_the_mean_and_the_spread_asked_for():
    took = run(40_000, max_burst=1, step_ms=20, step_cv=0.2).took_ns
    assert took.dtype == np.int64
    assert took.min() > 0
    n = took.size
    # 4 standard errors: one false alarm in 16,000. Kurtosis of this gamma law: 3 + 6 cv^2.
    assert abs(took.mean() / 20e6 - 1) < 4 * 0.2 / n**0.5
    assert abs(took.std() / 4e6 - 1) < 4 * ((2 + 6 * 0.04) / 4 / n) ** 0.5


def test_slow_steps_are_as_frequent_and_as_slow_as_asked_for():
    took = run(20_000, max_burst=1, slow_probability=0.05, slow_factor=7).took_ns
    assert set(took.tolist()) == {20_000_000, 140_000_000}
    assert binomtest(int((took > 20_000_000).sum()), took.size, 0.05).pvalue > LEVEL


@pytest.mark.parametrize(("correlation", "persistence"), [(0.3, 0.9), (0.6, 0.9), (0.6, 0.95)])
def test_drifting_acceptance_keeps_its_mean_hazard_and_has_the_correlation(correlation, persistence):
    service = Service(correlation=correlation, persistence=persistence)
    lags, means, hazards = [], [], []
    for seed in range(12):
        got = decode(service, 60_000, Dice(seed, 0))
        b = got.sizes[: got.complete]
        lags.append(np.corrcoef(b[1:], b[:-1])[0, 1])
        means.append(b.mean())
        hazards.append((b - 1).sum() / ((b - 1).sum() + (b < 4).sum()))
    further = drift.long_run_reach(service)
    assert drift.pooled(further) == pytest.approx(0.8, abs=1e-9)
    # Student t with 11 degrees of freedom: 6.0 is passed once in 10,000 runs.
    for values, wanted in ((lags, correlation), (means, 1 + further.sum()), (hazards, 0.8)):
        error = np.std(values, ddof=1) / len(values) ** 0.5
        assert abs(np.mean(values) - wanted) < 6.0 * error
        assert 6.0 * error < 0.12  # and an error of .12 would be seen


def test_drift_at_its_edges():
    assert drift.calibrate((0.8, 0.8), 0.0001, 0.9)[1] < 0.1
    with pytest.raises(UsageError, match="cannot be reached"):
        drift.calibrate((0.8, 0.8, 0.8), 0.7, 0.5)


def test_the_log_odds_are_an_autoregression_that_goes_on_across_blocks():
    rng = np.random.default_rng(5)
    whole = drift.latent(np.random.default_rng(5), 9, 0.9, None)
    first = drift.latent(rng, 4, 0.9, None)
    assert np.allclose(np.concatenate((first, drift.latent(rng, 5, 0.9, float(first[-1])))), whole)
    noise = np.random.default_rng(5).standard_normal(9)
    z = [noise[0]]
    for e in noise[1:]:
        z.append(0.9 * z[-1] + (1 - 0.81) ** 0.5 * e)
    assert np.allclose(z, whole)


def test_long_run_law_of_two_halves():
    # M = 2: 1.8 tokens a step before, 1.2 after; half of the tokens each, so the steps divide as 1.2 to 1.8.
    service = Service(max_burst=2, acceptance=0.8, acceptance_after=0.2)
    assert drift.long_run_reach(service)[0] == pytest.approx((1.2 * 0.8 + 1.8 * 0.2) / 3)


def test_long_run_hazards_with_steps_that_draft_nothing():
    further = drift.long_run_reach(Service(max_burst=3, acceptance=0.9, draft_probability=0.4))
    assert drift.hazards_of(further).tolist() == pytest.approx([0.36, 0.9])
    assert drift.hazards_of(drift.long_run_reach(Service(max_burst=3, acceptance=0.0))).tolist() == [0, 0]


def test_record_is_immutable():
    with pytest.raises(AttributeError):
        run(5).complete = 3
    assert isinstance(run(5), Decoded)
