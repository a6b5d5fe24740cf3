"""Counted events: tables and sweeps against plain enumeration, identities, each grouping against its impostors."""

from itertools import product

import numpy as np
import pytest

from specsonar.models import counted
from specsonar.stats.bursts import pmf
from specsonar.stats.counted import (
    CountFit,
    Events,
    common,
    free,
    information,
    likeliest,
    maximise,
    merged,
    passage,
    ratio,
    tied,
)
from specsonar.stats.countedlate import sweep as late_sweep
from specsonar.stats.heldback import most_probable
from specsonar.stats.heldback import sweep as held_sweep
from specsonar.stats.result import Arrays
from specsonar.stats.schedule import step_time
from specsonar.stats.stepgaps import StepGaps

HAZARDS = np.array([0.7, 0.4])
P = pmf(HAZARDS)


def test_merged_table_by_enumeration():
    weights = np.array([0.7, 0.2, 0.1])
    table = merged(P, weights, 9)
    joint, split = np.zeros((3, 10)), np.zeros((3, 10, 3))
    for m in (1, 2, 3):
        for sizes in product((1, 2, 3), repeat=m):
            p = weights[m - 1] * np.prod(P[np.array(sizes) - 1])
            joint[m - 1, sum(sizes)] += p
            for b in sizes:
                split[m - 1, sum(sizes), b - 1] += p
    np.testing.assert_allclose(table.joint, joint, atol=1e-15)
    np.testing.assert_allclose(table.split * joint[..., None], split, atol=1e-15)
    assert table.joint.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("interval", [1, 2, 4])
def test_passage_table_by_enumeration(interval):
    table = passage(P, interval, interval + 2)
    joint, split = np.zeros_like(table.joint), np.zeros_like(table.split)
    for m in range(1, interval + 1):
        for sizes in product((1, 2, 3), repeat=m):
            if sum(sizes[:-1]) < interval <= sum(sizes):
                p = np.prod(P[np.array(sizes) - 1])
                joint[m - 1, sum(sizes)] += p
                for b in sizes:
                    split[m - 1, sum(sizes), b - 1] += p
    np.testing.assert_allclose(table.joint, joint, atol=1e-15)
    np.testing.assert_allclose(table.split * joint[..., None], split, atol=1e-15)
    assert table.joint.sum() == pytest.approx(1.0)


def test_interval_of_one_is_one_step_an_event():
    np.testing.assert_allclose(passage(P, 1, 3).joint[0], merged(P, np.ones(1), 3).joint[0])


def test_known_steps_give_closed_form():
    counts = np.array([1, 2, 3, 3, 1])
    events = Events(counts, np.ones((1, 5)), np.ones(5))
    fit = maximise(events, merged, np.full(2, 0.5), np.ones(1), free(3))
    np.testing.assert_allclose(fit.hazards, [3 / 5, 2 / 3])
    np.testing.assert_allclose(fit.sizes, [2, 1, 2])
    pooled = maximise(events, merged, np.full(2, 0.5), np.ones(1), common(3))
    np.testing.assert_allclose(pooled.hazards, [5 / 8, 5 / 8])


def random_events(rng, n=40):
    counts = rng.integers(1, 7, n)
    density = rng.random((3, n))
    density[0, counts > 3] = 0.0
    return Events(counts, density, np.ones(n))


def test_likelihood_climbs_and_equal_events_may_be_held_once():
    events = random_events(np.random.default_rng(1))
    path = [
        maximise(events, merged, np.full(2, 0.5), np.full(3, 1 / 3), free(3), rounds=k).loglik for k in range(1, 12)
    ]
    assert (np.diff(path) > -1e-9).all()
    twice = Events(np.tile(events.counts, 2), np.tile(events.density, 2), np.ones(80))
    held = Events(events.counts, events.density, np.full(40, 2.0))
    one, other = (maximise(e, merged, np.full(2, 0.5), np.full(3, 1 / 3), free(3)) for e in (twice, held))
    assert one.loglik == pytest.approx(other.loglik)
    np.testing.assert_allclose(one.hazards, other.hazards)


