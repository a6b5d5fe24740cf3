"""Recordings of every format but Parquet, as batches; they are read file by file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any, Final

from ..importers import look
from ..importers.refusals import refuse_without_times
from ..trace import Stream, Trace
from . import grouping
from .batch import Batch, of_streams
from .places import Place

_TOGETHER: Final = 500_000
"""Events in one batch, about."""


def batches(place: Place, by: tuple[str, ...], reading: Mapping[str, Any]) -> Iterator[Batch]:
    """The streams of one recording.

    Raises
    ------
    InputError : it cannot be read, or holds no times.
    """
    source = place.open()
    if isinstance(source, str):
        trace = look(source, **reading)
    else:
        with closing(source):
            trace = look(source, **reading)
    refuse_without_times(trace)
    yield from _batches(trace, place, by)


def _batches(trace: Trace, place: Place, by: tuple[str, ...]) -> Iterator[Batch]:
    path = grouping.of_path(by, place.name)
    used: set[str] = set()
    some: list[Stream] = []
    names: list[str] = []
    for number, one in enumerate(trace.streams, 1):
        if len(one):
            some.append(one)
            names.append(one.name if one.name and one.name not in used else f"{one.name or 'stream'}:{number}")
            used.add(names[-1])
        if some and (number == len(trace.streams) or sum(map(len, some)) > _TOGETHER):
            told = [grouping.of_stream(by, s, trace.meta, path) for s in some]
            yield of_streams(some, [key for key, _ in told], [started for _, started in told], names)
            some, names = [], []
