"""Comparison of fingerprints: the arithmetic on made-up totals, and simulated services end to end."""

from dataclasses import replace
from math import log

import numpy as np
import pytest

from specsonar import fingerprint
from specsonar.compare import compare
from specsonar.errors import InputError
from specsonar.findings import finding
from specsonar.fingerprint import EQUIVALENT, SPECULATIVE, UNDETERMINED, StreamTotals
from specsonar.sources.simulate import simulate
from specsonar.sources.worlds import WORLDS


@pytest.fixture(scope="module")
def counted():
    """A fingerprint of 20 counted streams, quick to make."""
    return fingerprint(simulate(WORLDS["H0"].service, tokens=300, streams=20, seed=1).without_truth())


def with_totals(one, length, step_ms, *, seed=0, streams=20, spread=0.05):
    """`one` with made-up streams around a length and a step."""
    rng = np.random.default_rng(seed)
    each = tuple(
        StreamTotals(100 * length * (1 + spread * z), 100.0, step_ms * (1 + 0.2 * spread * y), 1.0, 300.0 + 10 * x)
        for z, y, x in rng.standard_normal((streams, 3))
    )
    tokens = sum(s.tokens for s in each) / sum(s.steps for s in each)
    step = sum(s.step_ms for s in each) / streams
    return replace(
        one, by_stream=each, acceptance_length=replace(one.acceptance_length, value=tokens, low=0.99 * tokens,
        high=1.01 * tokens), step_ms=replace(one.step_ms, value=step, low=0.999 * step, high=1.001 * step),
    )  # fmt: skip


def test_every_stream_is_in_the_totals(counted):
    assert len(counted.by_stream) == 20
    tokens, steps = (sum(getattr(s, k) for s in counted.by_stream) for k in ("tokens", "steps"))
    assert tokens / steps == pytest.approx(counted.acceptance_length.value, rel=0.01)
    assert np.mean([s.step_ms for s in counted.by_stream]) == pytest.approx(counted.step_ms.value, rel=0.05)


def test_shares_add_up(counted):
    found = compare(counted, with_totals(counted, 2.5, 25.0))
    shares = log(found.acceptance_length.ratio) - log(found.step_ms.ratio)
    assert log(found.tokens_per_s.ratio) == pytest.approx(shares, abs=1e-12)


@pytest.mark.parametrize(
    ("length", "step", "verdict"),
    [(2.66, 26.23, "acceptance"), (3.19, 33.0, "step"), (2.66, 33.0, "both"), (3.19, 26.23, EQUIVALENT)],
)
def test_what_changed(counted, length, step, verdict):
    """First row: a public report of 120.5 to 101.4 tokens/s, 3.19 to 2.66 tokens a step, 26.47 to 26.23 ms."""
    found = compare(
        with_totals(counted, 3.19, 26.47, spread=0.02), with_totals(counted, length, step, seed=1, spread=0.02)
    )
    assert found.verdict == verdict


def test_the_need_grows_with_the_square_of_the_noise(counted):
    def needed(spread):
        side = with_totals(counted, 3.0, 20.0, seed=1, streams=8, spread=spread)
        found = compare(side, side)
        assert found.verdict == UNDETERMINED
        return found.needed_streams

    assert needed(0.4) / needed(0.2) == pytest.approx(4, rel=0.2)


def test_not_significant_is_not_equivalent(counted):
    found = compare(*(with_totals(counted, 3.0, 20.0, seed=s, streams=8, spread=0.3) for s in (3, 4)))
    assert found.acceptance_length.low < 1 < found.acceptance_length.high
    assert found.acceptance_length.verdict == UNDETERMINED


def test_conditions_are_those_of_the_streams():
    trace = simulate(WORLDS["H0"].service, tokens=200, streams=2, seed=1)
    metas = ({"model": "m", "temperature": 0.0, "finish_reason": "stop"}, {"model": "m", "temperature": 0.7})
    streams = tuple(replace(s, meta=meta) for s, meta in zip(trace.streams, metas, strict=True))
    found = fingerprint(replace(trace, streams=streams))
    assert found.conditions == {"model": "m", "temperature": [0.0, 0.7]}


