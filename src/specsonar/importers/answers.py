"""What the readers of captures share: from answers, or from mere times and sizes, to the streams of a file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from ..findings import finding
from ..trace import NOT_SAID, Stream, stream
from ..wire.answer import Answer
from .gather import Gathered

LATEST: Final = 1 << 61
"""Nanoseconds; what lies beyond is no time."""

_MS_EPOCH: Final = 1e11  # seconds until the year 5138, or milliseconds since 1973


def add_answers(gathered: Gathered, answers: Iterable[Answer], resolution_ns: int | None = None) -> None:
    """Keep the streams of `answers`; those without an event leave at most their findings."""
    for answer in answers:
        made, noticed = answer.streams(gathered.name())
        gathered.findings += noticed
        for one in made:
            if len(one):
                gathered.add(replace(one, resolution_ns=resolution_ns or one.resolution_ns))


def sizes_only(
    reads: Sequence[tuple[int, int]],
    name: str,
    *,
    start_ns: int | None = None,
    resolution_ns: int | None = None,
    meta: Mapping[str, Any] | None = None,
) -> Stream:
    """A stream of reads whose content was not recorded, from (nanoseconds, bytes) pairs."""
    return stream(
        [t_ns for t_ns, _ in reads],
        size=[size for _, size in reads],
        name=name,
        count_source=NOT_SAID,
        start_ns=start_ns,
        resolution_ns=resolution_ns,
        meta={"payloads": "sizes only", **(meta or {})},
    )


def say_sizes_only(gathered: Gathered, streams: int, why: str) -> None:
    """Note that `streams` streams are times and sizes only."""
    if streams:
        number = f"{streams} stream{'' if streams == 1 else 's'}"
        gathered.findings.append(finding("I020", f"{gathered.source.name}: {number} without content, {why}"))


def nanoseconds(value: object) -> int | None:
    """A time in seconds, or in milliseconds since 1970, as nanoseconds; None when it is no time."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    t_ns = value * (1e6 if abs(value) > _MS_EPOCH else 1e9)
    return round(t_ns) if abs(t_ns) < LATEST else None
