"""Reads of a response body with their times and bytes, as a few lines of Python around an HTTP client write them.

    {"type": "start", "url": "/v1/messages", "status": 200, "content_type": "text/event-stream"}
    {"type": "read", "t": 0.062306, "n": 120, "b64": "ZGF0YTp7Im..."}
    {"type": "end", "t": 0.284672}

`t` is in seconds since the request was sent. The kind of line may also be called "ev"; an "id" tells answers apart.
"""

from __future__ import annotations

import binascii
from collections.abc import Mapping
from typing import Any, Final

from ..bytefile import ByteFile
from ..errors import LimitError
from ..trace import Trace
from ..wire.answer import Answer
from ..wire.body import Body
from ..wire.dialects.said import whole
from .answers import LATEST, add_answers
from .gather import Gathered
from .refusals import refuse_gaps
from .sniff import first_object
from .values import nanoseconds, number_at

NAME: Final = "timed reads"
LOOKS: Final = 'JSON lines; {"type":"start",...}, then {"type":"read","t":..,"b64":".."} for each read'
KEYS: Final = ("t_headers", "content_type", "status", "url")

_MOST: Final = 100_000


def sniff(head: bytes) -> float:
    """How much `head` looks like this format, 0 to 1."""
    first = first_object(head)
    kind = first.get("type", first.get("ev"))
    return 0.9 if (kind == "start" and "url" in first) or (kind == "read" and "b64" in first) else 0.0


def read(source: ByteFile, *, unit: str | None = None, gaps: bool = False) -> Trace:
    """Read all answers.

    Raises
    ------
    UsageError : `gaps` was asked for. LimitError : too many answers.
    """
    refuse_gaps(gaps)
    gathered = Gathered(source)
    bodies: dict[str, Body] = {}
    answers: list[Answer] = []
    last: dict[str, int] = {}
    for number, line in enumerate(gathered.lines(), 1):
        kind, key = line.get("type", line.get("ev")), str(line.get("id"))
        if kind == "start" or (kind == "read" and key not in bodies):
            if len(answers) >= _MOST:
                raise LimitError(f"{source.name} has more than {_MOST:,} answers", "split the file")
            if key in bodies:
                bodies[key].end(last.get(key, 0))
            answer, body = _begin(line, gathered)
            answers.append(answer)
            bodies[key] = body
        when = nanoseconds(number_at([line.get("t")], 0))
        if when is not None and abs(when) < LATEST:
            last[key] = when
        if kind == "read" and not _feed(bodies[key], line, when, number):
            gathered.skip(f"read {number}")
        elif kind == "end" and key in bodies:
            bodies[key].end(last.get(key, 0))
    for key, body in bodies.items():
        body.end(last.get(key, 0))
    add_answers(gathered, answers, 1000)
    return gathered.trace()


def _begin(line: Mapping[str, Any], gathered: Gathered) -> tuple[Answer, Body]:
    """The answer that a line begins; a read without a start line begins one of which nothing is known."""
    url, kind, encoding = (line.get(key) for key in ("url", "content_type", "content_encoding"))
    answer = Answer(url=url if isinstance(url, str) else "", status=whole(line.get("status")) or None, start_ns=0)
    return answer, Body(answer, str(kind or ""), str(encoding or ""), findings=gathered.findings)


def _feed(body: Body, line: Mapping[str, Any], t_ns: int | None, number: int) -> bool:
    """Whether a read could be used."""
    data = line.get("b64")
    if t_ns is None or not isinstance(data, str):
        return False
    try:
        body.feed(t_ns, binascii.a2b_base64(data), number)
    except (ValueError, LimitError):
        return False
    return True
