"""A cell of a sweep: one service whose settings are known, and the right answers about it."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from .. import __version__
from ..fingerprint import AUTOREGRESSIVE, SPECULATIVE
from ..sources.service import Service
from ..sources.simulate import law, simulate
from ..trace import Stream, Trace, stream

CELL_FORMAT: Final = 1
"""Of stored cells. 1 first version."""

QUANTITIES: Final = ("max_burst", "alpha", "length", "step_ms")


@dataclass(frozen=True, slots=True)
class Published:
    """What was published for a cell, as text because some of it is a range; None where nothing was."""

    max_burst: str | None = None
    alpha: str | None = None
    step_ms: str | None = None


@dataclass(frozen=True, slots=True)
class Truth:
    """What is right about a service; nan for a quantity that its stream does not have.

    Attributes
    ----------
    verdict : the right verdict.
    max_burst : M.
    alpha : acceptance; the pooled one where positions differ.
    length : mean tokens of a step.
    step_ms : mean time of a step, milliseconds.
    """

    verdict: str
    max_burst: float = math.nan
    alpha: float = math.nan
    length: float = math.nan
    step_ms: float = math.nan


@dataclass(frozen=True, slots=True)
class Cell:
    """One service of a sweep.

    Attributes
    ----------
    label : what sets it apart, for a table.
    tokens, streams : length of each answer, and how many there are in one analysis.
    at : the knobs that vary in the sweep, with their values here.
    prefill : whether the prefill's token is kept; the founding article's service has none.
    published : figures to compare with.
    """

    label: str
    service: Service
    tokens: int = 600
    streams: int = 1
    at: Mapping[str, Any] = field(default_factory=dict)
    prefill: bool = True
    published: Published | None = None

    def content(self) -> dict[str, Any]:
        """What the figures depend on, besides the chance."""
        return {
            "service": self.service.to_dict(), "tokens": self.tokens, "streams": self.streams, "prefill": self.prefill,
        }  # fmt: skip

    def seed(self, seed: int, repetition: int) -> int:
        """The seed of one repetition: it depends on the content of the cell alone, not on its place in a grid."""
        return int(digest({**self.content(), "seed": seed, "repetition": repetition})[:15], 16)

    def trace(self, seed: int) -> Trace:
        """What a client records, without the truth."""
        if self.prefill:
            return simulate(self.service, tokens=self.tokens, streams=self.streams, seed=seed).without_truth()
        made = simulate(self.service, tokens=self.tokens + 1, streams=self.streams, seed=seed)
        return Trace(tuple(map(_from_first_step, made.streams))).without_truth()

    def truth(self) -> Truth:
        """The right answers."""
        known = law(self.service)
        verdict = known["verdict"]
        if verdict not in (SPECULATIVE, AUTOREGRESSIVE):
            return Truth(verdict)
        alpha = known["mean_hazard"] if verdict == SPECULATIVE else None
        burst = self.service.burst if verdict == SPECULATIVE else 1
        length = known["acceptance_length"] if verdict == SPECULATIVE else 1.0
        return Truth(verdict, float(burst), math.nan if alpha is None else alpha, length, known["step_ms"])


def _from_first_step(one: Stream) -> Stream:
    return stream(one.t_ns[1:], one.tokens[1:], count_source=one.count_source, name=one.name)


def digest(content: Mapping[str, Any]) -> str:
    """SHA-256 of plain data, in which 20 and 20.0 are the same number."""
    return hashlib.sha256(json.dumps(_same(content), sort_keys=True, allow_nan=False).encode()).hexdigest()


def _same(value: Any) -> Any:
    match value:
        case bool() | str() | None:
            return value
        case int() | float():
            return repr(float(value)) if abs(value) < 2**53 else str(value)
        case Mapping():
            return {key: _same(item) for key, item in value.items()}
    return [_same(item) for item in value]


@dataclass(frozen=True, slots=True)
class Task:
    """Some repetitions of one cell with one method: the unit that is handed to a worker, stored and found again."""

    cell: Cell
    method: str
    seed: int
    first: int
    count: int

    def content(self) -> dict[str, Any]:
        """All that the result depends on."""
        return {
            "format": CELL_FORMAT, "version": __version__, **self.cell.content(), "method": self.method,
            "seed": self.seed, "first": self.first, "count": self.count,
        }  # fmt: skip

    @property
    def key(self) -> str:
        """The name under which the result is stored."""
        return digest(self.content())[:32]
