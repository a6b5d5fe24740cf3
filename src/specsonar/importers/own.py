"""specsonar's own trace file; `tracefile` describes it."""

from __future__ import annotations

from typing import Final

from ..bytefile import ByteFile
from ..errors import UsageError
from ..trace import Trace
from ..traceload import load, looks_own

NAME: Final = "specsonar trace"
LOOKS: Final = 'JSON lines; the first begins with {"specsonar":"trace"'


def sniff(head: bytes) -> float:
    """How much `head` looks like this format, 0 to 1."""
    return 1.0 if looks_own(head) else 0.0


def read(source: ByteFile, *, unit: str | None = None, gaps: bool = False) -> Trace:
    """Read a trace.

    Raises
    ------
    UsageError : `gaps` was asked for. FormatError, LimitError : see `traceload.load`.
    """
    if gaps:
        raise UsageError("--gaps is for plain text; this file has its own times")
    return load(source)
