"""llama-benchy `--emit-progress`: JSON lines, an event for each chunk with its wall time in seconds and its tokens."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from ..bytefile import ByteFile
from ..trace import Trace
from .gather import Gathered
from .refusals import refuse_gaps
from .sniff import has
from .values import count_at, nanoseconds, number_at

NAME: Final = "llama-benchy progress"
LOOKS: Final = "JSON lines of `llama-benchy --emit-progress`"
KEYS: Final = ("schema", "type", "ts", "llama_benchy_version")


def sniff(head: bytes) -> float:
    """How much `head` looks like this format, 0 to 1."""
    return 0.95 if has(head, ("schema", "type", "ts")) and b"llama-benchy-progress.v" in head[:4096] else 0.0


@dataclass(slots=True)
class _Request:
    start_s: float | None
    times: list[float] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    total: int | None = None
    failed: bool = False
    guessed: bool = False


def read(source: ByteFile, *, unit: str | None = None, gaps: bool = False) -> Trace:
    """Read each request as a stream; counts that the tool calls estimated are not used.

    Raises
    ------
    UsageError : `gaps` was asked for. LimitError : a line is too long.
    """
    refuse_gaps(gaps)
    gathered = Gathered(source)
    requests: list[_Request] = []
    open_: dict[object, _Request] = {}
    for line in gathered.lines():
        key, time = str(line.get("request_id")), number_at([line.get("ts")], 0)
        kind = line.get("type")
        if kind == "request_start" or (kind == "tokens" and key not in open_):
            requests.append(_Request(time if kind == "request_start" else None))
            open_[key] = requests[-1]
        if kind == "tokens" and time is not None:
            _take(open_[key], line, time)
        elif kind == "request_end" and key in open_:
            ended = open_.pop(key)
            ended.total = count_at([line.get("total_tokens")], 0)
            ended.failed = bool(line.get("error"))
    for one in requests:
        if one.failed:
            gathered.failed += 1
        elif one.times:
            begin = one.times[0] if one.start_s is None else one.start_s
            gathered.add_times(
                np.array(one.times) - begin,
                start_ns=nanoseconds(begin),
                sent=one.start_s is not None,
                total=None if one.guessed else one.total,
                counts=None if one.guessed else one.counts,
                meta={"client": "llama-benchy"},
            )
    return gathered.trace()


def _take(request: _Request, line: dict[str, Any], time: float) -> None:
    count = count_at([line.get("count")], 0)
    request.times.append(time)
    request.counts.append(-1 if count is None else count)
    request.guessed = request.guessed or bool(line.get("estimated"))
