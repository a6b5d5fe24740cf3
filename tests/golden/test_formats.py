"""Files that other tools wrote, against an independent reading of them and against the server that they talked to."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from specsonar.errors import InputError
from specsonar.fit import fingerprint
from specsonar.importers import look, read
from specsonar.importers.formats import FORMATS
from specsonar.trace import COUNTED, NOT_SAID, ONE_EACH, TOTAL_ONLY

GOLDEN = Path(__file__).parent / "formats"
EXPECTED = json.loads((GOLDEN / "expected.json").read_text())
SERVER = EXPECTED.pop("_server")
FILES = sorted(str(p.relative_to(GOLDEN)) for p in GOLDEN.glob("*/*"))

# The payloads of these have text only; the independent reading counted words, which no reader may do.
NO_COUNTS = {"aiperf/plain_profile_export_raw.jsonl", "mlflow/trace.json", "langchain/run.json"}

WITHOUT_TIMES = {
    "vllm_bench/openai_chat_no_save_detailed.json": ("--save-detailed", "acceptance length by the server 2.513"),
    "guidellm/benchmarks.json": ("specsonar proxy", "tokens per chunk 2.575"),
    "aggregate_only/llmperf_individual_responses.json": ("specsonar proxy", "mean time per token, ms 8.4"),
    "aggregate_only/hf_inference_benchmarker.json": ("specsonar proxy", "tokens 192"),
    "infermark/report.json": ("specsonar proxy", "mean gap between chunks, ms 20.37"),
    "observability/langfuse_observation.json": ("specsonar proxy", "time to first token, s 0.061"),
    "observability/litellm_standard_logging_payload.json": ("specsonar proxy", "tokens 48"),
}


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_agrees_with_the_independent_reading(name: str) -> None:
    streams = read(GOLDEN / name).streams
    expected = EXPECTED[name]["streams"]
    assert len(streams) == len(expected) == EXPECTED[name]["n_streams"]
    for one, want in zip(streams, expected, strict=True):
        assert len(one) == want["n_chunks"]
        np.testing.assert_allclose(np.diff(one.t_ns) * 1e-6, want["gaps_ms"], rtol=0, atol=0.0011)
        if want.get("total") and name != "mlflow/trace.json":
            assert one.known_tokens == want["total"]
        if want.get("tokens"):
            told = [-1] * len(one) if name in NO_COUNTS else want["tokens"]
            assert one.tokens.tolist() == told


@pytest.mark.parametrize("name", sorted(WITHOUT_TIMES))
def test_without_times_it_is_refused_with_what_would_keep_them(name: str) -> None:
    remedy, held = WITHOUT_TIMES[name]
    with pytest.raises(InputError) as caught:
        read(GOLDEN / name)
    assert remedy in caught.value.hint and held in caught.value.message
    found = look(GOLDEN / name)
    assert found.streams == () and found.findings[0].code == "I010" and found.meta["holds"]


def test_each_file_is_recognised_by_one_format_only() -> None:
    for name in FILES:
        head = (GOLDEN / name).read_bytes()[: 1 << 16]
        scores = sorted((f.sniff(head) for f in FORMATS), reverse=True)
        assert name == "generic/gaps_ms.txt" or (scores[0] >= 0.4 and scores[0] > scores[1]), name


# What the file keeps of the counts, and so what can be known: all of it, the mean, or nothing but a step.
COUNTS = {
    "sglang_bench/sglang_details.jsonl": COUNTED,
    "aiperf/usage_profile_export_raw.jsonl": COUNTED,
    "inference-perf/per_request_lifecycle_metrics.json": COUNTED,
    "llama-benchy/progress_plain.jsonl": COUNTED,
    "llama-benchy/progress_tokid.jsonl": COUNTED,
    "llama-benchy/result_plain.json": COUNTED,
    "llama-benchy/result_tokid.json": COUNTED,
    "vllm_bench/openai_chat_pertoken_server.json": ONE_EACH,
    "vllm_bench/append.json": TOTAL_ONLY,
    "vllm_bench/openai_chat_detailed.json": TOTAL_ONLY,
    "vllm_bench/openai_completions_detailed.json": TOTAL_ONLY,
    "vllm_bench/openai_responses_detailed.json": TOTAL_ONLY,
    "sglang_bench/sglang-oai_details.jsonl": TOTAL_ONLY,
    "sglang_bench/sglang-oai-chat_details.jsonl": TOTAL_ONLY,
    "aiperf/plain_profile_export.jsonl": TOTAL_ONLY,
    "aiperf/plain_profile_export_raw.jsonl": TOTAL_ONLY,
    "aiperf/usage_profile_export.jsonl": TOTAL_ONLY,
    "servebench/run.json": TOTAL_ONLY,
    "evalscope/benchmark_data.db": TOTAL_ONLY,
}
TOO_SHORT = {
    "vllm_bench/handmade_role_chunk_counted.json": TOTAL_ONLY,
    "genai-perf/profile_export.json": TOTAL_ONLY,
    "aggregate_only/llmperf_individual_responses_list_variant.json": TOTAL_ONLY,
    "langchain/run.json": TOTAL_ONLY,
    "trtllm/perf_metrics.json": TOTAL_ONLY,
    "veeksha/request_level_metrics.jsonl": NOT_SAID,
    "otel/openllmetry_console_span.json": NOT_SAID,
    "otel/openllmetry_otlp_trace.json": NOT_SAID,
    "generic/chunks.csv": COUNTED,
}


@pytest.mark.parametrize("name", sorted(COUNTS))
def test_the_server_behind_the_file_is_recognised(name: str) -> None:
    """Each file's own mean is within its interval; so is the server's acceptance wherever single counts are kept."""
    trace = read(GOLDEN / name)
    assert {s.count_source for s in trace.streams} == {COUNTS[name]}
    found = fingerprint(trace)
    assert found.verdict == "speculative"
    assert found.acceptance_length is not None and found.step_ms is not None
    assert abs(found.step_ms.value / SERVER["step_ms"] - 1) < 0.025
    starts = [s.start_ns for s in trace.streams]
    if name.startswith("llama-benchy/result"):
        assert starts == [None] * len(starts), "these files keep no time of the request"
    else:
        first = [float(s.t_ns[0] - begun) * 1e-6 for s, begun in zip(trace.streams, starts, strict=True)]
        assert SERVER["ttft_ms"] < min(first) < SERVER["ttft_ms"] + 12
    if COUNTS[name] == TOTAL_ONLY:
        steps = sum(len(s) - 1 for s in trace.streams)
        mean = sum((s.known_tokens or 0) - 1 for s in trace.streams) / steps
        assert found.acceptance_length.low <= mean <= (found.acceptance_length.high or 0)
        assert found.max_burst is None and "Q007" in {f.code for f in found.findings}
    else:
        assert found.max_burst is not None and found.max_burst.value == SERVER["k"] + 1
        alpha = found.acceptance_rate
        assert alpha is not None and alpha.low <= SERVER["alpha"] <= (alpha.high or 0)
        expected = sum(SERVER["alpha"] ** i for i in range(SERVER["k"] + 1))
        assert found.acceptance_length.low <= expected <= (found.acceptance_length.high or 0)


@pytest.mark.parametrize("name", sorted(TOO_SHORT))
def test_a_file_that_is_too_short_says_so(name: str) -> None:
    trace = read(GOLDEN / name)
    assert {s.count_source for s in trace.streams} == {TOO_SHORT[name]}
    found = fingerprint(trace)
    assert found.verdict == "undetermined" and "Q001" in {f.code for f in found.findings}


def test_the_tables_leave_no_file_out() -> None:
    named = COUNTS.keys() | TOO_SHORT.keys() | WITHOUT_TIMES.keys()
    assert set(FILES) - named == {"mlflow/trace.json", "generic/gaps_ms.txt", "generic/arrivals_seconds.json"}


def test_the_servers_report_travels() -> None:
    report = read(GOLDEN / "vllm_bench/openai_chat_detailed.json").streams[0].server_report
    truth = EXPECTED["vllm_bench/openai_chat_detailed.json"]["truth"]
    assert report is not None and report["draft_length"] == truth["k"] and report["steps"] == truth["num_drafts"]
    assert report["acceptance_length"] == pytest.approx(truth["acceptance_length"])
    assert report["acceptance_by_position"][1] == pytest.approx(0.5352112676056338 / 0.6901408450704225)
    native = read(GOLDEN / "sglang_bench/sglang_details.jsonl").streams[0].server_report
    assert (
        native is not None
        and native["draft_length"] == 3
        and native["acceptance_length"] == pytest.approx(2.58229, 1e-4)
    )
    raw = read(GOLDEN / "aiperf/usage_profile_export.jsonl").streams[0].server_report
    assert raw is not None and (raw["drafted"], raw["accepted"], raw["steps"]) == (42, 26, 14)
