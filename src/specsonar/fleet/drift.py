"""What changed along each series of groups: every stream of both groups counts, not only those of the sample."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from ..compare import compare
from ..fingerprint import AUTOREGRESSIVE, COMPARED, SPECULATIVE, UNDETERMINED, Estimate, Fingerprint, StreamTotals
from .result import EXPLANATION, NEXT, WHOLE, Drift

BLOCKS: Final = 200
"""Blocks that the streams of a group are put together in: the spread between more of them is known no better."""

SURE: Final = 0.99
"""Confidence with which nothing is called changed in the whole fleet where nothing did."""

_STEPS: Final = (SPECULATIVE, AUTOREGRESSIVE)
"""Explanations that tell steps."""


@dataclass(frozen=True, slots=True)
class Side:
    """A group as it is compared: its fingerprint with the means of all its streams, and those in blocks."""

    key: tuple[str, ...]
    streams: int
    found: Fingerprint


def side(key: tuple[str, ...], streams: int, found: Fingerprint, measures: Iterable[tuple[float | None, ...]]) -> Side:
    """A group with the means of all its streams in place of those of its sample.

    Parameters
    ----------
    measures : of each stream, in an order that chance made: acceptance length, steps, step_ms, spread_ms and
        first_token_ms; None where it does not tell.
    """
    blocks = [_Block() for _ in range(BLOCKS)]
    for number, one in enumerate(measures):
        blocks[number % BLOCKS].add(*one)
    each = tuple(block.totals() for block in blocks if block.steps > 0)
    if not each or found.verdict not in _STEPS:
        return Side(key, streams, replace(found, streams=streams, by_stream=None))
    steps = sum(one.steps for one in each)
    length = sum(one.tokens for one in each) / steps
    timed = [(one.steps, one.step_ms) for one in each if one.step_ms is not None]
    step = sum(n * ms for n, ms in timed) / sum(n for n, _ in timed) if timed else None
    moved = replace(
        found, streams=streams, by_stream=each, acceptance_length=_moved(found.acceptance_length, length),
        step_ms=_moved(found.step_ms, step),
    )  # fmt: skip
    return Side(key, streams, moved)


class _Block:
    """Sums over some streams."""

    def __init__(self) -> None:
        self.tokens = self.steps = self.time = self.timed = 0.0
        self.logs = {"spread": [0.0, 0], "first": [0.0, 0]}

    def add(
        self, length: float | None, steps: float | None, step_ms: float | None, spread_ms: float | None,
        first_ms: float | None,
    ) -> None:  # fmt: skip
        if length is not None and steps is not None:
            self.tokens += length * steps
            self.steps += steps
            if step_ms is not None:
                self.time += step_ms * steps
                self.timed += steps
        for name, value in (("spread", spread_ms), ("first", first_ms)):
            if value is not None and value > 0:
                self.logs[name][0] += math.log(value)
                self.logs[name][1] += 1

    def totals(self) -> StreamTotals:
        spread, first = (math.exp(total / n) if n else None for total, n in self.logs.values())
        return StreamTotals(self.tokens, self.steps, self.time / self.timed if self.timed else None, spread, first)


def _moved(estimate: Estimate | None, value: float | None) -> Estimate | None:
    """The estimate at another value, its interval as wide in proportion."""
    if estimate is None or value is None or estimate.value <= 0:
        return estimate
    by = value / estimate.value
    high = None if estimate.high is None else estimate.high * by
    return replace(estimate, value=value, low=estimate.low * by, high=high)


def along(sides: Sequence[Side], *, level: float, margin: float) -> Iterator[Drift]:
    """What changed between neighbours of each series, and from its first to its last group.

    "changed" needs the more evidence the more is compared, so that a large fleet raises no more false alarms than a
    small one (Bonferroni).

    Parameters
    ----------
    sides : in the order of their keys; those that agree in all but the last value are a series.
    level : of the intervals. margin : relative difference within which a quantity is equivalent.
    """
    series: dict[tuple[str, ...], list[Side]] = {}
    for one in sides:
        series.setdefault(one.key[:-1], []).append(one)
    pairs = [(name, NEXT, a, b) for name, those in series.items() for a, b in pairwise(those)]
    pairs += [(name, WHOLE, those[0], those[-1]) for name, those in series.items() if len(those) > 2]
    sure = 1 - (1 - SURE) / max(len(pairs), 1)
    for name, span, a, b in pairs:
        yield _drift(name, span, a, b, level, margin, sure)


def _drift(series: tuple[str, ...], span: str, a: Side, b: Side, level: float, margin: float, sure: float) -> Drift:
    found = compare(a.found, b.found, margin=margin, level=level, allow_mismatch=True, sure=sure)
    verdict, sentence = found.verdict, found.sentence
    kinds = (a.found.verdict, b.found.verdict)
    if kinds[0] != kinds[1] and UNDETERMINED not in kinds and not set(kinds) <= set(_STEPS):
        verdict, sentence = EXPLANATION, f"What is seen went from {kinds[0]} to {kinds[1]}."
    blocks = {s.streams: f"spread between {s.streams:,} streams" for s in (a, b)}
    changes = {}
    for quantity in COMPARED:
        change = found.changes[quantity]
        if change is not None and "spread between" in change.method:
            change = replace(change, method="; ".join(blocks.values()))
        changes[quantity] = change
    return Drift(
        series, a.key[-1], b.key[-1], span, verdict, sentence, changes, found.needed_streams,
        tuple(f for f in found.findings if f.code == "C001"),
    )  # fmt: skip
