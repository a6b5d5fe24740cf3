"""Large JSON in parts: the same values as a whole parse, wherever the pieces are cut."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specsonar.bytefile import ByteFile
from specsonar.errors import LimitError
from specsonar.importers import jsonparts
from specsonar.importers.jsonparts import EACH, Parts

VALUE = {
    "a": [[0.5, 1e-3], [], [2]], "skip": {"a": [1], "deep": ["]}\\\"", {"x": None}]}, "text": 'q"[{\\', "n": -1.5e3,
    "é\n": True, "rows": [{"k": {"v": [1, 2]}, "z": "]"}, 7, {"k": {}}], "e": {}, "l": [],
}  # fmt: skip
WANTED = [("a", EACH), ("text",), ("n",), ("rows", EACH, "k"), ("e",), ("l", EACH), ("none",), ("é\\n",)]


def parts(text: bytes, wanted, size: int = 1 << 20):
    """Parts of `text` when it is read `size` bytes at a time."""
    source = ByteFile(io.BytesIO(text))
    whole = b"".join(source.pieces())
    source.pieces = lambda: iter([whole[i : i + size] for i in range(0, len(whole), size)])
    return Parts(source, wanted)


def values(found: Parts):
    return [(document, path, json.loads(raw)) for document, path, raw in found]


EXPECTED = [
    (0, ("a", EACH), [0.5, 1e-3]), (0, ("a", EACH), []), (0, ("a", EACH), [2]), (0, ("text",), VALUE["text"]),
    (0, ("n",), -1500.0), (0, ("é\\n",), True), (0, ("rows", EACH, "k"), {"v": [1, 2]}),
    (0, ("rows", EACH, "k"), {}), (0, ("e",), {}),
]  # fmt: skip


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 1 << 20])
@pytest.mark.parametrize("indent", [None, 2])
def test_wherever_the_pieces_are_cut(size: int, indent: int | None) -> None:
    text = json.dumps(VALUE, indent=indent, ensure_ascii=False).encode()
    assert values(parts(text + b"\n", WANTED, size)) == EXPECTED


@pytest.mark.parametrize("between", ["", "\n", " \r\n\n"])
def test_values_that_follow_each_other(between: str) -> None:
    text = between.join(json.dumps({"a": [n]}) for n in range(3)).encode()
    found = parts(text, [("a", EACH)], 5)
    assert values(found) == [(n, ("a", EACH), n) for n in range(3)]
    assert (found.documents, found.cut, found.defect) == (3, False, None)
    assert values(parts(text, [()])) == [(n, (), {"a": [n]}) for n in range(3)]


def test_values_of_one_list() -> None:
    text = json.dumps([{"a": [n]} for n in range(3)]).encode()
    assert values(parts(text, [("a", EACH)], 5)) == [(n, ("a", EACH), n) for n in range(3)]
    assert values(parts(b" [] " + text, [()], 5)) == [(n, (), {"a": [n]}) for n in range(3)]


def test_words_that_python_writes_for_numbers() -> None:
    text = b'{"r": Infinity, "a": [NaN, -Infinity,1], "t": "say NaN"}'
    assert [v for _, _, v in values(parts(text, [("r",), ("a",), ("t",)]))] == [None, [None, None, 1], "say NaN"]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=20,
)


@given(json_values, json_values, st.integers(1, 40))
def test_any_value_comes_back(first: object, second: object, size: int) -> None:
    text = json.dumps({"skipped": first, "x": second, "list": [first, second]}).encode()
    found = parts(text, [("x",), ("list", EACH)], size)
    assert [v for _, _, v in values(found)] == [second, first, second]
    assert not found.cut and found.defect is None


@pytest.mark.parametrize("size", [1, 1000])
def test_a_cut_gives_what_stands_before_it(size: int) -> None:
    text = json.dumps(VALUE, ensure_ascii=False).encode()
    for cut in range(1, len(text)):
        found = parts(text[:cut], WANTED, size)
        got = [(d, p, raw) for d, p, raw in found]
        assert len(got) <= len(EXPECTED) and found.cut and found.defect is None
        # a number may be cut so that it is still one
        assert [(d, p, json.loads(r)) for d, p, r in got[:-1]] == EXPECTED[: max(0, len(got) - 1)]


@pytest.mark.parametrize(
    "text", [b'{"a" 1}', b'{"a":1 "b":2}', b"[1 2]", b'{"a":}', b"{1:2}", b"[1}", b'{"a":1,}', b"}"]
)
def test_a_defect_is_placed(text: bytes) -> None:
    found = parts(text, [("a",)])
    list(found)
    assert found.defect is not None and found.defect <= len(text)


def test_one_value_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonparts, "_LARGEST", 1000)
    text = json.dumps({"skipped": "x" * 5000, "a": [1] * 1000}).encode()
    assert list(parts(text, [("b",)], 100)) == []
    with pytest.raises(LimitError, match="larger"):
        list(parts(text, [("a",)], 100))
