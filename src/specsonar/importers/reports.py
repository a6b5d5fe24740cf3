"""The engine's account of its speculation, summed over the answers of a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .gather import number_at


class Totals:
    """Adds up vLLM's `speculative_decoding` objects.

    Parameters
    ----------
    source : where they come from, in words.
    """

    def __init__(self, source: str) -> None:
        self._source = source
        self._drafted = self._accepted = self._steps = 0
        self._draft_length: int | None = None

    def add(self, said: Mapping[str, Any]) -> None:
        """One answer's object; one that does not tell all three sums is left out."""
        keys = ("num_draft_tokens", "num_accepted_draft_tokens", "num_spec_steps", "num_spec_tokens")
        drafted, accepted, steps, length = (number_at([said.get(key)], 0) for key in keys)
        if drafted is None or accepted is None or not steps:
            return
        self._drafted += int(drafted)
        self._accepted += int(accepted)
        self._steps += int(steps)
        self._draft_length = self._draft_length if length is None else int(length)

    def report(self) -> dict[str, Any] | None:
        """The sum, in the words of `wire.dialects.report`; None when no answer told."""
        if not self._steps:
            return None
        return {
            "source": self._source,
            "drafted": self._drafted,
            "accepted": self._accepted,
            "steps": self._steps,
            "acceptance_length": 1 + self._accepted / self._steps,
            "draft_length": self._draft_length,
            "acceptance_by_position": None,
        }
