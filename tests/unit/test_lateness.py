"""The lateness filter against the sum over every path on tiny grids, and the gaps and laws around it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from specsonar.models import late
from specsonar.stats import gaps as gapstats
from specsonar.stats.gaps import LONGEST, cuts, prepare, tick_of, two_classes
from specsonar.stats.lateness import sweep
from specsonar.stats.result import Arrays
from specsonar.stats.runs import ELSEWHERE

FIELDS = ("new", "tied", "went", "stopped", "delay_seen", "delay_below", "step_seen", "slow_seen")


@dataclass
class Case:
    """Arguments of the filter, small enough to enumerate."""

    jump: tuple[int, ...]
    inside: np.ndarray
    fresh: np.ndarray
    hazards: np.ndarray
    per_token: bool
    density: np.ndarray
    cdf: np.ndarray
    start: np.ndarray
    pmf: np.ndarray
    first: int
    slow: float
    slow_last: int


@dataclass
class Found:
    """What the filter returns and writes."""

    loglik: float
    e: dict[str, np.ndarray] = field(default_factory=dict)


def case(seed, *, per_token, m=3, jump=(1, 2, 0, 3), slow=0.1, slow_last=4, cells=7, kernel=2, first=2):
    rng = np.random.default_rng(seed)
    delay = rng.dirichlet(np.ones(cells))
    g = np.array(jump)
    return Case(
        jump, rng.uniform(0.1, 2.0, g.size), np.where(g > 0, 1.0, 0.3), np.append(rng.uniform(0.3, 0.9, m - 1), 0.0),
        per_token, delay / 0.5, np.cumsum(delay), rng.dirichlet(np.ones(cells)),
        rng.dirichlet(np.ones(kernel)) * (1 - slow), first, slow, slow_last,
    )  # fmt: skip


def empty(c):
    n, m, cells = len(c.jump), c.hazards.size, c.density.size
    sizes = (n, n, m, m, cells, cells, c.pmf.size, 2)
    return {name: np.zeros(size) for name, size in zip(FIELDS, sizes, strict=True)}


def kernel(c, *, smooth=True):
    e = empty(c)
    loglik = sweep(
        np.array(c.jump, np.int64), c.inside, c.fresh, c.hazards, c.per_token, c.density, c.cdf, c.start, c.pmf,
        c.first, c.slow, c.slow_last, smooth, *(e[name] for name in FIELDS),
    )  # fmt: skip
    return Found(loglik, e)


def enumerated(c, *, prefill_is_a_burst=False, late_before_step=False):
    """Every start, every choice of "same burst", step time and stray time, every way for a token to have come."""
    e, total = empty(c), 0.0
    m, cells = c.hazards.size, c.density.size

    def arrivals(i, u):
        """(weight, delay seen) of a token at lateness u with a delay of its own.

        It was ready when its predecessor came, a gap earlier, or its delay is u.
        """
        yield c.density[u] * c.fresh[i], True
        if u >= c.jump[i]:
            yield c.cdf[u - c.jump[i]] * c.inside[i], False

    def durations():
        for k, p in enumerate(c.pmf):
            yield c.first + k, p, k
        for s in range(1, c.slow_last + 1):
            yield s, c.slow / c.slow_last, None

    def walk(i, j, u, weight, path):
        nonlocal total
        if weight == 0.0:
            return
        if i == len(c.jump):
            total += weight
            for name, at, value in path:
                e[name][at] += weight * value
            return
        g = c.jump[i]
        here = u if late_before_step else u + g
        if c.hazards[j] > 0 and u + g < cells:
            went = [*path, ("went", j, 1.0)]
            if c.per_token:
                for w, seen in arrivals(i, u + g):
                    note = ("delay_seen", u + g, 1.0) if seen else ("delay_below", u, 1.0)
                    tied = [] if seen else [("tied", i, 1.0)]
                    walk(i + 1, j + 1, u + g, weight * c.hazards[j] * w, [*went, note, *tied])
            else:
                walk(i + 1, j + 1, u + g, weight * c.hazards[j] * c.inside[i], [*went, ("tied", i, 1.0)])
        for s, p, k in durations():
            v = here - s
            if not 0 <= v < cells:
                continue
            took = [("slow_seen", 0, 1.0), ("slow_seen", 1, float(s))] if k is None else [("step_seen", k, 1.0)]
            ended = [("stopped", j, 1.0)] if i > 0 or j < m - 1 or prefill_is_a_burst else []
            for w, seen in arrivals(i, v):
                note = [("delay_seen", v, 1.0)] if seen else [("delay_below", v - g, 1.0), ("tied", i, 1.0)]
                step = [("new", i, 1.0), *took, *ended, *note]
                walk(i + 1, 0, v, weight * (1 - c.hazards[j]) * p * w, [*path, *step])

    for u in range(cells):
        for j in range(m):
            walk(0, j, u, c.start[u] * (ELSEWHERE / m + (1 - ELSEWHERE) * (j == m - 1)), [])
    return Found(math.log(total), {name: value / total for name, value in e.items()})


def assert_same(a, b):
    assert a.loglik == pytest.approx(b.loglik, abs=1e-7)
    for name in FIELDS:
        np.testing.assert_allclose(a.e[name], b.e[name], atol=1e-6, err_msg=name)


@pytest.mark.parametrize("per_token", [False, True])
@pytest.mark.parametrize(
    "world",
    [
        {"m": 1},
        {"m": 2, "jump": (0, 3, 3)},
        {"m": 3},
        {"m": 3, "jump": (0, 0, 5), "kernel": 3, "first": 1},
        {"m": 2, "slow": 0.0},
        {"m": 2, "slow": 0.3, "slow_last": 6, "jump": (6, 0, 2)},
    ],
    ids=lambda w: ",".join(f"{k}={v}" for k, v in w.items()),
)
def test_the_filter_equals_enumeration(world, per_token):
    c = case(len(world), per_token=per_token, **world)
    assert_same(kernel(c), enumerated(c))


def test_enumeration_would_notice():
    for per_token in (False, True):
        c = case(3, per_token=per_token, jump=(1, 0, 3))
        found = kernel(c)
        other = replace(c, per_token=not per_token)
        for wrong in (
            enumerated(c, prefill_is_a_burst=True),
            enumerated(c, late_before_step=True),
            enumerated(other),
        ):
            with pytest.raises(AssertionError):
                assert_same(found, wrong)


def test_every_gap_and_every_step_is_accounted_for():
    for per_token in (False, True):
        c = case(5, per_token=per_token, jump=(2, 0, 3, 1, 2, 0, 2, 4), m=3)
        e = kernel(c).e
        steps = e["new"].sum()
        assert e["step_seen"].sum() + e["slow_seen"][0] == pytest.approx(steps)
        assert steps + e["went"].sum() == pytest.approx(len(c.jump))
        own = len(c.jump) if per_token else steps
        assert e["delay_seen"].sum() + e["delay_below"].sum() == pytest.approx(own)


def dense(c):
    """Forward algorithm over the whole grid, nothing pruned: log-likelihood."""
    m, cells = c.hazards.size, c.density.size
    alpha = np.outer(c.start, np.full(m, ELSEWHERE / m))
    alpha[:, m - 1] += c.start * (1 - ELSEWHERE)
    steps = np.zeros(max(c.slow_last, c.first + c.pmf.size - 1) + 1)
    steps[1 : c.slow_last + 1] = c.slow / c.slow_last
    steps[c.first : c.first + c.pmf.size] += c.pmf
    total = 0.0
    for i, g in enumerate(c.jump):
        ready = np.concatenate((np.zeros(g), c.cdf[: cells - g]))
        arrives = c.density * c.fresh[i] + ready * c.inside[i]
        full = np.convolve(alpha @ (1 - c.hazards), steps[::-1])  # index u - s + steps.size - 1
        begin = steps.size - 1 - g
        source = np.arange(cells) + begin
        after = np.zeros_like(alpha)
        good = (source >= 0) & (source < full.size)
        after[good, 0] = full[source[good]] * arrives[good]
        stay = np.zeros_like(alpha)
        stay[g:, 1:] = alpha[: cells - g, :-1] * c.hazards[:-1]
        after += stay * (arrives if c.per_token else np.full(cells, c.inside[i]))[:, None]
        total += math.log(after.sum())
        alpha = after / after.sum()
    return total


@pytest.mark.parametrize("per_token", [False, True])
def test_pruning_and_growing_buffers_cost_nothing(per_token):
    rng = np.random.default_rng(6)
    cells, n = 900, 60
    jump = tuple(int(x) for x in np.where(rng.random(n) < 0.6, 0, rng.integers(20, 60, n)))
    c = case(6, per_token=per_token, jump=jump, cells=cells, kernel=40, first=10, slow=0.2, slow_last=400)
    c.density = np.full(cells, 1 / cells)  # broad: hundreds of cells a token, more than the buffer begins with
    c.cdf = np.cumsum(c.density)
    assert kernel(c, smooth=False).loglik == pytest.approx(dense(c), abs=1e-5)
    assert kernel(c).loglik == kernel(c, smooth=False).loglik


def test_impossible_data_are_minus_infinity():
    c = case(7, per_token=False, jump=(1, 10), slow=0.0, m=1)  # ten cells less a step of three are off the grid
    assert kernel(c).loglik == -np.inf
    c = case(7, per_token=False, m=2)
    c.density, c.cdf, c.inside = np.zeros(7), np.zeros(7), np.zeros(4)
    assert kernel(c).loglik == -np.inf


# --- models.late -------------------------------------------------------------------------------------------------


def record(seed, steps=120, step=0.02, sd=0.001, alpha=0.8, m=4, per_token=False):
    """Arrivals over an in-order link with log-normal delays, tokens of a step 0.1 ms apart."""
    rng = np.random.default_rng(seed)
    t, last = [0.0], 0.0
    for end in np.cumsum(rng.normal(step, sd, steps)):
        size = 1
        while size < m and rng.random() < alpha:
            size += 1
        delay = rng.lognormal(np.log(0.002), 1.0, size) if per_token else np.full(size, rng.lognormal(np.log(0.002), 1))
        for d in delay:
            last = max(last + rng.uniform(5e-5, 1.5e-4), end + d)
            t.append(last)
    return Arrays(np.array(t))


def fitted(arrays, step, *, per_token=False, m=4, rounds=15):
    data = prepare(arrays)
    grid = late.make_grid(data, step, late.COARSE)
    start = late.initial(data, grid, 0.1 * step, step, m, per_token=per_token)
    return data, grid, late.em(data, grid, start, rule="one", rounds=rounds)


@pytest.mark.parametrize("per_token", [False, True])
def test_the_fit_is_near_the_truth(per_token):
    fit = fitted([record(8, per_token=per_token)], 0.02, per_token=per_token)[2]
    assert fit.mean_step == pytest.approx(0.02, rel=0.02)
    assert fit.parameters.hazards[0] == pytest.approx(0.8, abs=0.1)
    assert fit.max_burst == 4 and fit.new.sum() == pytest.approx(120, abs=6)


def test_the_origin_of_time_is_nothing():
    a = record(9, steps=60)
    one, two = (fitted([Arrays(a.t + shift)], 0.02, rounds=6)[2] for shift in (0.0, 1000.0))
    assert two.loglik == pytest.approx(one.loglik, abs=0.05)
    assert two.mean_step == pytest.approx(one.mean_step, rel=1e-4)


def test_the_unit_of_time_is_nothing():
    """On a rung of the delays' ladder all but to rounding, between rungs nearly."""
    a = record(9, steps=60)
    one = fitted([a], 0.02, rounds=6)[2]
    for scale, nats, share in ((1.5**4, 0.05, 1e-4), (2.0, 2.0, 5e-3)):
        two = fitted([Arrays(scale * a.t)], scale * 0.02, rounds=6)[2]
        assert two.loglik + one.new.size * math.log(scale) == pytest.approx(one.loglik, abs=nats)
        assert two.mean_step == pytest.approx(scale * one.mean_step, rel=share)
        np.testing.assert_allclose(two.parameters.hazards, one.parameters.hazards, atol=2 * share)


