"""The run-length model against the sum over every segmentation of short sequences."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
import pytest

from specsonar.stats import runs
from specsonar.stats.runs import ELSEWHERE

HAZARDS = {1: np.zeros(1), 2: np.array([0.7, 0.0]), 3: np.array([0.6, 0.85, 0.0])}


@dataclass
class Found:
    """What the kernel returns and writes."""

    loglik: float
    new: np.ndarray
    went: np.ndarray
    stopped: np.ndarray


def kernel(inside, between, offsets, hazards):
    n, m = inside.size, hazards.size
    out = Found(0.0, np.full(n, np.nan), np.full(m, np.nan), np.full(m, np.nan))
    out.loglik = runs.forward_backward(
        inside, between, np.asarray(offsets, np.int64), hazards, out.new, out.went, out.stopped
    )
    return out


def enumerated(inside, between, offsets, hazards, *, elsewhere=ELSEWHERE, prefill_is_a_burst=False):
    """Every way to mark gaps as starts, from every position of the first token.

    The first token stands at M (the prefill's, alone) or, with `elsewhere`, at any position. A burst that ends at M
    from the start is the prefill's, and no burst.
    """
    m = hazards.size
    out = Found(0.0, np.zeros(inside.size), np.zeros(m), np.zeros(m))
    for begin, end in itertools.pairwise(offsets):
        n = end - begin
        total, new, went, stopped = 0.0, np.zeros(n), np.zeros(m), np.zeros(m)
        for first in range(m):
            for marks in itertools.product((0, 1), repeat=n):
                weight = elsewhere / m + (1 - elsewhere) * (first == m - 1)
                on, off = np.zeros(m), np.zeros(m)
                at = first
                for i, starts in enumerate(marks):
                    weight *= (1 - hazards[at]) * between[begin + i] if starts else hazards[at] * inside[begin + i]
                    if weight == 0.0:
                        break
                    if starts:
                        off[at] += i > 0 or at < m - 1 or prefill_is_a_burst
                        at = 0
                    else:
                        on[at] += 1
                        at += 1
                total += weight
                new += weight * np.array(marks)
                went += weight * on
                stopped += weight * off
        out.loglik += math.log(total)
        out.new[begin:end] = new / total
        out.went += went / total
        out.stopped += stopped / total
    return out


def assert_same(a, b, **tolerance):
    np.testing.assert_allclose(a.loglik, b.loglik, **tolerance)
    for name in ("new", "went", "stopped"):
        np.testing.assert_allclose(getattr(a, name), getattr(b, name), err_msg=name, **tolerance)


def densities(seed, n):
    """Any positive numbers will do; some gaps clearly long, some clearly short, most in doubt."""
    rng = np.random.default_rng(seed)
    return np.exp(rng.normal(0, 1.5, n)), np.exp(rng.normal(0, 1.5, n))


@pytest.mark.parametrize("m", [1, 2, 3])
@pytest.mark.parametrize("offsets", [(0, 1), (0, 8), (0, 3, 8), (0, 1, 2, 9)], ids=str)
def test_the_kernel_equals_enumeration(m, offsets):
    inside, between = densities(offsets[-1] + m, offsets[-1])
    assert_same(
        kernel(inside, between, offsets, HAZARDS[m]),
        enumerated(inside, between, offsets, HAZARDS[m]),
        rtol=1e-12, atol=1e-14,
    )  # fmt: skip


def test_an_empty_stream_among_others_changes_nothing():
    inside, between = densities(1, 6)
    assert_same(
        kernel(inside, between, (0, 3, 3, 6), HAZARDS[3]), kernel(inside, between, (0, 3, 6), HAZARDS[3]), rtol=1e-13
    )


def wrong_first(inside, between, offsets, hazards):
    return enumerated(inside, between, offsets, hazards, elsewhere=0.0)


def wrong_prefill(inside, between, offsets, hazards):
    return enumerated(inside, between, offsets, hazards, prefill_is_a_burst=True)


def wrong_streams(inside, between, offsets, hazards):
    return enumerated(inside, between, (offsets[0], offsets[-1]), hazards)


def wrong_hazard(inside, between, offsets, hazards):
    return enumerated(inside, between, offsets, np.where(hazards > 0, hazards + 0.01, 0.0))


def swapped_laws(inside, between, offsets, hazards):
    return enumerated(between, inside, offsets, hazards)


@pytest.mark.parametrize("mutant", [wrong_first, wrong_prefill, wrong_streams, wrong_hazard, swapped_laws])
def test_enumeration_would_notice(mutant):
    inside, between = densities(7, 8)
    found = kernel(inside, between, (0, 3, 8), HAZARDS[3])
    with pytest.raises(AssertionError):
        assert_same(found, mutant(inside, between, (0, 3, 8), HAZARDS[3]), rtol=1e-6, atol=1e-9)


def test_with_one_token_a_step_every_gap_is_a_step():
    inside, between = densities(3, 9)
    found = kernel(inside, between, (0, 9), HAZARDS[1])
    assert found.loglik == pytest.approx(np.log(between).sum())
    np.testing.assert_allclose(found.new, 1.0)
    assert found.went[0] == 0.0 and found.stopped[0] == pytest.approx(8)  # the prefill's token is no burst


def test_the_first_token_may_stand_anywhere_in_a_burst():
    inside, between = np.array([1.0, 1e-9]), np.array([1e-9, 1.0])  # surely: the second of two, then a step
    found = kernel(inside, between, (0, 2), HAZARDS[2])
    assert found.loglik == pytest.approx(math.log(ELSEWHERE / 2 * 0.7), abs=1e-6)
    np.testing.assert_allclose(found.new, [0, 1], atol=1e-6)
    np.testing.assert_allclose([found.went[0], found.stopped[1]], [1, 1], atol=1e-6)


def test_steps_are_ends_of_bursts():
    inside, between = densities(4, 200)
    found = kernel(inside, between, (0, 80, 200), HAZARDS[3])
    # every start ends a burst, but for the two that end the prefill's
    assert found.new.sum() - found.stopped.sum() == pytest.approx(2 * (1 - ELSEWHERE * 2 / 3), abs=0.5)
    assert found.new.sum() + found.went.sum() == pytest.approx(200)


def test_a_long_stream_neither_overflows_nor_underflows():
    inside, between = (1e-200 * x for x in densities(5, 5000))
    found = kernel(inside, between, (0, 5000), HAZARDS[3])
    assert np.isfinite(found.loglik) and found.loglik < -2e6
    assert ((found.new >= 0) & (found.new <= 1 + 1e-9)).all()


def test_impossible_data_are_minus_infinity():
    assert kernel(np.ones(3), np.zeros(3), (0, 3), HAZARDS[2]).loglik == -np.inf
    assert kernel(np.array([1.0]), np.array([0.0]), (0, 1), HAZARDS[1]).loglik == -np.inf


def test_the_expectations_are_the_gradient():
    """d loglik / d log a_j + d / d log(1 - a_j): Fisher's identity, where the prefill's own end is not counted."""
    inside, between = densities(6, 60)
    hazards = HAZARDS[3]
    found = kernel(inside, between, (0, 60), hazards)
    for j in (0, 1):
        h = np.zeros(3)
        h[j] = 1e-6
        up = kernel(inside, between, (0, 60), hazards + h).loglik
        down = kernel(inside, between, (0, 60), hazards - h).loglik
        expected = found.went[j] / hazards[j] - found.stopped[j] / (1 - hazards[j])
        assert (up - down) / 2e-6 == pytest.approx(expected, rel=1e-5)
