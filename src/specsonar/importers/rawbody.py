"""The body of a streamed answer as it was saved (`curl -N URL > FILE`), without arrival times.

Some servers put their own clock into every event (Ollama's `created_at`, llama.cpp's `timings_per_token`): then the
times are those at which the server made the events. Any other body holds no times at all.
"""

from __future__ import annotations

from typing import Final

from ..bytefile import ByteFile
from ..errors import LimitError
from ..findings import finding
from ..trace import Trace
from ..wire.answer import Answer
from ..wire.body import Body
from ..wire.dialects import find
from ..wire.eventstream import is_prelude
from .answers import add_answers
from .gather import Gathered
from .refusals import no_times, refuse_gaps
from .sniff import first_object

NAME: Final = "response body"
LOOKS: Final = "the body of a streamed answer: `data: {...}` lines, JSON lines, a JSON array or an AWS event stream"

_FIELDS: Final = (b"data:", b"event:", b"id:", b"retry:", b": ", b":\n")
_RECORD: Final = (
    "record it with `specsonar probe`, `record` or `proxy`, or with `curl -N --trace-time --trace-ascii FILE`"
)


def sniff(head: bytes) -> float:
    """How much `head` looks like this format, 0 to 1; every recording that has times looks more like its own."""
    text = head.lstrip()
    if text.startswith(_FIELDS) and (b"data:" in text[: 1 << 12] or b"event:" in text[: 1 << 12]):
        return 0.4
    if is_prelude(head):
        return 0.4
    first = first_object(head)
    if first and "t" not in first and "time" not in first and find(first):
        return 0.4
    return 0.4 if text.startswith(b"[") and b'"candidates"' in text[: 1 << 12] else 0.0


def read(source: ByteFile, *, unit: str | None = None, gaps: bool = False) -> Trace:
    """Read one answer; without streams (finding I010) where the server put no clock into it.

    Raises
    ------
    UsageError : `gaps` was asked for.
    """
    refuse_gaps(gaps)
    gathered = Gathered(source)
    answer = Answer()
    body = Body(answer, findings=gathered.findings)
    try:
        for piece in source.pieces():
            body.feed(0, piece, 0)
    except LimitError as error:
        gathered.skip(error.message)
    body.end(0)
    if not answer.on_server_clock():
        streams, noticed = answer.streams(source.name)
        events = sum(len(one) for one in streams)
        return no_times(
            source,
            "is the body of an answer, without the times at which its parts came",
            _RECORD,
            holds={"events": events or None, "tokens": streams[0].known_tokens if len(streams) == 1 else None},
            report=streams[0].server_report,
            notes=(*gathered.findings, *noticed),
        )
    add_answers(gathered, [answer])
    gathered.findings.append(finding("I021", f"{source.name}: when the server made each event, by its own clock"))
    return gathered.trace()
