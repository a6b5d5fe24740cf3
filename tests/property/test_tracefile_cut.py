"""Whatever is written comes back, and a file cut at any byte gives what stood before the cut."""

from __future__ import annotations

import io
import tempfile
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specsonar import tracefile
from specsonar.errors import InputError
from specsonar.importers import read
from specsonar.trace import COUNTED, Trace, stream

SUFFIXES = ("", ".gz", ".zst")
whole = st.integers(-(1 << 60), 1 << 60)
text = st.text(max_size=20)
plain = st.dictionaries(text, st.one_of(st.none(), st.booleans(), st.integers(-(1 << 53), 1 << 53), text), max_size=3)


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    made = []
    for _ in range(draw(st.integers(0, 3))):
        t = sorted(draw(st.lists(whole, max_size=20)))
        column = st.lists(st.integers(0, 1 << 50), min_size=len(t), max_size=len(t))
        counts = st.lists(st.integers(-1, 1 << 50), min_size=len(t), max_size=len(t))
        made.append(
            stream(
                t, draw(counts), read=draw(column), size=draw(column), name=draw(text), count_source=COUNTED,
                total_tokens=draw(st.none() | st.integers(0, 1 << 50)), start_ns=draw(st.none() | whole),
                resolution_ns=draw(st.none() | st.integers(0, 1 << 40)), meta=draw(plain),
                blind=tuple(draw(st.lists(st.tuples(whole, whole), max_size=2))),
                truth=draw(st.none() | plain), server_report=draw(st.none() | plain),
            )
        )  # fmt: skip
    return Trace(tuple(made), draw(plain))


@settings(max_examples=60, deadline=None)
@given(before=traces(), suffix=st.sampled_from(SUFFIXES))
def test_round_trip(before: Trace, suffix: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"x{suffix}"
        tracefile.write(before, path)
        after = read(path)
    assert after.findings == () and len(after.streams) == len(before.streams)
    assert dict(before.meta).items() <= after.meta.items() or {"format", "inputs"} & set(before.meta)
    for a, b in zip(before.streams, after.streams, strict=True):
        for name in ("t_ns", "tokens", "read", "size"):
            np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
        for name in ("name", "count_source", "total_tokens", "start_ns", "resolution_ns", "blind", "truth"):
            assert getattr(a, name) == getattr(b, name), name
        assert dict(a.meta) == dict(b.meta) and a.server_report == b.server_report


@lru_cache
def example(suffix: str) -> tuple[bytes, Trace]:
    """A file with two interleaved streams, and what it holds."""
    rng = np.random.default_rng(5)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"x{suffix}"
        with tracefile.Writer(path, meta={"clock": "virtual"}, flush_every=20) as writer:
            numbers = [writer.stream(name, start_ns=0, meta={"engine": "é"}) for name in "ab"]
            for t in np.cumsum(rng.integers(1_000, 20_000_000, 300)).tolist():
                writer.event(int(rng.choice(numbers)), t, tokens=int(rng.integers(1, 5)), size=200)
            for number in numbers:
                writer.end(number, total_tokens=500)
                writer.truth(number, {"alpha": 0.8})
        return path.read_bytes(), read(path)


def check_cut(suffix: str, at: int) -> None:
    content, complete = example(suffix)
    try:
        trace = read(io.BytesIO(content[:at]))
    except InputError as error:
        assert suffix and at < 120, f"cut at {at}: {error}"  # nothing of the first packed block is there
        return
    assert [f.code for f in trace.findings] == ["I001"]
    for part, all_of_it in zip(trace.streams, complete.streams, strict=False):
        n = len(part)
        for name in ("t_ns", "tokens", "read", "size"):
            np.testing.assert_array_equal(getattr(part, name), getattr(all_of_it, name)[:n])
    if at > len(content) // 2:
        assert trace.events > complete.events // 4, "what stood before the cut is there"


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_cut_anywhere(data: st.DataObject) -> None:
    suffix = data.draw(st.sampled_from(SUFFIXES))
    check_cut(suffix, data.draw(st.integers(1, len(example(suffix)[0]) - 1)))


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_cut_at_the_ends(suffix: str) -> None:
    size = len(example(suffix)[0])
    for at in (*range(1, 130), *range(size - 60, size)):
        check_cut(suffix, at)


@settings(max_examples=150, deadline=None)
@given(at=st.integers(0, 12_000), junk=st.binary(min_size=1, max_size=6))
def test_damage_never_escapes_as_another_error(at: int, junk: bytes) -> None:
    for suffix in SUFFIXES:
        content, complete = example(suffix)
        at %= len(content)
        try:
            trace = read(io.BytesIO(content[:at] + junk + content[at + len(junk) :]))
        except InputError:
            continue
        assert trace.events <= complete.events + len(junk)


@settings(max_examples=200, deadline=None)
@given(content=st.binary(max_size=200) | st.text('0123456789.,;#- \n\te"{}[]:nai', max_size=80).map(str.encode))
def test_rubbish_is_read_or_refused(content: bytes) -> None:
    try:
        trace = read(io.BytesIO(content))
    except InputError as error:
        assert error.message and "\n" not in error.message
    else:
        assert all((s.t_ns[1:] >= s.t_ns[:-1]).all() for s in trace.streams)
