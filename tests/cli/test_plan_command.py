"""`specsonar plan`: what it prints, and what it says to what cannot be."""

import csv
import io
import json
from dataclasses import replace

import pytest

FORWARD = ("plan", "--k", 4, "--alpha", 0.8, "--draft-cost", 0.05)


def test_forward_tells_speed_best_and_gap(run):
    result = run(*FORWARD)
    assert (result.exit_code, result.stderr) == (0, "")
    said = " ".join(result.stdout.split())
    assert "k = 4 with a bonus token gives 3.36 of at most 5 tokens a step, 2.80 times" in said
    assert "The fastest is k = 8, 3.09 times plain decoding." in said
    assert max(map(len, result.stdout.splitlines())) <= 80
    row = next(line for line in result.stdout.splitlines() if line.startswith("4 "))
    assert row.split()[:7] == ["4", "5", "3.36", "67%", "1.64", "2.80", "a>0.17"]


def test_without_a_draft_cost_several_are_shown(run):
    result = run("plan", "--alpha", ".76,.81,.83")
    assert "c=0.05" in result.stdout and "c=0.2" in result.stdout
    assert "cannot be seen from outside" in result.stdout


def test_times_give_tokens_per_second(run):
    plain = json.loads(run(*FORWARD, "--plain-step", 20, "--json").stdout)
    draft = plain["drafts"][3]["at"][0]
    assert draft["tokens_per_s"]["value"] == pytest.approx(2.8013 * 50, rel=1e-4)
    assert draft["step_ms"] == pytest.approx(24.0)
    seen = json.loads(run(*FORWARD, "--step", 24, "--json").stdout)
    assert seen["drafts"][3]["at"][0]["tokens_per_s"] == pytest.approx(draft["tokens_per_s"])


def test_csv_has_a_row_for_each_length_and_cost(run):
    table = list(
        csv.DictReader(io.StringIO(run("plan", "--alpha", 0.8, "--draft-cost", "0,0.1", "--format", "csv").stdout))
    )
    assert len(table) == 2 * len({row["k"] for row in table})
    assert {row["draft_cost"] for row in table} == {"0.0", "0.1"}


def test_a_page_stands_alone(run, tmp_path):
    path = tmp_path / "plan.html"
    assert run(*FORWARD, "--format", "html", "-o", path).exit_code == 0
    page = path.read_text()
    assert "Speed-up over plain decoding" in page and "Tokens of a step against the ceiling" in page
    figures = tmp_path / "figures"
    assert run(*FORWARD, "--figures", figures).exit_code == 0
    assert {p.name for p in figures.glob("*.svg")} == {"speedup.svg", "ceiling.svg", "break-even.svg"}


@pytest.fixture
def saved(sample, tmp_path):
    """A fingerprint in a file."""

    def save(**changes):
        path = tmp_path / "saved.json"
        path.write_text(json.dumps(replace(sample, **changes).to_dict()))
        return path

    return save


def test_a_saved_fingerprint_is_planned_with(run, saved):
    result = run("plan", saved(), "--k", 2)
    assert (result.exit_code, result.stderr) == (0, "")
    said = " ".join(result.stdout.split())
    assert "This service gives 2.95 of at most 4 tokens a step (k = 3 with a bonus token)." in said
    assert "With k = 2 at this acceptance it would give 2.43 [2.33, 2.52] of at most 3 tokens a step" in said
    assert "faster than today where drafting a token costs more than" in said
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_without_a_bonus_token_the_present_k_is_m(run, saved):
    assert json.loads(run("plan", saved(), "--no-bonus", "--json").stdout)["now"] == 4


def test_a_recording_is_analysed_first(run, fake_fit, times):
    plain = json.loads(run("plan", times, "--plain-step", 15, "--json").stdout)
    assert len(fake_fit) == 1
    assert plain["cost_known"] is True
    assert plain["service"]["max_burst"]["value"] == 4.0


def test_a_service_without_drafts_gives_its_step_to_a_plan(run, saved):
    path = saved(verdict="autoregressive", acceptance_by_position=None)
    refused = run("plan", path)
    assert refused.exit_code == 3
    assert "acceptance cannot be seen" in refused.stderr and "--alpha" in refused.stderr
    plain = json.loads(run("plan", path, "--alpha", 0.8, "--k", 3, "--draft-cost", 0, "--json").stdout)
    assert plain["drafts"][2]["at"][0]["tokens_per_s"]["value"] == pytest.approx(2.952 / 0.02)


