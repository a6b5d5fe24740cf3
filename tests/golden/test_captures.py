"""Recordings of one simulated service by many tools, against a separate, simple-minded parse of each (expected.json).

The service speculates: 3 drafts, each accepted with 0.7, steps of 20 ms with 4 % noise, the first token at 60 ms.
Tokens are words here, so that the separate parse can count them; what a format itself tells of them is less.
"""

import json
import pathlib

import numpy as np
import pytest

from specsonar.errors import InputError
from specsonar.fingerprint import SPECULATIVE, UNDETERMINED
from specsonar.fit import fingerprint
from specsonar.importers import read
from specsonar.trace import merge

FOLDER = pathlib.Path(__file__).parent / "captures"
EXPECTED = json.loads((FOLDER / "expected.json").read_text())
COUNTED = {"vllm_chat.trace_hex.txt", "openai_chat.trace_ascii.txt", "eventsource_messages.har"}
WITH_OTHERS_UNTIMED = {"http.flow", "mitm.har"}
NO_TOTAL = {"vllm_chat.trace_ascii_stdout_mixed.txt"}


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_events_gaps_counts_and_sizes_are_those_of_the_separate_parse(name):
    wanted = EXPECTED[name]
    trace = read(FOLDER / name)
    assert len(trace.streams) == 1
    (one,) = trace.streams
    # the parse reckons in floating point seconds of this century, which differ by a quarter of a microsecond
    assert np.diff(one.t_ns) / 1e6 == pytest.approx(wanted["gaps_ms"], abs=0.0011)
    if "sizes" in wanted:
        assert one.size.tolist() == wanted["sizes"] and (one.tokens == -1).all() and one.total_tokens is None
        assert [f.code for f in trace.findings] == ["I020"]
    elif name in COUNTED:
        assert one.tokens.tolist() == wanted["tokens"]
    elif name not in NO_TOTAL:
        assert one.total_tokens == wanted.get("total", sum(wanted.get("tokens", ())))
    if "sizes" not in wanted:
        assert len(one) == wanted.get("n", len(wanted.get("tokens", ())))
        assert [f.code for f in trace.findings] == ["I004"] * (name in WITH_OTHERS_UNTIMED)


@pytest.mark.parametrize(
    ("name", "word", "advice"),
    [
        ("vllm_chat.verbose_trace_time.txt", "first read", "--trace-ascii"),
        ("chrome_fetch_sse_no_times.har", "not when its parts came", "specsonar proxy"),
        ("http_streamed.flow", "first and the last byte", "reverse:tcp"),
    ],
)
def test_files_without_times_are_refused_with_what_to_do(name, word, advice):
    with pytest.raises(InputError) as refused:
        read(FOLDER / name)
    assert word in refused.value.message and advice in refused.value.hint


def test_every_file_of_the_folder_is_tested():
    refused = {"vllm_chat.verbose_trace_time.txt", "chrome_fetch_sse_no_times.har", "http_streamed.flow"}
    assert {p.name for p in FOLDER.iterdir()} - {"expected.json", "MAKING.md"} == set(EXPECTED) | refused


def pooled(*names):
    return fingerprint(merge(read(FOLDER / name) for name in names))


@pytest.mark.parametrize(
    "names", [("vllm_chat.trace_hex.txt",), ("openai_chat.trace_ascii.txt", "eventsource_messages.har")]
)
def test_where_the_format_keeps_enough_the_fingerprint_is_that_of_the_service(names):
    found = pooled(*names)
    assert found.verdict == SPECULATIVE and found.max_burst.value == found.max_burst.high == 4
    assert found.acceptance_rate.low < 0.7 < found.acceptance_rate.high
    assert found.acceptance_length.low < 1 + 0.7 + 0.49 + 0.343 < found.acceptance_length.high


def test_totals_of_several_short_answers_give_the_acceptance_length_and_say_what_is_missing():
    found = pooled(*(n for n in EXPECTED if n not in COUNTED | NO_TOTAL and "sizes" not in EXPECTED[n]
                     and not n.startswith("http_sse.pcap")))  # fmt: skip
    assert found.verdict == SPECULATIVE and found.max_burst is None
    assert found.acceptance_length.low < 1 + 0.7 + 0.49 + 0.343 < found.acceptance_length.high
    assert "Q007" in {f.code for f in found.findings}


@pytest.mark.parametrize("name", ["http_sse.pcapng", "tls13_sse.pcap", "chrome_netlog.json"])
def test_one_short_answer_without_counts_is_not_enough_and_says_so(name):
    found = pooled(name)
    assert found.verdict == UNDETERMINED and "Q001" in {f.code for f in found.findings}
