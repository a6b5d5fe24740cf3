"""The trace file: what is written is what is read, and what is cut or hostile does no harm."""

from __future__ import annotations

import gzip
import io
import json
import subprocess
import sys
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest
import zstandard

from specsonar import tracefile
from specsonar.bytefile import ByteFile, Limits
from specsonar.errors import FormatError, InputError, LimitError, SpecsonarError, UsageError
from specsonar.findings import finding
from specsonar.importers import read
from specsonar.trace import ASSUMED_ONE, COUNTED, ONE_EACH, TOTAL_ONLY, Trace, stream

HEADER = b'{"specsonar":"trace","version":1}\n'


def example() -> Trace:
    full = stream(
        [1_000, 1_000, 20_001_000, 41_000_000],
        [1, 4, 2, -1],
        read=[3, 3, 4, 9],
        size=[210, 215, 212, 0],
        name="first",
        count_source=COUNTED,
        total_tokens=12,
        start_ns=-5,
        resolution_ns=1_000,
        blind=((25_000_000, 30_000_000),),
        meta=MappingProxyType({"engine": "vLLM", "temperature": 0.7}),
        truth={"alpha": np.float64(0.8), "sizes": np.array([1, 4, 2])},
        server_report={"drafted": 8, "accepted": 5},
    )
    return Trace((full, stream([7]), stream([])), {"clock": "virtual"}, (finding("I002", "guessed", "say it"),))


def columns(one: object) -> list[list[int]]:
    return [getattr(one, name).tolist() for name in ("t_ns", "tokens", "read", "size")]


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
def test_round_trip(tmp_path: Path, suffix: str) -> None:
    before = example()
    tracefile.write(before, tmp_path / f"x.jsonl{suffix}")
    after = read(tmp_path / f"x.jsonl{suffix}")
    assert [columns(s) for s in after.streams] == [columns(s) for s in before.streams]
    one = after.streams[0]
    for name in ("name", "count_source", "total_tokens", "start_ns", "resolution_ns", "blind"):
        assert getattr(one, name) == getattr(before.streams[0], name), name
    assert dict(one.meta) == {"engine": "vLLM", "temperature": 0.7}
    assert one.truth == {"alpha": 0.8, "sizes": [1, 4, 2]}
    assert one.server_report == {"drafted": 8, "accepted": 5}
    assert after.findings == before.findings
    assert after.meta["clock"] == "virtual" and after.meta["format"] == "specsonar trace"
    assert after.meta["inputs"][0]["name"] == f"x.jsonl{suffix}"
    assert [p.name for p in tmp_path.iterdir()] == [f"x.jsonl{suffix}"], "no temporary file is left"
    assert all(s.truth is None for s in after.without_truth().streams)


def test_same_trace_same_bytes(tmp_path: Path) -> None:
    for name in ("a.gz", "b.gz"):
        tracefile.write(example(), tmp_path / name)
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()


def test_writing_to_an_open_file_leaves_it_open() -> None:
    target = io.BytesIO()
    tracefile.write(example(), target)
    target.seek(0)
    assert read(target).events == 5


