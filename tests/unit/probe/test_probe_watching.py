"""When a probe has seen enough, and what it says on the way."""

import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest

import specsonar
from specsonar.fingerprint import Estimate
from specsonar.probe import Settings, half_width
from specsonar.trace import Trace, stream

module = sys.modules["specsonar.probe"]  # the name itself is the function
KERNEL = SimpleNamespace(stamps="kernel")
CLOCK = SimpleNamespace(stamps="clock")


def estimate(value, low, high):
    return Estimate(value, low, high, 0.95, "")


class Session:
    """As far as it is looked at."""

    def __init__(self, answered=4, busy=False, tokens=600):
        self.answered, self.busy, self.tokens = answered, busy, tokens

    def spent(self):
        return self.tokens

    def trace(self):
        return Trace((stream(range(self.tokens), meta={"finish_reason": "stop"}), stream([1, 2])))


@pytest.fixture
def fits(monkeypatch, sample):
    """Makes every fit give `fits.answer`, at once; `fits.seen` has what was fitted."""
    seen = []
    made = SimpleNamespace(answer=sample, seen=seen)

    def fingerprint(trace, **options):
        seen.append(trace)
        if isinstance(made.answer, Exception):
            raise made.answer
        return made.answer

    monkeypatch.setattr("specsonar.fit.fingerprint", fingerprint)
    monkeypatch.setattr(module, "_LOOK_S", 0.0)
    monkeypatch.setattr(module, "_SHARE", 0.0)
    return made


def watching(settings, watch=None, capture=KERNEL):
    return module._Watching(settings, capture, 0.95, watch)


def test_half_width():
    assert half_width(estimate(2.0, 1.9, 2.1)) == pytest.approx(0.05)
    assert half_width(estimate(2.0, 1.9, None)) == float("inf")
    assert half_width(estimate(1.0, 1.0, 1.0)) == 0.0


@pytest.mark.parametrize(("until", "enough"), [(0.06, True), (0.04, False)])
def test_both_intervals_have_to_be_tight(fits, until, enough):
    # acceptance length 2.952 [2.81, 3.10] is within 5 percent, the step within 0.5
    assert watching(Settings(until=until)).enough(Session()) is enough
    fits.answer = replace(fits.answer, step_ms=estimate(20.0, 10.0, 30.0))
    assert not watching(Settings(until=until)).enough(Session())


def test_every_workload_has_to_be_heard(fits):
    assert not watching(Settings(until=0.5)).enough(Session(answered=3))
    assert watching(Settings(until=0.5, workloads=("code",))).enough(Session(answered=1))


def test_no_verdict_is_never_enough(fits, bare):
    fits.answer = replace(bare, tokens_per_s=estimate(9.0, 9.0, 9.0))
    assert not watching(Settings(until=0.5)).enough(Session())


def test_of_a_buffer_the_rate_is_enough(fits, bare):
    fits.answer = replace(bare, verdict="buffered", tokens_per_s=estimate(9.0, 8.9, 9.1))
    assert watching(Settings(until=0.5)).enough(Session())
    fits.answer = replace(bare, verdict="buffered")
    assert not watching(Settings(until=0.5)).enough(Session())


def test_nothing_is_fitted_for_nobody(fits):
    assert not watching(Settings()).enough(Session())
    assert fits.seen == []


def test_only_whole_answers_are_fitted_and_only_new_ones(fits):
    seen = []
    one = watching(Settings(), seen.append)
    one.enough(Session())
    one.enough(Session())
    assert [len(trace.streams) for trace in fits.seen] == [1]
    one.enough(Session(tokens=700))
    assert len(fits.seen) == 2


def test_arithmetic_waits_where_it_could_keep_the_clock_waiting(fits):
    one = watching(Settings(until=0.5), capture=CLOCK)
    assert not one.enough(Session(busy=True))
    assert fits.seen == []
    assert one.enough(Session(busy=False))


def test_too_little_to_fit_is_no_error(fits):
    fits.answer = specsonar.InputError("too little")
    seen = []
    assert not watching(Settings(until=0.5), seen.append).enough(Session())


def test_what_a_watcher_sees(fits):
    seen = []
    watching(Settings(streams=10, tokens=120), seen.append).enough(Session())
    assert seen[0].share == 0.5
    assert seen[0].estimate is fits.answer
    watching(Settings(until=0.024), seen.append).enough(Session())
    assert seen[1].share == pytest.approx((0.024 / half_width(fits.answer.acceptance_length)) ** 2)
    watching(Settings(budget=600, until=0.01), seen.append).enough(Session())
    assert seen[2].share == 1.0


@pytest.mark.parametrize("wrong", [{"streams": 0}, {"timeout": 0.0}, {"budget": 1}, {"seed": -1}, {"concurrency": 0},
                                   {"temperature": -0.1}, {"workloads": ("x",)}])  # fmt: skip
def test_settings_out_of_range(wrong):
    with pytest.raises(specsonar.UsageError):
        Settings(**wrong)


def test_settings_do_not_show_the_environment():
    assert "secret" not in repr(Settings(environment={"OPENAI_API_KEY": "secret"}))