def test_unlike_recordings_are_refused(counted):
    cold = replace(counted, conditions={"model": "m", "temperature": 0.0})
    hot = replace(counted, conditions={"model": "m", "temperature": 0.7})
    with pytest.raises(InputError, match="temperature"):
        compare(cold, hot)
    assert [f.code for f in compare(cold, hot, allow_mismatch=True).findings] == ["C001", "C006"]
    assert [f.code for f in compare(cold, replace(counted, conditions={"engine": "other"})).findings] == ["C006"]


def test_stamps_are_unlike_where_no_stream_has_the_other_sides(counted):
    kernel, clock, both = (replace(counted, conditions={"stamps": s}) for s in ("kernel", "clock", ["clock", "kernel"]))
    with pytest.raises(InputError, match="stamps"):
        compare(kernel, clock)
    assert [f.code for f in compare(kernel, both).findings] == ["C006"]


def test_one_stream_a_side_uses_its_own_interval(counted):
    one = fingerprint(simulate(WORLDS["H0"].service, tokens=600, seed=3).without_truth())
    found = compare(one, one)
    assert {f.code for f in found.findings} == {"C003", "C006"}
    assert found.acceptance_length.method == "interval of each recording"
    assert found.step_ms.ratio == 1.0


def test_the_larger_side_does_not_pay_for_the_smaller_one(counted):
    """One stream against twenty: what is needed on both sides follows from how much streams differ, not from twenty."""
    one = fingerprint(simulate(WORLDS["H0"].service, tokens=300, seed=3).without_truth())
    needed = [compare(*pair).acceptance_length.needed_streams for pair in ((one, one), (counted, one))]
    assert needed[1] < 150 and needed[0] < 150


def test_other_drafts_are_said(counted):
    longer, plain = (
        fingerprint(simulate(replace(WORLDS["H0"].service, **knobs), tokens=300, streams=8, seed=4).without_truth())
        for knobs in ({"max_burst": 9, "k": 8, "acceptance": 0.75}, {"max_burst": 1, "k": 0})
    )
    found = compare(longer, counted)
    assert "The largest step gives 9 -> 4 tokens (drafts of 8 -> 3" in found.sentence
    assert {f.code for f in found.findings} == {"C005"}
    assert compare(counted, plain).sentence.endswith("Speculation is off in the candidate.")
    assert compare(plain, counted).sentence.endswith("Speculation is on in the candidate only.")
    assert compare(counted, replace(counted, by_stream=None)).findings == ()


def test_what_spoils_a_side_is_told(counted):
    late, ticks = finding("Q008", "reads came up to 40 ms late"), finding("Q004", "the clock ticks every 1 ms")
    found = compare(counted, replace(with_totals(counted, 3.0, 20.0), findings=(late, ticks)))
    assert [(f.code, f.message) for f in found.findings] == [("Q008", "candidate: reads came up to 40 ms late")]


def test_the_same_recording_twice_is_told(counted):
    found = compare(counted, counted)
    assert [f.code for f in found.findings] == ["C006"] and found.verdict == EQUIVALENT


def test_a_buffer_leaves_only_the_rate():
    hidden = fingerprint(simulate(WORLDS["J_flush100"].service, tokens=600, seed=1).without_truth())
    seen = fingerprint(simulate(WORLDS["H0"].service, tokens=600, seed=1).without_truth())
    found = compare(seen, hidden)
    assert found.acceptance_length is None
    assert found.tokens_per_s is not None
    assert found.verdict == UNDETERMINED
    assert "C002" in {f.code for f in found.findings}


