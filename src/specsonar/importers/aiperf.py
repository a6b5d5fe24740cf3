"""aiperf `profile_export.jsonl`, one record a request: gaps between content chunks, and the answer's total."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ..bytefile import ByteFile
from ..trace import Trace
from ..wire.dialects import report
from .gather import Gathered
from .refusals import refuse_gaps
from .sniff import has
from .values import Floats, count_at, row_of

NAME: Final = "aiperf records"
LOOKS: Final = "JSON lines of aiperf's profile_export.jsonl (`--export-level records`)"
KEYS: Final = ("metadata", "metrics", "request_start_ns", "inter_chunk_latency")

_SECONDS: Final = {"s": 1.0, "sec": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


def sniff(head: bytes) -> float:
    """How much `head` looks like this format, 0 to 1."""
    return has(head, ("metadata", "metrics", "request_start_ns", "request_end_ns"), score=0.9)


def read(source: ByteFile, *, unit: str | None = None, gaps: bool = False) -> Trace:
    """Read each record as a stream; records of the warm-up and failed ones are left out.

    Raises
    ------
    UsageError : `gaps` was asked for. LimitError : a line is too long.
    """
    refuse_gaps(gaps)
    gathered = Gathered(source)
    for record in gathered.lines():
        told, metadata = record.get("metrics"), record.get("metadata")
        if not isinstance(told, dict) or not isinstance(metadata, dict):
            gathered.skip("a record without metrics")
        elif record.get("error") or metadata.get("was_cancelled"):
            gathered.failed += 1
        elif is_warm_up(record):
            continue
        elif (seconds := _seconds(told, "inter_chunk_latency")) is None:
            gathered.skip("a record without gaps")
        else:
            first = _seconds(told, "time_to_first_token")
            total = _count(told, "usage_completion_tokens") or _count(told, "output_sequence_length")
            gathered.add_gaps(
                seconds,
                first_s=float(first[0]) if first is not None and first.size else None,
                start_ns=count_at([metadata.get("request_start_ns")], 0, most=1 << 62),
                total=total,
                meta={"client": "aiperf"},
                report=report.vllm({"speculative_decoding": record.get("spec_decode_acceptance")}, total),
            )
    return gathered.trace()


def is_warm_up(record: Mapping[str, Any]) -> bool:
    """Whether a record is of the phase that aiperf's own figures leave out."""
    metadata = record.get("metadata")
    return isinstance(metadata, dict) and metadata.get("benchmark_phase") == "warmup"


def _count(metrics: Mapping[str, Any], tag: str) -> int | None:
    entry = metrics.get(tag)
    return count_at([entry.get("value")], 0) if isinstance(entry, dict) else None


def _seconds(metrics: Mapping[str, Any], tag: str) -> Floats | None:
    """A metric, one value or a list, in seconds; None when it is missing or not finite."""
    entry = metrics.get(tag)
    scale = _SECONDS.get(str(entry.get("unit")).lower()) if isinstance(entry, dict) else None
    if not isinstance(entry, dict) or scale is None:
        return None
    values = entry.get("value")
    seconds = row_of(values if isinstance(values, list) else [values])
    return None if seconds is None else seconds * scale
