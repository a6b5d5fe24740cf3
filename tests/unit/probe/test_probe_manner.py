"""Requests, and what is left out of them when a server complains."""

import json

import pytest

from specsonar.sources.dialing.manner import Manner
from specsonar.sources.dialing.routes import ROUTES, Question, by_path

QUESTION = Question("hello", 99, "m", 0.0, 7)


@pytest.mark.parametrize("name", ROUTES)
def test_every_request_holds_prompt_limit_and_model(name):
    route = ROUTES[name]
    text = json.dumps(route.request(QUESTION, route.asks))
    assert "hello" in text
    assert "99" in text
    assert ('"m"' in text) is (name not in ("llama.cpp", "tgi"))
    assert by_path(f"/x{route.path}") is route


@pytest.mark.parametrize("name", ROUTES)
def test_temperature_zero_is_asked_for(name):
    text = json.dumps(ROUTES[name].request(QUESTION, {}))
    assert '"do_sample": false' in text if name == "tgi" else '"temperature": 0.0' in text
    assert '"temperature": 0.7' in json.dumps(ROUTES[name].body(Question("hello", 9, "m", 0.7)))


def test_fields_inside_objects():
    body = ROUTES["openai"].request(QUESTION, ROUTES["openai"].asks)
    assert body["stream_options"] == {"include_usage": True, "continuous_usage_stats": True}
    assert body["return_token_ids"] is True


def manner(name="openai"):
    return Manner(ROUTES[name], ROUTES[name].asks)


@pytest.mark.parametrize(
    ("complaint", "gone", "stays"),
    [
        ("Unknown parameter: 'return_token_ids'", "return_token_ids", "stream_options"),
        ("Unknown parameter: 'stream_options.continuous_usage_stats'", "continuous_usage_stats", "include_usage"),
        ('{"detail":[{"loc":["body","timings_per_token"],"msg":"extra fields not permitted"}]}', "timings_per_token",
         "return_token_ids"),
        ("stream_options is not supported", "stream_options", "return_token_ids"),
        ("temperature does not support 0 with this model", "temperature", "seed"),
        ("seed is not supported", "seed", "temperature"),
        ("max_tokens is not supported, use max_completion_tokens", '"max_tokens"', "max_completion_tokens"),
    ],
)  # fmt: skip
def test_the_field_that_is_named_is_dropped_and_no_other(complaint, gone, stays):
    one = manner()
    asked = one.ask(QUESTION)
    assert gone in json.dumps(asked.body)
    assert one.learn(asked, complaint)
    text = json.dumps(one.ask(QUESTION).body)
    assert gone not in text
    assert stays in text


def test_a_complaint_without_a_name_drops_what_is_not_necessary_and_then_gives_up():
    one = manner()
    assert one.learn(one.ask(QUESTION), "bad request")
    plain = one.ask(QUESTION)
    assert plain.body == ROUTES["openai"].body(QUESTION)
    assert not one.learn(plain, "bad request")
    assert set(one.refused) == set(ROUTES["openai"].asks)


def test_two_threads_that_were_refused_the_same_learn_it_once():
    one = manner()
    first, second = one.ask(QUESTION), one.ask(QUESTION)
    assert one.learn(first, "unknown: return_token_ids")
    assert one.learn(second, "unknown: return_token_ids")
    assert one.refused == ["return_token_ids"]


def test_learning_ends():
    one = manner()
    rounds = 0
    while one.learn(one.ask(QUESTION), "temperature seed max_completion_tokens stream_options nonsense"):
        rounds += 1
        assert rounds < 10
    assert one.ask(QUESTION).body.keys() == {"model", "messages", "stream", "max_completion_tokens"}


def test_more_and_less():
    one = manner()
    one.change(more={"logprobs": True})
    assert one.ask(QUESTION).body["logprobs"] is True
    one.change(less={"logprobs": True})
    assert "logprobs" not in one.ask(QUESTION).body
