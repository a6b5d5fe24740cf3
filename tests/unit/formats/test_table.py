"""Tables that people make: which column is what, units, gaps, several streams, and what is refused."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from specsonar import convert, tracefile
from specsonar.errors import FormatError, InputError, UsageError
from specsonar.importers import columns, read
from specsonar.importers.table import heading
from specsonar.trace import ASSUMED_ONE, COUNTED, ONE_EACH, Stream, Trace, stream

MS = 1_000_000


def load(text: str, **options: Any) -> Trace:
    return read(io.BytesIO(text.encode()), **options)


def one(text: str, **options: Any) -> Stream:
    return load(text, **options).streams[0]


def since_first(s: Stream) -> list[float]:
    return ((s.t_ns - s.t_ns[0]) / MS).tolist()


TABLES = {
    "csv": "id,t,tokens,text\n0,0.066,1,a\n0,0.086,4,\"b, c\"\n0,0.106,3,d\n",
    "tsv": "id\tt\ttokens\n0\t0.066\t1\n0\t0.086\t4\n0\t0.106\t3\n",
    "semicolons": "id;t;tokens\n0;0.066;1\n0;0.086;4\n0;0.106;3\n",
    "comments": "# by hand\n\nid,t,tokens\n0,0.066,1\n# middle\n0,0.086,4\n\n0,0.106,3",
    "crlf": "\ufeffid,t,tokens\r\n0,0.066,1\r\n0,0.086,4\r\n0,0.106,3\r\n",
    "iso": "id,time,tokens\n0,2026-11-29T15:07:06.066Z,1\n0,2026-11-29T15:07:06.086Z,4\n0,2026-11-29T15:07:06.106Z,3\n",
    "ms": "id,Arrival Time (ms),tokens\n0,66,1\n0,86,4\n0,106,3\n",
    "epoch ns": "id,t_ns,tokens\n0,1795967758066000000,1\n0,1795967758086000000,4\n0,1795967758106000000,3\n",
    "gaps": "id,gap_ms,tokens\n0,66,1\n0,20,4\n0,20,3\n",
    "objects": '[{"t": 0.066, "tokens": 1, "x": {"t": 9}}, {"t": 0.086, "tokens": 4}, {"t": 0.106, "tokens": 3}]',
    "pairs": "[[0.066, 1], [0.086, 4], [0.106, 3]]",
    "lists": '{"name": "x", "time_s": [0.066, 0.086, 0.106], "tokens": [1, 4, 3]}',
    "lines": '{"ts": 0.066, "n": 1}\n{"ts": 0.086, "n": 4}\n{"ts": 0.106, "n": 3}\n',
}  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
def test_how_people_write_tables(name: str) -> None:
    trace = load(TABLES[name])
    assert trace.meta["format"] == "table"
    s = trace.streams[0]
    assert since_first(s) == [0, 20, 40] and s.tokens.tolist() == [1, 4, 3] and s.count_source == COUNTED
    told = name in ("iso", "ms", "epoch ns", "gaps", "lists")
    assert [f.code for f in trace.findings] == ([] if told else ["I002"])


def test_a_list_of_numbers() -> None:
    s = one("[0.066, 0.086, 0.106]")
    assert since_first(s) == [0, 20, 40] and s.count_source == ASSUMED_ONE
    assert since_first(one("[20, 20.5]", gaps=True, unit="ms")) == [0, 20, 40.5]


@pytest.mark.parametrize(
    ("name", "role", "unit", "gaps"),
    [
        ("t", "time", None, False),
        ("Arrival Time (ms)", "time", "ms", False),
        ("received_at_us", "time", "us", False),
        ("timestamp", "time", None, False),
        ("seconds", "time", "s", False),
        ("itl_ms", "time", "ms", True),
        ("inter-token latency [s]", "time", "s", True),
        ("n_tokens", "tokens", None, False),
        ("Request ID", "stream", None, False),
    ],
)
def test_names_of_columns(name: str, role: str, unit: str | None, gaps: bool) -> None:
    found = heading(name)
    assert found is not None and (found.role, found.unit, found.gaps) == (role, unit, gaps)


@pytest.mark.parametrize("name", ["text", "ms", "", "tokenizer", "timeout_s", "first"])
def test_names_that_say_nothing(name: str) -> None:
    assert heading(name) is None


def test_a_stream_column_parts_the_rows() -> None:
    trace = load("request,t\nb,0.00\na,0.01\nb,0.02\na,0.03\nb,0.04\n", unit="s")
    assert [(s.name, (s.t_ns / MS).tolist()) for s in trace.streams] == [("b", [0, 20, 40]), ("a", [10, 30])]
    parted = load("request,gap_ms\nb,20\na,30\nb,21\na,31\n")
    assert [(s.t_ns / MS).tolist() for s in parted.streams] == [[0, 20, 41], [0, 30, 61]]


def test_columns_by_name() -> None:
    text = "a,b,c\nx,10,2\ny,20,1\nx,30.5,1\n"
    trace = load(text, columns="time=b,tokens=c,stream=a", unit="ms")
    assert [s.name for s in trace.streams] == ["x", "y"]
    assert trace.streams[0].tokens.tolist() == [2, 1] and since_first(trace.streams[0]) == [0, 20.5]
    assert load("t,u\n5,10\n6,20\n", columns="time=u", unit="ms").streams[0].t_ns.tolist() == [0, 10 * MS]


def test_columns_without_a_heading_have_numbers() -> None:
    trace = load("0,10.5,2\n1,20,1\n0,30.5,1\n", columns="time=2,tokens=3,stream=1", unit="ms")
    assert [s.tokens.tolist() for s in trace.streams] == [[2, 1], [1]] and since_first(trace.streams[0]) == [0, 20]
    with pytest.raises(InputError) as caught:
        load("0,10.5,2\n1,20,1\n")
    assert "--columns" in caught.value.hint


@pytest.mark.parametrize("text", ["t_ms;tokens\n10,5;2\n20;1\n30,75;1\n", "t_ms\ttokens\n10,5\t2\n20\t1\n30,75\t1\n"])
def test_decimal_commas_where_they_part_no_columns(text: str) -> None:
    s = one(text)
    assert since_first(s) == [0, 9.5, 20.25] and s.tokens.tolist() == [2, 1, 1]


def test_gaps_are_no_points_in_time() -> None:
    with pytest.raises(UsageError, match="points in time"):
        load("t,tokens\n2026-03-01T12:00:00Z,1\n2026-03-01T12:00:01Z,1\n", gaps=True)


@pytest.mark.parametrize(
    ("asked", "words"),
    [("time", "cannot be read at 'time'"), ("when=b", "'when=b'"), ("time=z", "no column 'z'"), ("time=", "'time='")],
)
def test_columns_that_are_not_there(asked: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        load("a,b\n1,2\n", columns=asked)
    assert words in caught.value.message


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("id,t\n0,1\n0,x\n", "row 2 of input has 'x' for a time"),
        ("id,t\n0,1\n0,\n", "row 2 of input has '' for a time"),
        ("id,t\n0,1\n0,nan\n", "row 2 of input has 'nan' for a time"),
        ("id,t,tokens\n0,1,1.5\n", "row 1 of input has '1.5' for a token count"),
        ("id,t,tokens\n0,1,-2\n", "'-2' for a token count"),
        ("id,t\n", "has no rows"),
        ("id,t\n" + "".join(f"0,{(i * 7919) % 20}\n" for i in range(99)), "look like gaps"),
        ("id,gap\n0,1\n0,-1\n", "negative"),
        ('[{"t": 1}, {"t": null}]', "row 2 of input has 'None'"),
        ("id,t\n0,1e200\n0,-1e200\n", "292 years"),
        ("id,t\n0,1\n0,2\n0,1e999\n0,3\n", "row 3 of input has '1e999' for a time"),
        ("id,t\n0,1e308\n0,-1e308\n0,1e308\n", "row 2 of input has '-1e308' for a time"),
    ],
)
def test_what_is_no_column_of_times(text: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        load(text)
    assert words in caught.value.message and "\n" not in caught.value.message


def test_counts_may_be_missing() -> None:
    assert one("id,t,tokens\n0,1,2\n0,2,\n").tokens.tolist() == [2, -1]
    assert one("id,t,tokens\n0,1,1\n0,2,1.0\n").count_source == ONE_EACH


def test_rows_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "MOST_ROWS", 2)
    with pytest.raises(InputError, match="more than 2 rows"):
        load("id,t\n0,1\n0,2\n0,3\n")


def test_no_time_column_says_what_there_is() -> None:
    with pytest.raises(FormatError, match="only a, b") as caught:
        load("a,b\n1,2\n", columns="tokens=b")
    assert "--columns" in caught.value.hint


# --- there and back ----------------------------------------------------------------------------------------------


def sample() -> Trace:
    rng = np.random.default_rng(3)
    streams = [
        stream(
            1_795_967_758_000_000_123 + np.cumsum(rng.integers(0, 30 * MS, 50)), rng.integers(-1, 5, 50),
            read=np.arange(50) // 2, size=rng.integers(1, 99, 50), name=name, count_source=COUNTED,
        )
        for name in ("one", "two, \"three\"", "one")
    ]  # fmt: skip
    return Trace(tuple(streams))


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet"])
def test_a_converted_table_is_read_back(suffix: str, tmp_path: Path) -> None:
    path, trace = tmp_path / f"x{suffix}", sample()
    with path.open("wb") as file:
        convert.write(trace, file, suffix)
    back = read(path)
    assert back.findings == () and [s.name for s in back.streams] == ["one", 'two, "three"', "one:3"]
    origin = trace.streams[0].t_ns[0]
    for a, b in zip(trace.streams, back.streams, strict=True):
        assert b.t_ns.tolist() == (a.t_ns - origin).tolist() and b.tokens.tolist() == a.tokens.tolist()


def test_parquet_with_timestamps(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    times = [1_795_967_758_000_000_000 + 20_000_001 * i for i in range(3)]
    table = pa.table({"when": pa.array(times, pa.timestamp("ns")), "n": pa.array([1, None, 3])})
    pq.write_table(table, tmp_path / "x.parquet")
    s = read(tmp_path / "x.parquet", columns="time=when").streams[0]
    assert s.t_ns.tolist() == [0, 20_000_001, 40_000_002] and s.tokens.tolist() == [1, -1, 3]


def test_parquet_with_durations_and_times_of_day(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    nano = [0, 20_000_001, 40_000_002]
    for name, kind, values in (
        ("elapsed", pa.duration("ns"), nano),
        ("time", pa.time64("ns"), nano),
        ("gap", pa.duration("ns"), [None, 20_000_001, 20_000_001]),
    ):
        pq.write_table(pa.table({name: pa.array(values, kind)}), tmp_path / "x.parquet")
        trace = read(tmp_path / "x.parquet")
        assert trace.streams[0].t_ns.tolist() == nano and trace.findings == ()


@pytest.mark.parametrize("hole", ["", "NaN"])
def test_the_first_gap_may_be_missing(hole: str) -> None:
    trace = load(f"request,gap_ms\na,{hole}\na,20\nb,{hole}\nb,30\n")
    assert [(s.t_ns / MS).tolist() for s in trace.streams] == [[0, 20], [0, 30]]
    counted = load(f"request,gap_ms,tokens\na,{hole},1\na,20,3\n").streams[0]
    assert (counted.t_ns / MS).tolist() == [0, 20] and counted.tokens.tolist() == [1, 3]


def test_damaged_parquet_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    with path.open("wb") as file:
        convert.write(sample(), file, ".parquet")
    data = path.read_bytes()
    for cut in range(4, len(data), 97):
        with pytest.raises(FormatError) as caught:
            read(io.BytesIO(data[:cut]))
        assert "\n" not in caught.value.message
    rng = np.random.default_rng(0)
    for _ in range(200):
        bad = bytearray(data)
        for at in rng.integers(4, len(data), 3):
            bad[at] = int(rng.integers(0, 256))
        try:
            read(io.BytesIO(bytes(bad)))
        except InputError as error:
            assert "\n" not in error.message


def test_parquet_without_its_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for attempt in (
        lambda: convert.write(sample(), io.BytesIO(), ".parquet"),
        lambda: read(io.BytesIO(b"PAR1....PAR1")),
    ):
        with pytest.raises(InputError, match="extra 'parquet'"):
            attempt()


def test_a_trace_keeps_everything(tmp_path: Path) -> None:
    trace = sample()
    tracefile.write(trace, tmp_path / "x.jsonl.zst")
    for a, b in zip(trace.streams, read(tmp_path / "x.jsonl.zst").streams, strict=True):
        assert b.t_ns.tolist() == a.t_ns.tolist() and b.read.tolist() == a.read.tolist()


def test_suffixes_say_what_to_write() -> None:
    assert convert.check_target("a/b.Parquet") == ".parquet"
    with pytest.raises(UsageError, match=r"'b\.txt'"):
        convert.check_target("a/b.txt")


def test_json_that_is_no_table() -> None:
    for value in ({"t": 1}, [], {}, [[]], [{"a": 1}], "x", [None]):
        with pytest.raises(InputError):
            load(json.dumps(value))
