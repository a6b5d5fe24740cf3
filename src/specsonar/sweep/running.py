"""Run the cells of a sweep on an executor, take from the store what is there, and make the table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from .. import executors
from ..errors import InputError, UsageError
from ..executors import Pool
from ..sources.service import INDEPENDENT
from .cells import Cell, Task
from .methods import METHODS, Measured, need
from .presets import PRESETS, Preset, limit_law
from .result import Row, Sweep, Work, law_of
from .score import score
from .store import Store
from .work import measure

CHUNK: Final = 5
"""Repetitions of a task: enough that handing it out costs nothing, few enough that little is lost with it."""

Progress = Callable[[float, str], None]
Announce = Callable[[int, int, float], None]
"""`announce(stored, missing, seconds)`: tasks in the store, tasks to do, and roughly how long these take in all."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a sweep is going to do.

    Attributes
    ----------
    tasks : all of them, the longest first, so that no worker is left with a long one at the end.
    """

    preset: str | None
    cells: tuple[Cell, ...]
    methods: tuple[str, ...]
    reps: int
    seed: int
    limit: tuple[tuple[float, float], ...] = ()
    tasks: tuple[Task, ...] = field(default=(), init=False)

    def __post_init__(self) -> None:
        made = [
            Task(cell, method, self.seed, first, min(CHUNK, self.reps - first))
            for cell in self.cells for method in self.methods for first in range(0, self.reps, CHUNK)
        ]  # fmt: skip
        object.__setattr__(self, "tasks", tuple(sorted(made, key=lambda task: -seconds(task))))

    @property
    def seconds(self) -> float:
        """Time of one worker for all of it, roughly."""
        return sum(map(seconds, self.tasks))


def seconds(task: Task) -> float:
    """What a task takes, roughly: the cost of an analysis grows with its tokens, and with the jitter."""
    service = task.cell.service
    rough = 1.0 + 10 * service.token_delay.scale_ms / service.step_ms
    return task.count * METHODS[task.method].seconds * rough * task.cell.tokens * task.cell.streams / 600


def planned(
    preset: str | Preset | None = None, cells: Sequence[Cell] | None = None, *, methods: Sequence[str] | None = None,
    reps: int | None = None, seed: int = 0,
) -> Plan:  # fmt: skip
    """The plan of a preset, or of cells.

    Raises
    ------
    UsageError : unknown preset or method, no cell or no method, or fewer than one repetition.
    InputError : a method needs an extra that is not installed.
    """
    if (preset is None) == (cells is None):
        raise UsageError("a sweep is of a preset or of cells", f"presets: {', '.join(PRESETS)}")
    if isinstance(preset, str) and preset not in PRESETS:
        raise UsageError(f"no preset is called {preset!r}", f"use one of {', '.join(PRESETS)}")
    known = PRESETS[preset] if isinstance(preset, str) else Preset("", lambda: tuple(cells or ()))
    chosen = tuple(dict.fromkeys(methods if methods is not None else known.methods))
    for method in chosen:
        if method not in METHODS:
            raise UsageError(f"no method is called {method!r}", f"use some of {', '.join(METHODS)}")
    need(chosen)
    reps = known.reps if reps is None else reps
    made = known.cells()
    if not made or not chosen or reps < 1:
        raise UsageError("a sweep needs a cell, a method and a repetition", "see `specsonar sweep --help`")
    name = preset if isinstance(preset, str) else None
    return Plan(name, made, tuple(m for m in METHODS if m in chosen), reps, seed, _limit(made))


def _limit(cells: Sequence[Cell]) -> tuple[tuple[float, float], ...]:
    """The law of the comb, where jitter over step and tokens vary and delays are independent and Gaussian."""
    if not all(
        {"sigma", "tokens"} <= set(c.at) and c.service.order == INDEPENDENT
        and c.service.token_delay.law in ("none", "gauss") for c in cells
    ):  # fmt: skip
        return ()
    top = max(float(c.at["sigma"]) for c in cells)
    return limit_law([top * i / 50 for i in range(56)])


def run(
    preset: str | None = "article",
    *,
    cells: Sequence[Cell] | None = None,
    methods: Sequence[str] | None = None,
    reps: int | None = None,
    seed: int = 0,
    executor: str | Pool = executors.SERIAL,
    jobs: int | None = None,
    store: Path | str | None = None,
    refresh: bool = False,
    progress: Progress | None = None,
) -> Sweep:
    """Recognise services whose settings are known, over and over.

    Parameters
    ----------
    preset : one of `PRESETS`; ignored where cells are given.
    cells : services of your own, e.g. `grid.parse(["sigma=0:0.4:0.1"], ["layer=independent"]).cells()`.
    methods : some of `METHODS`; by default those of the preset, or "baseline" and "likelihood".
    reps : repetitions of every cell; by default those of the preset, or 10.
    seed : a repetition uses a seed that depends on `seed`, the content of its cell and its number alone, so every
        method sees the same streams, and a retried or a resumed cell gives the same figures.
    executor : "serial", "processes", "dask://HOST:PORT", or anything with the `submit` of `concurrent.futures`.
    jobs : of "processes".
    store : a folder in which finished work is kept, and found again.
    refresh : compute what is in the store, too.
    progress : called with the share that is done and a message.

    Raises
    ------
    UsageError : unknown names, or values outside their range.
    InputError : an extra is missing, the store cannot be used, or every piece of work failed.
    ConnectionFailed : no cluster answers.
    """
    plan = planned(None if cells is not None else preset, cells, methods=methods, reps=reps, seed=seed)
    with executors.opened(executor, jobs=jobs) as workers:
        return carried_out(plan, workers, store=store, refresh=refresh, progress=progress)


def carried_out(
    plan: Plan, workers: executors.Workers, *, store: Path | str | None = None, refresh: bool = False,
    progress: Progress | None = None, announce: Announce | None = None,
) -> Sweep:  # fmt: skip
    """Do what `plan` says on workers that are open; see `run`."""
    kept = None if store is None else Store(Path(store))
    found: dict[int, list[Measured]] = {}
    if kept is not None and not refresh:
        found = {id(task): known for task in plan.tasks if (known := kept.load(task)) is not None}
    stored = len(found)
    errors: dict[int, str] = {}
    missing = [task for task in plan.tasks if id(task) not in found]
    whole, done = sum(map(seconds, missing)), 0.0
    if announce is not None:
        announce(stored, len(missing), whole / workers.width)
    for number, outcome in enumerate(executors.run(workers, measure, missing), 1):
        task = outcome.task
        if outcome.value is not None:
            found[id(task)] = outcome.value
            if kept is not None:
                kept.save(task, outcome.value)
        else:
            errors[id(task)] = outcome.error or ""
            if kept is not None:
                kept.save_failure(task, outcome.error or "", outcome.detail)
        done += seconds(task)
        if progress is not None:
            progress(done / whole, f"{number}/{len(missing)} {task.cell.label}")
    if errors and not found:
        raise InputError(f"every piece of work failed: {next(iter(errors.values()))}", "see the files in the store")
    work = Work(stored, len(missing) - len(errors), len(errors), tuple(kept.damaged) if kept is not None else ())
    return Sweep(
        plan.preset, plan.reps, plan.seed, plan.methods, _varied(plan.cells), tuple(_rows(plan, found, errors)), work,
        plan.limit,
    )  # fmt: skip


def _varied(cells: Sequence[Cell]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for cell in cells for name in cell.at))


def _rows(plan: Plan, found: dict[int, list[Measured]], errors: dict[int, str]) -> Iterator[Row]:
    by_cell: dict[tuple[int, str], list[Task]] = {}
    for task in sorted(plan.tasks, key=lambda task: task.first):
        by_cell.setdefault((id(task.cell), task.method), []).append(task)
    for cell in plan.cells:
        truth, scores = cell.truth(), {}
        for method in plan.methods:
            tasks = by_cell[id(cell), method]
            measured = [m for task in tasks for m in found.get(id(task), ())]
            failed = [task for task in tasks if id(task) in errors]
            reasons = tuple(dict.fromkeys(errors[id(task)] for task in failed))
            scores[method] = score(method, truth, measured, sum(task.count for task in failed), reasons)
        yield Row(cell, truth, law_of(cell), scores)