@pytest.mark.parametrize("groups", [free(3), common(3)])
def test_information_is_the_curvature(groups):
    events = random_events(np.random.default_rng(2), 200)
    fit = maximise(events, merged, np.full(2, 0.5), np.full(3, 1 / 3), groups, tolerance=1e-10, rounds=3000)

    def loglik(theta):
        table = merged(pmf(theta[groups]), fit.weights, events.n_max)
        return np.log((table.joint[:, events.counts] * events.density).sum(0)).sum()

    size, h = groups.max() + 1, 1e-4
    start = fit.hazards[np.searchsorted(groups, np.arange(size))]
    unit = np.eye(size) * h

    def bend(a, b):
        return loglik(start + a + b) - loglik(start + a - b) - loglik(start - a + b) + loglik(start - a - b)

    curve = np.array([[bend(a, b) / (4 * h * h) for b in unit] for a in unit])
    np.testing.assert_allclose(information(events, merged, fit, groups, shares=False), -curve, rtol=1e-3, atol=0.05)
    free_shares = information(events, merged, fit, groups, shares=True)
    assert (np.linalg.eigvalsh(-curve - free_shares) > -1e-6).all()  # not knowing the shares costs information


def test_one_step_an_event_has_binomial_information():
    counts = np.repeat([1, 2, 3], [30, 20, 50])
    fit = CountFit(
        ratio(np.array([30.0, 20, 50]), free(3)), np.ones(1), np.ones((1, 100)), np.array([30.0, 20, 50]), 0.0
    )
    got = information(Events(counts, np.ones((1, 100)), np.ones(100)), merged, fit, free(3), shares=False)
    np.testing.assert_allclose(np.diag(got), [100 / (0.7 * 0.3), 70 / (50 / 70 * 20 / 70)], rtol=1e-4)


@pytest.mark.parametrize(("steps", "tokens", "below"), [(1, 3, None), (2, 4, None), (3, 7, None), (3, 7, 5), (2, 5, 3)])
def test_likeliest_by_enumeration(steps, tokens, below):
    best = max(
        (
            s
            for s in product((1, 2, 3), repeat=steps)
            if sum(s) == tokens and (below is None or all(np.cumsum(s)[:-1] < below))
        ),
        key=lambda s: np.prod(P[np.array(s) - 1]),
    )
    got = likeliest(P, steps, tokens, below)
    assert np.prod(P[got - 1]) == pytest.approx(np.prod(P[np.array(best) - 1]))
    assert got.sum() == tokens


def test_impossible_counts():
    assert likeliest(P, 2, 7).size == 0
    events = Events(np.array([10]), np.ones((3, 1)), np.ones(1))
    assert maximise(events, merged, HAZARDS, np.full(3, 1 / 3), free(3)).loglik == -np.inf


def test_tied_hazards_stay_equal():
    events = random_events(np.random.default_rng(3))
    fit = maximise(events, merged, np.full(4, 0.5), np.full(3, 1 / 3), tied(5, 3))
    assert np.ptp(fit.hazards[1:]) == 0.0


