"""`specsonar sweep` and `specsonar demo`, with an analysis that costs nothing."""

import csv
import io
import json
from dataclasses import replace

import pytest

from specsonar import demo, sweep
from specsonar.cli import sweep as command
from specsonar.fingerprint import Estimate
from specsonar.sweep import methods


@pytest.fixture
def fake(monkeypatch, sample):
    """Every analysis gives the sample; the baseline reads M = 9."""

    def fingerprint(trace, *, method="likelihood", **_):
        burst = 9.0 if method == "baseline" else 4.0
        return replace(sample, max_burst=Estimate(burst, burst, burst, 0.95, ""))

    monkeypatch.setattr(methods, "fingerprint", fingerprint)
    monkeypatch.setattr(demo, "fingerprint", fingerprint)


SWEEP = ("sweep", "--preset", "article", "--reps", 2, "--jobs", 1)
GRID = ("sweep", "--vary", "tokens=40,60", "--set", "k=3", "--method", "logisi", "--method", "baseline",
        "--reps", 2, "--executor", "serial")  # fmt: skip


def test_the_table_has_the_articles_figures_its_method_again_and_ours(run, fake):
    result = run(*SWEEP)
    assert (result.exit_code, result.stderr) == (0, "")
    assert max(map(len, result.stdout.splitlines())) <= 80
    line = next(line for line in result.stdout.splitlines() if line.startswith("6 ms"))
    assert line.split()[:5] == ["6", "ms", "8", "9.0", "4.0"]
    assert line.split()[-2:] == ["0%", "100%"]
    assert "1 ms, k=8" in result.stdout


def test_json_and_csv_hold_the_same_rows(run, fake):
    plain = json.loads(run(*SWEEP, "--json").stdout)
    table = list(csv.DictReader(io.StringIO(run(*SWEEP, "--csv").stdout)))
    assert plain["schema"] == "specsonar.sweep/2"
    assert [row["label"] for row in plain["rows"] for _ in plain["methods"]] == [row["label"] for row in table]
    assert [row["scores"][m]["max_burst"]["mean"] for row in plain["rows"] for m in plain["methods"]] == [
        float(r["max_burst_mean"]) for r in table
    ]


def test_output_file(run, fake, tmp_path):
    path = tmp_path / "table.csv"
    assert run(*SWEEP, "--format", "csv", "-o", path).stdout == ""
    assert path.read_text().startswith("label,jitter,k,method,")


def test_a_grid_has_a_line_for_each_service_and_method_and_a_sum(run):
    result = run(*GRID)
    assert (result.exit_code, result.stderr) == (0, "")
    lines = [line.split() for line in result.stdout.splitlines()]
    assert [line[:2] for line in lines if line and line[0] in ("40", "60")] == [["40", "baseline"], ["60", "baseline"]]
    assert "All services together" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80
    detailed = run(*GRID, "-v").stdout
    assert "root mean square error" in detailed and "tokens=40" in detailed


def test_parquet_keeps_the_types(run, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "grid.parquet"
    assert run(*GRID, "--format", "parquet", "-o", path).exit_code == 0
    table = parquet.read_table(path).to_pylist()
    assert [(r["tokens"], r["method"]) for r in table] == [(n, m) for n in (40, 60) for m in ("baseline", "logisi")]
    assert all(isinstance(r["exact"], float) for r in table)


def test_a_store_says_what_it_had(run, tmp_path):
    first, second = run(*GRID, "--store", tmp_path / "cells"), run(*GRID, "--store", tmp_path / "cells")
    assert first.stderr == "4 pieces of work: 0 from the store, 4 computed, 0 failed\n"
    assert second.stderr == "4 pieces of work: 4 from the store, 0 computed, 0 failed\n"
    assert second.stdout == first.stdout
    assert run(*GRID, "--store", tmp_path / "cells", "-q").stderr == ""
    damaged = next((tmp_path / "cells").rglob("*.json"))
    damaged.write_text("{")
    assert run(*GRID, "--store", tmp_path / "cells").stderr.startswith("computed again, for the file was damaged: ")


def test_failures_are_told_and_do_not_end_the_sweep(run, tmp_path, monkeypatch):
    def broken(trace, seed):
        raise ZeroDivisionError("by nothing")

    monkeypatch.setitem(methods.METHODS, "logisi", replace(methods.METHODS["logisi"], ask=broken))
    result = run(*GRID, "--store", tmp_path)
    assert result.exit_code == 0
    assert "2 computed, 2 failed\nfailed: ZeroDivisionError: by nothing\n" in result.stderr
    assert "tries these again" in result.stderr


def test_a_file_with_flags_on_top(run, tmp_path):
    path = tmp_path / "grid.toml"
    path.write_text('methods = ["baseline"]\nreps = 3\n[set]\nk = 3\n[vary]\ntokens = [40, 60]\n')
    plain = json.loads(run("sweep", "--grid", path, "--vary", "step=10,20", "--reps", 2, "--json").stdout)
    assert (plain["methods"], plain["reps"], plain["varied"]) == (["baseline"], 2, ["tokens", "step"])
    assert [row["at"] for row in plain["rows"]][-1] == {"tokens": 60, "step": 20.0}


def test_the_estimate_comes_first_when_it_takes_long(run, monkeypatch, fake):
    monkeypatch.setattr("specsonar.cli.sweep._LONG_S", 0.0)
    result = run(*SWEEP)
    assert result.stderr.startswith("8 services, 16 pieces of work: about ")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((), "--preset"), (("--preset", "nulls", "--vary", "k=1"), "a grid of its own"),
        (("--vary", "kk=1"), "unknown knob"),
        (("--vary", "k=1", "--executor", "slurm"), "no executor"), (("--preset", "nope"), "nope"),
        (("--vary", "k=1", "--executor", "serial", "--jobs", 2), "jobs"), (("--vary", "k=1", "--method", "x"), "'x'"),
        (("--grid", "none.toml"), "cannot read"),
    ],
)  # fmt: skip
def test_wrong_usage(run, args, message):
    result = run("sweep", *args)
    assert result.exit_code in (2, 3)
    assert message in result.stderr and "Traceback" not in result.stderr


def test_the_command_offers_what_there_is():
    assert tuple(sweep.PRESETS) == command.PRESETS
    assert tuple(methods.METHODS) == command.METHODS


def test_demo_shows_truth_beside_inference_and_how_to_repeat_it(run, fake, sample):
    result = run("demo", "--virtual", "--seed", 11)
    assert (result.exit_code, result.stderr) == (0, "")
    assert sample.sentence in result.stdout
    assert "specsonar demo --seed 11 --virtual" in result.stdout
    rows = [line.split() for line in result.stdout.splitlines() if line.startswith(("verdict", "max burst"))]
    assert {row[-1] for row in rows} <= {"✓", "✗"}


def test_a_real_engine_has_no_virtual_time(run):
    result = run("demo", "--virtual", "--engine", "llama.cpp")
    assert result.exit_code == 2
    assert "leave out" in result.stderr


def test_demo_draws_a_new_seed_each_time(run, fake):
    shown = {next(line for line in run("demo", "--virtual").stdout.splitlines() if "seed" in line) for _ in range(4)}
    assert len(shown) > 1


def test_demo_on_an_ascii_stream_uses_words(run, fake):
    from click.testing import CliRunner

    from specsonar.cli.app import cli

    result = CliRunner(charset="ascii").invoke(cli, ["demo", "--virtual", "--seed", "11"])
    assert result.stdout_bytes.isascii()
    assert "yes" in result.stdout
