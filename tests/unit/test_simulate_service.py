"""What a service may be, and what is said when it may not."""

import json
from dataclasses import fields

import numpy as np
import pytest

from specsonar.errors import UsageError
from specsonar.sources.service import Delay, Service, with_knobs


@pytest.mark.parametrize(
    ("knobs", "burst", "draft"),
    [
        ({}, 4, 3),
        ({"k": 8}, 9, 8),
        ({"k": 8, "bonus": False}, 8, 8),
        ({"max_burst": 8}, 8, 7),
        ({"max_burst": 8, "bonus": False}, 8, 8),
        ({"max_burst": 1}, 1, 0),
        ({"k": 0}, 1, 0),
        ({"k": 0, "bonus": False}, 1, 0),
        ({"max_burst": 1, "bonus": False}, 1, 0),
        ({"max_burst": 5, "k": 4}, 5, 4),
    ],
)
def test_either_of_burst_and_draft_gives_the_other(knobs, burst, draft):
    service = Service(**knobs)
    assert (service.max_burst, service.k, service.burst) == (burst, draft, burst)


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"max_burst": 4, "k": 4}, "max_burst = 4, but k = 4 with bonus gives 5"),
        ({"max_burst": 0}, "max_burst = 0 is out of range"),
        ({"max_burst": 2.5}, "max_burst"),
        ({"acceptance": 1.2}, "acceptance = 1.2"),
        ({"acceptance": (0.5, 0.6)}, "acceptance has 2 values for max_burst = 4"),
        ({"acceptance": "0.8"}, "acceptance = '0.8'"),
        ({"acceptance_after": (0.5,)}, "acceptance_after has 1 values"),
        ({"step_ms": 0}, "step_ms = 0"),
        ({"step_ms": float("nan")}, "step_ms = nan"),
        ({"step_ms": "20"}, "step_ms = '20'"),
        ({"step_ms": None}, "step_ms = None"),
        ({"step_ms": True}, "step_ms = True"),
        ({"step_ms": (20, 30)}, "step_ms"),
        ({"bonus": 1}, "bonus = 1"),
        ({"order": "sideways"}, "order = 'sideways' is not known"),
        ({"events": "word"}, "events"),
        ({"counts": "some"}, "counts"),
        ({"interval_mode": "often"}, "interval_mode"),
        ({"stall_ms": (300, 100)}, "stall_ms"),
        ({"stall_ms": (100,)}, "stall_ms"),
        ({"stall_ms": 100}, "stall_ms"),
        ({"stall_probability": 0.1, "order": "independent"}, "stalls with order = 'independent'"),
        ({"correlation": 0.5, "acceptance": 1.0}, "correlation = 0.5 with acceptance = 1.0"),
        ({"correlation": 0.9}, "correlation = 0.9"),
        ({"step_delay": "gauss"}, "has 0 numbers"),
        ({"step_delay": 3}, "step_delay = 3"),
        ({"token_delay": "normal:3"}, "delay law = 'normal' is not known"),
    ],
)
def test_refusals_name_the_knob_and_what_is_allowed(knobs, message):
    with pytest.raises(UsageError) as caught:
        Service(**knobs)
    assert message in caught.value.message
    assert caught.value.hint


def test_a_refusal_tells_the_range():
    with pytest.raises(UsageError) as caught:
        Service(stream_interval=0)
    assert caught.value.hint == "allowed are whole numbers from 1 to 4096 tokens"


@pytest.mark.parametrize(
    ("text", "delay"),
    [
        ("none", Delay()),
        ("gauss:6", Delay("gauss", 6)),
        (" lognormal:2,1 ", Delay("lognormal", 2, 1)),
        ("lognormal:2", Delay("lognormal", 2, 1)),
        ("pareto:1,1.5", Delay("pareto", 1, 1.5)),
        ("exponential:0.5", Delay("exponential", 0.5)),
        ("uniform:3", Delay("uniform", 3)),
    ],
)
def test_delays_are_read_from_text_and_written_back(text, delay):
    assert Delay.parse(text) == delay
    assert Delay.parse(str(delay)) == delay


def test_text_of_a_delay_keeps_every_digit():
    delay = Delay("lognormal", 1 / 3, 0.1 + 0.2)
    assert Delay.parse(str(delay)) == delay
    assert str(Delay("gauss", 6.0)) == "gauss:6"


@pytest.mark.parametrize(
    "text", ["", "gauss", "gauss:x", "gauss:1,2", "none:1", "gauss:-1", "gauss:nan", "lognormal:1,0"]
)
def test_a_delay_that_cannot_be_read_is_a_usage_error(text):
    with pytest.raises(UsageError):
        Delay.parse(text)


def test_knobs_replace_and_the_newest_of_burst_and_draft_counts():
    base = Service(max_burst=4)
    assert with_knobs(base, {"k": 8}).burst == 9
    assert with_knobs(Service(k=8), {"max_burst": 3}).k == 2
    assert with_knobs(base, {"bonus": False}).k == 4
    assert with_knobs(base, {"step_ms": 5}) == Service(max_burst=4, step_ms=5)


def test_an_unknown_knob_is_answered_with_the_nearest_one():
    with pytest.raises(UsageError) as caught:
        with_knobs(Service(), {"acceptence": 0.5})
    assert caught.value.hint == "did you mean acceptance?"
    with pytest.raises(UsageError) as caught:
        with_knobs(Service(), {"zzz": 0.5})
    assert "max_burst" in caught.value.hint


def test_a_service_survives_plain_json():
    service = Service(k=2, acceptance=np.array([0.5, 0.25]), step_delay="lognormal:2,1", step_ms=np.float64(7))
    assert service.acceptance == (0.5, 0.25)
    assert Service(**json.loads(json.dumps(service.to_dict()))) == service


def test_every_knob_has_a_help_text_and_every_number_a_range():
    for f in fields(Service):
        assert f.metadata["help"]
        if f.type.startswith(("int", "float")):
            assert f.metadata["low"] is not None
            assert f.metadata["high"] is not None
