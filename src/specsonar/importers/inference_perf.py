"""inference-perf `per_request_lifecycle_metrics.json`: chunk times on a monotonic clock in seconds, and the payloads.

Where the payloads do not tell their tokens, `output_token_times` does: it repeats the time of a chunk for each token
that the tool's tokenizer found in it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any, Final

import numpy as np

from ..bytefile import ByteFile
from ..trace import ASSUMED_ONE, COUNTED, NOT_SAID, ONE_EACH, TOTAL_ONLY, Stream, Trace
from ..wire.answer import Answer, payload
from .gather import Gathered
from .jsonparts import Parts
from .refusals import refuse_gaps
from .sniff import has
from .values import count_at, decoded, number_at

NAME: Final = "inference-perf"
LOOKS: Final = "JSON of inference-perf, per_request_lifecycle_metrics.json"
KEYS: Final = ("start_time", "info", "request_metrics", "response_metrics")


def sniff(head: bytes) -> float:
    """How much `head` looks like this format, 0 to 1."""
    return has(head, KEYS, score=0.9)


def read(source: ByteFile, *, unit: str | None = None, gaps: bool = False) -> Trace:
    """Read each request as an answer.

    Raises
    ------
    UsageError : `gaps` was asked for. LimitError : a request is too large.
    """
    refuse_gaps(gaps)
    gathered = Gathered(source)
    parts = Parts(source, [()])
    for number, (_, _, raw) in enumerate(parts, 1):
        record = decoded(raw)
        info = record.get("info") if isinstance(record, dict) else None
        told = info.get("response_metrics") if isinstance(info, dict) else None
        if isinstance(record, dict) and record.get("error"):
            gathered.failed += 1
        elif not isinstance(told, dict) or not _add(gathered, record, told):
            gathered.skip(f"request {number}")
    return gathered.trace(parts)


def _add(gathered: Gathered, record: dict[str, Any], told: dict[str, Any]) -> bool:
    """Make the streams of one request; False when its times are not there."""
    rows, chunks = told.get("chunk_times"), told.get("response_chunks")
    times = [number_at(rows, i) for i in range(len(rows))] if isinstance(rows, list) else []
    if not times or None in times:
        return False
    first = number_at([record.get("start_time")], 0)
    base = first or 0.0
    ns = [round((t - base) * 1e9) for t in times if t is not None]
    usage = told.get("server_usage")
    total = count_at([usage.get("completion_tokens")], 0) if isinstance(usage, dict) else None
    counts = _counts(told.get("output_token_times"), rows)
    if not isinstance(chunks, list) or len(chunks) != len(ns):
        gathered.add_times(
            np.array(ns) * 1e-9, start_ns=round(base * 1e9), sent=first is not None, total=total, counts=counts
        )
        return True
    request = payload(record["request"]) if isinstance(record.get("request"), str) else None
    start = round(base * 1e9)
    answer = Answer(request if isinstance(request, dict) else None, start_ns=start)
    for index, (t, chunk) in enumerate(zip(ns, chunks, strict=True)):
        text = chunk if isinstance(chunk, str) else ""
        answer.event(start + t, index, payload(text), len(text))
    made, noticed = answer.streams(gathered.name())
    for one in made:
        gathered.add(_told(one, total, counts if len(made) == 1 else None))
    gathered.findings += noticed
    return True


def _counts(token_times: object, chunk_times: object) -> list[int] | None:
    """Tokens of each chunk by how often its time is repeated; None where the repetitions are not kept."""
    if not isinstance(token_times, list) or not isinstance(chunk_times, list) or not token_times:
        return None
    repeated = Counter(t for t in token_times if isinstance(t, float))
    counts = [repeated[t] if isinstance(t, float) else 0 for t in chunk_times]
    return counts if sum(counts) == len(token_times) else None


def _told(one: Stream, total: int | None, counts: list[int] | None) -> Stream:
    """`one` with the tool's counts, where the payloads did not tell them."""
    if one.count_source not in (ASSUMED_ONE, NOT_SAID, TOTAL_ONLY):
        return one
    total = total if one.total_tokens is None else one.total_tokens
    if counts is None:
        return replace(one, total_tokens=total, count_source=one.count_source if total is None else TOTAL_ONLY)
    tokens = np.array(counts, np.int64)[one.read]
    tokens.flags.writeable = False
    source = ONE_EACH if (tokens == 1).all() else COUNTED
    return replace(
        one, tokens=tokens, count_source=source, total_tokens=total, meta={**one.meta, "count_field": "tokenizer"}
    )