def test_streams_are_pooled_in_any_order():
    streams = [record(seed, steps=40) for seed in (10, 11)]
    one, two = (fitted(s, 0.02, rounds=4)[2] for s in (streams, streams[::-1]))
    assert one.loglik == pytest.approx(two.loglik, abs=1e-6)
    np.testing.assert_allclose(one.went, two.went, rtol=1e-8)


def test_polishing_does_not_lose():
    data, grid, fit = fitted([record(12, steps=60)], 0.02, rounds=3)
    before = late.evaluate(data, grid, fit.parameters, smooth=False)[0]
    after = late.evaluate(data, grid, late.polished(data, grid, fit.parameters), smooth=False)[0]
    assert after > before - 0.05


def test_the_grid_follows_the_times_and_bounds_its_size():
    a = record(13, steps=40)
    data = prepare([a, Arrays(a.t[:20])])
    grid = late.make_grid(data, 0.02)
    assert grid.delta == pytest.approx(0.02 / late.FINE)
    for begin, end in zip(data.offsets[:-1], data.offsets[1:], strict=True):
        error = np.cumsum(grid.jump[begin:end]) * grid.delta - np.cumsum(data.gap[begin:end])
        assert np.abs(error).max() <= grid.delta / 2 * 1.001  # cells do not accumulate rounding
    inner = grid.centres < 0.02
    np.testing.assert_allclose(grid.density[inner].sum(1) * grid.delta, 1.0, atol=0.02)
    assert (np.diff(grid.cdf, axis=1) >= 0).all()
    stalled = prepare([Arrays(np.append(a.t, a.t[-1] + 30.0))])
    coarse = late.make_grid(stalled, 0.02)
    assert coarse.cells < 6100 and coarse.delta > 0.02 / late.FINE


