"""What the readers of captures share: from answers to the streams of a file, and times as these files write them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from ..findings import finding
from ..fingerprint import Finding
from ..trace import NOT_SAID, TOTAL_ONLY, Stream
from ..wire.answer import Answer
from .gather import Gathered
from .values import iso_ns

LATEST: Final = 1 << 61
"""Nanoseconds; what lies beyond is no time."""

_MOST_FINDINGS: Final = 50
_MS_EPOCH: Final = 1e11  # seconds until the year 5138, or milliseconds since 1973


_RUNNING: Final = ("usage per event", "tokens predicted")
"""Counts that are differences of a running total."""


def add_answers(
    gathered: Gathered, answers: Iterable[Answer], resolution_ns: int | None = None, headless: Answer | None = None
) -> None:
    """Keep the streams of `answers`; those without an event leave at most their findings.

    Of `headless` the begin was not captured: the server's total is not that of the events that are left.
    """
    for answer in answers:
        made, noticed = answer.streams(gathered.name())
        if answer is headless:
            made, noticed = [_without_begin(one) for one in made], [f for f in noticed if f.code != "I005"]
        note_all(gathered, noticed)
        for one in made:
            if len(one):
                gathered.add(replace(one, resolution_ns=resolution_ns or one.resolution_ns))


def note_all(gathered: Gathered, noticed: Iterable[Finding]) -> None:
    """Keep findings, each once; a file with thousands of broken answers is told about some of them."""
    for one in noticed:
        if one not in gathered.findings and len(gathered.findings) < _MOST_FINDINGS:
            gathered.findings.append(one)


def _without_begin(one: Stream) -> Stream:
    source = NOT_SAID if one.count_source == TOTAL_ONLY else one.count_source
    kept = replace(one, total_tokens=None, start_ns=None, count_source=source)
    if one.meta.get("count_field") not in _RUNNING:
        return kept
    # the first count is of all that was sent before, too
    return replace(kept, t_ns=one.t_ns[1:], tokens=one.tokens[1:], read=one.read[1:], size=one.size[1:])


def say_sizes_only(gathered: Gathered, streams: int, why: str) -> None:
    """Note that `streams` streams are times and sizes only."""
    if streams:
        number = f"{streams} stream{'' if streams == 1 else 's'}"
        gathered.findings.append(finding("I020", f"{gathered.source.name}: {number} without content, {why}"))


def stamp_ns(value: object) -> int | None:
    """A time in seconds, in milliseconds since 1970, or as ISO 8601, as nanoseconds; None when it is no time."""
    if isinstance(value, str):
        return iso_ns(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if not abs(value) < LATEST:
        return None
    t_ns = value * (1e6 if abs(value) > _MS_EPOCH else 1e9)
    return round(t_ns) if abs(t_ns) < LATEST else None
