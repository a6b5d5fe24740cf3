"""Many recorded streams at once: a fingerprint for each group of them, figures of each stream, and what drifted.

Every file is read twice. The first time draws a sample of each group, of which its fingerprint is made; the second
time measures every stream by the law of its group. Memory depends on the sample and on the workers, not on the number
of streams.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from .. import executors
from ..compare import MARGIN
from ..errors import InputError, UsageError
from ..findings import finding
from . import drift, grouping, places
from .batch import Key
from .result import UNKNOWN, Drift, Fleet, Group, Skipped
from .state import State
from .work import Drawn, Fitted, Measuring, Settings, Unit, digest, fit, measure, split, survey

__all__ = ["SAMPLE", "STATE", "Drift", "Fleet", "Group", "Skipped", "fleet"]

SAMPLE: Final = 200
"""Streams of a group that its fingerprint is made of: with 200 of 300 tokens the acceptance length is known to 1%."""

STATE: Final = "fleet.sqlite"
"""In the directory of a fleet: what was done so far."""

Progress = Callable[[float, str], None]


def fleet(
    sources: str | Sequence[str],
    *,
    by: Sequence[str] = grouping.DEFAULT,
    sample: int = SAMPLE,
    each: bool = False,
    seed: int = 0,
    level: float = 0.95,
    margin: float = MARGIN,
    out: str | Path | None = None,
    executor: str | executors.Pool = executors.PROCESSES,
    jobs: int | None = None,
    progress: Progress | None = None,
    unit: str | None = None,
    gaps: bool = False,
    columns: str | None = None,
) -> Fleet:
    """Fingerprints of many recorded streams, by group, and what changed from group to group.

    Parameters
    ----------
    sources : files, directories, globs, or URLs of fsspec; Parquet tables, and recordings of every known format.
    by : what streams are grouped by: names of columns or of what recordings know of a request; also "day", "hour" (UTC)
        and "file". Groups that agree in all but the last are compared along it.
    sample : most streams of a group that its fingerprint is made of, chosen by `seed` and their names alone.
    each : make a fingerprint of every stream, too: a hundred times as slow.
    level : of the intervals. margin : relative difference within which a quantity is equivalent.
    out : directory for the tables and for what was done so far; the next run goes on from there.
    executor, jobs : where the work is done; see `executors.opened`.
    progress : called with (share done, what is being done).
    unit, gaps, columns : how tables and plain numbers are read, as of `importers.read`.

    Raises
    ------
    InputError : there are no files, or none of them can be used. UsageError : options that go not together.
    """
    names = [sources] if isinstance(sources, str) else list(sources)
    keys = grouping.parse(",".join(by))
    if sample < 1 or not 0 < margin < 1:
        raise UsageError("a sample of no streams, or a margin outside (0, 1)", "sample=200, margin=0.03 are customary")
    settings = Settings(keys, sample, seed, level, {"unit": unit, "gaps": gaps, "columns": columns}, each)
    where = None if out is None else str(out)
    found = places.listed(names, but=where)
    if executor == executors.PROCESSES and places.only_here(names):
        executor, jobs = executors.SERIAL, None
    tell = progress or (lambda done, message: None)
    with _folder(out) as folder, State(folder / STATE) as state:
        with executors.opened(executor, jobs=jobs) as workers:
            units = _surveyed(found, settings, state, workers, tell)
            fits = _fitted(settings, state, workers, tell)
            _measured(units, fits, settings, state, workers, tell)
        tell(0.98, "comparing")
        result = _result(fits, settings, state, margin)
        if out is not None:
            from .tables import write

            write(result, state.rows(), folder)
    return result


@contextlib.contextmanager
def _folder(out: str | Path | None) -> Iterator[Path]:
    if out is None:
        with tempfile.TemporaryDirectory(prefix="specsonar.") as made:
            yield Path(made)
        return
    try:
        Path(out).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make {str(out)!r}: {error.strerror or error}", "choose another DIR") from error
    yield Path(out)


def _surveyed(
    found: Sequence[places.Place], settings: Settings, state: State, workers: executors.Workers, tell: Progress
) -> list[Unit]:
    """Look through what was not looked through before; the units that can be used."""
    total = sum(max(place.size, 1) for place in found)
    units: list[Unit] = []
    problems: dict[str, tuple[Unit, str]] = {}
    for parted in executors.run(workers, split, (Unit(place, None, settings) for place in found)):
        units += parted.value or [parted.task]
        if parted.error:
            problems[parted.task.key] = parted.task, parted.error
        tell(0.02 * len(units) / max(len(found), len(units)), "looking at the files")
    units.sort(key=lambda one: (one.place.name, one.place.path, one.part.begin if one.part else 0))
    state.forget_all_but(one.key for one in units)
    for key, (one, problem) in problems.items():
        state.keep_problem(key, one.place.name, problem)
    known = state.done()
    shares = _shares(units)
    read = sum(shares[one.key] for one in units if one.key in known)
    fresh = [one for one in units if one.key not in known and one.key not in problems]
    streams = 0
    for done in executors.run(workers, survey, fresh):
        one = done.task
        if done.value is None:
            state.keep_problem(one.key, one.place.name, done.error or "")
        else:
            state.keep_survey(one.key, one.place.name, done.value, settings.sample)
            streams += sum(count for count, _ in done.value.groups.values())
        read += shares[one.key]
        tell(0.02 + 0.28 * read / total, f"looking through: {streams:,} streams")
    known = state.done()
    if not known:
        reasons = state.problems()
        raise InputError(
            f"none of {len(found)} files can be used; {reasons[0][0]}: {reasons[0][1]}", "see `specsonar show FILE`"
        )
    return [one for one in units if one.key in known]


def _shares(units: Sequence[Unit]) -> dict[str, float]:
    """Bytes of each unit, about."""
    parts: dict[str, int] = {}
    for one in units:
        parts[one.place.path] = parts.get(one.place.path, 0) + 1
    return {one.key: max(one.place.size, 1) / parts[one.place.path] for one in units}


def _fitted(
    settings: Settings, state: State, workers: executors.Workers, tell: Progress
) -> dict[Key, tuple[str, Fitted]]:
    """The fit of each group, by name; made where the sample is another than before."""
    names = {key: digest(state.sample_name(key), settings.level, settings.seed) for key in state.groups()}
    state.forget_fits(names.values())
    found = {key: (name, known) for key, name in names.items() if (known := state.fitted(name)) is not None}
    missing = (Drawn(key, name, state.sample(key), settings) for key, name in names.items() if key not in found)
    for done in executors.run(workers, fit, missing):
        one = done.task
        fitted = done.value or Fitted(None, None, done.error or "")
        if done.value is not None:
            state.keep_fit(one.name, fitted)
        found[one.key] = one.name, fitted
        tell(0.3 + 0.3 * len(found) / len(names), f"fitting: {len(found)} of {len(names)} groups")
    return {key: found[key] for key in names}


def _measured(
    units: Sequence[Unit], fits: Mapping[Key, tuple[str, Fitted]], settings: Settings, state: State,
    workers: executors.Workers, tell: Progress,
) -> None:  # fmt: skip
    """Measure the streams of each unit whose laws are others than before."""
    names = {one.key: digest([fits[key][0] for key in state.groups_of(one.key)], settings.each) for one in units}
    stale = [one for one in units if state.measured(one.key) != names[one.key]]
    shares = _shares(units)
    read = sum(shares.values()) - sum(shares[one.key] for one in stale)
    streams = 0

    def tasks() -> Iterable[Measuring]:
        for one in stale:
            yield Measuring(one, {key: fits[key][1].law for key in state.groups_of(one.key)})

    for done in executors.run(workers, measure, tasks()):
        one = done.task.unit
        if done.value is None:
            state.keep_problem(one.key, one.place.name, done.error or "")
        else:
            state.keep_measures(one.key, names[one.key], done.value)
            streams += sum(len(rows) for _, rows in done.value)
        read += shares[one.key]
        tell(0.6 + 0.38 * read / sum(shares.values()), f"measuring: {streams:,} streams")


def _result(fits: Mapping[Key, tuple[str, Fitted]], settings: Settings, state: State, margin: float) -> Fleet:
    groups, sides = [], []
    for key, (_, fitted) in fits.items():
        streams, events, tokens, pooled = state.totals(key)
        length = step = None
        if fitted.fingerprint is not None:
            one = drift.side(key, streams, fitted.fingerprint, state.measures(key))
            sides.append(one)
            if fitted.law is not None:
                length, step = (
                    None if e is None else e.value for e in (one.found.acceptance_length, one.found.step_ms)
                )
        groups.append(
            Group(
                key, streams, events, tokens, pooled, fitted.fingerprint, fitted.problem,
                state.median(key, "first_token_ms"), length, step,
            )
        )  # fmt: skip
    skipped = tuple(Skipped(*row) for row in state.problems())
    notes = []
    if skipped:
        notes.append(finding("I031", f"{len(skipped)} files, the first is {skipped[0].name}: {skipped[0].reason}"))
    # what nobody knows divides nothing, except where it is what groups are compared along
    told = list(zip(settings.by, zip(*fits, strict=True), strict=True))
    unknown = [name for name, values in told if UNKNOWN in values and (len(set(values)) > 1 or name == settings.by[-1])]
    if unknown:
        notes.append(finding("I032", f"not known of some streams: {', '.join(unknown)}"))
    return Fleet(
        settings.by, tuple(groups), tuple(drift.along(sides, level=settings.level, margin=margin)), skipped,
        tuple(notes), *state.counts(), settings.sample, settings.seed, settings.level, margin,
    )  # fmt: skip
