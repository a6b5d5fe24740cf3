"""What the figures are made of: bounded, in the right units, and in step with the estimates."""

from dataclasses import replace

import numpy as np
import pytest

from specsonar.fit import fingerprint
from specsonar.sources.service import INDEPENDENT, Delay, Service
from specsonar.sources.simulate import simulate


def analysed(service, tokens=600, streams=1, **options):
    return fingerprint(simulate(service, tokens=tokens, streams=streams, seed=1, **options))


@pytest.fixture(scope="module")
def link():
    return analysed(Service(max_burst=4, acceptance=0.8, step_ms=20.0, step_cv=0.02), streams=3)


@pytest.fixture(scope="module")
def independent():
    return analysed(Service(max_burst=4, step_ms=20.0, order=INDEPENDENT, token_delay=Delay("gauss", 2.0)))


def test_arrivals_are_bounded_and_begin_at_zero(link):
    assert len(link.arrivals) == 3
    assert sum(len(a.t_ms) for a in link.arrivals) <= 1200
    assert all(len(a.places) == len(a.t_ms) and max(a.places) <= 2 * link.max_burst.value for a in link.arrivals)
    assert all(a.t_ms[0] == 0.0 and list(a.t_ms) == sorted(a.t_ms) for a in link.arrivals)


def test_on_a_link_steps_begin_with_an_event_about_a_step_apart(link):
    for a in link.arrivals:
        assert set(a.steps_ms) < set(a.t_ms)
        assert np.median(np.diff(a.steps_ms)) == pytest.approx(20.0, rel=0.05)


def test_with_independent_delays_the_comb_stands_for_the_steps(independent):
    (a,) = independent.arrivals
    assert np.allclose(np.diff(a.steps_ms), independent.step_ms.value, atol=2e-3)


def test_counts_show_a_step_in_every_event():
    seen = analysed(Service(max_burst=4, acceptance=0.8, step_ms=20.0, events="step"))
    (a,) = seen.arrivals
    assert seen.layer == "counted" and max(a.tokens) == 4
    assert a.steps_ms == a.t_ms[1:]
    assert [x.reason for x in seen.alternatives] == ["what the token counts show", "ruled out by the token counts"]


def test_the_profile_is_zero_at_the_reported_burst(link, independent):
    for seen in (link, independent):
        at = dict(zip(seen.burst_profile.max_burst, seen.burst_profile.nats, strict=True))
        assert at[int(seen.max_burst.value)] == 0.0 and max(at.values()) == 0.0


def test_folded_times_follow_the_fitted_delay(independent):
    p = independent.phases
    assert sum(p.counts) == independent.events - 1
    assert sum(p.fitted) == pytest.approx(sum(p.counts), rel=1e-6)
    assert (p.edges[0], p.edges[-1]) == pytest.approx((-10.0, 10.0), rel=0.01)
    misplaced = 0.5 * sum(abs(a - b) for a, b in zip(p.counts, p.fitted, strict=True)) / sum(p.counts)
    assert misplaced < 0.15


def test_rivals_are_ordered_by_what_they_are_behind(link):
    behind = [a.behind for a in link.alternatives]
    assert behind[0] == 0.0 and behind == sorted(behind) and len(behind) > 2
    assert "behind" in link.alternatives[1].reason


def misplaced(histogram):
    """Share of the gaps that the law has in other bars."""
    apart = sum(abs(a - b) for a, b in zip(histogram.counts, histogram.fitted, strict=True))
    return 0.5 * apart / sum(histogram.counts)


LINK = Service(max_burst=4, acceptance=0.8, step_ms=20.0, step_cv=0.05, step_delay=Delay("lognormal", 2.0, 1.0))
LAWS = {
    "in order": LINK,
    "counted": replace(LINK, events="step"),
    "plain": Service(max_burst=1, step_ms=20.0, step_cv=0.1),
    "independent": Service(max_burst=4, step_ms=20.0, order=INDEPENDENT, token_delay=Delay("gauss", 2.0)),
}


@pytest.mark.parametrize("name", LAWS)
def test_gaps_follow_the_fitted_law(name):
    seen = analysed(LAWS[name], streams=4).gaps
    others = analysed(replace(LAWS[name], step_ms=30.0), streams=4).gaps
    # 2,400 gaps in 24 bars: chance misplaces about 4%
    assert misplaced(seen) < 0.09
    law = np.interp(np.log(seen.edges[1:]), np.log(others.edges[1:]), np.cumsum(others.fitted)) / sum(others.counts)
    apart = 0.5 * np.abs(np.diff(law, prepend=0.0) - np.array(seen.counts) / sum(seen.counts)).sum()
    assert apart > 0.12


def test_a_buffer_has_no_law_of_gaps():
    seen = analysed(Service(max_burst=1, step_ms=10.0, step_cv=0.2, flush_ms=130.0), streams=3)
    assert seen.verdict == "buffered" and seen.gaps.counts and seen.gaps.fitted is None