def test_laws_move_between_grids_and_lengths():
    data, grid, fit = fitted([record(14, steps=40)], 0.02, rounds=2)
    p = fit.parameters
    longer = late.at(p, 6)
    assert longer.hazards.size == 6 and longer.hazards[-1] == 0.0
    np.testing.assert_allclose(longer.hazards[:5], p.hazards[0])
    assert late.at(p, 1).hazards.tolist() == [0.0]
    fine = late.make_grid(data, 0.02, late.FINE)
    np.testing.assert_allclose(fine.centres, grid.centres)  # weights hold on grids of any fineness
    wide = late.make_grid(prepare([Arrays(np.append(data.gap.cumsum(), 20.0))]), 0.02)
    assert late.on(p, wide).weights.size == wide.centres.size > p.weights.size
    assert late.on(p, wide).weights.sum() == pytest.approx(1.0)


# --- stats.gaps --------------------------------------------------------------------------------------------------


def test_long_streams_are_cut_before_a_long_gap():
    rng = np.random.default_rng(15)
    gap = np.where(rng.random(3 * LONGEST) < 0.6, 1e-4, 0.02) * rng.uniform(0.9, 1.1, 3 * LONGEST)
    long, short = Arrays(np.append(0, np.cumsum(gap))), Arrays(np.append(0, np.cumsum(gap[:100])))
    data = prepare([short, long, short])
    pieces = np.diff(data.offsets)
    assert data.offsets[0] == 0 and data.offsets[-1] == len(data) == 200 + gap.size
    assert (pieces > 0).all() and pieces.max() <= LONGEST
    assert pieces[0] == pieces[-1] == 100 and 3 <= pieces.size - 2 <= 5
    assert (data.gap[data.offsets[2:-2]] > 0.02).all()  # the first gap of each later piece starts a step
    assert prepare([short]).offsets.tolist() == [0, 100]
    exact = prepare([Arrays(np.arange(LONGEST + 1) * 0.02)])
    assert exact.offsets.tolist() == [0, LONGEST]


