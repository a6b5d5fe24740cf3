"""What each reader has to get right beyond the files of tests/golden/formats."""

from __future__ import annotations

import base64
import io
import json
import pickle
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from specsonar.errors import FormatError, InputError, LimitError, UsageError
from specsonar.importers import gather, look, pool, read, sglang_bench
from specsonar.importers.llama_benchy import chunks
from specsonar.trace import ASSUMED_ONE, COUNTED, NOT_SAID, ONE_EACH, TOTAL_ONLY, Trace


def load(value: object, **options: Any) -> Trace:
    return read(io.BytesIO(json.dumps(value).encode()), **options)


def lines(*values: object) -> Trace:
    return read(io.BytesIO(b"".join(json.dumps(v).encode() + b"\n" for v in values)))


def codes(trace: Trace) -> list[str]:
    return [f.code for f in trace.findings]


# --- vLLM bench serve --------------------------------------------------------------------------------------------


def bench(itls: list[Any], *, totals: list[int], **more: Any) -> dict[str, Any]:
    n = len(itls)
    return {
        "backend": "openai-chat", "request_throughput": 1.0, "total_token_throughput": 2.0, "output_lens": totals,
        "ttfts": [0.06] * n, "itls": itls, "start_times": [100.5] * n, "errors": [""] * n, **more,
    }  # fmt: skip


def test_a_counted_role_chunk_is_left_out() -> None:
    role = [[0.001, *[0.02] * 9], [0.002, *[0.02] * 9]]
    trace = load(bench(role, totals=[30, 30]))
    assert [len(s) for s in trace.streams] == [10, 10] and codes(trace) == ["I011"]
    one = trace.streams[0]
    assert one.start_ns == 100_500_000_000 and one.t_ns[0] - one.start_ns == 61_000_000


@pytest.mark.parametrize(
    ("itls", "totals"),
    [
        ([[0.001, *[0.02] * 9], [0.02] * 10], [30, 30]),  # one request with a late first chunk is no era
        ([[0.001, *[0.02] * 9]], [11]),  # every chunk is a token
        ([[0.0001, 0.0002, 0.02, 0.0001, 0.0001, 0.0002, 0.02, 0.0001]], [9]),  # a burst per step
        ([[0.001, 0.02]], [30]),  # too little to tell
    ],
)
def test_what_is_no_role_chunk(itls: list[list[float]], totals: list[int]) -> None:
    trace = load(bench(itls, totals=totals))
    assert [len(s) for s in trace.streams] == [len(row) + 1 for row in itls] and codes(trace) == []


def test_failed_and_unreadable_requests_are_told_apart() -> None:
    itls = [[0.02, 0.02], [], ["x"], [0.03], []]
    told = bench(itls, totals=[9, 0, 9, 2, 5], errors=["", "", "", "", "timeout"])
    trace = load(told)
    assert [len(s) for s in trace.streams] == [3, 2] and codes(trace) == ["I007", "I004"]
    assert "2 requests failed" in trace.findings[0].message and "request 3" in trace.findings[1].message
    assert [s.count_source for s in trace.streams] == [TOTAL_ONLY, ONE_EACH]


def test_where_all_requests_failed_that_is_said() -> None:
    with pytest.raises(InputError, match="2 requests failed"):
        load(bench([[], []], totals=[0, 0], errors=["x", "y"]))


@pytest.mark.parametrize("rate", ["request_throughput", "total_token_throughput"])
def test_forks_that_keep_one_rate_are_recognised(rate: str) -> None:
    value = bench([[0.02, 0.021, 0.02]], totals=[9])
    assert load({key: v for key, v in value.items() if key != rate}).meta["format"] == "vLLM bench serve"


def test_the_warm_up_of_aiperf_is_left_out() -> None:
    metrics = {"inter_chunk_latency": {"value": [20, 21], "unit": "ms"}}
    phases = [{"request_start_ns": 1, "request_end_ns": 2, "benchmark_phase": p} for p in ("warmup", "profiling")]
    assert len(lines(*({"metadata": m, "metrics": metrics} for m in phases)).streams) == 1


