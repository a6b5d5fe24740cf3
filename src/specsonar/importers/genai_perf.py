"""genai-perf and perf_analyzer `profile_export.json`: responses as they were read, with times since the epoch in ns.

One response may hold several events of the stream, or a part of one.
"""

from __future__ import annotations

from typing import Any, Final

from ..bytefile import ByteFile
from ..trace import Trace
from ..wire.answer import Answer, payload
from ..wire.body import Body
from .gather import Gathered
from .jsonparts import EACH, Parts
from .refusals import refuse_gaps
from .sniff import has
from .values import decoded, is_ns

NAME: Final = "genai-perf"
LOOKS: Final = "JSON of genai-perf or perf_analyzer, profile_export.json"
KEYS: Final = ("experiments", "requests", "response_timestamps", "response_outputs")


def sniff(head: bytes) -> float:
    """How much `head` looks like this format, 0 to 1."""
    return has(head, ("experiments", "requests", "response_timestamps"), score=0.95)


def read(source: ByteFile, *, unit: str | None = None, gaps: bool = False) -> Trace:
    """Read each request as an answer.

    Raises
    ------
    UsageError : `gaps` was asked for. LimitError : a request is too large.
    """
    refuse_gaps(gaps)
    gathered = Gathered(source)
    parts = Parts(source, [("experiments", EACH, "requests", EACH)])
    for number, (_, _, raw) in enumerate(parts, 1):
        request = decoded(raw)
        if isinstance(request, dict) and (rows := _rows(request)):
            gathered.add_answer(_answer(request, rows))
        else:
            gathered.skip(f"request {number}")
    return gathered.trace(parts)


def _rows(request: dict[str, Any]) -> list[tuple[int, str]]:
    """Time and text of each response; none where they do not go together."""
    times, outputs = request.get("response_timestamps"), request.get("response_outputs")
    if not isinstance(times, list) or not isinstance(outputs, list) or len(times) != len(outputs):
        return []
    texts = [output.get("response") if isinstance(output, dict) else None for output in outputs]
    return [(t, text) for t, text in zip(times, texts, strict=True) if is_ns(t) and isinstance(text, str)]


def _answer(request: dict[str, Any], rows: list[tuple[int, str]]) -> Answer:
    inputs = request.get("request_inputs")
    sent = payload(inputs["payload"]) if isinstance(inputs, dict) and isinstance(inputs.get("payload"), str) else None
    begun = request.get("timestamp")
    answer = Answer(sent if isinstance(sent, dict) else None, start_ns=begun if is_ns(begun) else None)
    body = Body(answer, content_type="text/event-stream")
    for index, (time, text) in enumerate(rows):
        body.feed(time, text.encode(errors="replace"), index)
    body.end(rows[-1][0])
    return answer
