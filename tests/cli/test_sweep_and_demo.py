"""`specsonar sweep` and `specsonar demo`, with an analysis that costs nothing."""

import csv
import io
import json
from dataclasses import replace

import pytest

from specsonar import demo, sweep
from specsonar.fingerprint import Estimate


@pytest.fixture
def fake(monkeypatch, sample):
    """Every analysis gives the sample; the baseline reads M = 9."""

    def fingerprint(trace, *, method="likelihood", **_):
        burst = 9.0 if method == "baseline" else 4.0
        return replace(sample, max_burst=Estimate(burst, burst, burst, 0.95, ""))

    monkeypatch.setattr(sweep, "fingerprint", fingerprint)
    monkeypatch.setattr(demo, "fingerprint", fingerprint)


SWEEP = ("sweep", "--preset", "article", "--reps", 2, "--jobs", 1)


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
    assert plain["schema"] == "specsonar.sweep/1"
    assert [row["label"] for row in plain["rows"]] == [row["label"] for row in table]
    assert [row["likelihood"]["max_burst"] for row in plain["rows"]] == [
        float(r["likelihood_max_burst"]) for r in table
    ]


def test_output_file(run, fake, tmp_path):
    path = tmp_path / "table.csv"
    assert run(*SWEEP, "--format", "csv", "-o", path).stdout == ""
    assert path.read_text().startswith("label,jitter_ms,")


def test_a_sweep_needs_a_preset(run):
    result = run("sweep")
    assert result.exit_code == 2
    assert "--preset" in result.stderr


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