def test_utf16_is_told_with_its_remedy() -> None:
    with pytest.raises(FormatError) as caught:
        read(io.BytesIO("t,tokens\n0.1,1\n".encode("utf-16")))
    assert "UTF-16" in caught.value.message and "UTF-8" in caught.value.hint


def test_the_order_of_keys_and_of_runs_does_not_matter() -> None:
    first, second = bench([[0.02]], totals=[9]), bench([[0.03, 0.03]], totals=[8])
    backwards = dict(reversed(list(second.items())))
    text = json.dumps(first) + json.dumps(backwards)
    trace = read(io.BytesIO(text.encode()))
    assert [s.total_tokens for s in trace.streams] == [9, 8] and [len(s) for s in trace.streams] == [2, 3]


def test_more_events_than_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gather, "MAX_EVENTS", 10)
    trace = load(bench([[0.02] * 5] * 4, totals=[20] * 4))
    assert [len(s) for s in trace.streams] == [6, 6] and codes(trace) == ["I013"]
    assert "first 12 of 24 events" in trace.findings[0].message


def test_without_totals_bursts_decide() -> None:
    steps = load(bench([[0.02, 0.021] * 9], totals=[])).streams[0]
    bursts = load(bench([[0.02, 0.0001, 0.0002] * 9], totals=[])).streams[0]
    assert (steps.count_source, bursts.count_source) == (NOT_SAID, ASSUMED_ONE)


def test_gaps_are_for_columns_of_numbers() -> None:
    with pytest.raises(UsageError, match="its own times"):
        load(bench([[0.02]], totals=[9]), gaps=True)


# --- runs of equal gaps ------------------------------------------------------------------------------------------


def test_sglang_counts_come_back_from_identical_quotients() -> None:
    gap, counts = np.array([0.0201, 0.0199, 0.0207]), np.array([3, 1, 4])
    row = np.repeat(gap / counts, counts)
    found, tokens = sglang_bench.chunks(row)
    np.testing.assert_allclose(found, gap, rtol=1e-12)
    assert tokens.tolist() == counts.tolist()
    info = {"server_info": {}, "backend": "sglang", "request_throughput": 1.0, "accept_length": None}
    trace = load({**info, "ttfts": [0.06], "output_lens": [10], "itls": [row.tolist()], "errors": [""]})
    assert trace.streams[0].tokens.tolist() == [2, 3, 1, 4], "what the quotients leave came with the first chunk"
    other = load({**info, "backend": "vllm", "ttfts": [0.06], "output_lens": [10], "itls": [row.tolist()]})
    assert len(other.streams[0]) == 9 and other.streams[0].count_source == TOTAL_ONLY


def benchy(*series: list[float]) -> dict[str, Any]:
    points = [[[[t, i + 1.0] for i, t in enumerate(s)]] for s in series]
    run = {"pp_throughput": {}, "tg_throughput": {"mean": 120.5}, "requests_throughput_over_time": points}
    return {"latency_mode": "none", "benchmarks": [run]}


def test_llama_benchy_chunks_come_back_from_even_spacing() -> None:
    ends, counts = np.array([0.0, 0.0203, 0.0399, 0.0601]), [2, 3, 1, 4]
    times = [0.0, 0.0]
    for begin, end, n in zip(ends, ends[1:], counts[1:], strict=False):
        times += np.linspace(begin, end, n + 1)[1:].tolist()
    first, gap, tokens = chunks(np.array(times))
    assert [first, *tokens.tolist()] == counts
    np.testing.assert_allclose(np.cumsum(gap), ends[1:], atol=1e-12)
    one = load(benchy(times)).streams[0]
    assert one.tokens.tolist() == counts and one.count_source == COUNTED and one.total_tokens == 10


def test_times_spread_over_the_whole_answer_are_no_evidence() -> None:
    even, steps = np.linspace(0, 1, 50).tolist(), np.cumsum([0.0, *[0.02, 0.021] * 9]).tolist()
    with pytest.raises(InputError, match="spread evenly") as caught:
        load(benchy(even, even))
    assert "tokens per second 120.5" in caught.value.message
    mixed = load(benchy(even, steps))
    assert len(mixed.streams) == 1 and codes(mixed) == ["I012"] and "1 of 2" in mixed.findings[0].message


