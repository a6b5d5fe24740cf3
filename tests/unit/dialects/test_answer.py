"""An answer while it runs: fresh events, their settled counts, streams at any time."""

from __future__ import annotations

from typing import Any

import pytest

from specsonar.trace import UNKNOWN
from specsonar.wire.answer import Answer, payload


def chat(content: str | None = None, *, finish: str | None = None, role: bool = False, index: int = 0, **extra: Any):
    delta = {**({"role": "assistant"} if role else {}), **({} if content is None else {"content": content})}
    choice = {"index": index, "delta": delta, "finish_reason": finish}
    choice |= {k: extra.pop(k) for k in ("token_ids", "logprobs") if k in extra}
    return {"object": "chat.completion.chunk", "choices": [choice], **extra}


def used(n: int) -> dict[str, Any]:
    return {"usage": {"completion_tokens": n}}


def feed(answer: Answer, *payloads: object) -> None:
    for value in payloads:
        n = len(answer._said) + 1
        answer.event(n * 1000, n, value, 10 * n)


def test_fresh_gives_each_event_once_as_it_is_known_then() -> None:
    answer = Answer()
    feed(answer, chat("", role=True), chat("a", token_ids=[5, 6]))
    assert [tuple(f) for f in answer.fresh()] == [(0, 2000, 2, 20, 2)]
    assert answer.fresh() == []
    feed(answer, chat("b"), chat(finish="stop"), {"choices": [], **used(9)}, "[DONE]")
    assert [tuple(f) for f in answer.fresh()] == [(0, 3000, 3, 30, UNKNOWN)]


def test_settled_corrects_what_fresh_had_to_guess() -> None:
    answer = Answer()
    feed(answer, chat("a", **used(2)), chat("", **used(2)), chat("b", **used(3)))
    assert [f.tokens for f in answer.fresh()] == [2, 0, 1]
    assert answer.settled(0) == [2, 0, 1], "an empty delta without a new token is no event"
    feed(answer, chat("c"))  # usage is missing here, so no count covers the answer any more
    assert [f.tokens for f in answer.fresh()] == [UNKNOWN]
    assert answer.settled(0) == [UNKNOWN] * 4


def test_a_total_settles_what_no_event_said() -> None:
    answer = Answer()
    feed(answer, chat("a"), chat("b"))
    assert [f.tokens for f in answer.fresh()] == [UNKNOWN, UNKNOWN]
    feed(answer, {"choices": [], **used(2)})
    assert answer.settled(0) == [1, 1]


def test_fresh_covers_every_event_of_the_streams() -> None:
    answer = Answer()
    feed(answer, chat("", role=True, **used(1)), chat("a", **used(2)), chat("", finish="length", **used(4)))
    fresh = answer.fresh()
    (one,), _ = answer.streams()
    assert [f.t_ns for f in fresh] == one.t_ns.tolist() == [1000, 2000, 3000]
    assert answer.settled(0) == one.tokens.tolist() == [1, 1, 2]


def test_choices_are_kept_apart_while_they_run() -> None:
    answer = Answer()
    feed(answer, chat("a", index=1, **used(1)), chat("b", index=0, **used(1)), chat("c", index=1, **used(3)))
    assert [(f.choice, f.tokens) for f in answer.fresh()] == [(1, 1), (0, 1), (1, 2)]
    assert (answer.settled(0), answer.settled(1), answer.settled(7)) == ([1], [1, 2], [])


def test_streams_at_any_time_and_as_often_as_wanted() -> None:
    answer = Answer()
    (empty,), findings = answer.streams("x")
    assert len(empty) == 0 and findings == []
    feed(answer, chat("a"))
    first = answer.streams("x")[0][0]
    assert len(first) == len(answer.streams("x")[0][0]) == 1
    feed(answer, chat("b"))
    assert len(answer.streams("x")[0][0]) == 2 and len(first) == 1
    assert answer.streams("x")[1] == answer.streams("x")[1] == []


def test_the_end_is_said_once() -> None:
    answer = Answer()
    assert not answer.ended
    answer.end(5)
    answer.end(7)
    assert answer.ended


def test_an_error_in_the_answer_is_said_once_and_short() -> None:
    answer = Answer(status=200)
    feed(answer, chat("a"), {"error": {"message": "out of memory \ud83d" + "x" * 500}}, {"error": "something later"})
    (message,) = (f.message for f in answer.streams()[1])
    assert "out of memory" in message and len(message) < 250 and message.isprintable()


def test_choices_without_end_are_not_followed() -> None:
    answer = Answer()
    feed(answer, *(chat("a", index=i) for i in range(300)))
    made, _ = answer.streams()
    assert len(made) == 256
    assert made[0].meta["skipped_payloads"] == {"one choice too many": 44}


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b'{"a":NaN}', type(None)), (b'{"a":1e999}', float), (b'{"a":"\\ud83d"}', str), (b'{"a":"\xff"}', str),
        (b"[" * 100_000, None), (b'{"a":' * 5000, None), (b'{"a":' + b"9" * 5000 + b"}", None), (b"[DONE]", None),
    ],
)  # fmt: skip
def test_payloads_that_strict_readers_refuse(data: bytes, value: type | None) -> None:
    read = payload(data)
    assert isinstance(read, str) if value is None else isinstance(read["a"], value)