def test_no_streams_have_no_gaps():
    assert len(prepare([])) == 0 and prepare([]).offsets.tolist() == [0] and tick_of([]) == 0.0


def test_gaps_below_half_a_tick_are_ties():
    t = np.array([0.0, 0.02, 0.02, 0.0200003, 0.04])
    coarse = prepare([Arrays(t, resolution=0.001)])
    assert coarse.zero.tolist() == [False, True, True, False] and coarse.tick == 0.001
    assert coarse.floor.tolist() == pytest.approx([0.02, 0.02, 0.02, 0.4 * 0.001 / (0.04 - 0.0200003)], abs=1e-4)
    fine = prepare([Arrays(t)])
    assert fine.zero.tolist() == [False, True, False, False] and fine.tick == 0.0
    assert fine.log_jacobian == pytest.approx(-np.log(np.diff(t)[[0, 2, 3]]).sum())


def lattice(tick, wholes, repeats=10):
    return [Arrays(np.append(0, np.cumsum(np.tile(wholes, repeats))) * tick)]


def test_a_tick_is_a_lattice_of_all_times():
    rng = np.random.default_rng(16)
    assert tick_of(lattice(0.001, [1, 3, 7, 20])) == pytest.approx(0.001)
    assert tick_of(lattice(0.001, [0, 0, 1, 3, 7])) == pytest.approx(0.001)
    assert tick_of(lattice(0.001, [20, 20, 40])) == 0.0  # two lengths: steps and a slow one
    assert tick_of(lattice(0.001, [1, 3, 7], repeats=6)) == 0.0  # too few
    assert tick_of(lattice(20e-6, [1, 3, 7, 20])) == 0.0  # finer than what counts
    assert tick_of([Arrays(np.sort(rng.uniform(0, 5, 300)))]) == 0.0
    assert tick_of([Arrays(np.sort(rng.uniform(0, 5, 300)), resolution=0.004)]) == 0.004


