"""What workers do: look through a file, fit a group, measure the streams of a file. Arguments in, values out."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

import msgspec
import numpy as np

from .. import __version__
from ..errors import SpecsonarError
from ..fingerprint import Fingerprint
from ..trace import Trace
from . import law, parquet, recordings
from .batch import Batch, Key, pack, unpack
from .places import Place

COLUMNS: Final = (
    "stream", "mark", "started", "events", "tokens", "seconds", "first_token_ms", "tokens_per_s", "longest_gap_ms",
    "steps", "acceptance_length", "step_ms", "spread_ms",
)  # fmt: skip
"""What is kept of each stream, in this order; `mark` is its place in the lottery for the sample."""

EACH: Final = (
    "verdict", "max_burst", "own_acceptance_length", "own_acceptance_low", "own_acceptance_high", "own_step_ms",
)  # fmt: skip
"""The same from a fingerprint of the stream alone."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What holds for the whole run.

    Attributes
    ----------
    by : names that streams are grouped by.
    sample : most streams of a group that its fingerprint is made of.
    seed : of the choice among them, and of the fits.
    level : of the intervals.
    reading : unit, gaps, columns, as of `importers.look`.
    each : make a fingerprint of every stream, too.
    """

    by: tuple[str, ...]
    sample: int
    seed: int
    level: float
    reading: Mapping[str, Any]
    each: bool


@dataclass(frozen=True, slots=True)
class Unit:
    """A file, or a part of a large table."""

    place: Place
    part: parquet.Part | None
    settings: Settings

    @property
    def key(self) -> str:
        """Other when the file, the part, or anything that the result depends on is another."""
        s, p = self.settings, self.place
        told = (p.url, p.path, p.name, p.size, p.stamp, self.part and (self.part.begin, self.part.end),
                s.by, s.sample, s.seed, dict(s.reading))  # fmt: skip
        return digest(*told)


def digest(*parts: Any) -> str:
    """A short name for anything that JSON can hold; another in each version of this package."""
    return blake2b(msgspec.json.encode((__version__, parts)), digest_size=12).hexdigest()


@dataclass(frozen=True, slots=True)
class Surveyed:
    """What a file holds: streams and events of each group, and those of its streams that may be in the sample."""

    groups: dict[Key, tuple[int, int]]
    drawn: list[tuple[Key, int, bytes]]


def is_table(place: Place) -> bool:
    """Whether a file is Parquet, by its first bytes.

    Raises
    ------
    InputError : it cannot be opened.
    """
    source = place.open()
    if isinstance(source, str):
        try:
            with open(source, "rb") as file:
                return file.read(4) == parquet.MAGIC
        except OSError:
            return False  # the reader of recordings says it best
    with source:
        return source.read(4) == parquet.MAGIC


def split(unit: Unit) -> list[Unit]:
    """A large table as parts that can be read apart; anything else as it is."""
    if not is_table(unit.place):
        return [unit]
    found = parquet.parts(unit.place, unit.settings.reading)
    return [Unit(unit.place, part, unit.settings) for part in found] or [unit]


def batches(unit: Unit) -> Iterator[Batch]:
    """The streams of a unit."""
    s = unit.settings
    if unit.part is not None or is_table(unit.place):
        return parquet.batches(unit.place, unit.part, s.by, s.reading)
    return recordings.batches(unit.place, s.by, s.reading)


def marks(batch: Batch, unit: Unit) -> list[int]:
    """A number for each stream that depends on its name, its file and the seed alone: the smallest ones are drawn."""
    begin = blake2b(f"{unit.settings.seed}\0{unit.place.name}\0".encode("utf-8", "replace"), digest_size=8)
    found = []
    for name in batch.names:
        one = begin.copy()
        one.update(name.encode("utf-8", "replace"))
        found.append(int.from_bytes(one.digest(), "little") >> 1)
    return found


def survey(unit: Unit) -> Surveyed:
    """Look through a unit once."""
    most = unit.settings.sample
    groups: dict[Key, tuple[int, int]] = {}
    drawn: dict[Key, list[tuple[int, bytes]]] = {}
    for batch in batches(unit):
        events = np.diff(batch.offsets).tolist()
        for k, (key, mark) in enumerate(zip(batch.keys, marks(batch, unit), strict=True)):
            streams, before = groups.get(key, (0, 0))
            groups[key] = streams + 1, before + events[k]
            mine = drawn.setdefault(key, [])
            if len(mine) < most:
                heapq.heappush(mine, (-mark, pack(batch.stream(k))))
            elif -mark > mine[0][0]:
                heapq.heapreplace(mine, (-mark, pack(batch.stream(k))))
    return Surveyed(groups, [(key, -mark, data) for key, mine in drawn.items() for mark, data in mine])


@dataclass(frozen=True, slots=True)
class Drawn:
    """The sample of a group."""

    key: Key
    name: str
    streams: list[bytes]
    settings: Settings


@dataclass(frozen=True, slots=True)
class Fitted:
    """The fingerprint of a group's sample, the law for its other streams, or why there is none."""

    fingerprint: Fingerprint | None
    law: law.Law | None
    problem: str = ""


def fit(drawn: Drawn) -> Fitted:
    """The fingerprint of a sample."""
    from ..fit import fingerprint

    streams = tuple(unpack(data) for data in drawn.streams)
    try:
        found = fingerprint(Trace(streams), level=drawn.settings.level, seed=drawn.settings.seed)
    except SpecsonarError as error:
        return Fitted(None, None, error.message)
    return Fitted(found, law.law_of(found, streams))


@dataclass(frozen=True, slots=True)
class Measuring:
    """A unit, and the laws of the groups in it."""

    unit: Unit
    laws: dict[Key, law.Law | None]


def measure(task: Measuring) -> list[tuple[Key, list[tuple[Any, ...]]]]:
    """A row of `COLUMNS`, and of `EACH` where that was asked for, for every stream of a unit, by group."""
    found: dict[Key, list[tuple[Any, ...]]] = {}
    for batch in batches(task.unit):
        columns = law.figures(batch, task.laws)
        lists = [batch.names, marks(batch, task.unit), batch.started_s.tolist()]
        lists += [np.asarray(columns[name]).tolist() for name in COLUMNS[3:]]
        for k, row in enumerate(zip(*lists, strict=True)):
            whole = row + _alone(batch, k, task.unit.settings) if task.unit.settings.each else row
            found.setdefault(batch.keys[k], []).append(whole)
    return list(found.items())


def _alone(batch: Batch, k: int, settings: Settings) -> tuple[Any, ...]:
    from ..fit import fingerprint

    try:
        found = fingerprint(Trace((batch.stream(k),)), level=settings.level, seed=settings.seed)
    except SpecsonarError:
        return (None,) * len(EACH)
    burst, length, step = found.max_burst, found.acceptance_length, found.step_ms
    return (
        found.verdict, burst and burst.value, length and length.value, length and length.low, length and length.high,
        step and step.value,
    )  # fmt: skip
