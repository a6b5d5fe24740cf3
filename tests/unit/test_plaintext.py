"""Plain columns of times: units, token counts, gaps, and everything that is no such column."""

from __future__ import annotations

import io

import numpy as np
import pytest

from specsonar.errors import InputError, LimitError, UsageError
from specsonar.importers import plaintext, read
from specsonar.trace import ASSUMED_ONE, COUNTED, ONE_EACH, Stream, Trace


def load(text: str | bytes, **options: object) -> Trace:
    return read(io.BytesIO(text.encode() if isinstance(text, str) else text), **options)  # type: ignore[arg-type]


def one(text: str | bytes, **options: object) -> Stream:
    return load(text, **options).streams[0]


def codes(trace: Trace) -> list[str]:
    return [f.code for f in trace.findings]


@pytest.mark.parametrize(
    ("text", "unit", "ns"),
    [
        ("0\n0.02\n0.0401\n", "s", [0, 20_000_000, 40_100_000]),
        ("10\n30\n50.5\n", "ms", [0, 20_000_000, 40_500_000]),
        ("10\n20010\n40010\n", "us", [0, 20_000_000, 40_000_000]),
        ("10\n20000010\n40000010\n", "ns", [0, 20_000_000, 40_000_000]),
    ],
)
def test_the_unit_is_guessed_and_the_guess_is_said(text: str, unit: str, ns: list[int]) -> None:
    trace = load(text)
    assert trace.streams[0].t_ns.tolist() == ns
    assert trace.streams[0].meta["unit"] == unit and codes(trace) == ["I002"]
    assert trace.meta["format"] == "plain text"
    told = load(text, unit=unit)
    assert told.streams[0].t_ns.tolist() == ns and codes(told) == []


def test_a_unit_that_is_none() -> None:
    with pytest.raises(UsageError, match="fortnight"):
        load("1\n", unit="fortnight")


@pytest.mark.parametrize("separator", [",", ", ", "\t", " ", "   ", ";"])
def test_the_second_column_counts_tokens(separator: str) -> None:
    s = one(separator.join(("0.0", "1")) + "\n" + separator.join(("0.02", "4")) + "\n")
    assert s.tokens.tolist() == [1, 4] and s.count_source == COUNTED and s.known_tokens == 5


@pytest.mark.parametrize(
    ("text", "tokens", "source"),
    [
        ("0\n1\n", [-1, -1], ASSUMED_ONE),
        ("0 1\n1 1\n", [1, 1], ONE_EACH),
        ("0 1\n1\n", [1, -1], COUNTED),
        ("0 -1\n1 -1\n", [-1, -1], ASSUMED_ONE),
        ("0 2.0\n1 0\n", [2, 0], COUNTED),
    ],
)
def test_counts_that_are_missing_stay_missing(text: str, tokens: list[int], source: str) -> None:
    s = one(text)
    assert s.tokens.tolist() == tokens and s.count_source == source


@pytest.mark.parametrize(
    "text",
    [
        "# times\n\n0.5\n  0.75 # second\n\n1.0\n",
        "0.5\r\n0.75\r\n1.0\r\n",
        "\ufeff0.5\n0.75\n1.0",
        "t_s\n0.5\n0.75\n1.0\n",
        "# made by hand\ntime, tokens\n5e-1\n+.75\n1.\n",
    ],
)
def test_how_people_write_columns(text: str) -> None:
    assert one(text, unit="s").t_ns.tolist() == [0, 250_000_000, 500_000_000]


def test_nanoseconds_survive_epoch_times() -> None:
    assert one("1795967758.000000001\n1795967758.020000002\n", unit="s").t_ns.tolist() == [0, 20_000_001]
    assert one("1795967758622948534\n1795967758622948540\n", unit="ns").t_ns.tolist() == [0, 6]


@pytest.mark.parametrize("text", ["5\n", "1\n1\n1\n", "0\n0\n0\n0\n0\n0\n0\n0\n0\n", "-3\n-2\n"])
def test_little_data_loads(text: str) -> None:
    assert len(one(text)) == text.count("\n")


def test_a_few_decreasing_times_are_sorted() -> None:
    trace = load("0 1\n0.04 2\n0.02 3\n0.06 4\n0.08 5\n", unit="s")
    assert trace.streams[0].tokens.tolist() == [1, 3, 2, 4, 5]
    assert codes(trace) == ["I003"] and "1 of 5" in trace.findings[0].message


def test_independent_delays_are_no_gaps() -> None:
    rng = np.random.default_rng(0)
    times = np.repeat(np.arange(200) * 0.02, 3) + rng.normal(0, 0.008, 600)
    trace = load("\n".join(map(str, times)))
    assert codes(trace) == ["I002", "I003"] and len(trace.streams[0]) == 600


def test_a_column_of_gaps_is_recognised() -> None:
    rng = np.random.default_rng(0)
    gaps = np.where(np.arange(600) % 3 == 0, 0.02, 0.0001) * rng.lognormal(0, 0.2, 600)
    text = "\n".join(map(str, gaps))
    with pytest.raises(InputError, match="look like gaps") as caught:
        load(text)
    assert "--gaps" in caught.value.hint
    s = one(text, gaps=True, unit="s")
    assert len(s) == 601, "600 gaps lie between 601 events"
    np.testing.assert_allclose(np.diff(s.t_ns) * 1e-9, gaps, atol=1.1e-9)


def test_gaps_with_counts_have_an_event_each() -> None:
    s = one("0.5 1\n0.02 3\n0.02 2\n", gaps=True, unit="s")
    assert s.t_ns.tolist() == [0, 20_000_000, 40_000_000] and s.tokens.tolist() == [1, 3, 2]


def test_a_negative_gap_is_none() -> None:
    with pytest.raises(InputError, match="gap number 2"):
        load("0.1\n-0.1\n", gaps=True)


def test_times_that_run_backwards() -> None:
    with pytest.raises(InputError, match="backwards"):
        load("5\n4\n3\n2\n1\n")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1\nnan\n2\n", "line 2 of input is 'nan', not a finite number"),
        ("1\n2\n-inf\n", "line 3 of input is '-inf', not a finite number"),
        ("nan\n", "line 1"),
        ("1\n1e999\n", "too large"),
        ("1e300\n-1e300\n", "292 years"),
        ("# c\n\n1\nabc\n", "line 4 of input is 'abc', not a time"),
        ("1\n2,\n3 x\n", "line 3 of input has 'x' for a token count"),
        ("1 -2\n", "token count"),
        ("1 2.5\n", "token count"),
        ("1 99999999999999999999\n", "token count"),
        ("1 2 3\n", "3 columns"),
        ("h1,h2\n1,2\nx,3\n", "line 3"),
        ("0,066\n0,087\n0,100\n", "decimal commas"),
        ("# only a comment\n", "holds no times"),
        ("1" * 60_000 + "x\n", "is not a known recording"),
        ("", "is empty"),
    ],
)
def test_what_is_no_column_of_times(text: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        load(text)
    assert words in caught.value.message and "\n" not in caught.value.message


def test_line_numbers_are_right_far_into_a_large_file() -> None:
    text = "".join(f"{i}.5\n" for i in range(400_000)) + "bad\n"
    assert len(text) > 2 << 20
    with pytest.raises(InputError, match="line 400001 of input is 'bad'"):
        load(text)


def test_the_number_of_lines_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plaintext, "MAX_EVENTS", 100)
    with pytest.raises(LimitError, match="100"):
        load("1\n" * 101)
