"""Each stream by the law of its group, against what the simulator did."""

import numpy as np
import pytest
from fleet_build import streams_of

from specsonar.fingerprint import Fingerprint
from specsonar.fit import fingerprint
from specsonar.fleet.batch import of_streams, pack, unpack
from specsonar.fleet.law import EVENTS, GAPS, PERIOD, figures, law_of
from specsonar.sources.simulate import simulate
from specsonar.sources.worlds import WORLDS
from specsonar.trace import Trace


def batch_of(streams, key=("a",)):
    return of_streams(streams, [key] * len(streams), [np.nan] * len(streams), [str(k) for k in range(len(streams))])


@pytest.mark.parametrize(
    ("world", "kind", "noise"),
    [
        ("H0", EVENTS, 0.01),
        ("J_counted", EVENTS, 0.01),
        # 60 fresh streams of D: acceptance length within 2% of its own truth, where chance alone moves it by 4%
        pytest.param("D", GAPS, 0.02, marks=pytest.mark.slow),
        pytest.param("G_mtp8", GAPS, 0.06, marks=pytest.mark.slow),
        pytest.param("A3", PERIOD, 0.01, marks=pytest.mark.slow),
    ],
)
def test_other_streams_are_measured_by_the_law_of_a_sample(world, kind, noise):
    service = WORLDS[world].service
    sample = simulate(service, tokens=300, streams=60, seed=1).without_truth()
    found = fingerprint(sample)
    law = law_of(found, sample.streams)
    assert law.kind == kind
    others = simulate(service, tokens=300, streams=60, seed=2)
    columns = figures(batch_of([s.without_truth() for s in others.streams]), {("a",): law})
    truth = np.array([(s.truth["tokens"] - 1) / s.truth["steps"] for s in others.streams])
    off = columns["acceptance_length"] / truth - 1
    assert abs(off.mean()) < 0.01
    assert off.std() < noise
    if kind != PERIOD:
        assert np.mean(columns["step_ms"]) == pytest.approx(service.step_ms, rel=0.01)
    again = figures(batch_of(sample.streams), {("a",): law})
    mean = np.average(again["acceptance_length"], weights=again["steps"])
    assert mean == pytest.approx(found.acceptance_length.value, rel=1e-9)


def test_a_group_without_steps_has_plain_figures_only(sample):
    (one,) = streams_of("H0", 1, seed=0)
    columns = figures(batch_of([one]), {("a",): None})
    assert columns["tokens"].tolist() == [300]
    assert columns["tokens_per_s"][0] == pytest.approx(299 / one.span_s)
    assert columns["first_token_ms"][0] == pytest.approx((one.t_ns[0] - one.start_ns) * 1e-6)
    assert columns["longest_gap_ms"][0] == pytest.approx(np.diff(one.t_ns).max() * 1e-6)
    assert np.isnan(columns["steps"][0])
    assert np.isnan(columns["acceptance_length"][0])
    assert isinstance(sample, Fingerprint)


def test_streams_of_one_event_and_of_unknown_counts(sample):
    from specsonar.trace import NOT_SAID, TOTAL_ONLY, stream

    streams = [
        stream([5]),
        stream(np.arange(10) * 10**7, count_source=NOT_SAID),
        stream(np.arange(10) * 10**7, count_source=TOTAL_ONLY, total_tokens=28),
    ]
    law = law_of(sample, streams_of("H0", 2, seed=1))
    columns = figures(batch_of(streams), {("a",): law})
    assert columns["tokens"].tolist() == [1, -1, 28]
    assert columns["tokens_per_s"][2] == pytest.approx(27 / 0.09)
    assert np.isnan(columns["tokens_per_s"][:2]).all()


def test_packing_keeps_what_the_analysis_needs():
    (one,) = streams_of("H0", 1, seed=0)
    back = unpack(pack(one))
    assert (back.t_ns == one.t_ns).all()
    assert (back.tokens == one.tokens).all()
    assert (back.start_ns, back.count_source, back.name) == (one.start_ns, one.count_source, one.name)
    assert fingerprint(Trace((back,))).to_dict() == fingerprint(Trace((one,))).to_dict()