def test_llama_benchy_without_the_series() -> None:
    run = {"pp_throughput": {}, "tg_throughput": {"mean": 120.5}, "requests_throughput_over_time": None}
    with pytest.raises(InputError) as caught:
        load({"latency_mode": "none", "benchmarks": [run]})
    assert "--save-all-throughput-timeseries" in caught.value.hint


def test_estimated_counts_of_llama_benchy_are_not_used() -> None:
    def event(kind: str, ts: float, **more: Any) -> dict[str, Any]:
        return {"schema": "llama-benchy-progress.v1", "type": kind, "ts": ts, "request_id": 0, **more}

    rows = [event("tokens", 1.06 + 0.02 * i, count=3, estimated=True) for i in range(9)]
    trace = lines(event("request_start", 1.0), *rows, event("request_end", 2.0, total_tokens=27))
    one = trace.streams[0]
    assert one.tokens.tolist() == [-1] * 9 and one.total_tokens is None and one.count_source == NOT_SAID


# --- the others --------------------------------------------------------------------------------------------------


def test_veeksha_totals_may_be_chunk_counts() -> None:
    def record(total: int, asked: int) -> dict[str, Any]:
        return {"tbc": [0.02] * 9, "ttfc": 0.06, "num_output_tokens": total, "num_requested_output_tokens": asked}

    trace = lines(record(10, 24), record(24, 24), record(10, 10))
    assert [s.count_source for s in trace.streams] == [NOT_SAID, TOTAL_ONLY, ONE_EACH]


def test_servebench_chunk_counts_are_no_totals() -> None:
    request = {"ok": True, "start": 0.5, "chunk_times": [0.06, 0.08, 0.1], "output_tokens": 9}
    told = [{**request, "token_source": source} for source in ("usage", "tokenizer", "chunks")]
    levels = [{"requests": [*told, {**request, "ok": False}]}]
    trace = load({"schema_version": 1, "levels": levels})
    assert [s.total_tokens for s in trace.streams] == [9, 9, None] and codes(trace) == ["I007"]


def genai(*responses: str) -> dict[str, Any]:
    times = [1795965000063183000 + 20_000_000 * i for i in range(len(responses))]
    request = {
        "timestamp": 1795965000000000000, "response_timestamps": times,
        "response_outputs": [{"response": r} for r in responses],
    }  # fmt: skip
    return {"experiments": [{"requests": [request]}], "version": "2", "service_kind": "openai"}


def test_genai_perf_responses_hold_several_events_or_a_part_of_one() -> None:
    def data(text: str) -> str:
        return f'data: {{"object": "text_completion", "choices": [{{"index": 0, "text": "{text}"}}]}}\n\n'

    whole = data("c")
    one = load(genai(data("a") + data("b"), whole[:30], whole[30:], "data: [DONE]\n\n")).streams[0]
    assert len(one) == 3 and one.read.tolist() == [0, 0, 2]
    assert (one.t_ns - one.t_ns[0]).tolist() == [0, 0, 40_000_000], "the time of the response that completed it"


def span(n: int, **more: Any) -> dict[str, Any]:
    name = "llm.content.completion.chunk"
    events = [{"timeUnixNano": str(10**18 + 20_000_000 * i), "name": name} for i in range(n)]
    inner = {"name": "chat", "startTimeUnixNano": str(10**18 - 60_000_000), "events": events, **more}
    return {"resourceSpans": [{"scopeSpans": [{"spans": [{"name": "other", "events": []}, inner]}]}]}


@pytest.mark.parametrize(
    ("n", "more", "words"),
    [(5, {}, None), (128, {"droppedEventsCount": 114}, "114 events were dropped"), (128, {}, "exactly 128")],
)
def test_spans_keep_a_limited_number_of_events(n: int, more: dict[str, Any], words: str | None) -> None:
    trace = load(span(n, **more))
    assert len(trace.streams[0]) == n
    assert codes(trace) == (["I030"] if words else []) and all((words or "") in f.message for f in trace.findings)


