"""Prometheus text before and after, as a server report."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specsonar.wire.metrics import report, samples

VLLM = """\
# HELP vllm:spec_decode_num_drafts_total Number of spec decoding drafts.
# TYPE vllm:spec_decode_num_drafts_total counter
vllm:spec_decode_num_drafts_total{{engine="0",model_name="m {{}} \\"x\\""}} {drafts}
vllm:spec_decode_num_draft_tokens_total{{engine="0",model_name="m"}} {drafted}
vllm:spec_decode_num_accepted_tokens_total{{engine="0",model_name="m"}} {accepted}
vllm:spec_decode_num_accepted_tokens_per_pos_total{{engine="0",model_name="m",position="0"}} {p0}
vllm:spec_decode_num_accepted_tokens_per_pos_total{{engine="0",model_name="m",position="1"}} {p1}
vllm:spec_decode_num_accepted_tokens_per_pos_created{{engine="0",model_name="m",position="1"}} 1.79e+09
vllm:generation_tokens_total{{engine="0",model_name="m"}} {tokens}
vllm:request_success_total{{engine="0",finished_reason="length",model_name="m"}} {answers}
vllm:request_success_total{{engine="0",finished_reason="stop",model_name="m"}} 5.0
"""
NONE = dict.fromkeys(("drafts", "drafted", "accepted", "p0", "p1", "tokens", "answers"), 0.0)
SOME = {"drafts": 100.0, "drafted": 200.0, "accepted": 90.0, "p0": 60.0, "p1": 30.0, "tokens": 192.0, "answers": 2.0}


def told(before: str, after: str, answers: int | None = None) -> dict[str, Any]:
    found = report(before, after, answers)
    assert found is not None
    return found


def test_vllm_difference() -> None:
    found = told(VLLM.format(**SOME), VLLM.format(**{k: 3 * v for k, v in SOME.items()}))
    assert found == {
        "source": "/metrics vllm:spec_decode_*", "drafted": 400, "accepted": 180, "steps": 200, "tokens": 380,
        "acceptance_length": 1.9, "draft_length": 2, "acceptance_by_position": [0.6, 0.5],
        "tried_by_position": [200, 120],
    }  # fmt: skip


def test_engines_are_added_up_and_a_restart_counts_from_zero() -> None:
    two = VLLM.format(**SOME) + VLLM.format(**SOME).replace('engine="0"', 'engine="1"')
    assert told(VLLM.format(**NONE), two)["drafted"] == 400
    restarted = told(VLLM.format(**{k: 50 * v for k, v in SOME.items()}), VLLM.format(**SOME))
    assert (restarted["drafted"], restarted["accepted"], restarted["steps"]) == (200, 90, 100)


def test_a_server_that_counts_zero_says_that_it_does_not_speculate() -> None:
    found = told(VLLM.format(**NONE), VLLM.format(**{**NONE, "tokens": 40.0, "answers": 1.0}))
    assert found["acceptance_length"] == 1.0 and found["drafted"] == 0 and found["draft_length"] is None


def test_missing_counters() -> None:
    assert report("", "") is None
    assert report("", "vllm:generation_tokens_total 5\n") is None
    assert report(VLLM.format(**SOME), VLLM.format(**SOME)) is None, "nothing was generated in between"
    old = "vllm:spec_decode_num_draft_tokens_total 200\nvllm:spec_decode_num_accepted_tokens_total 90\n"
    found = told("", old)
    assert (found["steps"], found["acceptance_length"], found["acceptance_by_position"]) == (None, None, None)


def test_drafts_of_different_lengths_have_no_common_one() -> None:
    found = told(VLLM.format(**NONE), VLLM.format(**{**SOME, "drafted": 150.0}))
    assert found["draft_length"] is None and found["acceptance_by_position"] is None
    assert found["acceptance_length"] == pytest.approx(1.9)


def test_llama_cpp_as_the_engine_counted() -> None:
    """The difference of a real run (llama-bin.f32.k4.t2); its last draft was clipped."""
    lines = {
        "tokens_predicted_total": 700, "spec_decode_num_draft_tokens_total": 703,
        "spec_decode_num_accepted_tokens_total": 523, "spec_decode_num_drafts_total": 176,
        'spec_decode_num_accepted_tokens_per_pos_total{position="0"}': 155,
        'spec_decode_num_accepted_tokens_per_pos_total{position="1"}': 137,
        'spec_decode_num_accepted_tokens_per_pos_total{position="2"}': 121,
        'spec_decode_num_accepted_tokens_per_pos_total{position="3"}': 110, "predicted_tokens_seconds": 36.4,
    }  # fmt: skip
    found = told("", "".join(f"llamacpp:{name} {value}\n" for name, value in lines.items()), answers=1)
    assert found["draft_length"] == 4 and found["steps"] == 176 and found["tokens"] == 699
    assert found["acceptance_length"] == pytest.approx(699 / 176)
    assert found["acceptance_by_position"] == pytest.approx([155 / 176, 137 / 155, 121 / 137, 110 / 121])


def test_sglang_counts_steps_or_tells_a_mean() -> None:
    gauge = 'sglang:spec_accept_length{dp_rank="0"} 3.0\nsglang:spec_accept_length{dp_rank="1"} 4.0\n'
    tokens = "sglang:generation_tokens_total 302\nsglang:num_requests_total 2\n"
    assert told("", gauge + tokens)["acceptance_length"] == 3.5
    counted = told("", gauge + tokens + "sglang:spec_verify_calls_total 100\n")
    assert (counted["acceptance_length"], counted["steps"], counted["accepted"]) == (3.0, 100, 200)
    assert report("", tokens) is None and report("", gauge) is None


def test_tgi_counts_what_it_skipped() -> None:
    text = "tgi_request_skipped_tokens_sum 150\ntgi_request_skipped_tokens_count 52\ntgi_request_success 2\n"
    found = told("tgi_request_skipped_tokens_sum 0\ntgi_request_skipped_tokens_count 0\n", text)
    assert (found["steps"], found["accepted"], found["tokens"], found["acceptance_length"]) == (50, 150, 200, 4.0)
    assert found["draft_length"] is None


def test_numbers_that_are_none() -> None:
    text = 'a NaN\nb +Inf\nc 1e300\nd x\ne\n f 1\ng{x="} 2\nh{x="}"} 3 1700000000\n' + "i" * 20_000 + " 1\nj 4"
    assert samples(text) == {"h": {'{x="}"}': 3.0}, "j": {"": 4.0}}


@given(
    st.text(alphabet='vllm:spec_decode_num_drafts_total{}="position 0123456789.eE+-NaInf\n\\#', max_size=300), st.text()
)
def test_any_text_is_read_or_left(before: str, after: str) -> None:
    report(before, before + after)
    report(VLLM.format(**SOME) + before, VLLM.format(**SOME) + after)
