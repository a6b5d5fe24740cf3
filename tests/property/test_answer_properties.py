"""Whatever a server sends, an answer keeps the order of its events, its counts add up, and nothing raises."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from specsonar.importers import rawtimed
from specsonar.trace import COUNTED, ONE_EACH
from specsonar.wire.answer import Answer, payload

GOLDEN = Path(__file__).parents[1] / "golden" / "wire"


def _payloads() -> list[list[Any]]:
    """The payloads of every golden recording, as an `Answer` is given them."""
    from specsonar.bytefile import ByteFile

    kept: list[list[Any]] = []

    class Spy(Answer):
        def event(self, t_ns: int, read: int, value: object, size: int, kind: str = "") -> None:
            kept[-1].append((value, kind))

    original, rawtimed.Answer = rawtimed.Answer, Spy  # type: ignore[misc]
    try:
        for path in sorted(GOLDEN.glob("*.jsonl.zst")):
            kept.append([])
            with ByteFile(path) as source:
                rawtimed.read(source)
    finally:
        rawtimed.Answer = original  # type: ignore[misc]
    return kept


PAYLOADS = _payloads()
NUMBERS = st.sampled_from([0, -1, 1, 2, 1 << 31, 1 << 62, 1 << 70, 10**400, 1e308, -1e308, float("inf"), float("nan")])
JUNK = st.recursive(
    st.none()
    | st.booleans()
    | NUMBERS
    | st.text(max_size=5)
    | st.sampled_from(["\ud83d", "x" * 10_000, "\x00", "[DONE]"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["text", "index", "type", "error", "delta", "content", "usage", "tokens"]), inner
        )
    ),
    max_leaves=6,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path]
    if isinstance(value, dict):
        return found + [p for k, v in value.items() for p in places(v, (*path, k))]
    if isinstance(value, list):
        return found + [p for i, v in enumerate(value[:3]) for p in places(v, (*path, i))]
    return found


def replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    value = copy.deepcopy(value)
    inner = value
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = new
    return value


def check(answer: Answer, given: int) -> None:
    fresh = answer.fresh()
    made, findings = answer.streams("x")
    assert sum(len(one) for one in made) <= given
    for one in made:
        times = one.t_ns.tolist()
        assert times == sorted(times), "the order of the payloads is that of the events"
        assert len(set(one.read.tolist())) == len(one) or given > len(one)
        assert (one.tokens >= -1).all() and repr(one.meta).encode() and repr(one.server_report).encode()
        counted = one.count_source in (COUNTED, ONE_EACH)
        disagree = any(f.code == "I005" for f in findings)
        if counted and one.total_tokens is not None and one.meta["count_field"] != "total without the end token":
            assert int(one.tokens.sum()) == one.total_tokens or disagree
        for text in (f.message for f in findings):
            assert text.encode()
    for choice in {f.choice for f in fresh}:
        mine = [f for f in fresh if f.choice == choice]
        settled = answer.settled(choice)
        assert len(settled) == len(mine)
        kept = [f.t_ns for f, n in zip(mine, settled, strict=True) if n]
        assert any(one.t_ns.tolist() == kept for one in made if len(one) == len(kept)) or not kept


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_any_value_anywhere_in_a_real_answer(data: st.DataObject) -> None:
    payloads = list(data.draw(st.sampled_from(PAYLOADS)))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(payloads) - 1))
        value, kind = payloads[at]
        payloads[at] = (replaced(value, data.draw(st.sampled_from(places(value))), data.draw(JUNK)), kind)
    answer = (
        Answer(data.draw(JUNK.filter(lambda v: isinstance(v, dict))), status=200)
        if data.draw(st.booleans())
        else Answer()
    )
    for index, (value, kind) in enumerate(payloads):
        answer.event(index, index, value, 1, kind)
    check(answer, 3 * len(payloads) + 10)
    answer.on_server_clock()
    answer.streams()


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_answers_mixed_cut_and_out_of_order(data: st.DataObject) -> None:
    pool = [entry for index in data.draw(st.lists(st.sampled_from(range(len(PAYLOADS))), min_size=1, max_size=3))
            for entry in PAYLOADS[index]]  # fmt: skip
    answer = Answer()
    for index, (value, kind) in enumerate(data.draw(st.lists(st.sampled_from(pool), max_size=40))):
        answer.event(index, index, value, 1, kind)
        if index % 7 == 0:
            answer.fresh()
            answer.streams()
    check_order(answer)


def check_order(answer: Answer) -> None:
    for one in answer.streams()[0]:
        assert one.t_ns.tolist() == sorted(one.t_ns.tolist())


@settings(max_examples=200, deadline=None)
@given(
    st.binary(max_size=200) | st.sampled_from([b'{"a":' * 3000, b"[" * 50_000, b'{"a":1e99999}', b'{"a":"\xff\xfe"}'])
)
def test_any_bytes_have_a_value(data: bytes) -> None:
    answer = Answer()
    answer.event(0, 0, payload(data), len(data))
    answer.streams()


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 9)), min_size=1, max_size=40), st.booleans())
def test_counts_sum_to_the_total(steps: list[tuple[int, int]], ids: bool) -> None:
    """Interleaved choices; token ids, or usage that each choice counts for itself."""
    used = [0, 0, 0]
    answer = Answer()
    for index, (choice, n) in enumerate(steps):
        used[choice] += n
        one: dict[str, Any] = {"index": choice, "delta": {"content": "ab"}}
        extra = {"token_ids": list(range(n))} if ids else {}
        usage = {} if ids else {"usage": {"completion_tokens": used[choice]}}
        answer.event(index, index, {"choices": [{**one, **extra}], **usage}, 1)
    made, findings = answer.streams()
    choices = sorted({choice for choice, _ in steps})
    rising = [sum(n for c, n in steps[: i + 1] if c == choice) for i, (choice, _) in enumerate(steps)]
    if not ids and len(choices) > 1 and all(a < b for a, b in zip([0, *rising], rising, strict=False)):
        return  # could as well be one count for all choices
    assert [int(s.tokens.sum()) for s in made] == [used[c] for c in choices] and findings == []
