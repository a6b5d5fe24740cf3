"""servebench `run.json`: times of all chunks since the request, seconds to the microsecond, and the answer's total."""

from __future__ import annotations

from typing import Final

from ..bytefile import ByteFile
from ..trace import Trace
from .gather import Gathered
from .jsonparts import EACH, Parts
from .refusals import refuse_gaps
from .sniff import has
from .values import count_at, decoded, nanoseconds, number_at, row_of

NAME: Final = "servebench"
LOOKS: Final = "JSON of `servebench run`, run.json"
KEYS: Final = ("schema_version", "levels", "requests", "chunk_times")

_TICK_NS: Final = 1_000


def sniff(head: bytes) -> float:
    """How much `head` looks like this format, 0 to 1."""
    return has(head, KEYS, score=0.95)


def read(source: ByteFile, *, unit: str | None = None, gaps: bool = False) -> Trace:
    """Read each request of each level as a stream.

    Raises
    ------
    UsageError : `gaps` was asked for. LimitError : a request is too large.
    """
    refuse_gaps(gaps)
    gathered = Gathered(source)
    parts = Parts(source, [("levels", EACH, "requests", EACH)])
    for number, (_, _, raw) in enumerate(parts, 1):
        request = decoded(raw)
        if not isinstance(request, dict):
            gathered.skip(f"request {number}")
            continue
        times = row_of(request.get("chunk_times"))
        if request.get("ok") is False:
            gathered.failed += 1
        elif times is None or not times.size:
            gathered.skip(f"request {number}")
        else:
            # "chunks" says that the tool counted chunks, which tells nothing about tokens
            told = request.get("token_source") in ("usage", "tokenizer")
            gathered.add_times(
                times,
                start_ns=nanoseconds(number_at([request.get("start")], 0)),
                total=count_at([request.get("output_tokens")], 0) if told else None,
                meta={"client": NAME},
                tick_ns=_TICK_NS,
            )
    return gathered.trace(parts)
