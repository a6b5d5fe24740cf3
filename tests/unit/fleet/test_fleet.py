"""Fleets of counted services, where a fit costs next to nothing: groups, streams, drift, what is left out."""

import json
import zipfile
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

pytest.importorskip("pyarrow")

from fleet_build import DAYS, streams_of, write

from specsonar import tracefile
from specsonar.errors import InputError, UsageError
from specsonar.fleet import STATE, fleet
from specsonar.trace import Trace


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two models on three days; on the third the drafts of "weak" are accepted less often. And some damage."""
    where = tmp_path_factory.mktemp("fleet")
    for day in range(3):
        write(where / f"good-{day}.parquet", streams_of("H0", 60, seed=day, day=day), model="good", endpoint="e1")
        acceptance = 0.6 if day == 2 else 0.8
        weak = streams_of("H0", 60, seed=10 + day, day=day, acceptance=acceptance)
        write(where / f"weak-{day}.parquet", weak, model="weak", endpoint="e1", mixed=True, rows=5_000)
    whole = (where / "good-0.parquet").read_bytes()
    (where / "damaged.parquet").write_bytes(whole[: len(whole) // 2])
    (where / "notes.txt").write_text("nothing to see here\n")
    return where


@pytest.fixture(scope="module")
def found(folder):
    return fleet(str(folder), margin=0.05, executor="serial")


def test_groups_hold_what_was_made(found):
    assert [group.key for group in found.groups] == [(m, "e1", day) for m in ("good", "weak") for day in DAYS]
    assert {group.streams for group in found.groups} == {60}
    assert {group.tokens for group in found.groups} == {60 * 300}
    assert (found.files, found.streams) == (6, 360)
    assert found.events == sum(group.events for group in found.groups)


def test_every_group_has_its_fingerprint(found):
    for group in found.groups:
        weak = group.key == ("weak", "e1", DAYS[2])
        truth = 2.176 if weak else 2.952
        assert group.verdict == "speculative"
        assert group.fingerprint.max_burst.value == 4
        assert group.fingerprint.acceptance_length.value == pytest.approx(truth, rel=0.03)
        assert group.acceptance_length == pytest.approx(group.fingerprint.acceptance_length.value, rel=1e-6)
        assert group.step_ms == pytest.approx(20.0, rel=0.01)
        assert 100 < group.first_token_ms < 200


def test_drift_is_found_on_the_day_it_began_and_on_no_other(found):
    told = {(d.series[0], d.base, d.candidate): d.verdict for d in found.drift}
    assert told == {
        ("good", DAYS[0], DAYS[1]): "equivalent",
        ("good", DAYS[1], DAYS[2]): "equivalent",
        ("good", DAYS[0], DAYS[2]): "equivalent",
        ("weak", DAYS[0], DAYS[1]): "equivalent",
        ("weak", DAYS[1], DAYS[2]): "acceptance",
        ("weak", DAYS[0], DAYS[2]): "acceptance",
    }
    (change,) = found.changed
    assert change.of("acceptance_length").ratio == pytest.approx(2.176 / 2.952, rel=0.03)
    assert change.of("step_ms") is None
    assert "weak e1 2026-11-03 (acceptance)" in found.sentence


def test_what_cannot_be_read_is_listed_with_the_reason(found):
    assert [one.name for one in found.skipped] == ["damaged.parquet", "notes.txt"]
    assert "Parquet" in found.skipped[0].reason
    assert {f.code for f in found.findings} == {"I031"}


def test_a_fleet_of_nothing_but_damage_is_an_error(tmp_path):
    (tmp_path / "a.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(InputError, match=r"none of 1 files.*a\.parquet"):
        fleet(str(tmp_path), executor="serial")
    with pytest.raises(InputError, match="no files at"):
        fleet(str(tmp_path / "*.jsonl"), executor="serial")
    with pytest.raises(UsageError):
        fleet(str(tmp_path), by=("day", "day"))


@pytest.mark.parametrize(("rows", "mixed"), [(1 << 20, False), (777, False), (777, True)])
def test_row_groups_and_mixed_rows_change_nothing(tmp_path, rows, mixed, monkeypatch):
    from specsonar.fleet import parquet

    monkeypatch.setattr(parquet, "PIECE", 500)
    streams = streams_of("H0", 20, seed=5)
    write(tmp_path / "a.parquet", streams, rows=rows, mixed=mixed)
    batches = list(parquet.batches(place(tmp_path / "a.parquet"), None, ("model",), READING))
    assert len(batches) > 1
    assert equal(batches, streams)


def test_parts_of_a_large_table_have_every_stream_once(tmp_path, monkeypatch):
    from specsonar.fleet import parquet

    monkeypatch.setattr(parquet, "PIECE", 300)
    monkeypatch.setattr(parquet, "SPLIT", 700)
    streams = streams_of("H0", 40, seed=6)
    long = streams_of("H0", 1, seed=7, tokens=8_000)  # spans several parts
    whole = [*streams[:20], *long, *streams[20:]]
    write(tmp_path / "a.parquet", whole, rows=350)
    where = place(tmp_path / "a.parquet")
    parts = parquet.parts(where, READING)
    assert len(parts) > 5
    batches = [b for part in parts for b in parquet.batches(where, part, (), READING)]
    assert equal(batches, whole)
    write(tmp_path / "b.parquet", whole, rows=350, mixed=True)
    assert parquet.parts(place(tmp_path / "b.parquet"), READING) == []


READING = {"unit": None, "gaps": False, "columns": None}


def place(path):
    from specsonar.fleet.places import Place

    return Place(path.name, str(path))


def equal(batches, streams):
    """Whether batches hold these streams, each once, in any order."""
    named = {name: (batch, k) for batch in batches for k, name in enumerate(batch.names)}
    assert sum(map(len, batches)) == len(named) == len(streams)
    for one in streams:
        batch, k = named[one.name]
        got = batch.stream(k)
        assert (got.t_ns == one.t_ns - one.t_ns[0]).all()
        assert (got.tokens == one.tokens).all()
        assert batch.first_ns[k] == one.t_ns[0] - one.start_ns
        assert batch.started_s[k] == pytest.approx(one.start_ns * 1e-9)
    return True


@pytest.mark.parametrize("kind", ["timestamps", "seconds", "text", "unsorted"])
def test_times_in_many_forms(tmp_path, kind):
    import pyarrow as pa
    import pyarrow.parquet as pq

    from specsonar.fleet import parquet

    streams = streams_of("H0", 3, seed=1)
    names = np.repeat([one.name for one in streams], [len(one) for one in streams])
    t = np.concatenate([one.t_ns for one in streams])
    tokens = np.concatenate([one.tokens for one in streams])
    stamps = pa.array(t).cast(pa.timestamp("ns", "UTC"))
    if kind == "unsorted":
        order = np.argsort(np.random.default_rng(0).random(t.size))
        names, t, tokens, stamps = names[order], t[order], tokens[order], stamps.take(pa.array(order))
    column = {"seconds": pa.array(t * 1e-9), "text": stamps.cast(pa.string())}.get(kind, stamps)
    pq.write_table(pa.table({"request_id": names, "timestamp": column, "tokens": tokens}), tmp_path / "a.parquet")
    batches = list(parquet.batches(place(tmp_path / "a.parquet"), None, ("day",), READING))
    assert [key for batch in batches for key in batch.keys] == [(DAYS[0],)] * 3
    named = {name: batch.stream(k) for batch in batches for k, name in enumerate(batch.names)}
    for one in streams:
        got = named[one.name]
        # seconds since 1970 as floating point are good to a quarter of a microsecond
        assert np.abs(got.t_ns - (one.t_ns - one.t_ns[0])).max() <= (500 if kind == "seconds" else 0)


def test_recordings_folders_and_names_tell_the_group(tmp_path):
    for day in DAYS[:2]:
        where = tmp_path / "model=tiny" / f"day={day}"
        where.mkdir(parents=True)
        trace = Trace(tuple(streams_of("H0", 12, seed=3)), {"service": "http://user:secret@host/v1"})
        bare = Trace(tuple(stripped(one) for one in trace.streams), trace.meta)
        tracefile.write(bare, where / "a.jsonl.zst")
    found = fleet(str(tmp_path / "**" / "*.zst"), executor="serial")
    assert [group.key for group in found.groups] == [("tiny", "http://host/v1", day) for day in DAYS[:2]]
    assert found.drift[0].verdict == "undetermined"  # twelve streams
    assert "secret" not in json.dumps(found.to_dict())


def stripped(one):
    """A stream on a clock that nobody knows."""
    from dataclasses import replace

    return replace(one, t_ns=one.t_ns - one.start_ns, start_ns=0)


def test_a_recording_with_the_offset_of_its_clock_has_a_day(tmp_path):
    streams = streams_of("H0", 8, seed=3, day=1)
    offset = streams[0].start_ns - 10**9
    from dataclasses import replace

    early = tuple(replace(s, t_ns=s.t_ns - offset, start_ns=s.start_ns - offset) for s in streams)
    tracefile.write(Trace(early, {"unix_offset_ns": offset}), tmp_path / "a.jsonl")
    found = fleet(str(tmp_path), by=("day",), executor="serial")
    assert [group.key for group in found.groups] == [(DAYS[1],)]


def test_what_is_not_told_is_a_group_of_its_own(tmp_path):
    tracefile.write(Trace(tuple(stripped(s) for s in streams_of("H0", 4, seed=1))), tmp_path / "a.jsonl")
    found = fleet(str(tmp_path), executor="serial")
    assert [group.key for group in found.groups] == [("?", "?", "?")]
    assert "I032" in {f.code for f in found.findings}


def test_the_sample_is_the_same_wherever_the_work_is_done(folder, tmp_path):
    few = fleet(str(folder), sample=15, executor="serial", out=tmp_path / "a")
    with ThreadPoolExecutor(3) as pool:
        again = fleet(str(folder), sample=15, executor=pool, out=tmp_path / "b")
    assert {group.pooled for group in few.groups} == {15}
    assert {group.fingerprint.streams for group in few.groups} == {15}
    assert few.to_dict() == again.to_dict()
    assert few.changed[0].candidate == DAYS[2]
    other = fleet(str(folder), sample=15, seed=1, executor="serial")
    assert other.groups[0].fingerprint.to_dict() != few.groups[0].fingerprint.to_dict()


def test_a_second_run_does_only_what_is_new(folder, tmp_path, monkeypatch):
    import shutil

    from specsonar.fleet import work

    copy, out = tmp_path / "in", tmp_path / "out"
    shutil.copytree(folder, copy)
    first = fleet(str(copy), executor="serial", out=out)
    calls = []
    real = work.batches
    monkeypatch.setattr(work, "batches", lambda unit: calls.append(unit.place.name) or real(unit))
    assert fleet(str(copy), executor="serial", out=out).to_dict() == first.to_dict()
    assert set(calls) == {"notes.txt"}  # what failed is tried again
    calls.clear()
    write(copy / "new.parquet", streams_of("H0", 20, seed=77, day=3), model="good", endpoint="e1")
    (copy / "weak-0.parquet").unlink()
    grown = fleet(str(copy), executor="serial", out=out)
    assert set(calls) == {"notes.txt", "new.parquet"}
    assert [group.key[-1] for group in grown.groups] == [*DAYS, "2026-11-04", *DAYS[1:]]
    assert grown.to_dict() == fleet(str(copy), executor="serial").to_dict()


def test_what_was_done_before_an_interruption_is_kept(folder, tmp_path, monkeypatch):
    from specsonar import fleet as package
    from specsonar.fleet import work

    def interrupted(task):
        raise KeyboardInterrupt

    monkeypatch.setattr(package, "measure", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fleet(str(folder), executor="serial", out=tmp_path)
    monkeypatch.undo()
    calls = []
    monkeypatch.setattr(package, "fit", lambda task: calls.append(task) or work.fit(task))
    found = fleet(str(folder), executor="serial", out=tmp_path)
    assert calls == []
    assert found.streams == 360


def test_two_runs_in_one_directory_are_refused(folder, tmp_path):
    import sqlite3

    fleet(str(folder / "good-0.parquet"), executor="serial", out=tmp_path)
    other = sqlite3.connect(tmp_path / STATE)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(InputError, match="another run"):
        fleet(str(folder / "good-0.parquet"), executor="serial", out=tmp_path)
    other.close()


def test_tables_answer_questions(folder, tmp_path, found):
    pytest.importorskip("duckdb")
    from specsonar.fleet import tables

    fleet(str(folder), executor="serial", out=tmp_path)
    names, rows = tables.ask(
        tmp_path,
        "SELECT model, day, COUNT(*) AS n, SUM(tokens) AS tokens, AVG(acceptance_length) AS length, "
        "MIN(started) AS began FROM streams GROUP BY ALL ORDER BY ALL",
    )
    assert names == ["model", "day", "n", "tokens", "length", "began"]
    assert [row[:4] for row in rows] == [(g.key[0], g.key[2], 60, 18_000) for g in found.groups]
    for row, group in zip(rows, found.groups, strict=True):
        assert row[4] == pytest.approx(group.acceptance_length, rel=0.01)
        assert str(row[5]).startswith(group.key[2])
    _, rows = tables.ask(tmp_path, "SELECT candidate FROM drift WHERE verdict = 'acceptance' AND span = 'next'")
    assert rows == [(DAYS[2],)]
    _, rows = tables.ask(tmp_path, "SELECT fingerprint->>'$.verdict' FROM groups")
    assert rows == [("speculative",)] * 6
    with pytest.raises(UsageError, match="nowhere"):
        tables.ask(tmp_path, "SELECT * FROM nowhere")
    kept = json.loads((tmp_path / "fleet.json").read_text())
    assert kept["schema"] == "specsonar.fleet/1"
    assert kept["groups"][0]["fingerprint"]["schema"] == "specsonar.fingerprint/1"


def test_files_inside_an_archive_and_in_memory(folder, tmp_path):
    fsspec = pytest.importorskip("fsspec")
    with zipfile.ZipFile(tmp_path / "fleet.zip", "w") as archive:
        for day in range(2):
            archive.write(folder / f"good-{day}.parquet", f"logs/good-{day}.parquet")
    packed = fleet(f"zip://logs/*.parquet::{tmp_path / 'fleet.zip'}", jobs=2)
    memory = fsspec.filesystem("memory")
    for day in range(2):
        memory.pipe(f"/specsonar/good-{day}.parquet", (folder / f"good-{day}.parquet").read_bytes())
    held = fleet("memory://specsonar/")
    for one in (packed, held):
        assert [(g.key[-1], g.streams, g.verdict) for g in one.groups] == [(d, 60, "speculative") for d in DAYS[:2]]
    assert packed.to_dict() == held.to_dict()
    memory.rm("/specsonar", recursive=True)
    with pytest.raises(InputError, match=r"cannot list|no files"):
        fleet("memory://specsonar/nothing.parquet")


def test_each_stream_alone(tmp_path):
    pytest.importorskip("duckdb")
    from specsonar.fleet import tables

    write(tmp_path / "a.parquet", streams_of("H0", 6, seed=1))
    fleet(str(tmp_path), executor="serial", each=True, out=tmp_path / "out")
    _, rows = tables.ask(
        tmp_path / "out",
        "SELECT verdict, max_burst, own_acceptance_length / acceptance_length, "
        "own_acceptance_low <= own_acceptance_high FROM streams",
    )
    assert [(v, m) for v, m, _, _ in rows] == [("speculative", 4.0)] * 6
    assert all(abs(ratio - 1) < 0.05 and ordered for *_, ratio, ordered in rows)


@pytest.mark.slow
def test_drift_on_a_link_that_hides_steps(tmp_path):
    """One event a token, late packets, stalls; on the third day the step is slower, and nothing else is."""
    for day in range(3):
        step = 24.0 if day == 2 else 20.0
        trace = Trace(tuple(streams_of("D", 50, seed=20 + day, day=day, step_ms=step)))
        tracefile.write(trace, tmp_path / f"{day}.jsonl.gz")
    found = fleet(str(tmp_path), by=("day",), margin=0.05, jobs=2)
    assert [group.fingerprint.max_burst.value for group in found.groups] == [4, 4, 4]
    assert [(d.candidate, d.verdict) for d in found.drift if d.span == "next"] == [
        (DAYS[1], "equivalent"),
        (DAYS[2], "step"),
    ]
    assert found.drift[1].of("step_ms").ratio == pytest.approx(1.2, rel=0.01)