@pytest.mark.parametrize("seed", range(4))
def test_lateness_sweep_by_enumeration(seed):
    rng = np.random.default_rng(seed)
    cells, top, n, width, slow, longest = 6, 2, 3, 3, 0.1, 5
    jump = rng.integers(0, 5, n)
    tie = np.where(jump == 0, 0.7, 0.0)
    prior, kernel, first = rng.random((top, n)), rng.dirichlet(np.ones(width), top), np.array([1, 3])
    delay = rng.dirichlet(np.ones(cells))
    below = np.concatenate(([0.0], np.cumsum(delay)[:-1]))

    def step(x, m):
        k = x - first[m]
        straight = kernel[m, k] if 0 <= k < width else 0.0
        return (1 - slow) * straight + (slow / (longest + 1) if 0 <= x <= longest else 0.0)

    total, by_steps, delays = 0.0, np.zeros((top, n)), np.zeros(cells)
    for late in product(range(cells), repeat=n + 1):
        for m in product(range(top), repeat=n):
            p = delay[late[0]]
            for i in range(n):
                arrives = delay[late[i + 1]] + tie[i] * below[late[i + 1]]
                p *= prior[m[i], i] * step(late[i] + jump[i] - late[i + 1], m[i]) * arrives
            if p == 0.0:
                continue
            total += p
            for i in range(n):
                by_steps[m[i], i] += p
                delays[late[i + 1]] += p * delay[late[i + 1]] / (delay[late[i + 1]] + tie[i] * below[late[i + 1]])
    message, seen = np.zeros((top, n)), np.zeros(cells)
    loglik = late_sweep(jump, tie, prior, kernel, first, slow, longest, delay, below, message, seen)
    assert loglik == pytest.approx(np.log(total))
    np.testing.assert_allclose(message * prior / (message * prior).sum(0), by_steps / total, atol=1e-12)
    np.testing.assert_allclose(seen, delays / total, atol=1e-12)


def test_held_back_sweep_by_enumeration():
    hazards = np.append(HAZARDS, 0.0)
    counts = np.array([2, 3, 1, 2])
    density = np.random.default_rng(0).random((3, 4))
    tokens, ends = int(counts.sum()), np.cumsum(counts)
    total, went, stopped, steps = 0.0, np.zeros(3), np.zeros(3), np.zeros((3, 4))
    best, best_p = None, 0.0
    for cuts in product((False, True), repeat=tokens - 2):
        start = [1] + [k + 2 for k, cut in enumerate(cuts) if cut]
        sizes = np.diff([*start, tokens])
        if sizes.max() > 3:
            continue
        on, off = np.zeros(3), np.zeros(3)
        for b in sizes[:-1]:
            on[: b - 1] += 1
            off[b - 1] += 1
        on[: sizes[-1] - 1] += 1
        begun = [min(sum(ends[i] <= s < ends[i + 1] for s in start), 3) for i in range(3)]
        p = np.prod(hazards[:2] ** on[:2]) * np.prod((1 - hazards) ** off) * np.prod(density[range(3), begun])
        total, went, stopped = total + p, went + p * on, stopped + p * off
        steps[range(3), begun] += p
        if p > best_p:
            best, best_p = sizes, p
    got_on, got_off, got_steps = np.zeros(3), np.zeros(3), np.zeros((3, 4))
    loglik = held_sweep(counts, density, hazards, got_on, got_off, got_steps)
    got_off[-1] -= 1  # the prefill's token
    assert loglik == pytest.approx(np.log(total))
    np.testing.assert_allclose(got_on, went / total)
    np.testing.assert_allclose(got_off, stopped / total)
    np.testing.assert_allclose(got_steps, steps / total, atol=1e-12)
    assert most_probable(counts, density, hazards).tolist() == best.tolist()


def test_gap_law_is_a_density():
    law = StepGaps(0.02, 0.001, 4e-6, 1e-6, 0.1, 0.1, plain=0.01, plain_share=0.5)
    gaps = np.concatenate((np.linspace(0, 1, 400_001), np.geomspace(1.0001, 1e6, 400_000)))
    for n in (1, 3):
        density = law.density(gaps, np.full(gaps.size, n), 3)
        np.testing.assert_allclose(np.trapezoid(density, gaps), 1.0, atol=0.01)


def test_step_time_sees_through_a_stall_but_not_a_slow_step():
    rng = np.random.default_rng(4)
    t = np.concatenate(([0.0], np.cumsum(0.02 + 0.001 * rng.standard_normal(200))))
    base = step_time([t], [np.ones(200)])
    assert abs(base.step - 0.02) < 4 * base.step_se < 1e-3
    stalled = np.maximum.accumulate(t + np.where(np.arange(201) == 100, 0.25, 0.0))
    assert step_time([stalled], [np.ones(200)]).step == pytest.approx(base.step, rel=2e-3)
    slow = t + np.where(np.arange(201) >= 100, 0.25, 0.0)
    assert step_time([slow], [np.ones(200)]).step == pytest.approx(base.step + 0.25 / 200, rel=5e-3)


