"""Lines of an event stream with a time before each, as `curl -N URL | ts '%.s'` (moreutils) writes them.

    1795964469.674773 data: {"id":"chatcmpl-3f3eaab7bb7c", ...}
    1795964469.674844

An event's time is that of its `data:` line, not of the blank line that ends it.
"""

from __future__ import annotations

import itertools
import re
from typing import Final

from ..bytefile import ByteFile
from ..errors import LimitError
from ..findings import finding
from ..trace import Trace
from ..wire.answer import Answer
from ..wire.body import Body
from .answers import LATEST, add_answers
from .gather import Gathered
from .refusals import no_times, refuse_gaps

NAME: Final = "lines stamped by ts"
LOOKS: Final = "text; a time before each line of an event stream, like `1795964469.674773 data: {...}`"

_AFTER: Final = rb"(?=data:|event:|id:|retry:|:|\{|$)"
_NUMBER: Final = re.compile(rb"(\d{1,10})\.(\d{1,9}) ?" + _AFTER)
_CLOCK: Final = re.compile(
    rb"(?:\d{4}-\d\d-\d\d[T ])?(\d\d):(\d\d):(\d\d)[.,](\d{1,9})(?:Z|[+-]\d\d:?\d\d)? ?" + _AFTER
)
_SECONDS: Final = re.compile(
    rb"(?:[A-Z][a-z]{2} [ \d]\d |\d{4}-\d\d-\d\d[T ])?\d\d:\d\d:\d\d ?" + _AFTER + rb"|\d{9,10} ?" + _AFTER
)
_ANY: Final = re.compile(rb"\S[^\n]*?(?:data:|event:|\{)")

_HALF_DAY: Final = 43_200_000_000_000
_MOST: Final = 4_000_000


def sniff(head: bytes) -> float:
    """How much `head` looks like this format, 0 to 1."""
    lines = [line.rstrip(b"\r") for line in head.lstrip().split(b"\n")[:50]]
    first = next((line for line in lines if line), b"")
    if not any(form.match(first) for form in (_NUMBER, _CLOCK, _SECONDS)):
        return 0.0
    return 0.8 if any(_ANY.match(line) and not line.startswith((b"data:", b"event:")) for line in lines) else 0.0


def read(source: ByteFile, *, unit: str | None = None, gaps: bool = False) -> Trace:
    """Read one answer; whether its stamps are times or (`ts -i`) times since the line before is told from them.

    Raises
    ------
    UsageError : `gaps` was asked for. LimitError : too many lines.
    """
    refuse_gaps(gaps)
    first = source.head().lstrip()
    if not _NUMBER.match(first) and not _CLOCK.match(first):
        return no_times(
            source,
            "has stamps of whole seconds, and a step takes milliseconds",
            "stamp with `ts '%.s'` or `ts -s '%.s'`",
        )
    gathered = Gathered(source)
    stamps: list[int] = []
    lines: list[bytes] = []
    number = 0
    for block in source.blocks():
        for line in block.removesuffix(b"\n").split(b"\n"):
            number += 1
            if (found := _stamp(line.removesuffix(b"\r"))) is None:
                if line.strip():
                    gathered.skip(f"line {number}")
                continue
            stamps.append(found[0])
            lines.append(found[1])
        if len(lines) > _MOST:
            raise LimitError(f"{source.name} has more than {_MOST:,} lines", "split the file")
    if source.open_end and not gathered.bad:
        gathered.findings.append(finding("I001", f"{source.name} ends in the middle of a line"))
    answer = Answer()
    body = Body(answer, findings=gathered.findings)
    times = _times(stamps)
    last = 0
    for index, (t_ns, line) in enumerate(zip(times, lines, strict=True)):
        last = t_ns if line.strip() else last
        body.feed(last, line + b"\n", index)
    body.end(last)
    add_answers(gathered, [answer])
    return gathered.trace()


def _stamp(line: bytes) -> tuple[int, bytes] | None:
    """Nanoseconds and the rest of the line."""
    if (found := _NUMBER.match(line)) is not None:
        return int(found[1]) * 1_000_000_000 + int(found[2].ljust(9, b"0")), line[found.end() :]
    if (found := _CLOCK.match(line)) is not None:
        seconds = int(found[1]) * 3600 + int(found[2]) * 60 + int(found[3])
        return seconds * 1_000_000_000 + int(found[4].ljust(9, b"0")), line[found.end() :]
    return None


def _times(stamps: list[int]) -> list[int]:
    """Times that grow, from stamps of `ts`, `ts -s` or `ts -i`; a clock that passes midnight goes on."""
    falls = sum(after < before for before, after in itertools.pairwise(stamps))
    increments = falls > 2 and falls * 10 > len(stamps)
    times: list[int] = []
    now = offset = 0
    for index, stamp in enumerate(stamps):
        if increments:
            now += stamp
        else:
            if index and stamp < stamps[index - 1] - _HALF_DAY:
                offset += 2 * _HALF_DAY
            now = stamp + offset
        times.append(min(now, LATEST))
    return times