def test_the_contract(counted):
    made = compare(counted, counted).to_dict()
    assert made["schema"] == "specsonar.comparison/1"
    assert set(made["step_ms"]) == {"ratio", "low", "high", "level", "method", "verdict", "base", "candidate"}
    assert made["base"]["verdict"] == SPECULATIVE
    assert made["needed"] is None
    assert made["margin"] == 0.03


def asked(one, factor, *, seed, names, content=0.3, chance=0.02):
    """`one` with a stream for each prompt of `names`: what a prompt does to the length and the step is the same on
    every side, what chance does is not."""
    rng = np.random.default_rng(seed)
    each = []
    for name in names:
        ease, slow = content * np.random.default_rng(int(name)).standard_normal(2)
        luck, pace = chance * rng.standard_normal(2)
        each.append(
            StreamTotals(
                300 * factor * np.exp(ease + luck), 100.0, 20.0 * np.exp(0.2 * slow + 0.2 * pace), 1.0,
                300.0 * np.exp(slow + pace), name,
            )
        )  # fmt: skip
    length = sum(s.tokens for s in each) / sum(s.steps for s in each)
    return replace(
        one, by_stream=tuple(each), streams=len(each),
        acceptance_length=replace(one.acceptance_length, value=length, low=0.99 * length, high=1.01 * length),
    )  # fmt: skip


NAMES = [str(n) for n in range(20)]


def test_answers_to_one_prompt_are_compared_with_each_other(counted):
    """Prompts differ by 30%, which hides a change of 5% unless it is seen prompt by prompt."""
    base, worse = asked(counted, 1.0, seed=1, names=NAMES), asked(counted, 0.95, seed=2, names=NAMES)
    found = compare(base, worse)
    assert found.acceptance_length.verdict == "changed"
    assert found.acceptance_length.ratio == pytest.approx(0.95, abs=0.02)
    assert "20 prompts" in found.acceptance_length.method and "20 prompts" in found.first_token_ms.method
    assert found.findings == ()

    def unnamed(side):
        return replace(side, by_stream=tuple(replace(s, question=None) for s in side.by_stream))

    apart = compare(unnamed(base), unnamed(worse))
    assert apart.acceptance_length.verdict == UNDETERMINED
    assert apart.needed_streams > 200


def test_only_what_both_were_asked_is_compared(counted):
    """The eight prompts that only one side was asked are hard ones: left in, they would look like a change."""
    ease = {n: np.random.default_rng(int(n)).standard_normal(2)[0] for n in NAMES}
    easy, hard = sorted(NAMES, key=lambda n: -ease[n])[:12], sorted(NAMES, key=lambda n: ease[n])[:8]
    base = asked(counted, 1.0, seed=3, names=[*easy, *hard], chance=0.01)
    part = asked(counted, 1.0, seed=4, names=easy, chance=0.01)
    assert part.acceptance_length.value > 1.15 * base.acceptance_length.value
    found = compare(base, part)
    assert found.acceptance_length.verdict == EQUIVALENT
    assert [(f.code, f.severity) for f in found.findings] == [("C004", "info")]
    assert found.acceptance_length.low < 1 < found.acceptance_length.high


def test_hardly_any_prompt_in_common_is_said(counted):
    found = compare(asked(counted, 1.0, seed=5, names=NAMES[:10]), asked(counted, 1.0, seed=6, names=NAMES[8:]))
    assert [(f.code, f.severity) for f in found.findings] == [("C004", "warning")]
    assert "only 2 prompts" in found.findings[0].message
    assert "streams" in found.acceptance_length.method


def test_pairs_cover_and_raise_no_false_alarms(counted):
    """400 pairs: at most 2% are called changed, in expectation 1%; the interval holds the truth in about 95%."""
    called = missed = 0
    for n in range(400):
        found = compare(*(asked(counted, 1.0, seed=100 + 2 * n + k, names=NAMES[:12]) for k in (0, 1)))
        called += found.acceptance_length.verdict == "changed"
        missed += not found.acceptance_length.low <= 1 <= found.acceptance_length.high
    assert called <= 12
    assert 5 <= missed <= 36
