"""TensorRT-LLM `/perf_metrics` and `time_events_rank*.jsonl`: the server's own time of each step, in seconds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from ..bytefile import ByteFile
from ..trace import Trace
from ..wire.dialects.report import made
from .gather import Gathered
from .jsonparts import Parts
from .refusals import refuse_gaps
from .sniff import has
from .values import decoded, nanoseconds, number_at

NAME: Final = "TensorRT-LLM perf metrics"
LOOKS: Final = "JSON of TensorRT-LLM's /perf_metrics or time_events files"
KEYS: Final = ("request_id", "time_breakdown_metrics", "step_metrics", "token_time")


def sniff(head: bytes) -> float:
    """How much `head` looks like this format, 0 to 1."""
    return has(head, ("time_breakdown_metrics", "step_metrics"), score=0.95)


def read(source: ByteFile, *, unit: str | None = None, gaps: bool = False) -> Trace:
    """Read each request as a stream with one event for each step.

    Raises
    ------
    UsageError : `gaps` was asked for. LimitError : a request is too large.
    """
    refuse_gaps(gaps)
    gathered = Gathered(source)
    parts = Parts(source, [()])
    for number, (_, _, raw) in enumerate(parts, 1):
        record = decoded(raw)
        steps = _table(_table(record).get("time_breakdown_metrics")).get("step_metrics")
        rows = [_table(s).get("token_time") for s in steps] if isinstance(steps, list) else []
        times = [number_at(rows, i) for i in range(len(rows))]
        if not times or None in times:
            gathered.skip(f"request {number}")
            continue
        metrics = _table(_table(record).get("perf_metrics"))
        arrival = number_at([_table(metrics.get("timing_metrics")).get("arrival_time")], 0)
        begin = times[0] if arrival is None else arrival
        report = _report(_table(metrics.get("speculative_decoding")), len(times))
        seconds = np.array(times, np.float64) - (begin or 0.0)
        gathered.add_times(
            seconds,
            start_ns=nanoseconds(begin),
            sent=arrival is not None,
            total=None if report is None else len(times) + report["accepted"],
            meta={"client": NAME, "event_is": "step", "clock": "server"},
            report=report,
        )
    return gathered.trace(parts)


def _table(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _report(said: Mapping[str, Any], steps: int) -> dict[str, Any] | None:
    """What the server says about its speculation; the first step is the prefill."""
    drafted = number_at([said.get("total_draft_tokens")], 0)
    accepted = number_at([said.get("total_accepted_draft_tokens")], 0)
    if drafted is None or accepted is None or not 0 <= accepted <= drafted < 1e12:
        return None
    return made(
        "TensorRT-LLM perf_metrics.speculative_decoding", int(drafted), int(accepted), total=steps + int(accepted),
        steps=steps - 1,
    )  # fmt: skip
