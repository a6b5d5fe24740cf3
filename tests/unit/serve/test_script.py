"""What one choice of an answer will be: the simulator's own stream, with words."""

import pytest

from specsonar.sources.decoder import Dice
from specsonar.sources.serve.script import Script
from specsonar.sources.serve.words import PIECES
from specsonar.sources.service import Service
from specsonar.sources.simulate import simulate

WORLDS = {
    "token": Service(step_cv=0.1, in_burst_us=50.0),
    "step": Service(step_cv=0.1, events="step"),
    "interval": Service(stream_interval=5, interval_mode="exact"),
    "flush": Service(flush_ms=70.0),
    "paced": Service(paced_ms=9.0),
    "ngram": Service(max_burst=6, draft_probability=0.4, clip_draft=True),
    "no bonus": Service(k=4, bonus=False),
}


def script(service, *, tokens=200, stop=(), seed=3):
    return Script(service, Dice(seed, 0), index=0, tokens=tokens, stop=stop, reason="length")


@pytest.mark.parametrize("name", WORLDS)
def test_events_are_those_of_the_simulator(name):
    service = WORLDS[name]
    pieces = list(script(service).pieces())
    (there,) = simulate(service, tokens=200, seed=3).streams
    assert len(pieces) == len(there)
    if not service.flush_ms:  # a buffer's timer does not know when the request comes
        assert [p.due_ns for p in pieces] == (there.t_ns - there.start_ns).tolist()
    if service.events == "step":
        assert [len(p.ids) for p in pieces] == there.tokens.tolist()


@pytest.mark.parametrize("name", WORLDS)
def test_pieces_tell_the_whole_text_and_every_token_once(name):
    made = script(WORLDS[name])
    pieces = list(made.pieces())
    assert "".join(p.text for p in pieces) == made.text
    assert [i for p in pieces for i in p.ids] == made.ids
    assert pieces[-1].sofar == made.tokens == 200
    assert [p.last for p in pieces] == [False] * (len(pieces) - 1) + [True]


@pytest.mark.parametrize("place", [0, 1, 3, 150, 700])
@pytest.mark.parametrize("events", ["token", "step"])
def test_a_stop_text_cuts_the_text_and_the_tokens_behind_it(place, events):
    service = Service(events=events)
    whole = script(service)
    stop = whole.text[place : place + 7]
    cut = script(service, stop=("nowhere", stop))
    assert cut.text == whole.text[: whole.text.index(stop)]
    assert cut.finish == "stop" and cut.stopped_by == stop
    shown = "".join(PIECES[i] for i in cut.ids)
    assert stop in shown and stop not in "".join(PIECES[i] for i in cut.ids[:-1])
    assert "".join(p.text for p in cut.pieces()) == cut.text


def test_no_stop_text_leaves_it_whole():
    assert script(Service(), stop=("nowhere",)).stopped_by is None


@pytest.mark.parametrize("name", WORLDS)
def test_steps_add_up(name):
    service = WORLDS[name]
    made = script(service)
    steps = made.steps()
    assert len(steps.drafted) + steps.plain == made.run.sizes.size
    assert 1 + len(steps.drafted) + steps.plain + sum(steps.accepted) == made.tokens
    assert all(0 <= a <= d <= service.k for a, d in zip(steps.accepted, steps.drafted, strict=True))


def test_steps_so_far_count_each_step_once_its_first_token_is_out():
    made = script(Service())
    counts = [len(made.steps(n).drafted) for n in range(1, made.tokens + 1)]
    assert counts[0] == 0 and counts[1] == 1
    assert counts == [made.step_of(n) for n in range(made.tokens)]


def test_a_lie_calls_some_rejected_tokens_accepted():
    steps = script(Service()).steps()
    lie = steps.lie()
    assert sum(steps.accepted) < sum(lie.accepted) < sum(steps.drafted)
    assert lie.drafted == steps.drafted
    assert all(a <= b <= d for a, b, d in zip(steps.accepted, lie.accepted, steps.drafted, strict=True))


def test_words_are_the_same_for_a_seed_and_differ_between_streams():
    texts = [script(Service(), seed=seed).text for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]
    assert len(set(PIECES)) == len(PIECES)
