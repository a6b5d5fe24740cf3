"""Finished work is found again, whole; damaged and failed work is done again."""

from dataclasses import replace

import pytest

from specsonar import sweep
from specsonar.errors import InputError
from specsonar.sweep.methods import METHODS
from specsonar.sweep.store import Store

FAST = ("baseline", "logisi")


def run(folder, **options):
    return sweep.run("figure1", methods=FAST, **{"reps": 7, "store": folder, **options})


def files(folder):
    return sorted(folder.rglob("*.json"))


def test_a_second_run_computes_nothing_and_says_the_same(tmp_path, monkeypatch):
    first = run(tmp_path)
    assert (first.work.stored, first.work.computed) == (0, 8) and len(files(tmp_path)) == 8
    monkeypatch.setattr("specsonar.sweep.running.measure", None)
    second = run(tmp_path)
    assert (second.work.stored, second.work.computed) == (8, 0)
    assert second.rows == first.rows


def test_more_repetitions_and_methods_reuse_what_is_there(tmp_path):
    run(tmp_path, reps=5)
    work = run(tmp_path, reps=10).work
    assert (work.stored, work.computed) == (4, 4)


def test_refresh_computes_all(tmp_path):
    run(tmp_path)
    assert run(tmp_path, refresh=True).work.computed == 8


@pytest.mark.parametrize(
    "damage", [b"", b"{", b"[]", b"\xff\xfe", b'{"schema": "specsonar.sweep-cell/1"}', "cut", "other"]
)
def test_a_damaged_file_is_computed_again(tmp_path, damage):
    first = run(tmp_path)
    path, another, *_ = files(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(
        whole[: len(whole) // 2] if damage == "cut" else another.read_bytes() if damage == "other" else damage
    )
    second = run(tmp_path)
    assert second.work.damaged == (str(path),)
    assert (second.work.stored, second.work.computed) == (7, 1)
    times = [{m: replace(s, seconds=None) for m, s in row.scores.items()} for row in (*first.rows, *second.rows)]
    assert times[:2] == times[2:]


def test_a_failure_is_kept_with_its_reason_and_tried_again(tmp_path, monkeypatch):
    real = METHODS["logisi"]

    def broken(trace, seed):
        raise ZeroDivisionError("by nothing")

    monkeypatch.setitem(METHODS, "logisi", replace(real, ask=broken))
    first = run(tmp_path)
    assert (first.work.computed, first.work.failed) == (4, 4)
    score = first.rows[0].scores["logisi"]
    assert (score.repetitions, score.failed, score.errors) == (0, 7, ("ZeroDivisionError: by nothing",))
    assert score.exact is None
    assert sum("by nothing" in path.read_text() and "in broken" in path.read_text() for path in files(tmp_path)) == 4
    monkeypatch.setitem(METHODS, "logisi", real)
    second = run(tmp_path)
    assert (second.work.stored, second.work.computed, second.work.failed) == (4, 4, 0)
    assert second.rows[0].scores["logisi"].errors == ()


def test_when_everything_fails_there_is_no_table(monkeypatch):
    def broken(trace, seed):
        raise ZeroDivisionError("by nothing")

    monkeypatch.setitem(METHODS, "logisi", replace(METHODS["logisi"], ask=broken))
    with pytest.raises(InputError, match="every piece of work failed: ZeroDivisionError: by nothing"):
        sweep.run("figure1", methods=["logisi"])


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot make"):
        Store(tmp_path / "file")


def test_nothing_half_written_stays(tmp_path, monkeypatch):
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(InputError, match="No space left"):
        run(tmp_path)
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == []
