"""MLflow traces: spans with an event for each chunk, its time in nanoseconds and its whole payload."""

from __future__ import annotations

import re
from typing import Any, Final

from ..bytefile import ByteFile
from ..trace import Trace
from ..wire.answer import Answer, payload
from .gather import Gathered
from .jsonparts import EACH, Parts
from .refusals import no_times, refuse_gaps
from .sniff import has
from .values import decoded, is_ns

NAME: Final = "MLflow trace"
LOOKS: Final = "JSON of an MLflow trace (`trace.to_json()`)"
KEYS: Final = ("trace_id", "spans", "start_time_unix_nano", "mlflow.chunk.value")

_EVENT: Final = re.compile(r"mlflow\.chunk\.item\.\d+")


def sniff(head: bytes) -> float:
    """How much `head` looks like this format, 0 to 1."""
    return 0.9 if has(head, ("trace_id",)) and b'"mlflow.' in head else 0.0


def read(source: ByteFile, *, unit: str | None = None, gaps: bool = False) -> Trace:
    """Read each span that has chunk events as an answer.

    Raises
    ------
    UsageError : `gaps` was asked for. LimitError : a span is too large.
    """
    refuse_gaps(gaps)
    gathered = Gathered(source)
    parts = Parts(source, [("data", "spans", EACH), ("spans", EACH)])
    for _, _, raw in parts:
        span = decoded(raw)
        events = span.get("events") if isinstance(span, dict) else None
        chunks = [e for e in events if _is_chunk(e)] if isinstance(events, list) else []
        if chunks:
            gathered.add_answer(_answer(span, chunks))
    if not gathered.streams and not parts.cut and parts.defect is None:
        return no_times(
            source, "holds no span with an event for each chunk",
            "trace the function that yields the chunks (`@mlflow.trace` on a generator)",
        )  # fmt: skip
    return gathered.trace(parts)


def _is_chunk(event: Any) -> bool:
    return (
        isinstance(event, dict)
        and bool(_EVENT.fullmatch(str(event.get("name"))))
        and is_ns(event.get("time_unix_nano"))
        and isinstance(event.get("attributes"), dict)
    )


def _answer(span: dict[str, Any], chunks: list[dict[str, Any]]) -> Answer:
    begun = span.get("start_time_unix_nano")
    answer = Answer(start_ns=begun if is_ns(begun) else None)
    for index, event in enumerate(chunks):
        text = event["attributes"].get("mlflow.chunk.value")
        if isinstance(text, str):
            answer.event(event["time_unix_nano"], index, payload(text), len(text))
    return answer