def stream(rng, *, burst=4, alpha=0.8, steps=200, merge=0.0, interval=1, step=0.02, jitter=0.001, chunk=0, cv=0.05):
    """Arrays of a counted stream made by hand, and its true bursts."""
    sizes = (
        np.minimum(1 + np.floor(np.log(rng.random(steps)) / np.log(alpha)), burst).astype(int) if burst > 1 else None
    )
    sizes = np.full(steps, chunk or 1) if sizes is None else sizes
    end = np.cumsum(step * np.maximum(1 + cv * rng.standard_normal(steps), 0.05))
    counts, times, held, waiting = [1], [0.0], 0, 0
    for b, t in zip(sizes, end, strict=True):
        waiting += int(b)
        held += 1
        if waiting >= interval and not (held == 1 and rng.random() < merge):
            counts.append(waiting)
            times.append(t + jitter * rng.exponential())
            waiting = held = 0
    return Arrays(np.maximum.accumulate(times), np.array(counts)), sizes


CASES = [
    ({}, counted.STEPS, 4),
    ({"merge": 0.15}, counted.MERGED, 4),
    ({"burst": 1}, counted.ONE_EACH, 1),
    ({"burst": 1, "merge": 0.15}, counted.MERGED, 1),  # a lagging consumer of plain decoding: no burst at all
    ({"burst": 1, "chunk": 4}, counted.FIXED, 4),
    ({"burst": 1, "chunk": 4, "merge": 0.05}, counted.FIXED, 4),
    ({"burst": 1, "interval": 8}, counted.FIXED, None),
    ({"interval": 8, "steps": 400}, counted.INTERVAL, 4),
    ({"alpha": 0.995, "burst": 5}, counted.STEPS, 5),
]


@pytest.mark.parametrize(("knobs", "kind", "burst"), CASES)
def test_each_grouping_and_its_impostors(knobs, kind, burst):
    arrays, sizes = stream(np.random.default_rng(7), **knobs)
    fit = counted.fit([arrays])
    assert counted.kind([arrays], fit).name == kind
    if burst is not None:
        assert fit.max_burst == burst
    if kind in (counted.STEPS, counted.MERGED, counted.INTERVAL):
        assert fit.extra["steps"] == pytest.approx(sizes.size, rel=0.02)
        assert fit.extra["length"] == pytest.approx(sizes.mean(), rel=0.02)
        assert fit.step_s == pytest.approx(0.02, rel=0.02)
        assert [b.sum() for b in fit.bursts] == [arrays.tokens[1:-1].sum()]


def test_an_interval_whose_steps_scatter_leaves_the_length_open():
    """Few events, and steps that vary by a third: several times of a step fit, and the interval says so."""
    calm, _ = stream(np.random.default_rng(11), interval=8, steps=150)
    assert counted.fit([calm]).extra["length_se_iid"] < 0.2
    for seed in range(6):
        rng = np.random.default_rng(seed)
        arrays, sizes = stream(rng, interval=8, steps=150, alpha=0.7, burst=5, cv=0.33)
        found = counted.fit([arrays])
        assert abs(found.extra["length"] - sizes.mean()) < 2.5 * found.extra["length_se_iid"]


def test_steps_without_a_draft_have_their_own_time():
    rng = np.random.default_rng(8)
    draft = rng.random(300) < 0.4
    sizes = np.where(draft, np.minimum(1 + np.floor(np.log(rng.random(300)) / np.log(0.9)), 6), 1).astype(int)
    gaps = np.where(draft, 0.05, 0.02) * (1 + 0.05 * rng.standard_normal(300))
    fit = counted.fit([Arrays(np.concatenate(([0.0], np.cumsum(gaps))), np.append(1, sizes))])
    assert fit.max_burst == 6
    assert fit.extra["plain_s"] == pytest.approx(0.02, rel=0.02)
    assert fit.step_s == pytest.approx(gaps.mean(), rel=0.02)


