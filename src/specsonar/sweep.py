"""Recognise services whose settings are known, over and over, and say how often the answer is right."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Protocol, TypeVar

import numpy as np

from .fingerprint import Estimate, Fingerprint
from .fit import fingerprint
from .shown import Shown
from .sources.service import INDEPENDENT, Delay, Service
from .sources.simulate import simulate
from .trace import Stream, Trace, stream

SCHEMA: Final = "specsonar.sweep/1"
METHODS: Final = ("baseline", "likelihood")

Task = TypeVar("Task")
Result = TypeVar("Result")
Progress = Callable[[float, str], None]


class Executor(Protocol):
    """Anything with `map`: a pool of `concurrent.futures`, a cluster, or `SERIAL`."""

    def map(self, fn: Callable[[Task], Result], tasks: Iterable[Task], /) -> Iterator[Result]:
        """Results in the order of the tasks."""
        ...


class _Serial:
    def map(self, fn: Callable[[Task], Result], tasks: Iterable[Task], /) -> Iterator[Result]:
        return map(fn, tasks)


SERIAL: Final[Executor] = _Serial()
"""One task after the other in this process."""


@dataclass(frozen=True, slots=True)
class Published:
    """What was published for a cell, as text because some of it is a range; None where nothing was."""

    max_burst: str | None = None
    alpha: str | None = None
    step_ms: str | None = None


@dataclass(frozen=True, slots=True)
class Cell:
    """One service of a sweep, and what is known about it already."""

    label: str
    service: Service
    tokens: int
    published: Published


@dataclass(frozen=True, slots=True)
class Summary:
    """How one method did in a cell. Means are over the repetitions in which it gave a number; nan without any.

    Attributes
    ----------
    max_burst, alpha, step_ms : means of the estimates.
    exact : share of all repetitions with the true max burst.
    alpha_rmse, step_rmse_ms : root mean square errors.
    answered : repetitions in which a max burst was given.
    sizes : mean number of steps of 1, 2... tokens in a stream; empty where none was given.
    """

    max_burst: float
    alpha: float
    step_ms: float
    exact: float
    alpha_rmse: float
    step_rmse_ms: float
    answered: int
    sizes: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Row:
    """A cell with its truth, the published figures and both methods; `law` is what the truth makes of `sizes`."""

    label: str
    jitter_ms: float
    max_burst: int
    alpha: float
    step_ms: float
    tokens: int
    law: tuple[float, ...]
    published: Published
    baseline: Summary
    likelihood: Summary


@dataclass(frozen=True, slots=True)
class Sweep(Shown):
    """The table of a sweep."""

    preset: str
    reps: int
    seed: int
    rows: tuple[Row, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain types, schema `specsonar.sweep/1`."""
        return {"schema": SCHEMA, **asdict(self)}

    def flat(self) -> tuple[list[str], list[list[Any]]]:
        """Column names and one list of values for each row, for tables and CSV."""
        names: list[str] = []
        table = []
        for row in self.rows:
            flat = {}
            # sizes and law are for figures: a table has one number in a cell
            for key, value in asdict(row).items():
                if key == "law":
                    continue
                parts = value.items() if isinstance(value, dict) else [("", value)]
                flat.update({f"{key}_{part}" if part else key: v for part, v in parts if part != "sizes"})
            names = list(flat)
            table.append(list(flat.values()))
        return names, table


def article() -> tuple[Cell, ...]:
    """The founding article's experiment: jitter from 0 to 6 ms, then its cross-check with another service."""
    said = {0: Published("4", ".81", "20")}
    said |= {jitter: Published("rises", ".76-.81", "15-17") for jitter in (3, 4, 5)}
    said[6] = Published("8", ".76-.81", "30% low")
    base = Service(k=4, bonus=False, acceptance=0.8, step_ms=20.0, order=INDEPENDENT)
    other = Service(k=8, bonus=False, acceptance=0.6, step_ms=35.0, order=INDEPENDENT, token_delay=Delay("gauss", 1.0))
    cells = [Cell(f"{j} ms", _jittered(base, j), 600, said.get(j, Published())) for j in range(7)]
    return (*cells, Cell("1 ms, k=8", other, 600, Published("6", ".61")))


def figure1() -> tuple[Cell, ...]:
    """The founding article's first figure: burst sizes, clean beside 6 ms of jitter."""
    rows = article()
    return rows[0], rows[6]


PRESETS: Final = {"article": article, "figure1": figure1}


