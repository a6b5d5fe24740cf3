"""What a figure is drawn from: plain numbers, already counted and folded, so that a renderer only places them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Histogram:
    """Bars for a renderer: `counts[i]` observations in [edges[i], edges[i+1]), and what the fit expects there."""

    edges: tuple[float, ...]
    counts: tuple[float, ...]
    fitted: tuple[float, ...] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {
            "edges": list(self.edges),
            "counts": list(self.counts),
            "fitted": None if self.fitted is None else list(self.fitted),
        }


@dataclass(frozen=True, slots=True)
class Arrivals:
    """The beginning of one stream, to be looked at.

    Attributes
    ----------
    t_ms : when its first events came, milliseconds after the first.
    tokens : tokens of these events; None where each is one, or where nobody said.
    places : the place of each event among those of its step, from 1 on; None where events are steps, or where the fit
        does not say which belong together.
    steps_ms : when the steps among them began to arrive, as far as the fit tells; None where it does not.
    """

    t_ms: tuple[float, ...]
    tokens: tuple[int, ...] | None = None
    places: tuple[int, ...] | None = None
    steps_ms: tuple[float, ...] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {
            "t_ms": list(self.t_ms),
            "tokens": None if self.tokens is None else list(self.tokens),
            "places": None if self.places is None else list(self.places),
            "steps_ms": None if self.steps_ms is None else list(self.steps_ms),
        }


@dataclass(frozen=True, slots=True)
class Profile:
    """How well each max burst M explains the data: nats relative to the best M, which has 0."""

    max_burst: tuple[int, ...]
    nats: tuple[float, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {"max_burst": list(self.max_burst), "nats": list(self.nats)}