def test_rare_long_bursts_leave_m_open():
    rng = np.random.default_rng(9)
    counts = np.append(1, rng.choice([1, 2, 3], 600, p=[0.85, 0.14, 0.01]))
    fit = counted.fit([Arrays(np.arange(601) * 0.08 + 0.002 * rng.random(601), counts)])
    assert fit.loglik_by_burst[3] - fit.loglik_by_burst[5] < 2.0  # weak draft: three or more
    full, _ = stream(rng)
    by_burst = counted.fit([full]).loglik_by_burst
    assert by_burst[4] - by_burst[5] > 20.0  # full bursts abound: four and no more


def test_no_cap_on_the_draft():
    rng = np.random.default_rng(10)
    counts = np.concatenate(([1], rng.integers(1, 5, 50), [79, 95]))
    gaps = 0.04 + 0.01 * (counts - 1) * (1 + 0.1 * rng.standard_normal(counts.size))
    fit = counted.fit([Arrays(np.cumsum(gaps), counts)])
    assert fit.max_burst == 95
    assert fit.extra["merge_probability"] == 0.0
    assert fit.extra["length"] == pytest.approx(counts[1:].mean(), rel=0.02)


def test_events_without_tokens_give_their_time_to_the_next():
    arrays, _ = stream(np.random.default_rng(11))
    silent = np.insert(arrays.tokens, 50, 0), np.insert(arrays.t, 50, (arrays.t[49] + arrays.t[50]) / 2)
    assert counted.fit([Arrays(silent[1], silent[0])]).step_s == counted.fit([arrays]).step_s


def test_scale_of_time():
    arrays, _ = stream(np.random.default_rng(12), merge=0.1)
    one, ten = counted.fit([arrays]), counted.fit([Arrays(arrays.t * 10, arrays.tokens)])
    assert ten.step_s == pytest.approx(10 * one.step_s, rel=1e-3)
    np.testing.assert_allclose(ten.hazards, one.hazards, rtol=1e-3)


def test_streams_are_pooled_and_their_order_does_not_matter():
    rng = np.random.default_rng(13)
    several = [stream(rng, merge=0.1)[0] for _ in range(5)]
    alone, pooled, turned = counted.fit(several[:1]), counted.fit(several), counted.fit(several[::-1])
    assert pooled.alpha_se == pytest.approx(alone.alpha_se / np.sqrt(5), rel=0.25)
    assert pooled.step_se < alone.step_se
    assert turned.alpha == pytest.approx(pooled.alpha, rel=1e-6)


@pytest.mark.parametrize(
    ("t", "n"),
    [
        ([], []),
        ([0.0], [1]),
        ([0.0, 0.02], [1, 3]),
        ([0.0, 0.02, 0.04], [1, 3, 2]),
        (np.zeros(50), [1, *[2, 3] * 24, 1]),
    ],
)
def test_too_little_or_degenerate(t, n):
    fit = counted.fit([Arrays(np.array(t, np.float64), np.array(n, np.int64))])
    assert fit.max_burst >= 1
    counted.kind([Arrays(np.array(t, np.float64), np.array(n, np.int64))], fit)


def test_nothing_at_all():
    assert counted.fit([]).max_burst == 1
    assert counted.kind([]).name == counted.ONE_EACH


def test_the_distribution_of_a_gap_is_the_sum_of_its_density():
    law = StepGaps(0.02, 0.001, 1e-6, 4e-6, tiny=0.1, tail=0.05, plain=0.012, plain_share=0.4)
    at = np.linspace(0.0, 0.2, 40_001)
    for count, order in ((1, 1), (3, 1), (4, 2)):
        density = law.density(at, np.full(at.size, count), 2)[order - 1]
        summed = np.concatenate(([0.0], np.cumsum(0.5 * (density[1:] + density[:-1]) * np.diff(at))))
        below = law.below(at, count, order)
        assert np.abs(below - below[0] - summed).max() < 2e-4
