"""`specsonar simulate`: every knob of the simulator is an option, and what is written can be read."""

import json
from dataclasses import MISSING, fields

import click
import numpy as np
import pytest

import specsonar
from specsonar.cli import simulate as module
from specsonar.cli.app import cli
from specsonar.sources.service import Delay, Service
from specsonar.sources.worlds import WORLDS

OPTIONS = {p.name: p for p in module.command.params}


def truth(path):
    return specsonar.read(path).streams[0].truth["service"]


def test_every_knob_is_an_option_with_help_and_no_default_of_its_own():
    for knob in fields(Service):
        option = OPTIONS[knob.name]
        assert option.opts == [f"--{knob.name.replace('_', '-')}"]
        assert option.help.endswith((".", "]"))
        assert option.get_default(click.Context(module.command)) is None


def test_every_choice_knob_offers_its_choices():
    assert {f.name for f in fields(Service) if f.type == "str"} == set(module.CHOICES)
    for name, choices in module.CHOICES.items():
        assert getattr(Service(), name) in choices


def test_groups_begin_at_knobs_that_exist():
    names = [f.name for f in fields(Service)]
    assert set(module.GROUPS) <= set(names)
    assert next(iter(module.GROUPS)) == names[0]


def test_help_shows_every_knob_once_under_a_heading(run):
    text = run("simulate", "--help").stdout
    for knob in fields(Service):
        assert text.count(f"\n  --{knob.name.replace('_', '-')} ") == 1, knob.name
    assert all(f"\n{title}:\n" in text for title in module.GROUPS.values())


def test_knobs_reach_the_service(run, tmp_path):
    path = tmp_path / "a.jsonl"
    args = ["--k", 5, "--no-bonus", "--acceptance", "0.9,0.8,0.7,0.6", "--step-delay", "lognormal:2,1", "--stall-ms",
            "10,20", "--step-cv", 0.1, "--events", "step", "--clip-draft", "--read-block", 512]  # fmt: skip
    assert run("simulate", *args, "-o", path).exit_code == 0
    expected = Service(
        k=5, bonus=False, acceptance=(0.9, 0.8, 0.7, 0.6), step_delay=Delay("lognormal", 2.0, 1.0),
        stall_ms=(10.0, 20.0), step_cv=0.1, events="step", clip_draft=True, read_block=512,
    )  # fmt: skip
    assert truth(path) == expected.to_dict()


def test_defaults_are_those_of_the_simulator(run, tmp_path):
    path = tmp_path / "a.jsonl"
    run("simulate", "-o", path)
    assert truth(path) == Service().to_dict()
    assert all(f.default is not MISSING for f in fields(Service))


def test_a_world_is_a_start_that_knobs_change(run, tmp_path):
    path = tmp_path / "a.jsonl"
    run("simulate", "--world", "D", "--step-ms", 30, "-o", path)
    assert truth(path) == WORLDS["D"].service.to_dict() | {"step_ms": 30.0}
    assert specsonar.read(path).streams[0].truth["tokens"] == WORLDS["D"].tokens


@pytest.mark.parametrize("suffix", ["jsonl", "jsonl.gz", "jsonl.zst"])
def test_what_is_written_can_be_read(run, tmp_path, suffix):
    path = tmp_path / f"a.{suffix}"
    assert run("simulate", "--tokens", 50, "--streams", 3, "--seed", 4, "-o", path).exit_code == 0
    again = specsonar.read(path)
    direct = specsonar.simulate(tokens=50, streams=3, seed=4)
    for a, b in zip(again.streams, direct.streams, strict=True):
        assert np.array_equal(a.t_ns, b.t_ns)


def test_stdout_is_the_same_trace(run, tmp_path):
    path = tmp_path / "a.jsonl"
    run("simulate", "--tokens", 20, "-o", path)
    result = run("simulate", "--tokens", 20)
    assert result.stdout_bytes == path.read_bytes()
    assert all(json.loads(line) is not None for line in result.stdout.splitlines())


def test_the_same_seed_gives_the_same_bytes_and_another_one_does_not(run):
    first, again, other = (run("simulate", "--seed", s, "--step-cv", 0.1).stdout_bytes for s in (1, 1, 2))
    assert first == again
    assert first != other


def test_no_truth_leaves_the_answer_out(run):
    assert "acceptance" in run("simulate").stdout
    assert "acceptance" not in run("simulate", "--no-truth").stdout


def test_plain_times_are_seconds_and_can_be_read(run, tmp_path):
    path = tmp_path / "a.txt"
    run("simulate", "--plain", "--tokens", 40, "--step-cv", 0.2, "-o", path)
    times = specsonar.simulate(tokens=40, step_cv=0.2).streams[0].t_ns
    assert np.array_equal(specsonar.read(path, unit="s").streams[0].t_ns, times - times[0])


def test_plain_times_keep_counts(run, tmp_path):
    path = tmp_path / "a.txt"
    run("simulate", "--plain", "--events", "step", "-o", path)
    assert specsonar.read(path).streams[0].tokens.sum() == 600


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--world", "nowhere"), "no world"),
        (("--k", 3, "--max-burst", 9), "max_burst"),
        (("--step-ms", -1), "--step-ms"),
        (("--step-delay", "weird:1"), "--step-delay"),
        (("--acceptance", "a,b"), "--acceptance"),
        (("--acceptance", "0.5,0.5"), "acceptance has 2 values"),
        (("--plain", "--streams", 2), "one stream"),
        (("--order", "sideways"), "--order"),
    ],
)
def test_knobs_that_make_no_sense_are_wrong_usage(run, args, said):
    result = run("simulate", *args)
    assert result.exit_code == 2
    assert said in result.stderr.splitlines()[0]
    assert result.stdout == ""


def test_it_is_the_command_that_the_program_runs():
    assert cli.get_command(click.Context(cli), "simulate") is module.command