def test_what_is_undetermined_is_said(run, saved):
    result = run("plan", saved(verdict="undetermined"))
    assert result.exit_code == 3
    assert result.stderr.startswith("error: there is no speculation to plan with: ")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "no acceptance to plan with"),
        (("--alpha", "1.2"), "an acceptance of 1.2 is out of range"),
        (("--alpha", "x"), "not a number"),
        (("--k", "0", "--alpha", "0.8"), "--k"),
        (("--alpha", "0.8", "--draft-cost", "nan"), "draft cost of nan"),
        (("--alpha", "0.8", "--step", "20"), "draft length of the step"),
        (("--alpha", "0.8", "--verify-cost", "2=3ms"), "1=8.47ms"),
        (("--alpha", "0.8", "--verify-cost", "tpu"), "nemotron-30b-a3b-m5max"),
        (("--alpha", "0.8", "--k", "4", "--step", "20", "--plain-step", "30"), "shorter than the verification alone"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line_and_a_hint(run, arguments, said):
    result = run("plan", *arguments)
    assert result.exit_code == 2
    assert said in result.stderr
    lines = result.stderr.splitlines()
    assert len(lines) == 2 and lines[1].startswith("hint: ")


def test_two_acceptances_are_one_too_many(run, saved):
    result = run("plan", saved(), "--alpha", 0.8)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "twice" in result.stderr


def test_help_shows_examples(run):
    said = run("plan", "--help").stdout
    assert "specsonar plan --k 4 --alpha 0.8 --draft-cost 0.05" in said
    assert "Forward" in said


# --- backward ---

BACKWARD = ("plan", "--jitter", 6, "--step", 20, "--precision", "5%")


def test_backward_tells_tokens_and_streams_for_every_way_of_observing(run):
    result = run(*BACKWARD)
    assert (result.exit_code, result.stderr) == (0, "")
    assert max(map(len, result.stdout.splitlines())) <= 80
    rows = {line[:28].strip(): line.split()[-9:] for line in result.stdout.splitlines() if " in " in line}
    assert rows["acceptance rate ±5%"] == ["468", "in", "1", "468", "in", "1", "524", "in", "1"]
    assert rows["M exact and bounded"][-3:] == ["524", "in", "1"]
    assert rows["acceptance length changed 5%"][0] == "8,400"


def test_one_question_in_one_layer(run):
    plain = json.loads(
        run("plan", "--for", "max_burst", "--layer", "counted", "--k", 7, "--alpha", 0.6, "--json").stdout
    )
    (need,) = plain["needs"]
    assert (plain["about"], need["target"], need["layer"], need["limit"]) == (
        "data", "max_burst", "counted", "full bursts",
    )  # fmt: skip
    assert plain["setting"]["max_burst"] == 8
    assert need["trial"] is None


def test_check_tells_how_many_were_right(run):
    result = run(
        "plan", "--for", "speculation", "--layer", "counted", "--check", "--recordings", 8, "--jobs", 1, "--seed", 1
    )
    assert (result.exit_code, result.stderr) == (0, "")
    assert "enough" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert "0%" in next(line for line in result.stdout.splitlines() if line.endswith("enough"))


def test_backward_from_a_file(run, saved):
    plain = json.loads(run("plan", saved(), "--precision", "2%", "--json").stdout)
    assert {n["layer"] for n in plain["needs"]} == {"in-order"}
    assert plain["setting"]["tokens_per_stream"] == 600
    refused = run("plan", saved(), "--precision", "2%", "--check")
    assert refused.exit_code == 2 and "simulator" in refused.stderr


def test_a_page_and_figures_of_sizes(run, tmp_path):
    path, figures = tmp_path / "plan.html", tmp_path / "figures"
    assert run(*BACKWARD, "--format", "html", "-o", path, "--figures", figures).exit_code == 0
    assert "Tokens that it takes" in path.read_text()
    assert {p.name for p in figures.glob("*.svg")} == {"tokens.svg"}
    table = list(csv.DictReader(io.StringIO(run(*BACKWARD, "--format", "csv").stdout)))
    assert len(table) == 21


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--precision", "200%"), "no share"),
        (("--jitter", "-1"), "--jitter"),
        (("--for", "luck"), "'luck' is not one of"),
        (("--jitter", "6", "--draft-cost", "0.1"), "--draft-cost asks about speed"),
        (("--jitter", "6", "--alpha", "0"), "an acceptance of 0"),
        (("--jitter", "6", "--k", "4", "--alpha", "0.8,0.7"), "2 acceptances for 4 positions"),
    ],
)  # fmt: skip
def test_bad_input_backward(run, arguments, said):
    result = run("plan", *arguments)
    assert result.exit_code == 2
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 2


def test_numbers_beside_a_file_are_one_too_many(run, saved):
    result = run("plan", saved(), "--precision", "2%", "--step", 20)
    assert result.exit_code == 2 and "--step is given twice" in result.stderr


def test_counters_as_servers_print_them(run):
    """vLLM pull request 48892: share of steps that accept each of 8 positions, and the acceptance length it printed."""
    shares = "0.7617,0.6158,0.5125,0.4243,0.3640,0.3094,0.2722,0.2365"
    plain = json.loads(run("plan", "--per-position", shares, "--json").stdout)
    assert plain["drafts"][7]["acceptance_length"]["value"] == pytest.approx(4.50, abs=0.005)
    assert plain["acceptance"][1]["value"] == pytest.approx(0.6158 / 0.7617)
    rising = run("plan", "--per-position", "0.5,0.6")
    assert rising.exit_code == 2 and "later draft position" in rising.stderr


def test_an_acceptance_length_and_k_give_one_acceptance(run):
    plain = json.loads(run("plan", "--acceptance-length", 3.3616, "--k", 4, "--json").stdout)
    assert plain["acceptance"][0]["value"] == pytest.approx(0.8, abs=1e-5)
    assert any("accepted alike" in note for note in plain["assumptions"])
    assert run("plan", "--acceptance-length", 3).exit_code == 2
    assert "from 1 to 3 tokens" in run("plan", "--acceptance-length", 4, "--k", 2).stderr
    sized = json.loads(run("plan", "--acceptance-length", 3.3616, "--k", 4, "--precision", "5%", "--json").stdout)
    assert sized["setting"]["acceptance"] == pytest.approx([0.8] * 4, abs=1e-5)
    assert "given twice" in run("plan", "--alpha", 0.8, "--acceptance-length", 3, "--k", 4).stderr
