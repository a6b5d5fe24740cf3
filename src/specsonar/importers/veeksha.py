"""veeksha `request_level_metrics.jsonl`: gaps between chunks in seconds, rounded to 10 us."""

from __future__ import annotations

from typing import Final

from ..bytefile import ByteFile
from ..trace import Trace
from .gather import Gathered
from .refusals import refuse_gaps
from .sniff import has
from .values import count_at, nanoseconds, number_at, row_of

NAME: Final = "veeksha"
LOOKS: Final = "JSON lines of veeksha, request_level_metrics.jsonl"
KEYS: Final = ("request_id", "tbc", "ttfc", "num_output_tokens")

_TICK_NS: Final = 10_000


def sniff(head: bytes) -> float:
    """How much `head` looks like this format, 0 to 1."""
    return has(head, ("tbc", "ttfc"), score=0.9)


def read(source: ByteFile, *, unit: str | None = None, gaps: bool = False) -> Trace:
    """Read each request as a stream.

    Raises
    ------
    UsageError : `gaps` was asked for. LimitError : a line is too long.
    """
    refuse_gaps(gaps)
    gathered = Gathered(source)
    for number, record in enumerate(gathered.lines(), 1):
        seconds = row_of(record.get("tbc"))
        if record.get("error"):
            gathered.failed += 1
        elif seconds is None:
            gathered.skip(f"record {number}")
        else:
            gathered.add_gaps(
                seconds,
                first_s=number_at([record.get("ttfc")], 0),
                start_ns=nanoseconds(number_at([record.get("client_picked_up_at")], 0)),
                total=_total(record, seconds.size + 1),
                meta={"client": NAME},
                tick_ns=_TICK_NS,
            )
    return gathered.trace()


def _total(record: dict[str, object], chunks: int) -> int | None:
    """The answer's tokens. Without usage the tool counts chunks, so a total that equals them tells nothing, unless it
    is what was asked for."""
    total = count_at([record.get("num_output_tokens")], 0)
    asked = count_at([record.get("num_requested_output_tokens")], 0)
    return total if total != chunks or total == asked else None
