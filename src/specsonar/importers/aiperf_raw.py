"""aiperf `profile_export_raw.jsonl`: every payload of every answer with its time, nanoseconds of one clock."""

from __future__ import annotations

from typing import Any, Final

from ..bytefile import ByteFile
from ..trace import Trace
from ..wire.answer import Answer, payload
from .aiperf import is_warm_up
from .gather import Gathered
from .refusals import refuse_gaps
from .sniff import has
from .values import is_ns

NAME: Final = "aiperf raw"
LOOKS: Final = "JSON lines of aiperf's profile_export_raw.jsonl (`--export-level raw`)"
KEYS: Final = ("metadata", "start_perf_ns", "responses", "perf_ns", "packets")


def sniff(head: bytes) -> float:
    """How much `head` looks like this format, 0 to 1."""
    return has(head, ("metadata", "start_perf_ns", "responses", "perf_ns"), score=0.95)


def read(source: ByteFile, *, unit: str | None = None, gaps: bool = False) -> Trace:
    """Read each record as an answer; those of the warm-up and failed ones are left out.

    Raises
    ------
    UsageError : `gaps` was asked for. LimitError : a line is too long.
    """
    refuse_gaps(gaps)
    gathered = Gathered(source)
    for record in gathered.lines():
        responses = record.get("responses")
        if record.get("error"):
            gathered.failed += 1
        elif is_warm_up(record):
            continue
        elif isinstance(responses, list):
            gathered.add_answer(_answer(record, responses))
        else:
            gathered.skip("a record without responses")
    return gathered.trace()


def _answer(record: dict[str, Any], responses: list[Any]) -> Answer:
    sent, status, request = record.get("start_perf_ns"), record.get("status"), record.get("payload")
    answer = Answer(
        request if isinstance(request, dict) else None,
        status=status if isinstance(status, int) else None,
        start_ns=sent if is_ns(sent) else None,
    )
    last = 0
    for index, response in enumerate(responses):
        if not isinstance(response, dict) or not is_ns(response.get("perf_ns")):
            continue
        last = response["perf_ns"]
        packets = response.get("packets")
        for packet in packets if isinstance(packets, list) else ():
            if isinstance(packet, dict) and packet.get("name") == "data" and isinstance(packet.get("value"), str):
                answer.event(last, index, payload(packet["value"]), len(packet["value"]))
    answer.end(last)
    return answer
