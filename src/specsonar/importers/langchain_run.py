"""Runs of the LangChain tracer, as LangSmith exports them: an event for each new token, times to the microsecond.

What LangChain calls a token is a chunk of the provider's stream. Chunks without text announce the role or the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from ..bytefile import ByteFile
from ..trace import Trace
from .gather import Gathered
from .jsonparts import Parts
from .refusals import no_times, refuse_gaps
from .sniff import has
from .values import count_at, decoded, iso_ns, since

NAME: Final = "LangChain run"
LOOKS: Final = "JSON of a LangChain tracer or LangSmith run"
KEYS: Final = ("run_type", "start_time", "events", "dotted_order")

_EVENT: Final = "new_token"
_DEEPEST: Final = 10_000


def sniff(head: bytes) -> float:
    """How much `head` looks like this format, 0 to 1."""
    return has(head, ("run_type", "start_time"), score=0.9 if b'"new_token"' in head else 0.8)


def read(source: ByteFile, *, unit: str | None = None, gaps: bool = False) -> Trace:
    """Read each model run, also those inside chains, as a stream.

    Raises
    ------
    UsageError : `gaps` was asked for. LimitError : a run is too large.
    """
    refuse_gaps(gaps)
    gathered = Gathered(source)
    parts = Parts(source, [()])
    for _, _, raw in parts:
        for run in _runs(decoded(raw)):
            _add(gathered, run)
    if not gathered.streams and not parts.cut and parts.defect is None:
        return no_times(
            source, "holds runs without an event for each token",
            "stream through LangChain's own model classes; wrapped clients log the first token only",
        )  # fmt: skip
    return gathered.trace(parts)


def _runs(root: Any) -> Iterator[dict[str, Any]]:
    """The run and all runs inside it."""
    waiting, seen = [root], 0
    while waiting and seen < _DEEPEST:
        run, seen = waiting.pop(), seen + 1
        if isinstance(run, dict):
            yield run
            inner = run.get("child_runs")
            waiting += inner[::-1] if isinstance(inner, list) else []


def _add(gathered: Gathered, run: dict[str, Any]) -> None:
    events = run.get("events")
    times = [
        time
        for event in (events if isinstance(events, list) else ())
        if isinstance(event, dict) and event.get("name") == _EVENT and not _is_empty(event)
        if (time := iso_ns(event.get("time"))) is not None
    ]
    if not times:
        return
    begun = iso_ns(run.get("start_time"))
    start = times[0] if begun is None else begun
    gathered.add_times(
        since(times, start), start_ns=start, sent=begun is not None, total=_total(run),
        meta={"client": "LangChain"}, tick_ns=1_000,
    )  # fmt: skip


def _is_empty(event: dict[str, Any]) -> bool:
    """Whether the chunk is known to hold no text; where the content was stripped it is not known."""
    told = event.get("kwargs")
    return isinstance(told, dict) and told.get("token") == ""


def _total(run: dict[str, Any]) -> int | None:
    """The answer's tokens, from the usage that the provider gave."""
    if total := count_at([run.get("completion_tokens")], 0):
        return total
    message: Any = run.get("outputs")
    for step in ("generations", 0, 0, "message", "kwargs", "usage_metadata", "output_tokens"):
        if isinstance(step, int):
            message = message[step] if isinstance(message, list) and len(message) > step else None
        else:
            message = message.get(step) if isinstance(message, dict) else None
    return count_at([message], 0)
