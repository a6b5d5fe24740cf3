"""Text held back until a character is complete: steps found in counts and gaps, with the true bursts in hand."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from specsonar.fingerprint import AUTOREGRESSIVE, IN_ORDER_LAYER, SPECULATIVE
from specsonar.fit import fingerprint
from specsonar.models import counted, heldback
from specsonar.sources.service import Delay, Service
from specsonar.sources.simulate import simulate
from specsonar.stats.result import Arrays
from specsonar.trace import COUNTED, ONE_EACH, Trace, stream

CHARACTERS = ((1, 0.2), (2, 0.4), (3, 0.4))


def held(rng, *, burst=5, alpha=0.7, tokens=300, step=0.1, cv=0.05, delay=0.0, drift=1.0, characters=CHARACTERS):
    """Arrays of a stream that waits for whole characters, and how many steps it took."""
    sizes = np.ones(tokens, int)
    if burst > 1:
        sizes = np.minimum(1 + np.floor(np.log(rng.random(tokens)) / np.log(alpha)), burst).astype(int)
    sizes = sizes[: np.searchsorted(sizes.cumsum(), tokens - 1) + 1]
    pace = drift ** np.sin(np.arange(sizes.size) / 25 + 6 * rng.random())
    end = np.cumsum(step * pace * np.maximum(1 + cv * rng.standard_normal(sizes.size), 0.05))
    late = delay * np.exp(rng.standard_normal(sizes.size))
    token = np.concatenate(([0.0], np.repeat(end + late, sizes)))[:tokens]
    size, share = zip(*characters, strict=True)
    ends = np.cumsum(np.append(1, rng.choice(size, tokens, p=share)))
    ends = np.append(ends[ends < tokens], tokens)
    times = np.maximum.accumulate(token[ends - 1]) + 2e-5 * np.arange(ends.size)
    return Arrays(times, np.diff(ends, prepend=0)), sizes.size


WORLDS = [
    {"burst": 3}, {}, {"alpha": 0.9}, {"delay": 0.002}, {"drift": 1.6}, {"characters": ((3, 1.0),)},
    {"burst": 9, "alpha": 0.75},
]  # fmt: skip


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("knobs", WORLDS, ids=str)
def test_bursts_behind_characters(knobs, seed):
    rng = np.random.default_rng(seed)
    streams, steps = zip(*(held(rng, **knobs) for _ in range(2)), strict=True)
    fit = counted.fit(streams, by_token=True)
    assert counted.kind(streams, fit).name == counted.HELD_BACK
    assert fit.max_burst == knobs.get("burst", 5)
    truth = sum(a.tokens.sum() - 1 for a in streams) / sum(steps)
    assert fit.extra["length"] == pytest.approx(truth, rel=0.025)
    assert abs(fit.extra["length"] - truth) < 2 * fit.extra["length_se_iid"]
    assert fit.extra["steps"] == pytest.approx(sum(steps), rel=0.025)
    for bursts, a in zip(fit.bursts, streams, strict=True):  # the last one is cut by the end and left out
        assert 1 <= a.tokens.sum() - 1 - bursts.sum() <= fit.max_burst


PLAIN = [{}, {"cv": 0.2}, {"step": 0.02, "delay": 0.002}, {"step": 0.02, "delay": 0.005}]


@pytest.mark.parametrize(
    ("knobs", "by_token"), [*product(PLAIN, (True, None)), ({"drift": 2.0}, True)], ids=str
)  # whose pace drifts is known only where the engine is
def test_plain_decoding_of_long_characters_is_no_speculation(knobs, by_token):
    rng = np.random.default_rng(3)
    streams = [held(rng, burst=1, **knobs)[0] for _ in range(2)]
    fit = counted.fit(streams, by_token=by_token)
    assert fit.extra["held_back"] == 1.0
    assert fit.max_burst == 1
    assert fit.step_s == pytest.approx(knobs.get("step", 0.1), rel=0.25 if "drift" in knobs else 0.03)


@pytest.mark.parametrize(
    "knobs", [{}, {"max_burst": 9, "k": 8}, {"step_cv": 0.3}, {"step_delay": Delay("lognormal", 3.0)}]
)
def test_whole_steps_are_steps_whatever_engine_the_server_passes_for(knobs):
    """Such a stream has no event right behind another, and a step takes as long whatever it gives."""
    service = replace(Service(max_burst=4, acceptance=0.8, step_ms=20.0, step_cv=0.05, events="step"), **knobs)
    trace = simulate(service, tokens=300, streams=4, seed=1).without_truth()
    as_token = tuple(replace(s, meta={**s.meta, "event_is": "token"}) for s in trace.streams)
    found = fingerprint(replace(trace, streams=as_token))
    assert found.max_burst.value == service.max_burst
    assert "V009" not in {f.code for f in found.findings}
    assert found.acceptance_length == fingerprint(trace).acceptance_length


def test_engines_that_send_steps_hold_nothing_back():
    rng = np.random.default_rng(4)
    streams = [held(rng, burst=1)[0]]
    assert counted.fit(streams, by_token=False).extra["held_back"] == 0.0
    steps = np.arange(200) * 0.1 + 0.002 * rng.standard_normal(200)
    apart = [Arrays(steps, np.append(1, rng.choice((1, 2, 3), 199)))]
    assert counted.fit(apart).extra["held_back"] == 0.0
    assert not heldback.held_back(apart)


def trace(*arrays, engine="token"):
    streams = []
    for a in arrays:
        one = (a.tokens == 1).all()
        streams.append(
            replace(
                stream((a.t * 1e9).astype(np.int64), tokens=a.tokens, total_tokens=int(a.tokens.sum())),
                count_source=ONE_EACH if one else COUNTED, meta={"event_is": engine},
            )
        )  # fmt: skip
    return Trace(tuple(streams))


def test_an_answer_of_short_characters_beside_one_of_long_ones():
    """Every event of the first holds one token, and it is counted all the same."""
    rng = np.random.default_rng(5)
    short, first = held(rng, characters=((1, 1.0),))
    long, second = held(rng)
    found = fingerprint(trace(short, long))
    assert found.verdict == SPECULATIVE
    assert found.tokens == 600
    assert found.steps == pytest.approx(first + second, rel=0.02)
    assert found.acceptance_length.value == pytest.approx(598 / (first + second), rel=0.02)
    assert "V009" in {f.code for f in found.findings}


def test_steps_of_plain_decoding_are_tokens():
    found = fingerprint(trace(*(held(np.random.default_rng(k), burst=1)[0] for k in range(2))))
    assert found.verdict == AUTOREGRESSIVE
    assert found.steps == 598
    assert [s.steps for s in found.by_stream] == [299, 299]
    assert found.step_ms.value == pytest.approx(100, rel=0.02)


def test_a_single_long_character_is_read_from_the_times():
    """Late packets of plain decoding come in piles, and the layer of the times knows them."""
    rng = np.random.default_rng(6)
    plain, _ = held(rng, burst=1, step=0.02, delay=0.003, tokens=600, characters=((1, 1.0),))
    keep = np.arange(plain.t.size) != 300
    tokens = plain.tokens + (np.arange(plain.t.size) == 301)
    found = fingerprint(trace(Arrays(plain.t[keep], tokens[keep])))
    assert found.layer == IN_ORDER_LAYER
    assert found.verdict == AUTOREGRESSIVE
