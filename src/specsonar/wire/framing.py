"""What all framings of a body have in common: bytes in, events out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol


class Event(NamedTuple):
    """One event: its value as `values.payload` gives it, the bytes of its data, and what the framing calls it."""

    value: object
    size: int
    kind: str = ""


class Framing(Protocol):
    """Cuts a body into events. Both methods may raise LimitError or BrokenError after the events before it."""

    def feed(self, data: bytes) -> Iterator[Event]:
        """Events that `data` completes."""

    def end(self) -> Iterator[Event]:
        """Events that only the end of the body completes."""
