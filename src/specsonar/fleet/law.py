"""Each stream by the law of its group: the fit is made once a group, and a stream costs one look at its gaps.

The fingerprint of the group says how many tokens a step gives. From that follows which gaps begin a step: in a sample,
the longest ones, as many as there are steps. The border that this draws is all that the other streams need.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from ..fingerprint import AUTOREGRESSIVE, COUNTED_LAYER, INDEPENDENT_LAYER, SPECULATIVE, Fingerprint
from ..trace import TOTAL_ONLY, IntArray, Stream
from .batch import Batch, FloatArray, Key, of_streams, tokens_of

EVENTS: Final = "events"
GAPS: Final = "gaps"
PERIOD: Final = "period"

_NEAR: Final = 0.01
"""Share of the steps by which their number may be off: the border lies in the widest stretch without gaps there."""

_TIE_S: Final = 1e-7
"""No clock separates shorter gaps. Where steps arrive together, the factors make up for those that are not seen."""

_FEWEST: Final = 5.0
"""Steps below which nothing is said about one stream."""

_STEP: Final = (0.5, 1.8)
"""In steps: what lies outside is a stall or a pile behind it, and no step of the decoder."""


@dataclass(frozen=True, slots=True)
class Law:
    """What is the same for all streams of a group.

    Attributes
    ----------
    kind : what shows a step. "events": each event after the first; "gaps": each gap above the border; "period": the
        time, where delays hide which events belong together.
    max_burst : tokens beyond which events between two such gaps are no step, but a pile behind a stall.
    cut_s : the border, seconds; below zero for "events".
    step_s : time of a step, seconds; nan where it is not known.
    length_by, step_by : factors that make the means of the sample those of its fingerprint: events may hold several
        steps, a late step may arrive with the next, and only steps near the usual time are timed.
    """

    kind: str
    max_burst: float
    cut_s: float
    step_s: float
    length_by: float = 1.0
    step_by: float = 1.0


def law_of(found: Fingerprint, streams: Sequence[Stream]) -> Law | None:
    """The law that the streams behind a fingerprint share; None where it does not say what a step is."""
    step = float("nan") if found.step_ms is None else found.step_ms.value * 1e-3
    if found.verdict == AUTOREGRESSIVE:
        law = Law(EVENTS, np.inf, -1.0, step)
    elif found.verdict != SPECULATIVE or found.acceptance_length is None:
        return None
    elif found.layer == COUNTED_LAYER or found.count_source == TOTAL_ONLY:
        law = Law(EVENTS, np.inf, -1.0, step)
    elif found.layer == INDEPENDENT_LAYER:
        law = Law(PERIOD, np.inf, -1.0, step)
    else:
        assert found.max_burst is not None
        law = Law(GAPS, found.max_burst.value, _border(streams, found.acceptance_length.value), step)
    sample = of_streams(streams, [()] * len(streams), [np.nan] * len(streams), [""] * len(streams))
    columns = figures(sample, {(): law})
    steps, length, step_ms = columns["steps"], columns["acceptance_length"], columns["step_ms"]
    if found.acceptance_length is not None and (known := np.isfinite(length)).any():
        mean = float(np.average(length[known], weights=steps[known]))
        law = replace(law, length_by=found.acceptance_length.value / mean)
    if (known := np.isfinite(step_ms)).any():
        law = replace(law, step_by=step * 1e3 / float(np.average(step_ms[known], weights=steps[known])))
    return law


def _border(streams: Sequence[Stream], length: float) -> float:
    """The gap, in seconds, above which one is as often as there are steps of `length` tokens: near that rank, where
    the widest stretch without gaps lies."""
    gaps = np.sort(np.concatenate([np.diff(np.sort(one.t_ns)) for one in streams]))[::-1] * 1e-9
    steps = gaps.size / length
    low = max(1, int(steps * (1 - _NEAR)) - 1)
    near = np.log(np.maximum(gaps[low - 1 : int(steps * (1 + _NEAR)) + 3], _TIE_S))
    widest = int(np.argmax(near[:-1] - near[1:]))
    return float(np.exp((near[widest] + near[widest + 1]) / 2))


def figures(batch: Batch, laws: Mapping[Key, Law | None]) -> dict[str, Any]:
    """What is said about each stream, as columns of n values; nan where a stream does not tell.

    events, tokens (-1 where not known), seconds (first to last event), first_token_ms, tokens_per_s (after the first
    event), longest_gap_ms, steps (that can be told apart), acceptance_length, step_ms and spread_ms (of the steps that
    no stall touched).
    """
    begin, end = batch.offsets[:-1], batch.offsets[1:]
    events = end - begin
    gap = np.diff(batch.t_ns, prepend=0)
    gap[begin] = -1  # nothing begins at the first event: it is the prefill's
    seconds = (batch.t_ns[end - 1] * 1e-9).astype(np.float64)
    tokens, first = tokens_of(batch)
    after = np.where(tokens >= 0, tokens - first, np.nan)
    mine = [laws.get(key) for key in batch.keys]
    with np.errstate(divide="ignore", invalid="ignore"):
        steps, length, step_s, spread_s = _steps(batch.t_ns, gap, events, seconds, after, mine)
        few = ~(steps >= _FEWEST)
        return {
            "events": events, "tokens": tokens, "seconds": seconds,
            "first_token_ms": np.where(batch.first_ns < 0, np.nan, batch.first_ns * 1e-6),
            "tokens_per_s": np.where(seconds > 0, after / seconds, np.nan),
            "longest_gap_ms": np.maximum(np.maximum.reduceat(gap, begin), 0) * 1e-6,
            "steps": steps, "acceptance_length": np.where(few, np.nan, length),
            "step_ms": np.where(few, np.nan, step_s * 1e3), "spread_ms": np.where(few, np.nan, spread_s * 1e3),
        }  # fmt: skip


def _steps(
    t_ns: IntArray, gap: IntArray, events: IntArray, seconds: FloatArray, after: FloatArray,
    laws: Sequence[Law | None],
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:  # fmt: skip
    """Number of steps of each stream, their mean tokens, and mean and spread of their times in seconds."""
    n = len(laws)
    kind = np.array([law.kind if law else "" for law in laws])
    numbers = [
        (law.max_burst, law.cut_s, law.step_s, law.length_by, law.step_by) if law else (np.nan,) * 5 for law in laws
    ]
    most, cut, step, length_by, step_by = np.array(numbers, np.float64).reshape(n, 5).T
    owner = np.repeat(np.arange(n), events)
    border = np.where((kind == EVENTS) | (kind == GAPS), np.maximum(cut * 1e9, -0.5), np.inf)
    starts = np.flatnonzero(gap > border[owner])
    whose = owner[starts[1:]]
    same = owner[starts[:-1]] == whose
    run, took = np.diff(starts), np.diff(t_ns[starts]) * 1e-9
    whole = same & (run <= most[whose])
    count = np.bincount(whose[whole], minlength=n)
    length = np.bincount(whose[whole], run[whole], minlength=n) / count
    every = np.bincount(owner[starts], minlength=n)
    steps = np.select([kind == EVENTS, kind == GAPS, kind == PERIOD], [every, count, seconds / step], np.nan)
    length = np.where(kind == GAPS, length, after / steps) * length_by
    share = took / step[whose]
    timed = same & (share > _STEP[0]) & (share < _STEP[1])
    whose, took = whose[timed], took[timed]
    count = np.bincount(whose, minlength=n)
    mean = np.bincount(whose, took, minlength=n) / np.where(count > 1, count, np.nan)
    square = np.bincount(whose, (took - mean[whose]) ** 2, minlength=n)
    return steps, length, mean * step_by, np.sqrt(square / np.where(count > 1, count - 1, np.nan))
