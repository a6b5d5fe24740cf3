"""`specsonar compare`, its gate and the reports for CI, on files of counted services."""

import json
from dataclasses import replace
from xml.etree import ElementTree as Xml

import pytest

from specsonar import tracefile
from specsonar.errors import Exit
from specsonar.sources.simulate import simulate
from specsonar.sources.worlds import WORLDS

SERVICE = WORLDS["H0"].service


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Recordings of 20 streams of 300 tokens by name; "few" has 3."""
    folder = tmp_path_factory.mktemp("sides")
    made = {}
    for seed, (name, service, streams) in enumerate([
        ("base", SERVICE, 20), ("again", SERVICE, 20), ("worse", replace(SERVICE, acceptance=0.65), 20),
        ("slower", replace(SERVICE, step_ms=24.0), 20), ("few", SERVICE, 3),
    ]):  # fmt: skip
        trace = simulate(service, tokens=300, streams=streams, seed=seed).without_truth()
        made[name] = folder / f"{name}.jsonl"
        tracefile.write(trace, made[name])
    return made


@pytest.mark.parametrize(
    ("candidate", "margin", "verdict", "code"),
    [
        ("again", "10%", "equivalent", Exit.OK),
        ("worse", "10%", "acceptance", Exit.GATE_FAILED),
        ("slower", "10%", "step", Exit.GATE_FAILED),
        ("few", "1%", "undetermined", Exit.UNDETERMINED),
    ],
)
def test_the_gate_decides(run, files, candidate, margin, verdict, code):
    args = ("compare", files["base"], files[candidate], "--margin", margin, "--json")
    asked, gated = run(*args), run(*args, "--gate")
    assert asked.exit_code == 0
    assert gated.exit_code == code
    assert json.loads(gated.stdout)["verdict"] == verdict
    assert asked.stdout == gated.stdout


def test_a_change_for_the_better_passes(run, files):
    done = run("compare", files["worse"], files["base"], "--gate")
    assert done.exit_code == 0
    assert "rose" in done.stdout
    assert "changed for the better" in done.stdout


def test_the_sentence_leads_and_names_the_culprit(run, files):
    done = run("compare", files["base"], files["worse"])
    said = " ".join(done.stdout.split("\n\n")[0].split())
    assert said.startswith("Tokens/s fell ")
    assert "acceptance length 2." in said
    assert "changed, the step did not (" in said
    assert "equivalent within 3%" in said
    assert "gate:" not in done.stdout
    assert done.stderr == ""


def test_what_is_needed_is_said(run, files):
    done = run("compare", files["base"], files["few"], "--margin", "1%")
    assert "streams a side" in done.stdout
    assert "C003" in done.stdout


def test_several_files_a_side(run, files):
    sides = ("--base", files["base"], "--base", files["again"], "--candidate", files["worse"])
    found = json.loads(run("compare", *sides, "--json").stdout)
    assert (found["base"]["streams"], found["candidate"]["streams"]) == (40, 20)


@pytest.mark.parametrize("side", ["base", "candidate"])
def test_a_saved_fingerprint_is_as_good_as_its_recording(run, files, tmp_path, side):
    saved = tmp_path / "saved.json"
    run("analyze", files["base" if side == "base" else "worse"], "--json", "-o", saved)
    direct = json.loads(run("compare", files["base"], files["worse"], "--json").stdout)
    names = (saved, files["worse"]) if side == "base" else (files["base"], saved)
    assert json.loads(run("compare", *names, "--json").stdout) == direct


def test_a_saved_fingerprint_from_stdin(run, files):
    saved = run("analyze", files["base"], "--json").stdout
    done = run("compare", "-", files["again"], "--json", input=saved.encode())
    assert json.loads(done.stdout)["base"]["streams"] == 20


def test_a_recording_from_stdin(run, files):
    done = run("compare", files["base"], "-", "--json", input=files["again"].read_bytes())
    assert json.loads(done.stdout)["candidate"]["streams"] == 20


@pytest.mark.parametrize(
    "args",
    [
        (), ("{base}",), ("{base}", "{again}", "{few}"), ("--base", "{base}"), ("{base}", "--candidate", "{again}"),
        ("{base}", "{again}", "--base", "{few}"), ("-", "-"), ("{base}", "{again}", "--margin", "200%"),
        ("{base}", "{again}", "--margin", "0"),
    ],
)  # fmt: skip
def test_two_sides_are_needed(run, files, args):
    done = run("compare", *(arg.format_map(files) for arg in args))
    assert done.exit_code == Exit.USAGE
    assert done.stdout == ""


def test_unlike_recordings_are_refused(run, files, tmp_path):
    saved = json.loads(run("analyze", files["again"], "--json").stdout)
    for temperature in (0.0, 0.7):
        saved["conditions"] = {"model": "m", "temperature": temperature}
        (tmp_path / f"{temperature}.json").write_text(json.dumps(saved))
    args = ("compare", tmp_path / "0.0.json", tmp_path / "0.7.json")
    refused = run(*args)
    assert refused.exit_code == Exit.INPUT
    assert "temperature 0.0 and 0.7" in refused.stderr
    assert "--allow-mismatch" in refused.stderr
    allowed = run(*args, "--allow-mismatch")
    assert allowed.exit_code == 0
    assert "C001" in allowed.stdout


def test_markdown_for_a_pull_request(run, files):
    text = run("compare", files["base"], files["worse"], "--gate", "--format", "markdown").stdout
    lines = text.splitlines()
    assert lines[0] == "### specsonar gate: failed"
    assert lines[2].startswith("**Tokens/s fell")
    table = [line for line in lines if line.startswith("|")]
    assert len({line.count(" | ") for line in table}) == 1
    assert "<br>candidate: worse.jsonl" in text


def junit(text):
    """The suite of a JUnit report that the strict schema (Ant's, as Jenkins and others use it) accepts."""
    root = Xml.fromstring(text.encode())
    assert root.tag == "testsuites"
    (suite,) = root
    wanted = {"name", "package", "id", "timestamp", "hostname", "tests", "failures", "errors", "time"}
    assert wanted <= set(suite.attrib) <= wanted | {"skipped"}
    tags = [child.tag for child in suite]
    assert tags == ["properties", *["testcase"] * int(suite.get("tests")), "system-out", "system-err"]
    for case in suite.iter("testcase"):
        assert set(case.attrib) == {"name", "classname", "time"}
        assert len(case) <= 1
        for outcome in case:
            assert outcome.tag in ("failure", "error", "skipped")
            assert "type" in outcome.attrib or outcome.tag == "skipped"
    for tag, count in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        assert len(list(suite.iter(tag))) == int(suite.get(count))
    return suite


def outcomes(suite):
    return {case.get("name"): case[0].tag if len(case) else "passed" for case in suite.iter("testcase")}


def test_junit_of_a_comparison(run, files, tmp_path):
    target = tmp_path / "junit.xml"
    done = run("compare", files["base"], files["worse"], "--gate", "--format", "junit", "-o", target)
    assert done.exit_code == Exit.GATE_FAILED
    assert outcomes(junit(target.read_text())) == {
        "tokens_per_s": "failure", "acceptance_length": "failure", "step_ms": "passed", "first_token_ms": "skipped",
        "jitter_ms": "skipped",
    }  # fmt: skip
    few = junit(run("compare", files["base"], files["few"], "--margin", "1%", "--format", "junit").stdout)
    assert outcomes(few)["acceptance_length"] == "error"


@pytest.mark.parametrize(
    ("expected", "code"),
    [
        (("k=3", "acceptance>=0.7", "step_ms<=25"), Exit.OK),
        (("k=3", "acceptance>=0.9"), Exit.GATE_FAILED),
        (("step_ms<=20.0", "k=4"), Exit.UNDETERMINED),
        (("step_ms<=20.0", "k=8"), Exit.GATE_FAILED),
    ],
)
def test_expectations(run, files, expected, code):
    flags = [part for text in expected for part in ("--expect", text)]
    done = run("analyze", files["base"], *flags)
    assert done.exit_code == code
    assert all(f" {text}: " in done.stdout for text in expected)
    found = json.loads(run("analyze", files["base"], *flags, "--json").stdout)
    assert [c["name"] for c in found["checks"]] == list(expected)
    suite = junit(run("analyze", files["base"], *flags, "--format", "junit").stdout)
    assert list(outcomes(suite)) == list(expected)
    assert expected[0] in run("analyze", files["base"], *flags, "--format", "markdown").stdout.replace("\\", "")


def test_a_wrong_expectation_is_told_before_anything_is_read(run):
    done = run("analyze", "nowhere", "--expect", "speed>=3")
    assert done.exit_code == Exit.USAGE
    assert "max_burst" in done.stderr


def test_a_report_of_no_test_is_refused(run, files):
    assert run("analyze", files["base"], "--format", "junit").exit_code == Exit.USAGE


def test_hostile_text_stays_text(run, files, tmp_path):
    """Names and findings come from files, and files from anywhere."""
    saved = json.loads(run("analyze", files["base"], "--json").stdout)
    evil = "</system-out><x>&\x1b[31m]]>\ufffe|<script>"
    saved["provenance"]["inputs"] = [{"name": evil, "sha256": ""}]
    saved["sentence"] = evil
    saved["verdict"] = "paced"
    saved["acceptance_length"] = None
    path = tmp_path / "evil.json"
    path.write_text(json.dumps(saved))
    args = ("compare", path, files["again"])
    junit(run(*args, "--format", "junit").stdout)
    assert "\x1b" not in run(*args).stdout
    assert "<script>" not in run(*args, "--format", "markdown").stdout.replace("\\<script", "")
    suite = junit(run("analyze", files["base"], "--expect", "k=3", "--format", "junit").stdout)
    assert outcomes(suite) == {"k=3": "passed"}
