"""Recordings of an engine's event stream: JSON lines, first the request, then one line per server-sent event.

    {"t_ns": 1000, "sent": {"temperature": 0.7, ...}, "url": "http://host/completion", "status": 200, "headers": {...}}
    {"t_ns": 2000, "recv": 1, "data": {"content": "In", "tokens_predicted": 1, ...}}

`t_ns` is the receive time in nanoseconds of a monotonic clock, `recv` the number of the read that brought the event
(equal = same read), `data` the event's data. A further request line begins a further stream. Text and prompts are
not kept.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
import numpy as np

from ..bytefile import ByteFile
from ..errors import FormatError, LimitError, UsageError
from ..findings import finding
from ..fingerprint import Finding
from ..trace import Stream, Trace, stream
from ..wire.answer import Answer, payload
from .values import decoded

NAME: Final = "event-stream recording"
LOOKS: Final = 'JSON lines; a request, then {"t_ns":..,"recv":..,"data":{..}} for each event'
MAX_EVENTS: Final = 4_000_000

_Time = Annotated[int, msgspec.Meta(ge=-(1 << 61), le=1 << 61)]


class _Line(msgspec.Struct):
    t_ns: _Time
    recv: Annotated[int, msgspec.Meta(ge=-(1 << 61), le=1 << 61)] | None = None
    data: msgspec.Raw = msgspec.Raw()
    sent: Any = None
    url: Any = None
    status: Any = None
    headers: Any = None


_DECODER: Final = msgspec.json.Decoder(_Line)


def sniff(head: bytes) -> float:
    """How much `head` looks like this format, 0 to 1."""
    first = head.lstrip().split(b"\n", 1)[0]
    if not first.startswith(b"{"):
        return 0.0
    keys = set(decoded(first) or ())
    if not keys:
        return 0.6 if b'"t_ns"' in first else 0.0  # a first line longer than the head, or cut
    return 0.9 if "t_ns" in keys and keys & {"sent", "url", "recv", "data"} else 0.0


def read(source: ByteFile, *, unit: str | None = None, gaps: bool = False) -> Trace:
    """Read all answers of a recording, each as a stream (or several, where a request asked for several choices).

    Raises
    ------
    UsageError : `gaps` was asked for. FormatError : no line could be read. LimitError : too many events.
    """
    if gaps:
        raise UsageError("--gaps is for plain text; this file has its own times")
    answers: list[Answer] = []
    skipped: list[int] = []
    number = events = 0
    for block in source.blocks():
        for text in block.split(b"\n"):
            number += 1
            if not text.strip():
                continue
            try:
                line = _DECODER.decode(text)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                skipped.append(number)
                continue
            if not line.data:
                answers.append(_answer(line))
                continue
            events += 1
            if events > MAX_EVENTS:
                raise LimitError(f"{source.name} has more than {MAX_EVENTS:,} events", "split the file")
            if not answers:
                answers.append(Answer())
            data = bytes(line.data)
            read_index = events + (1 << 61) if line.recv is None else line.recv
            answers[-1].event(line.t_ns, read_index, _value(data), len(data))
        number -= 1  # the piece after the last newline is not a line of its own
    cut = bool(skipped) and source.open_end and skipped[-1] == number + 1
    return _trace(source, answers, skipped[:-1] if cut else skipped, cut)


def _value(data: bytes) -> object:
    value = payload(data)
    return payload(value) if isinstance(value, str) else value


def _answer(line: _Line) -> Answer:
    return Answer(
        line.sent if isinstance(line.sent, dict) else None,
        url=line.url if isinstance(line.url, str) else "",
        headers=line.headers if isinstance(line.headers, dict) else None,
        status=line.status if isinstance(line.status, int) else None,
        start_ns=line.t_ns,
    )


def _trace(source: ByteFile, answers: list[Answer], skipped: list[int], cut: bool) -> Trace:
    findings: list[Finding] = []
    if not answers and not cut:
        raise FormatError(f"no line of {source.name} could be read as JSON with a time", f"expected: {LOOKS}")
    if cut:
        findings.append(finding("I001", f"{source.name} ends in the middle of a line"))
    if skipped:
        findings.append(
            finding("I004", f"{source.name}: {len(skipped)} lines left out, the first is line {skipped[0]}")
        )
    streams: list[Stream] = []
    for index, answer in enumerate(answers):
        made, noticed = answer.streams(source.name if len(answers) == 1 else f"{source.name}:{index + 1}")
        for one in made:
            ordered, falling = in_order(one)
            streams.append(ordered)
            if falling:
                findings.append(
                    finding("I003", f"{one.name}: {falling} of {len(one)} times were earlier than the one before")
                )
        findings += noticed
    return Trace(tuple(streams), {}, tuple(findings))


def in_order(one: Stream) -> tuple[Stream, int]:
    """`one` with its events sorted by time (stable), and how many were earlier than the one before."""
    falling = int((np.diff(one.t_ns) < 0).sum())
    if not falling:
        return one, 0
    order = np.argsort(one.t_ns, kind="stable")
    fields = {f: getattr(one, f) for f in one.__dataclass_fields__ if f not in ("t_ns", "tokens", "read", "size")}
    return (
        stream(one.t_ns[order], one.tokens[order], read=one.read[order], size=one.size[order], **fields),
        falling,
    )
