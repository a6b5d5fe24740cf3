"""Expectations: what is written, and what the intervals make of it."""

from dataclasses import replace

import pytest

from specsonar import fingerprint
from specsonar.errors import UsageError
from specsonar.expect import QUANTITIES, check, checked, parse
from specsonar.fingerprint import AUTOREGRESSIVE, FAILED, HELD, UNDETERMINED, Estimate
from specsonar.sources.service import Service
from specsonar.sources.simulate import simulate


def answer(found, text):
    return check(found, parse(text)).verdict


@pytest.mark.parametrize("name", [q for q in QUANTITIES if q != "verdict"])
def test_every_quantity_can_be_expected(sample, name):
    assert parse(f"{name}>=1").quantity == name
    assert answer(sample, f"{name}>=0") == HELD


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("acceptance", "no expectation"),
        ("acceptance >= ", "no expectation"),
        ("speed>=3", "no quantity is called 'speed'"),
        ("step_ms<=fast", "no number"),
        ("step_ms<=nan", "no number"),
        ("step_ms<=-1", "no number"),
        ("k=2.5", "whole number"),
        ("step_ms=25", "never equal"),
        ("verdict=fine", "no verdict"),
        ("verdict>=speculative", "no verdict"),
    ],
)
def test_what_is_no_expectation(text, said):
    with pytest.raises(UsageError, match=said) as refused:
        parse(text)
    assert refused.value.hint


def test_an_unknown_quantity_names_those_there_are():
    with pytest.raises(UsageError) as refused:
        parse("alpha>=0.7")
    assert all(q in refused.value.hint for q in QUANTITIES)


@pytest.mark.parametrize(
    ("text", "verdict"),
    [  # the sample: acceptance 0.80 [0.77, 0.83], step 20.0 [19.9, 20.1] ms
        ("acceptance>=0.7", HELD),
        ("acceptance > 0.7", HELD),
        ("acceptance>=0.9", FAILED),
        ("acceptance>=0.79", UNDETERMINED),
        ("acceptance<=0.9", HELD),
        ("step_ms<=25", HELD),
        ("step_ms<20", UNDETERMINED),
        ("step_ms<=15", FAILED),
        ("tokens_per_s>=100", HELD),
        ("verdict=speculative", HELD),
        ("verdict==autoregressive", FAILED),
    ],
)
def test_one_sided_against_the_interval(sample, text, verdict):
    assert answer(sample, text) == verdict


@pytest.mark.parametrize(
    ("text", "verdict"),
    [  # the sample has M = 4 for sure: k = 3 with a bonus token, k = 4 without
        ("k=3", HELD), ("k==4", HELD), ("k=2", FAILED), ("k=5", FAILED), ("k=8", FAILED),
        ("k>=4", HELD), ("k>4", FAILED), ("k<=3", HELD), ("k<3", FAILED), ("k>=1", HELD),
        ("max_burst=4", HELD), ("max_burst=3", FAILED), ("max_burst<=4", HELD), ("max_burst<4", FAILED),
    ],
)  # fmt: skip
def test_both_conventions_of_k(sample, text, verdict):
    assert answer(sample, text) == verdict


def test_a_burst_bounded_from_below_only_excludes_no_longer_draft(sample):
    rare = replace(sample, max_burst=Estimate(4.0, 4.0, None, 0.95, "full bursts are rare"))
    assert answer(rare, "k=8") == UNDETERMINED
    assert answer(rare, "k=3") == UNDETERMINED
    assert answer(rare, "k>=4") == HELD
    assert answer(rare, "k=2") == FAILED


def test_configured_and_effective(sample):
    said = check(sample, parse("k=8")).message
    assert "configured 8, effective 3 (with a bonus token; 4 without)" in said
    assert "95% sure: 109 bursts of 4 and none larger" in said
    assert "do not die at the first position" in said
    assert "position" not in check(sample, parse("k=3")).message, "what is as configured needs no diagnosis"


def test_drafts_that_die_at_the_first_position(sample):
    dying = tuple(Estimate(a, a - 0.05, a + 0.05, 0.95, "") for a in (0.1, 0.8, 0.8))
    said = check(replace(sample, acceptance_by_position=dying), parse("k=8")).message
    assert "drafts die at the first position" in said
    assert "10% of the steps" in said


def test_plain_decoding_has_no_effective_draft(sample):
    one = Estimate(1.0, 1.0, 1.0, 0.95, "")
    plain = replace(sample, verdict=AUTOREGRESSIVE, max_burst=one, acceptance_rate=None, steps=600)
    found = check(plain, parse("k=8"))
    assert found.verdict == FAILED
    assert "configured 8, effective 0" in found.message
    assert "0.50%" in found.message  # the rule of three: 3 in 600
    assert [answer(plain, t) for t in ("k=0", "k<=8", "k>=1", "max_burst=1", "max_burst>=2")] == [
        HELD, HELD, FAILED, HELD, FAILED,
    ]  # fmt: skip
    assert answer(plain, "acceptance>=0.7") == FAILED


def test_what_is_hidden_is_undetermined(bare):
    for text in ("k=8", "acceptance>=0.7", "step_ms<=25", "verdict=speculative"):
        found = check(bare, parse(text))
        assert found.verdict == UNDETERMINED
        assert found.message


def test_an_open_question_says_how_many_tokens_it_needs(sample):
    said = check(sample, parse("acceptance>=0.79")).message
    needed = int(said.split("about ")[1].split(" tokens")[0].replace(",", ""))
    assert needed > sample.tokens
    assert "no recording settles" in check(sample, parse("acceptance>=0.8")).message


def test_checks_travel_with_the_fingerprint(sample):
    found = checked(sample, [parse("k=8"), parse("step_ms<=25")])
    assert [(c["name"], c["verdict"]) for c in found.to_dict()["checks"]] == [("k=8", FAILED), ("step_ms<=25", HELD)]


def test_a_draft_of_eight_of_which_four_are_used():
    """Configured 8, and a server that checks 4: seen from counted events."""
    service = Service(max_burst=5, acceptance=0.75, step_ms=20.0, events="step")
    found = fingerprint(simulate(service, tokens=400, streams=6, seed=3).without_truth())
    said = check(found, parse("k=8"))
    assert said.verdict == FAILED
    assert "configured 8, effective 4" in said.message
    assert answer(found, "k=4") == HELD