def test_spans_with_usage_have_a_total() -> None:
    usage = [{"key": "gen_ai.usage.output_tokens", "value": {"intValue": "40"}}]
    one = load(span(16, attributes=usage)).streams[0]
    assert one.total_tokens == 40 and one.count_source == TOTAL_ONLY


def test_spans_without_chunks_are_refused() -> None:
    with pytest.raises(InputError, match="2 spans without an event for each chunk"):
        load(span(0))


def run_of(n: int, **more: Any) -> dict[str, Any]:
    tokens = [
        {"name": "new_token", "time": f"2026-11-29T15:12:14.{100_000 + 20_000 * i:06d}Z", "kwargs": {"token": " w"}}
        for i in range(n)
    ]
    return {"run_type": "llm", "start_time": "2026-11-29T15:12:14.040000Z", "events": tokens, **more}


def test_langchain_runs_inside_chains() -> None:
    chain = {"run_type": "chain", "start_time": "x", "events": [], "child_runs": [run_of(3), run_of(4)]}
    trace = load(chain)
    assert [len(s) for s in trace.streams] == [3, 4]
    one = trace.streams[0]
    assert one.start_ns is not None and one.t_ns[0] - one.start_ns == 60_000_000


def test_langchain_chunks_without_text_and_with_stripped_text() -> None:
    run = run_of(4, completion_tokens=9)
    run["events"][0]["kwargs"]["token"] = ""
    del run["events"][1]["kwargs"]
    one = load(run).streams[0]
    assert len(one) == 3 and one.total_tokens == 9
    with pytest.raises(InputError, match="without an event for each token"):
        load(run_of(0))


def test_old_llmperf_forks_put_the_first_token_first() -> None:
    each = [0.061, 0.02, 0.021]
    answer = {"error_code": None, "inter_token_latency_s": each, "ttft_s": 0.061, "number_output_tokens": 9}
    one = load([answer]).streams[0]
    assert one.t_ns.tolist() == [61_000_000, 81_000_000, 102_000_000] and one.start_ns == 0


# --- evalscope ---------------------------------------------------------------------------------------------------