@pytest.mark.parametrize("seed", range(5))
def test_two_classes_maximise_the_variance_between(seed):
    x = np.random.default_rng(seed).gamma(0.7, 1.0, 25)
    border = two_classes(x)

    def between(cut):
        a, b = x[x <= cut], x[x > cut]
        return a.size * b.size * (a.mean() - b.mean()) ** 2

    best = max(between(c) for c in np.sort(x)[:-1])
    assert between(border) == pytest.approx(best)


def test_a_cut_lies_between_the_two_kinds_of_gaps():
    rng = np.random.default_rng(17)
    for small in (1e-5, 3e-4, 4e-3):
        gap = np.where(rng.random(400) < 0.65, small, 0.02) * rng.lognormal(0, 0.15, 400)
        found = cuts(prepare([Arrays(np.append(0, np.cumsum(gap)))]))
        assert any(1.4 * small < cut < 0.015 for cut in found)
        assert all(abs(math.log(a / b)) > 0.1 for i, a in enumerate(found) for b in found[:i])
        assert all((gap > cut).any() for cut in found)


def test_there_is_no_cut_without_positive_gaps():
    assert cuts(prepare([Arrays(np.zeros(50))])) == []
    assert cuts(prepare([Arrays(np.array([0.0, 1.0]))])) == []
    assert gapstats.FINEST < 1e-6
