"""One run of a benchmark whose file lists each quantity over all requests, so that no request stands together."""

from __future__ import annotations

from typing import Any

from .values import Floats, number_at


class Run:
    """What was read of one run so far.

    Attributes
    ----------
    values : by key, what the file says of the run or lists over its requests.
    gaps : gaps of each request in seconds, None where they are not readable.
    details : whether there were gaps at all.
    passed_over : events of requests for which there was no room.
    """

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.gaps: list[Floats | None] = []
        self.details = False
        self.passed_over = 0
        self._events = 0

    def take(self, gaps: Floats | None, room: int) -> None:
        """The gaps of the next request, kept while there is room for further events."""
        self.details = True
        events = 0 if gaps is None else gaps.size + 1
        if self._events < room:
            self.gaps.append(gaps)
            self._events += events
        else:
            self.passed_over += events

    def failed(self, index: int) -> bool:
        """Whether the tool gave no answer for this request."""
        errors = self.values.get("errors")
        told = isinstance(errors, list) and index < len(errors) and bool(errors[index])
        return told or number_at(self.values.get("output_lens"), index) == 0