class Bomb:
    """Unpickling it would call `open` and leave a file behind."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return open, (str(self.path), "w")


def database(path: Path, *rows: tuple[Any, ...], schema: str = "") -> Path:
    made = sqlite3.connect(path)
    made.execute(
        schema
        or "CREATE TABLE result(start_time REAL, inter_token_latencies TEXT, success INTEGER, response_messages TEXT,"
        " first_chunk_latency REAL, completion_tokens INTEGER)"
    )
    for row in rows:
        made.execute("INSERT INTO result VALUES (?, ?, ?, ?, ?, ?)", row)
    made.commit()
    made.close()
    return path


def test_pickles_in_a_database_are_never_loaded(tmp_path: Path) -> None:
    bomb = base64.b64encode(pickle.dumps(Bomb(tmp_path / "exploded"))).decode()
    rows = [(5.5, "[0.02, 0.021]", 1, bomb, 0.06, 7), (6.0, "[]", 0, bomb, None, 0), (6.0, "pickle", 1, bomb, 1, 1)]
    trace = read(database(tmp_path / "x.db", *rows))
    assert not (tmp_path / "exploded").exists()
    assert [len(s) for s in trace.streams] == [3] and codes(trace) == ["I007", "I004"]
    pickle.loads(base64.b64decode(bomb)).close()
    assert (tmp_path / "exploded").exists(), "the bomb was armed"


def test_a_damaged_schema_is_one_line_without_the_files_words(tmp_path: Path) -> None:
    data = database(tmp_path / "x.db").read_bytes()
    assert data.count(b"CREATE TABLE result(") == 1
    with pytest.raises(FormatError) as caught:
        read(io.BytesIO(data.replace(b"CREATE TABLE result(", b"CREATE TABLE result\n[")))
    assert caught.value.message == "input is a damaged SQLite database"


def test_a_view_in_place_of_the_table_is_not_run(tmp_path: Path) -> None:
    endless = (
        "CREATE VIEW result AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c)"
        " SELECT x AS start_time, x AS inter_token_latencies, x AS success, x AS first_chunk_latency,"
        " x AS completion_tokens FROM c"
    )
    with pytest.raises(FormatError, match="no table 'result'"):
        read(database(tmp_path / "x.db", schema=endless))


# --- /metrics ----------------------------------------------------------------------------------------------------

METRICS = b"""\
# TYPE vllm:spec_decode_num_drafts_total counter
vllm:spec_decode_num_drafts_total{engine="0"} 71.0
vllm:spec_decode_num_draft_tokens_total{engine="0"} 213.0
vllm:spec_decode_num_accepted_tokens_total{engine="0"} 120.0
vllm:generation_tokens_total{engine="0"} 192.0
vllm:request_success_total{engine="0"} 4.0
"""


def test_counters_are_a_report_and_no_recording() -> None:
    found = look(io.BytesIO(METRICS))
    report = found.meta["server_report"]
    assert found.streams == () and report["draft_length"] == 3
    assert report["acceptance_length"] == pytest.approx(191 / 71)
    with pytest.raises(InputError, match=r"acceptance length by the server 2\.69"):
        read(io.BytesIO(METRICS))


def test_counters_are_lent_to_a_recording() -> None:
    recording = look(io.BytesIO(json.dumps(bench([[0.02] * 9, [0.02] * 9], totals=[30, 30])).encode()))
    whole = pool([look(io.BytesIO(METRICS)), recording])
    assert [s.server_report is None for s in whole.streams] == [False, True] and whole.findings == ()
    assert len(whole.meta["inputs"]) == 2


def test_what_cannot_be_pooled() -> None:
    other = look(io.BytesIO(b"# TYPE go_threads gauge\ngo_threads 7\n"))
    recording = look(io.BytesIO(json.dumps(bench([[0.02] * 9], totals=[30])).encode()))
    for traces in ([other], [recording, other], [look(io.BytesIO(METRICS))] * 2):
        with pytest.raises(InputError, match="holds a server's counters"):
            pool(traces)


# --- unknown files -----------------------------------------------------------------------------------------------


def test_an_unknown_file_is_refused_with_the_nearest_formats() -> None:
    value = {"itls": [[0.1]], "ttfts": [0.1], "total_token_throughput": 1, "mine": 2}
    with pytest.raises(FormatError) as caught:
        load(value)
    assert "JSON with the keys itls, ttfts" in caught.value.message
    nearest = (
        "vLLM bench serve (lacks 'request_throughput'); SGLang bench_serving (lacks 'server_info', 'accept_length')"
    )
    assert caught.value.hint.startswith(f"nearest formats: {nearest}; specsonar trace (would be JSON lines")


def test_an_unknown_binary_file_is_refused_with_the_binary_formats() -> None:
    with pytest.raises(FormatError) as caught:
        read(io.BytesIO(b"%PDF-1.7" + bytes(range(256))))
    assert caught.value.message == "input is a binary file (a PDF document)"
    nearest = [part.split(" (")[0] for part in caught.value.hint.removeprefix("nearest formats: ").split("); ")]
    assert sorted(nearest) == ["evalscope perf", "mitmproxy flows", "packet capture"]


def test_an_unknown_table_names_its_columns() -> None:
    with pytest.raises(FormatError) as caught:
        read(io.BytesIO(b"level,index,ok,tpot_ms\nc=1,0,True,9.97\n"))
    assert "columns level, index, ok, tpot_ms" in caught.value.message and "--columns" in caught.value.hint


def test_a_summary_points_to_the_file_beside_it() -> None:
    means = {"avg": 1.0, "p99": 2.0, "unit": "ms"}
    summary = {"inter_token_latency": means, "time_to_first_token": means, "request_throughput": {"avg": 3.0}}
    with pytest.raises(InputError) as caught:
        load(summary)
    assert "profile_export.jsonl" in caught.value.hint


def test_histograms_are_too_coarse() -> None:
    found = look(io.BytesIO(json.dumps({"resourceMetrics": [{"scopeMetrics": []}]}).encode()))
    assert codes(found) == ["I010"] and "buckets" in found.findings[0].message


def test_a_line_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gather, "LONGEST_LINE", 1 << 20)
    record = {"metadata": {"request_start_ns": 1, "request_end_ns": 2}, "metrics": {}, "pad": "x" * (3 << 20)}
    with pytest.raises(LimitError, match="line 2"):
        lines(record | {"pad": ""}, record)


# --- absurd times ------------------------------------------------------------------------------------------------


def test_times_that_no_clock_shows_are_left_out() -> None:
    trace = load(bench([[3e9, 3e9, 3e9], [0.02, 0.021]], totals=[9, 9]))
    assert [len(s) for s in trace.streams] == [3] and codes(trace) == ["I004"]
    run = run_of(3, start_time="9999-12-31T23:59:59Z")
    assert load(run).streams[0].start_ns is None
    far = span(5, startTimeUnixNano="9" * 19)
    assert load(far).streams[0].start_ns is None


# --- made-up times -----------------------------------------------------------------------------------------------


def text_of(times: npt.ArrayLike) -> io.BytesIO:
    return io.BytesIO("".join(f"{t:.9f}\n" for t in np.asarray(times)).encode())


def test_a_list_of_times_that_a_tool_spread_evenly_is_no_evidence() -> None:
    rng = np.random.default_rng(5)
    steps, sizes = rng.normal(0.02, 0.0008, 60), rng.integers(1, 5, 60)
    divided = np.repeat(steps / sizes, sizes)  # the time of each step over its tokens
    for gaps in (np.full(60, 0.0203337), divided):
        for heading in (b"", b"id,t\n"):
            rows = text_of(np.cumsum(gaps)).getvalue()
            text = heading + (b"0," + rows.strip().replace(b"\n", b"\n0,") if heading else rows)
            with pytest.raises(InputError, match="spread evenly, not measured"):
                read(io.BytesIO(text))
    assert len(read(text_of(np.cumsum(steps))).streams) == 1


@pytest.mark.parametrize(("tick", "jitter"), [(1e-9, 1e-5), (1e-7, 1e-5), (1e-6, 1e-4), (1e-3, 1e-3)])
def test_measured_times_are_not_taken_for_made_up_ones(tick: float, jitter: float) -> None:
    """Steps with bursts in them, by clocks that tick in nanoseconds, 100 ns (Windows), microseconds, milliseconds."""
    rng = np.random.default_rng(7)
    gaps = np.where(rng.random(600) < 0.6, rng.gamma(4, 3e-6, 600), rng.normal(0.02, jitter, 600))
    assert len(read(text_of(np.round(np.cumsum(gaps) / tick) * tick), unit="s").streams) == 1


def test_times_that_a_tool_spread_evenly_are_not_used() -> None:
    measured, even = [0.0201, 0.0199, 0.0207, 0.0198] * 5, [1 / 70] * 20
    mixed = load(bench([measured, even, [*measured[:4], *even]], totals=[99, 99, 99]))
    assert len(mixed.streams) == 1 and codes(mixed) == ["I012"] and "2 of 3 requests" in mixed.findings[0].message
    with pytest.raises(InputError, match="spread evenly, not measured"):
        load(bench([even], totals=[99]))


@pytest.mark.parametrize("gap", [0.02, 0.001, 0.00005, 0.0])
def test_a_coarse_clock_is_no_tool(gap: float) -> None:
    assert len(load(bench([[gap] * 20], totals=[99])).streams) == 1


def test_as_many_events_as_are_kept_of_sglang(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gather, "MAX_EVENTS", 10)
    row = [0.02, 0.021, 0.0205, 0.0195]
    told = {"server_info": {}, "backend": "vllm", "request_throughput": 1.0, "accept_length": None}
    trace = load({**told, "ttfts": [0.06] * 4, "output_lens": [9] * 4, "itls": [row] * 4})
    assert [len(s) for s in trace.streams] == [5, 5] and "first 10 of 20 events" in trace.findings[0].message
