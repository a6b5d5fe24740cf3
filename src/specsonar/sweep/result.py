"""The table of a sweep."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import numpy as np

from ..shown import Shown
from .cells import QUANTITIES, Cell, Published, Truth
from .grid import shown
from .score import LEVEL, Score, Value, pooled

SCHEMA: Final = "specsonar.sweep/2"


@dataclass(frozen=True, slots=True)
class Row:
    """One cell, what is right about it, and how every method did.

    Attributes
    ----------
    law : steps of 1, 2... tokens that the truth expects in the streams of one analysis, for a figure beside `sizes`.
    scores : by method, in the order of the sweep.
    """

    cell: Cell
    truth: Truth
    law: tuple[float, ...]
    scores: dict[str, Score]

    @property
    def label(self) -> str:
        """What sets the cell apart."""
        return self.cell.label

    @property
    def published(self) -> Published:
        """Published figures, empty where there are none."""
        return self.cell.published or Published()

    def to_dict(self) -> dict[str, Any]:
        """Plain types."""
        return {
            "label": self.label,
            "at": {name: plain(value) for name, value in self.cell.at.items()},
            "tokens": self.cell.tokens,
            "streams": self.cell.streams,
            "service": self.cell.service.to_dict(),
            "truth": asdict(self.truth),
            "law": list(self.law),
            "published": None if self.cell.published is None else asdict(self.cell.published),
            "scores": {name: score.to_dict() for name, score in self.scores.items()},
        }


def plain(value: Any) -> Any:
    """The value of a knob for tables and JSON: delay laws and several numbers as they are written in a flag."""
    return value if isinstance(value, bool | int | float | str) else shown(value)


@dataclass(frozen=True, slots=True)
class Axis:
    """One knob of a sweep as an axis.

    Attributes
    ----------
    numeric : whether its values are numbers; others are words in their order.
    log : whether these numbers grow by factors.
    bands : of a numeric axis, where the cell of each value begins and ends.
    """

    name: str
    numeric: bool
    log: bool = False
    bands: Mapping[float, tuple[float, float]] = field(default_factory=dict)

    @property
    def low(self) -> float:
        """Begin of the axis."""
        return min(low for low, _ in self.bands.values())

    @property
    def high(self) -> float:
        """Its end."""
        return max(high for _, high in self.bands.values())

    def shown(self, value: Any) -> Any:
        """A value of the knob as the axis has it."""
        return value if self.numeric else plain(value) if value is not None else ""


def axis_of(name: str, values: Sequence[Any]) -> Axis:
    """The axis of these values, each once.

    >>> axis_of("tokens", [100, 200, 400]).log, axis_of("sigma", [0.0, 0.1, 0.2]).bands[0.1]
    (True, (0.05, 0.15000000000000002))
    """
    if not all(isinstance(v, int | float) and not isinstance(v, bool) for v in values):
        return Axis(name, False)
    at = np.array(sorted(set(values)), np.float64)
    log = bool(at[0] > 0 and at[-1] >= 4 * at[0] and at.size > 2 and np.ptp(np.diff(np.log(at))) < np.log(2))
    scaled = np.log(at) if log else at
    inner = (scaled[1:] + scaled[:-1]) / 2
    edges = np.concatenate(([2 * scaled[0] - inner[0]], inner, [2 * scaled[-1] - inner[-1]]))
    edges = np.exp(edges) if log else edges
    return Axis(
        name, True, log, dict(zip(at.tolist(), zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True), strict=True))
    )


@dataclass(frozen=True, slots=True)
class Total:
    """One method over all cells, as in `Score`: shares of all repetitions, and of all intervals.

    Attributes
    ----------
    coverage : by quantity; without those for which the method has no intervals.
    """

    exact: Value | None
    right: Value | None
    false_alarm: Value | None
    coverage: dict[str, Value]

    def to_dict(self) -> dict[str, Any]:
        """Plain types."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Work:
    """Where the figures come from: tasks taken from the store, computed, and failed; files that were damaged."""

    stored: int = 0
    computed: int = 0
    failed: int = 0
    damaged: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Sweep(Shown):
    """The table of a sweep.

    Attributes
    ----------
    preset : its name; None for a grid of the user's.
    reps, seed : repetitions of every cell, and the seed of all chance.
    methods : what was compared.
    varied : the knobs that differ between cells, in the order in which they were given.
    limit : points (jitter over step, tokens) of a law that is drawn into the map, with its name; empty without one.
    """

    preset: str | None
    reps: int
    seed: int
    methods: tuple[str, ...]
    varied: tuple[str, ...]
    rows: tuple[Row, ...]
    work: Work = Work()
    limit: tuple[tuple[float, float], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain types, schema `specsonar.sweep/2`."""
        return {
            "schema": SCHEMA,
            "preset": self.preset,
            "reps": self.reps,
            "seed": self.seed,
            "level": LEVEL,
            "methods": list(self.methods),
            "varied": list(self.varied),
            "limit": [list(point) for point in self.limit],
            "work": {**asdict(self.work), "damaged": list(self.work.damaged)},
            "totals": {name: total.to_dict() for name, total in self.totals().items()},
            "rows": [row.to_dict() for row in self.rows],
        }

    def axes(self) -> tuple[Axis, ...]:
        """The knobs of which this sweep has at least two values, in the order in which they were given."""
        found = []
        for name in self.varied:
            values = [row.cell.at.get(name) for row in self.rows]
            if len({plain(v) for v in values}) > 1:
                found.append(axis_of(name, values))
        return tuple(found)

    def totals(self) -> dict[str, Total]:
        """What each method comes to over all cells."""
        found = {}
        for method in self.methods:
            scores = [row.scores[method] for row in self.rows]
            kept = [{name: q.coverage for name, q in score.quantities.items()} for score in scores]
            coverage = {name: pooled([one.get(name) for one in kept]) for name in QUANTITIES}
            found[method] = Total(
                pooled([s.exact for s in scores]), pooled([s.right for s in scores]),
                pooled([s.false_alarm for s in scores]), {k: v for k, v in coverage.items() if v is not None},
            )  # fmt: skip
        return found

    def flat(self) -> tuple[list[str], list[list[Any]]]:
        """Column names and one list of values for each cell and method, for tables; None where there is no value."""
        table = [dict(_flat(self, row, name)) for row in self.rows for name in self.methods]
        names = list(dict.fromkeys(key for line in table for key in line))
        return names, [[line.get(name) for name in names] for line in table]


def _flat(sweep: Sweep, row: Row, method: str) -> Iterator[tuple[str, Any]]:
    score = row.scores[method]
    yield "label", row.label
    for name in sweep.varied:
        yield name, plain(row.cell.at[name]) if name in row.cell.at else None
    yield "method", method
    if "tokens" not in sweep.varied:
        yield "tokens", row.cell.tokens
    if "streams" not in sweep.varied:
        yield "streams", row.cell.streams
    for name, true in asdict(row.truth).items():
        yield f"true_{name}", _known(true)
    for name, said in asdict(row.published).items() if row.cell.published else ():
        yield f"published_{name}", said
    yield "repetitions", score.repetitions
    yield "refused", score.refused
    yield "failed", score.failed
    yield from _value("exact", score.exact)
    yield from _value("right", score.right)
    yield from _value("false_alarm", score.false_alarm)
    for name in QUANTITIES:
        found = score.quantities.get(name)
        yield f"{name}_mean", None if found is None else found.mean
        yield from _value(f"{name}_bias", None if found is None else found.bias)
        yield from _value(f"{name}_rmse", None if found is None else found.rmse)
        yield from _value(f"{name}_coverage", None if found is None else found.coverage)
    yield from _value("seconds", score.seconds)


def _value(name: str, value: Value | None) -> Iterator[tuple[str, Any]]:
    for part in ("value", "low", "high"):
        yield name if part == "value" else f"{name}_{part}", None if value is None else _known(getattr(value, part))


def _known(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value


def law_of(cell: Cell) -> tuple[float, ...]:
    """Steps of 1, 2... tokens that the streams of one analysis have on average.

    >>> from ..sources.service import Service
    >>> [round(x, 1) for x in law_of(Cell("", Service(max_burst=3, acceptance=0.5), tokens=70))]
    [20.0, 10.0, 10.0]
    """
    reached = np.cumprod([1.0, *cell.service.hazards()])
    each = -np.diff(np.append(reached, 0.0))
    return tuple((each * cell.tokens * cell.streams / reached.sum()).tolist())
