"""`specsonar show`, `specsonar convert`, and --columns on all commands that read."""

import json
from pathlib import Path

import pytest

from specsonar.importers import read

GOLDEN = Path(__file__).parents[1] / "golden" / "formats"


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("who,when,got\n" + "".join(f"{i % 2},{20 * (i // 2) + i % 2},{1 + i % 3}\n" for i in range(40)))
    return path


def test_show_says_what_is_in_a_file(run):
    done = run("show", GOLDEN / "servebench/run.json")
    assert done.exit_code == 0 and done.stderr == ""
    head, *lines = done.stdout.splitlines()
    assert head == "servebench: 8 streams, 168 events"
    row = next(line for line in lines if line.startswith("1 ")).split()
    assert row[1:6] == ["24", "48", "0.468", "63.03", "20.66"]
    assert "run.json" not in done.stdout, "known, and would fill the line"
    assert "clock: ticks of 1 us" in done.stdout


def test_show_as_json(run):
    done = run("show", GOLDEN / "sglang_bench/sglang_details.jsonl", "--json")
    shown = json.loads(done.stdout)
    assert shown["schema"] == "specsonar.show/1" and shown["format"] == "SGLang bench_serving"
    assert [(s["events"], s["tokens"]) for s in shown["streams"]] == [(20, 48), (21, 48), (20, 48), (20, 48)]
    one = shown["streams"][0]
    assert one["span_s"] == pytest.approx(0.37686, abs=1e-4) and one["first_s"] == pytest.approx(0.0754, abs=1e-4)
    assert one["count_source"] == "token counts from the server" and one["server_report"]["draft_length"] == 3
    assert shown["findings"] == [] and len(shown["inputs"][0]["sha256"]) == 64


def test_show_tells_what_a_file_without_times_holds(run):
    path = GOLDEN / "guidellm/benchmarks.json"
    done = run("show", path)
    words = " ".join(done.stdout.split())
    assert done.exit_code == 0 and words.startswith("guidellm: 0 streams, 0 events")
    assert "tokens per chunk 2.575" in words and "accepted 117" in words and "I010" in words
    shown = json.loads(run("show", path, "--json").stdout)
    assert shown["streams"] == [] and shown["holds"]["requests"] == 4 and shown["server_report"]["drafted"] == 219
    refused = run("analyze", path)
    assert refused.exit_code == 3 and "tokens per chunk 2.575" in refused.stderr and "specsonar proxy" in refused.stderr


def test_show_lists_many_streams_only_when_asked(run, tmp_path):
    path = tmp_path / "many.csv"
    path.write_text("stream,t\n" + "".join(f"s{i % 30},{i}\n" for i in range(60)))
    assert "and 10 more" in run("show", path).stdout
    assert "more;" not in run("show", path, "-v").stdout


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet", ".jsonl", ".jsonl.gz", ".jsonl.zst"])
def test_convert_there_and_back(run, tmp_path, suffix):
    source, target = GOLDEN / "aiperf/usage_profile_export_raw.jsonl", tmp_path / f"x{suffix}"
    done = run("convert", source, target)
    assert done.exit_code == 0 and done.stdout == "" and done.stderr == ""
    before, after = read(source), read(target)
    for a, b in zip(before.streams, after.streams, strict=True):
        assert (b.t_ns - b.t_ns[0]).tolist() == (a.t_ns - a.t_ns[0]).tolist() and b.tokens.tolist() == a.tokens.tolist()
        assert "jsonl" not in suffix or (b.server_report == a.server_report and b.start_ns == a.start_ns)
    assert list(tmp_path.iterdir()) == [target], "nothing else is left behind"


def test_convert_says_what_was_noticed(run, tmp_path):
    done = run("convert", GOLDEN / "vllm_bench/handmade_role_chunk_counted.json", tmp_path / "x.csv", "-v")
    assert done.exit_code == 0 and "I011" in done.stderr and "1 stream, 13 events" in done.stderr


@pytest.mark.parametrize(
    ("source", "target", "code", "words"),
    [
        ("vllm_bench/append.json", "x.txt", 2, "cannot tell from 'x.txt'"),
        ("infermark/report.json", "x.csv", 3, "keeps percentiles only"),
        ("vllm_bench/append.json", "no/such/folder/x.csv", 3, "cannot write"),
        ("vllm_bench/append.json", "no/such/folder/x.jsonl", 3, "cannot write"),
        ("nothing.json", "x.csv", 3, "no such file"),
    ],
)
def test_what_cannot_be_converted(run, tmp_path, source, target, code, words):
    done = run("convert", GOLDEN / source, tmp_path / target)
    assert done.exit_code == code and words in done.stderr and list(tmp_path.iterdir()) == []


def test_columns_on_every_command_that_reads(run, table, tmp_path, fake_fit):
    options = ("--columns", "time=when,tokens=got,stream=who", "--unit", "ms")
    shown = json.loads(run("show", table, *options, "--json").stdout)
    assert [(s["name"], s["events"]) for s in shown["streams"]] == [("0", 20), ("1", 20)]
    assert run("convert", table, tmp_path / "x.jsonl", *options).exit_code == 0
    assert [len(s) for s in read(tmp_path / "x.jsonl").streams] == [20, 20]
    assert run("analyze", table, *options).exit_code == 0
    ((trace, _),) = fake_fit
    assert [s.known_tokens for s in trace.streams] == [40, 39]
    wrong = run("analyze", table, "--columns", "time=when,what=got")
    assert wrong.exit_code == 2 and "what=got" in wrong.stderr


def test_metrics_beside_a_recording(run, tmp_path, fake_fit):
    path = tmp_path / "metrics.txt"
    path.write_text(
        "# TYPE vllm:spec_decode_num_drafts_total counter\nvllm:spec_decode_num_drafts_total 71\n"
        "vllm:spec_decode_num_draft_tokens_total 213\nvllm:spec_decode_num_accepted_tokens_total 120\n"
        "vllm:generation_tokens_total 192\nvllm:request_success_total 4\n"
    )
    assert run("analyze", path).exit_code == 3 and fake_fit == []
    assert run("analyze", path, GOLDEN / "servebench/run.json").exit_code == 0
    ((trace, _),) = fake_fit
    assert trace.streams[0].server_report["drafted"] == 213
