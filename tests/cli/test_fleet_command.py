"""`specsonar fleet`, on two days of one counted service."""

import json
from dataclasses import replace

import pytest

from specsonar import tracefile
from specsonar.sources.simulate import simulate
from specsonar.sources.worlds import WORLDS

SERVICE = WORLDS["H0"].service


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    """Two days in folders; on the second the acceptance fell. And a file that is no recording."""
    folder = tmp_path_factory.mktemp("logs")
    for number, (day, acceptance) in enumerate((("2026-11-01", 0.8), ("2026-11-02", 0.6))):
        (folder / f"day={day}").mkdir()
        trace = simulate(replace(SERVICE, acceptance=acceptance), tokens=200, streams=30, seed=number)
        tracefile.write(trace.without_truth(), folder / f"day={day}" / "a.jsonl")
    (folder / "notes.txt").write_text("nothing \x1b[31mhere\n")
    return folder


def test_the_table_marks_the_day_on_which_it_changed(run, logs):
    done = run("fleet", logs, "--jobs", 1)
    assert done.exit_code == 0
    assert max(map(len, done.stdout.splitlines())) <= 80
    first, second = (
        line for line in done.stdout.splitlines() if line.startswith("2026-11-0") and "speculative" in line
    )
    assert first.split()[:4] == ["2026-11-01", "30", "speculative", "4"]
    assert "accept -2" in second
    assert "left out:\n  notes.txt: " in done.stdout
    assert "I031" in done.stdout
    assert "\x1b" not in done.stdout


def test_json_page_and_tables(run, logs, tmp_path):
    pytest.importorskip("altair")
    pytest.importorskip("pyarrow")
    out = tmp_path / "out"
    args = ("fleet", logs, "--jobs", 1, "--by", "day", "--out", out)
    plain = json.loads(run(*args, "--json").stdout)
    assert plain["schema"] == "specsonar.fleet/1"
    assert [d["verdict"] for d in plain["drift"]] == ["acceptance"]
    assert plain == json.loads((out / "fleet.json").read_text())
    assert (
        run(*args, "--format", "html", "-o", tmp_path / "fleet.html", "--figures", tmp_path / "figures").exit_code == 0
    )
    page = (tmp_path / "fleet.html").read_text()
    assert "2026-11-02" in page
    assert "notes.txt" in page
    assert (tmp_path / "figures" / "acceptance-length-1.svg").stat().st_size > 1_000
    import pyarrow.parquet as pq

    assert run(*args, "-o", tmp_path / "groups.parquet").stdout == ""
    groups = pq.read_table(tmp_path / "groups.parquet").to_pylist()
    assert [g["drift"] for g in groups] == [None, "acceptance"]
    assert groups == pq.read_table(out / "groups.parquet").to_pylist()


def test_questions_in_sql(run, logs):
    pytest.importorskip("duckdb")
    done = run(
        "fleet",
        logs,
        "--jobs",
        1,
        "--by",
        "day",
        "--sql",
        "SELECT day, count(*) AS n FROM streams GROUP BY day ORDER BY day",
    )
    assert [line.split() for line in done.stdout.splitlines()] == [
        ["day", "n"],
        ["2026-11-01", "30"],
        ["2026-11-02", "30"],
    ]
    wrong = run("fleet", logs, "--jobs", 1, "--sql", "SELECT nonsense FROM streams")
    assert wrong.exit_code == 2
    assert "nonsense" in wrong.stderr


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["nowhere"], 3, "no such file"),
        (["."], 3, "no files at"),
        ([], 2, "DIR_OR_GLOB"),
        ([".", "--by", "day,day"], 2, "--by"),
        ([".", "--sql", "SELECT 1", "--json"], 2, "--sql"),
        ([".", "--executor", "moon"], 3, "no files at"),
        (["nothing://at/all"], 3, "cannot list"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(run, tmp_path, monkeypatch, options, code, said):
    monkeypatch.chdir(tmp_path)
    done = run("fleet", *options)
    assert done.exit_code == code
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_no_password_reaches_a_message(run):
    pytest.importorskip("fsspec")
    done = run("fleet", "nothing://me:geheim@host/a?key=geheim")
    assert done.exit_code == 3
    assert "geheim" not in done.stderr