def _jittered(service: Service, jitter_ms: float) -> Service:
    return replace(service, k=None, token_delay=Delay("gauss", float(jitter_ms)) if jitter_ms else Delay())


@dataclass(frozen=True, slots=True)
class Measured:
    """One estimate of one method; nan where it gave none."""

    max_burst: float
    alpha: float
    step_ms: float
    sizes: tuple[float, ...] = ()


def measure(task: tuple[Cell, int]) -> dict[str, Measured]:
    """Simulate one cell with one seed, and ask every method."""
    cell, seed = task
    trace = _from_first_step(simulate(cell.service, tokens=cell.tokens + 1, seed=seed)).without_truth()
    return {method: _measured(fingerprint(trace, method=method, seed=seed)) for method in METHODS}


def _from_first_step(trace: Trace) -> Trace:
    """Without the prefill's token, which the article's service does not have."""

    def cut(one: Stream) -> Stream:
        return stream(one.t_ns[1:], one.tokens[1:], count_source=one.count_source, name=one.name)

    return Trace(tuple(cut(one) for one in trace.streams))


def _measured(answer: Fingerprint) -> Measured:
    def value(estimate: Estimate | None) -> float:
        return math.nan if estimate is None else estimate.value

    sizes = answer.burst_sizes.counts if answer.burst_sizes else ()
    return Measured(value(answer.max_burst), value(answer.acceptance_rate), value(answer.step_ms), sizes)


def run(
    preset: str = "article",
    *,
    reps: int = 10,
    seed: int = 0,
    executor: Executor = SERIAL,
    progress: Progress | None = None,
) -> Sweep:
    """Run a preset.

    Parameters
    ----------
    preset : one of `PRESETS`.
    reps : independent streams for each cell.
    seed : repetition r of cell c uses a seed that depends on `seed`, c and r alone.
    executor : where the streams are simulated and analysed.
    progress : called with the share that is done and a message.
    """
    cells = PRESETS[preset]()
    seeds = np.random.SeedSequence(seed).generate_state(len(cells) * reps).reshape(len(cells), reps)
    tasks = [(cell, int(s)) for cell, row in zip(cells, seeds, strict=True) for s in row]
    measured: list[dict[str, Measured]] = []
    for result in executor.map(measure, tasks):
        measured.append(result)
        if progress is not None:
            progress(len(measured) / len(tasks), tasks[len(measured) - 1][0].label)
    rows = [_row(cell, measured[i * reps : (i + 1) * reps]) for i, cell in enumerate(cells)]
    return Sweep(preset, reps, seed, tuple(rows))


def _row(cell: Cell, results: list[dict[str, Measured]]) -> Row:
    service = cell.service
    alpha = float(service.hazards()[0])
    by_method = {
        method: _summary([r[method] for r in results], service.burst, alpha, service.step_ms) for method in METHODS
    }
    return Row(
        cell.label, service.token_delay.scale_ms, service.burst, alpha, service.step_ms, cell.tokens,
        _law(service.hazards(), cell.tokens), cell.published, **by_method,
    )  # fmt: skip


def _law(hazards: Any, tokens: int) -> tuple[float, ...]:
    """Steps of 1, 2... tokens that a stream of `tokens` has on average.

    >>> [round(x, 1) for x in _law(np.array([0.5, 0.5]), 70)]
    [20.0, 10.0, 10.0]
    """
    reached = np.cumprod([1.0, *hazards])
    share = -np.diff(np.append(reached, 0.0))
    return tuple((share * tokens / reached.sum()).tolist())


def _summary(measured: list[Measured], burst: int, alpha: float, step_ms: float) -> Summary:
    bursts = np.array([m.max_burst for m in measured])
    alphas = np.array([m.alpha for m in measured])
    steps = np.array([m.step_ms for m in measured])
    return Summary(
        max_burst=_mean(bursts),
        alpha=_mean(alphas),
        step_ms=_mean(steps),
        exact=float((bursts == burst).mean()),
        alpha_rmse=math.sqrt(_mean((alphas - alpha) ** 2)),
        step_rmse_ms=math.sqrt(_mean((steps - step_ms) ** 2)),
        answered=int(np.isfinite(bursts).sum()),
        sizes=_sizes([m.sizes for m in measured if m.sizes]),
    )


def _sizes(counts: list[tuple[float, ...]]) -> tuple[float, ...]:
    longest = max(map(len, counts), default=0)
    return tuple(np.mean([np.pad(c, (0, longest - len(c))) for c in counts], 0).tolist()) if counts else ()


def _mean(values: Any) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if known.size else math.nan
