"""NetLog files of Chrome (chrome://net-export): when bytes of a response were read, in whole milliseconds.

The bytes themselves are in it only where the log was made with "include raw bytes".
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ..bytefile import ByteFile
from ..errors import LimitError
from ..fingerprint import Finding
from ..trace import Trace
from ..wire.answer import Answer
from ..wire.body import Body
from ..wire.dialects.said import table, whole
from ..wire.recordsizes import sizes_only
from .answers import LATEST, add_answers, say_sizes_only
from .gather import MAX_EVENTS, Gathered
from .jsonparts import EACH, Parts
from .refusals import no_times, refuse_gaps
from .sniff import has
from .values import decoded

NAME: Final = "NetLog"
LOOKS: Final = "JSON with constants.logEventTypes and events, as chrome://net-export writes it"
KEYS: Final = ("constants", "logEventTypes")

_TICK_NS: Final = 1_000_000
_START: Final = "URL_REQUEST_START_JOB"
_FILTERED: Final = "URL_REQUEST_JOB_FILTERED_BYTES_READ"
_READ: Final = "URL_REQUEST_JOB_BYTES_READ"
_FEWEST: Final = 4
_MOST_REQUESTS: Final = 100_000


@dataclass(slots=True)
class _Request:
    start_ns: int | None = None
    url: str = ""
    reads: dict[str, list[tuple[int, int]]] = field(default_factory=lambda: {_FILTERED: [], _READ: []})
    last_ns: int = 0
    answer: Answer | None = None
    body: Body | None = None


def sniff(head: bytes) -> float:
    """How much `head` looks like this format, 0 to 1."""
    return has(head, KEYS)


def read(source: ByteFile, *, unit: str | None = None, gaps: bool = False) -> Trace:
    """Read all requests.

    Raises
    ------
    UsageError : `gaps` was asked for. LimitError : too many requests.
    """
    refuse_gaps(gaps)
    gathered = Gathered(source)
    parts = Parts(source, [("constants", "logEventTypes"), ("events", EACH)])
    names: dict[int, str] = {}
    requests: dict[int, _Request] = {}
    for number, (_, path, raw) in enumerate(parts, 1):
        event = table(decoded(raw))
        if path[0] == "constants":
            names = {code: name for name, code in event.items() if isinstance(code, int)}
            continue
        what, request_id = names.get(whole(event.get("type")) or -1), whole(table(event.get("source")).get("id"))
        t_ns = _nanoseconds(event.get("time"))
        if what not in (_START, _FILTERED, _READ) or request_id is None or t_ns is None:
            continue
        if request_id not in requests and len(requests) >= _MOST_REQUESTS:
            raise LimitError(f"{source.name} has more than {_MOST_REQUESTS:,} requests", "split the file")
        request = requests.setdefault(request_id, _Request())
        try:
            _take(request, what, table(event.get("params")), t_ns, number, gathered.findings)
        except LimitError as error:
            gathered.skip(f"event {number}: {error.message}")
    only_sizes = 0
    for request in requests.values():
        reads = request.reads[_FILTERED] or request.reads[_READ]
        if request.answer is not None and request.body is not None:
            request.body.end(request.last_ns)
            add_answers(gathered, [request.answer], _TICK_NS)
        elif len(reads) >= _FEWEST:
            only_sizes += 1
            times, sizes = zip(*reads, strict=True)
            gathered.add(
                sizes_only(times, sizes, name=gathered.name(), start_ns=request.start_ns, resolution_ns=_TICK_NS)
            )
    say_sizes_only(gathered, only_sizes, "since the log was made without raw bytes")
    if not gathered.streams:
        return no_times(
            source, f"has {len(requests)} requests, none of which was answered in parts",
            "record again while the answer streams", notes=gathered.findings,
        )  # fmt: skip
    return gathered.trace(parts)


def _nanoseconds(value: object) -> int | None:
    """Milliseconds, which NetLog writes as text."""
    try:
        t_ns = int(str(value)) * _TICK_NS
    except ValueError:
        return None
    return t_ns if abs(t_ns) < LATEST else None


def _take(
    request: _Request, what: str, params: Mapping[str, Any], t_ns: int, number: int, findings: list[Finding]
) -> None:
    request.last_ns = t_ns
    if what == _START:
        if params.get("url"):
            request.url, request.start_ns = str(params["url"]), t_ns
        return
    size = whole(params.get("byte_count"))
    if size and len(request.reads[what]) < MAX_EVENTS:
        request.reads[what].append((t_ns, size))
    if what != _FILTERED or not isinstance(text := params.get("bytes"), str):
        return
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return
    if request.body is None:
        request.answer = Answer(url=request.url, start_ns=request.start_ns)
        request.body = Body(request.answer, findings=findings)
    request.body.feed(t_ns, data, number)
