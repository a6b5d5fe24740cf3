"""`specsonar defend`: what it prints, saves and refuses."""

import json

import pytest

QUICK = ("--policy", "none", "--policy", "pace=8ms", "--tokens", 150, "--reps", 1, "--executor", "serial")


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    from click.testing import CliRunner

    from specsonar.cli.app import cli

    path = tmp_path_factory.mktemp("defend") / "found.json"
    done = CliRunner().invoke(cli, ["defend", *map(str, QUICK), "--json", "-o", str(path)])
    assert done.exit_code == 0, done.output
    return json.loads(path.read_text())


def test_json_has_the_contract(found):
    assert found["schema"] == "specsonar.defend/1"
    assert [row["policy"] for row in found["rows"]] == ["none", "pace=8ms"]
    assert {one["observer"] for one in found["rows"][1]["learnt"]} == {"likelihood", "baseline", "informed"}


def test_text_fits_a_terminal_and_says_what_it_rests_on(run):
    done = run("defend", *QUICK)
    assert done.exit_code == 0
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "…" not in done.stdout
    for said in ("What an observer learns from 150 tokens", "What it costs, 150 tokens", "assumed", "M=4 alpha=0.8"):
        assert said in done.stdout


def test_the_shell_completes_policies():
    import click

    from specsonar.cli.defence import Defence

    found = Defence().shell_complete(click.Context(click.Command("x")), click.Option(["--policy"]), "p")
    assert [one.value for one in found] == ["pace", "pad"]


def test_csv_has_a_row_for_each_policy(run):
    lines = run("defend", *QUICK, "--csv").stdout.splitlines()
    assert len(lines) == 3 and lines[0].startswith("policy,way,strength,tokens,first_ms")


def test_a_page_has_the_frontier_and_a_curve_for_each_way_to_delay(run, tmp_path):
    ways = [word for ms in (1, 2, 3) for word in ("--policy", f"scatter=uniform:{ms}ms")]
    done = run("defend", *QUICK[4:], *ways, "--format", "html", "-o", tmp_path / "x.html")
    assert done.exit_code == 0, done.stderr
    page = (tmp_path / "x.html").read_text()
    assert "What leaks against what is waited, 150 tokens" in page and "scatter=uniform:3ms" in page
    assert "How much delay is enough: scatter=uniform" in page


def test_a_recording_goes_through_the_policies(run, tmp_path):
    path = tmp_path / "x.jsonl"
    assert run("simulate", "--tokens", 200, "-o", path).exit_code == 0
    done = run("defend", path, "--policy", "pace=8ms", "--reps", 1, "--executor", "serial", "--json")
    assert done.exit_code == 0
    assert json.loads(done.stdout)["source"] == str(path)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (("--policy", "pce=8ms"), "pce"),
        (("--defence", "pace=8ms", "--policy", "none"), "hides already"),
        (("x.jsonl", "--step-ms", 20), "do not go together"),
        (("--jobs", 2, "--executor", "serial"), "jobs"),
    ],
)
def test_what_is_refused(run, asked, said):
    done = run("defend", *asked)
    assert done.exit_code == 2
    assert said in done.stderr