def test_live_writer_interleaves_and_every_event_is_on_disk_at_once(tmp_path: Path) -> None:
    path = tmp_path / "live.jsonl"
    with tracefile.Writer(path, meta={"clock": "monotonic"}) as writer:
        a = writer.stream("a", start_ns=0)
        b = writer.stream("b")
        for i in range(3):
            writer.event(a, 10 * i, tokens=1, size=200)
            writer.event(b, 10 * i + 5, read=i // 2)
            partial = read(path)
            assert partial.events == 2 * i + 2
            assert [f.code for f in partial.findings] == ["I001"], "nothing says yet that it is complete"
        writer.end(a, total_tokens=3, count_source=ONE_EACH, meta={"finish_reason": "stop"})
        writer.end(b, total_tokens=9, count_source=TOTAL_ONLY)
    whole = read(path)
    assert whole.findings == ()
    assert columns(whole.streams[0]) == [[0, 10, 20], [1, 1, 1], [0, 1, 2], [200, 200, 200]]
    assert columns(whole.streams[1]) == [[5, 15, 25], [-1, -1, -1], [0, 0, 1], [0, 0, 0]]
    assert whole.streams[0].meta["finish_reason"] == "stop" and whole.streams[1].total_tokens == 9


def test_a_failed_recording_is_not_called_complete(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl.gz"
    with pytest.raises(RuntimeError), tracefile.Writer(path) as writer:
        writer.event(writer.stream("a"), 1)
        raise RuntimeError("recorder broke")
    assert [f.code for f in read(path).findings] == ["I001"]
    assert read(path).events == 1


def test_append_after_a_crash(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(HEADER + b'{"stream":0,"name":"old"}\n[0,1,1,0,0]\n[0,2,1,')
    with tracefile.Writer(path, append=True) as writer:
        writer.event(writer.stream("new"), 5)
    trace = read(path)
    assert [(s.name, len(s)) for s in trace.streams] == [("old", 1), ("new", 1)]
    assert [f.code for f in trace.findings] == ["I001"] and "line 4" in trace.findings[0].message


def test_a_tail_of_zeros_that_a_power_cut_left(tmp_path: Path) -> None:
    trace = read(io.BytesIO(HEADER + b'{"stream":0}\n[0,1,1,0,0]\n' + bytes(500)))
    assert trace.events == 1 and [f.code for f in trace.findings] == ["I001"]


def test_append_to_a_whole_file_and_to_a_new_one(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    for number in range(2):
        with tracefile.Writer(path, append=True) as writer:
            writer.event(writer.stream(f"run {number}"), 5)
    trace = read(path)
    assert [s.name for s in trace.streams] == ["run 0", "run 1"] and trace.findings == ()
    with pytest.raises(UsageError, match="packed"):
        tracefile.Writer(tmp_path / "x.gz", append=True)


@pytest.mark.parametrize(
    ("counts", "source"), [([1, 1], ONE_EACH), ([1, 3], COUNTED), ([-1, -1], ASSUMED_ONE), ([], ASSUMED_ONE)]
)
def test_count_source_of_a_stream_that_was_cut(counts: list[int], source: str) -> None:
    body = b"".join(b"[0,%d,%d,0,0]\n" % (i, n) for i, n in enumerate(counts))
    assert read(io.BytesIO(HEADER + b'{"stream":0}\n' + body)).streams[0].count_source == source


def test_bad_lines_are_left_out_and_said() -> None:
    lines = [
        b'{"stream":0}', b"[0,1,1,0,0]", b"[0,99999999999999999999999,1,0,0]", b"[0,2,-2,0,0]", b"[0,2,1.5,0,0]",
        b"[0,2]", b"\xff\xfe", b'{"future":1}', b'{"end":0,"total_tokens":"x"}', b"[7,1,1,0,0]", b"[0,3,1,0,0]",
        b"nonsense", b'{"close":{}}',
    ]  # fmt: skip
    trace = read(io.BytesIO(HEADER + b"\n".join(lines) + b"\n"))
    assert trace.streams[0].t_ns.tolist() == [1, 3]
    assert [f.code for f in trace.findings] == ["I004", "I004"]
    assert "8 lines" in trace.findings[0].message and "line 4" in trace.findings[0].message
    assert "1 events" in trace.findings[1].message


def test_decreasing_times_are_sorted_and_said() -> None:
    body = b'{"stream":0}\n[0,5,1,0,0]\n[0,3,2,1,0]\n[0,9,1,2,0]\n{"close":{}}\n'
    trace = read(io.BytesIO(HEADER + body))
    assert columns(trace.streams[0])[:2] == [[3, 5, 9], [2, 1, 1]]
    assert [f.code for f in trace.findings] == ["I003"]


def test_a_newer_format_is_refused() -> None:
    with pytest.raises(FormatError, match="newer") as caught:
        read(io.BytesIO(b'{"specsonar":"trace","version":99}\n'))
    assert "update" in caught.value.hint


def test_an_older_format_is_upgraded(monkeypatch: pytest.MonkeyPatch) -> None:
    from specsonar import traceload

    def upgrade(line: dict[str, object]) -> dict[str, object]:
        return {{"label": "name"}.get(k, k): v for k, v in line.items()}

    monkeypatch.setattr(traceload, "VERSION", tracefile.VERSION + 1)
    monkeypatch.setitem(tracefile.UPGRADE, tracefile.VERSION, upgrade)
    trace = read(io.BytesIO(HEADER + b'{"stream":0,"label":"old word"}\n{"close":{}}\n'))
    assert trace.streams[0].name == "old word"


def corrected(tokens: str, end: str = "") -> Trace:
    head = HEADER.replace(b"1}", b"2}") + b'{"stream":0}\n'
    rows = b"[0,10,-1,0,8]\n[0,20,-1,1,9]\n[0,20,-1,1,9]\n"
    return read(io.BytesIO(head + rows + f'{{"end":0,"tokens":{tokens}{end}}}\n{{"close":{{}}}}\n'.encode()))


def test_an_end_line_corrects_what_was_written_while_the_answer_ran() -> None:
    trace = corrected("[0,3,-1]", ',"count_source":"x","findings":[{"code":"I007","message":"oh"}]')
    assert columns(trace.streams[0]) == [[20, 20], [3, -1], [1, 1], [9, 9]]
    assert trace.streams[0].count_source == "x"
    assert [(f.code, f.severity, f.message) for f in trace.findings] == [("I007", "warning", "oh")]


@pytest.mark.parametrize("tokens", ["[1]", "[1,1,1,1]", "[]"])
def test_corrections_that_do_not_fit_are_left_out(tokens: str) -> None:
    trace = corrected(tokens)
    assert columns(trace.streams[0])[1] == [-1, -1, -1]
    assert [f.code for f in trace.findings] == ["I004"]


@pytest.mark.parametrize("tokens", ['[1,"x",1]', "[1,1,-2]", "7"])
def test_a_malformed_correction_is_a_bad_line(tokens: str) -> None:
    assert [f.code for f in corrected(tokens).findings] == ["I004"]


def test_findings_made_while_recording_travel_in_the_close_line(tmp_path: Path) -> None:
    writer = tracefile.Writer(tmp_path / "x.jsonl")
    writer.close(findings=[finding("I002", "guessed")])
    assert read(tmp_path / "x.jsonl").findings == (finding("I002", "guessed"),)


def test_what_became_known_with_the_end_travels_in_the_close_line(tmp_path: Path) -> None:
    writer = tracefile.Writer(tmp_path / "t.jsonl", meta={"clock": "monotonic", "known": "before"})
    writer.close(meta={"known": "after", "counted": 7})
    assert dict(read(tmp_path / "t.jsonl").meta) | {"known": "after", "counted": 7, "clock": "monotonic"} == dict(
        read(tmp_path / "t.jsonl").meta
    )


def test_what_must_not_reach_the_file_is_taken_out_of_its_lines(tmp_path: Path) -> None:
    hide = lambda line: line.replace(b"secret", b"[key]")  # noqa: E731
    with tracefile.Writer(tmp_path / "t.jsonl.gz", meta={"a": "my secret"}, hide=hide) as writer:
        number = writer.stream("a secret stream")
        writer.event(number, 5, 1)
        writer.end(number, meta={"model": "secret"})
    trace = read(tmp_path / "t.jsonl.gz")
    assert trace.meta["a"] == "my [key]"
    assert (trace.streams[0].name, trace.streams[0].meta["model"]) == ("a [key] stream", "[key]")


def test_every_old_version_has_an_upgrade() -> None:
    assert set(tracefile.UPGRADE) == set(range(1, tracefile.VERSION))


def error(source: object) -> SpecsonarError:
    with pytest.raises(InputError) as caught:
        read(source)  # type: ignore[arg-type]
    assert "\n" not in caught.value.message and "\n" not in caught.value.hint
    assert caught.value.exit_code == 3
    return caught.value


def test_files_that_are_none(tmp_path: Path) -> None:
    assert "no such file" in error(tmp_path / "missing").message
    assert "directory" in error(tmp_path).message
    assert "cannot open" in error("a\0b").message
    empty = tmp_path / "empty"
    empty.touch()
    assert "is empty" in error(empty).message
    assert "is empty" in error(io.BytesIO(gzip.compress(b""))).message


def test_no_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("builtins.open", refuse)
    assert "permission" in error(tmp_path / "x").message


def test_a_read_error_is_told() -> None:
    class Broken(io.BytesIO):
        def read(self, *_: object) -> bytes:
            raise OSError(5, "Input/output error")

    assert "Input/output error" in error(Broken()).message


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (bytes(range(256)) * 10, "binary"),
        (b"PK\x03\x04" + bytes(20), "zip archive"),
        (b"\xe9\xe8 caf\xe9 latin\n" * 3, "not UTF-8"),
        ("1\n2\n".encode("utf-16"), "UTF-16"),
        ("1\n2\n".encode("utf-16-be"), "binary"),
        (gzip.compress(gzip.compress(b"1\n", mtime=0), mtime=0), "archive inside an archive"),
        (b"<!DOCTYPE html><p>no</p>", "web page"),
        (b"id: 7\n\n", "event stream without arrival times"),
        (b'{"ttfts": [1], "itls": [[2]]}', "JSON with the keys ttfts, itls"),
        (b'{"a": 1}\n{"b": 2}\n', "JSON lines with the keys a"),
        (b'{"a": ', "broken or long JSON"),
        (b'["a", "b", "c"]', "list of 3 values"),
        (b"2026-11-29T12:00:00 token\n", "times of day"),
        (b"hello world\n", "'hello world'"),
        (b'{"specsonar":"trace","version":"x"}\n', "no readable header"),
        (gzip.compress(b"1\n2\n", mtime=0)[:6], "truncated archive"),
    ],
)
def test_what_cannot_be_read_is_named(content: bytes, words: str) -> None:
    assert words in error(io.BytesIO(content)).message


def test_unknown_formats_are_told_the_nearest_known() -> None:
    assert error(io.BytesIO(b"hello\n")).hint.startswith("nearest formats: table (")
    assert error(io.BytesIO(b'{"a": 1}')).hint.startswith("nearest formats: specsonar trace")


def test_a_sparse_gigabyte_is_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "zeros"
    with path.open("wb") as file:
        file.truncate(1 << 30)
    assert "binary" in error(path).message


@pytest.mark.parametrize("begin", [b"1", HEADER + b'{"stream":0,"name":"', b'{"t_ns": 1, "sent": "'])
def test_an_endless_line_is_not_held_in_memory(begin: bytes) -> None:
    class Endless(io.RawIOBase):
        given = 0

        def read(self, size: int = -1) -> bytes:
            self.given += size
            return begin.ljust(size, b"1") if self.given == size else b"1" * size

    source = Endless()
    assert isinstance(error(source), LimitError)
    assert source.given < 12 << 20


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.ZstdCompressor(19).compress])
@pytest.mark.parametrize("row", [b"0\n", b"[0,1,1,0,0]\n", b"\0\0"])
def test_decompression_bombs_stop_early(pack: object, row: bytes) -> None:
    packed = pack((HEADER + b'{"stream":0}\n' if row[0] == 91 else b"") + row * ((48 << 20) // len(row)))  # type: ignore[operator]
    source = ByteFile(io.BytesIO(packed), Limits(grace=1 << 20))
    unpacked = 0
    with pytest.raises(LimitError, match="unpacks to more than"):
        for block in source.blocks():
            unpacked += len(block)
    assert unpacked < 40 << 20
    with pytest.raises(InputError):
        read(io.BytesIO(packed))


def test_total_size_of_an_archive_is_limited() -> None:
    packed = gzip.compress(bytes(range(48, 58)) * 1000 + b"\n" * 10)
    with pytest.raises(LimitError):
        ByteFile(io.BytesIO(packed), Limits(size=5_000)).head()


def test_archives_of_several_parts_and_padding(tmp_path: Path) -> None:
    pack = zstandard.ZstdCompressor().compress
    for content in (gzip.compress(b"0\n") + gzip.compress(b"0.02\n") + b"\0" * 9, pack(b"0\n") + pack(b"0.02\n")):
        trace = read(io.BytesIO(content))
        assert trace.events == 2 and [f.code for f in trace.findings] == ["I002"]


def test_a_damaged_archive_loads_up_to_the_damage(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    lines = b"".join(b"%.6f\n" % t for t in np.cumsum(rng.exponential(0.02, 300_000)))
    packed = bytearray(gzip.compress(lines, mtime=0))
    packed[len(packed) * 9 // 10] ^= 0xFF
    trace = read(io.BytesIO(packed))
    assert 100_000 < trace.events < 300_000
    assert "I001" in [f.code for f in trace.findings]


def test_standard_input() -> None:
    code = "from specsonar.importers import read; t = read('-'); print(t.events, t.meta['inputs'][0]['name'])"
    done = subprocess.run([sys.executable, "-c", code], input=b"0\n0.02\n0.04\n", capture_output=True, check=True)
    assert done.stdout.split() == [b"3", b"stdin"]


def test_hash_is_that_of_the_file_as_stored(tmp_path: Path) -> None:
    import hashlib

    path = tmp_path / "x.jsonl.zst"
    tracefile.write(example(), path)
    assert read(path).meta["inputs"] == [
        {"name": "x.jsonl.zst", "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
    ]


def test_where_nothing_can_be_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot write"):
        tracefile.write(example(), tmp_path / "missing" / "x.jsonl")
    with pytest.raises(InputError, match="cannot write"):
        tracefile.Writer(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text("precious")
    with pytest.raises(TypeError):
        tracefile.write(Trace((stream([1], meta={"bad": object()}),)), path)
    assert path.read_text() == "precious" and len(list(tmp_path.iterdir())) == 1


def test_lines_are_what_the_documentation_says(tmp_path: Path) -> None:
    target = io.BytesIO()
    tracefile.write(Trace((stream([1000], [1], size=[210], name="a"),)), target)
    lines = [json.loads(line) for line in target.getvalue().splitlines()]
    assert lines[0]["specsonar"] == "trace" and lines[0]["version"] == tracefile.VERSION
    assert lines[1]["stream"] == 0 and lines[2] == [0, 1000, 1, 0, 210]
    assert lines[3]["end"] == 0 and lines[4] == {"close": {"streams": 1, "events": 1}}


def test_a_million_events_load_in_seconds(tmp_path: Path) -> None:
    import time

    rng = np.random.default_rng(1)
    big = stream(np.cumsum(rng.integers(1_000, 20_000_000, 200_000)), rng.integers(1, 5, 200_000))
    tracefile.write(Trace((big,)), tmp_path / "x.jsonl")
    begin = time.process_time()
    assert read(tmp_path / "x.jsonl").events == 200_000
    assert time.process_time() - begin < 2.0, "a fifth of a million; 0.15 s is usual"
