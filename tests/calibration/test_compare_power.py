"""Comparisons: false alarms, changes found, blame. A fixed-seed part of benchmarks/compare.py, of counted services, and
of a few where times are all that is seen, which take seconds each.

At most 5% of the pairs of one service may be called changed, at most 2% of the changes blamed on the wrong half, and at
least 90% of changes of a tenth found. Bounds leave room for chance at one in a thousand, and would catch a comparison
whose standard errors are half as large as they should be, or one that tells tokens instead of streams.
"""

from dataclasses import replace

import pytest
from scipy.optimize import brentq
from scipy.stats import binom

from specsonar import fingerprint
from specsonar.compare import compare
from specsonar.fingerprint import CHANGED, EQUIVALENT
from specsonar.sources.simulate import simulate
from specsonar.sources.worlds import WORLDS

PAIRS, STREAMS, TOKENS = 120, 20, 300
LEVEL = 1e-3
SERVICE = WORLDS["H0"].service
LESS = float(brentq(lambda a: (1 - a**4) / (1 - a) - 0.9 * (1 - 0.8**4) / 0.2, 0.1, 0.9))


def heard(service, seed):
    return fingerprint(simulate(service, tokens=TOKENS, streams=STREAMS, seed=seed).without_truth())


def compared(service, pairs):
    """By candidate: comparisons with a base, each of recordings of its own."""
    candidates = {
        "same": service, "length": replace(service, acceptance=LESS), "step": replace(service, step_ms=22.0),
    }  # fmt: skip
    made = {name: [] for name in candidates}
    for pair in range(pairs):
        base = heard(service, 7_000_000 + 4 * pair)
        for number, (name, one) in enumerate(candidates.items(), 1):
            made[name].append(compare(base, heard(one, 7_000_000 + 4 * pair + number)))
    return made


@pytest.fixture(scope="module")
def found():
    return compared(SERVICE, PAIRS)


def share(comparisons, *quantities):
    return sum(any(getattr(c, q).verdict == CHANGED for q in quantities) for c in comparisons)


def most(rate, broken):
    """Pairs that may go wrong at `rate`; a comparison that goes wrong at `broken` does not pass."""
    allowed = int(binom.ppf(1 - LEVEL, PAIRS, rate))
    assert binom.sf(allowed, PAIRS, broken) > 0.9
    return allowed


def test_alike_is_hardly_ever_called_changed(found):
    assert share(found["same"], "acceptance_length", "step_ms") <= most(0.05, 0.2)


@pytest.mark.parametrize(("changed", "quantity"), [("length", "acceptance_length"), ("step", "step_ms")])
def test_a_tenth_is_found(found, changed, quantity):
    assert PAIRS - share(found[changed], quantity) <= most(0.10, 0.25)


@pytest.mark.parametrize(("changed", "other"), [("length", "step_ms"), ("step", "acceptance_length")])
def test_the_other_half_is_not_blamed(found, changed, other):
    assert share(found[changed], other) <= most(0.02, 0.12)


def test_intervals_of_the_change_cover(found):
    missed = sum(not c.acceptance_length.low <= 0.9 <= c.acceptance_length.high for c in found["length"])
    missed += sum(not c.step_ms.low <= 1.1 <= c.step_ms.high for c in found["step"])
    assert missed <= int(binom.ppf(1 - LEVEL, 2 * PAIRS, 0.05))
    assert missed > 0


def test_where_only_times_are_seen():
    """Of five pairs none may be called changed more than once, and no change of a tenth missed more than once."""
    seen = compared(WORLDS["D"].service, 5)
    assert share(seen["same"], "acceptance_length", "step_ms") <= 1
    assert share(seen["length"], "acceptance_length") >= 4 and share(seen["step"], "step_ms") >= 4
    assert share(seen["length"], "step_ms") + share(seen["step"], "acceptance_length") <= 1
    assert all(c.step_ms.verdict == EQUIVALENT for c in seen["length"])
