"""Spans of OpenLLMetry, as OTLP/JSON or as the console exporter prints them: an event for each chunk of the answer.

Chunks that only announce the role or bring the usage are among them, and token counts are not. The SDK keeps the last
128 events of a span by default.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from ..bytefile import ByteFile
from ..findings import finding
from ..trace import Trace
from .gather import Gathered
from .jsonparts import EACH, Parts
from .refusals import no_times, refuse_gaps
from .sniff import has
from .values import count_at, decoded, is_ns, iso_ns, since

NAME: Final = "OpenLLMetry spans"
LOOKS: Final = "JSON of OpenTelemetry spans with chunk events"
KEYS: Final = ("name", "events", "gen_ai.request.model")

_OTLP: Final = ("resourceSpans", EACH, "scopeSpans", EACH, "spans", EACH)
_CHUNK: Final = b"content.completion.chunk"
_DEFAULT_LIMIT: Final = 128
_USAGE: Final = ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.usage.completion_tokens")


def sniff(head: bytes) -> float:
    """How much `head` looks like this format, 0 to 1."""
    if has(head, ("resourceSpans", "spans")):
        return 0.9 if _CHUNK in head else 0.6
    return has(head, ("context", "span_id", "start_time", "events"), score=0.9 if _CHUNK in head else 0.6)


def read(source: ByteFile, *, unit: str | None = None, gaps: bool = False) -> Trace:
    """Read each span that has chunk events as a stream.

    Raises
    ------
    UsageError : `gaps` was asked for. LimitError : a span is too large.
    """
    refuse_gaps(gaps)
    gathered = Gathered(source)
    otlp = not has(source.head(), ("context", "span_id", "start_time", "events"))
    parts = Parts(source, [_OTLP if otlp else ()])
    others = 0
    for _, _, raw in parts:
        span = decoded(raw)
        times = [t for t in map(_time, _chunks(span)) if t is not None]
        if not isinstance(span, dict) or not times:
            others += 1
            continue
        _say_dropped(gathered, span, len(times))
        begin = _integer(span.get("startTimeUnixNano")) if otlp else iso_ns(span.get("start_time"))
        start = times[0] if begin is None else begin
        gathered.add_times(
            since(times, start),
            start_ns=start,
            sent=begin is not None,
            total=_total(span),
            meta={"client": "OpenLLMetry"},
            tick_ns=None if otlp else 1_000,
        )
    if not gathered.streams and not parts.cut and parts.defect is None:
        return no_times(
            source, f"holds {others} spans without an event for each chunk",
            "OpenLLMetry's instrumentation writes them; or record with `specsonar record`",
        )  # fmt: skip
    return gathered.trace(parts)


def _chunks(span: Any) -> Iterator[Mapping[str, Any]]:
    events = span.get("events") if isinstance(span, dict) else None
    for event in events if isinstance(events, list) else ():
        if isinstance(event, dict) and str(event.get("name")).endswith(_CHUNK.decode()):
            yield event


def _time(event: Mapping[str, Any]) -> int | None:
    nano = _integer(event.get("timeUnixNano"))
    return iso_ns(event.get("timestamp")) if nano is None else nano


def _integer(value: object) -> int | None:
    """OTLP/JSON writes 64-bit numbers as strings."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
        value = int(value)
    return value if is_ns(value) else None


def _say_dropped(gathered: Gathered, span: Mapping[str, Any], kept: int) -> None:
    dropped = count_at([span.get("droppedEventsCount")], 0)
    name = gathered.name()
    if dropped:
        gathered.findings.append(finding("I030", f"{name}: the first {dropped} events were dropped, {kept} are left"))
    elif kept == _DEFAULT_LIMIT:
        gathered.findings.append(
            finding("I030", f"{name}: exactly {kept} events, the SDK's limit; earlier ones may be gone")
        )


def _total(span: Mapping[str, Any]) -> int | None:
    attributes = span.get("attributes")
    if isinstance(attributes, list):  # OTLP: a list of {"key": ..., "value": {"intValue": "..."}}
        pairs = [a for a in attributes if isinstance(a, dict) and isinstance(a.get("value"), dict)]
        attributes = {str(a.get("key")): _integer(a["value"].get("intValue")) for a in pairs}
    if not isinstance(attributes, dict):
        return None
    return next((n for key in _USAGE if (n := count_at([attributes.get(key)], 0))), None)
