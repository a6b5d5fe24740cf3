"""Times that a tool made up: spread evenly over an answer, or over the tokens of a chunk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ..findings import finding
from ..fingerprint import Finding
from ..trace import Stream, Trace
from .refusals import HOLDS
from .values import Floats, since

SAME_S: Final = 2e-9
"""Gaps that a tool made from one quotient differ by rounding only; measured neighbours by some 100 us."""

# A coarse clock repeats gaps, too, but then they are multiples of its tick; 10 us and more are taken for one. Finer
# clocks repeat gaps inside a burst of packets, which are far below a step.
_TICK_S: Final = 10e-6
_STEP_S: Final = 0.5e-3

_FEWEST: Final = 8
_SHARE: Final = 0.2
"""Share of repeated gaps from which on an answer is taken as made up; measured ones have hardly any."""


def spread_evenly(after_s: Floats) -> bool:
    """Whether a tool spread events evenly over an interval: one gap, the same to the nanosecond, for half of them."""
    gaps = np.diff(after_s)
    if gaps.size < _FEWEST - 1:
        return False
    ends = np.append(np.flatnonzero(np.abs(np.diff(gaps)) > SAME_S), gaps.size - 1)
    lengths = np.diff(np.concatenate(([-1], ends)))
    longest = int(np.argmax(lengths))
    gap = gaps[ends[longest]]
    return bool(gap > SAME_S and _off_tick(gap) and 2 * lengths[longest] >= after_s.size)


def made_up(after_s: Floats) -> bool:
    """The same, also where the time of each chunk was divided by its tokens: gaps that repeat the one before."""
    gaps = np.diff(after_s)
    again = (np.abs(np.diff(gaps)) <= SAME_S) & (gaps[1:] > _STEP_S) & _off_tick(gaps[1:])
    return spread_evenly(after_s) or bool(again.sum() >= max(_FEWEST, _SHARE * gaps.size))


def _off_tick(gaps: Any) -> npt.NDArray[np.bool_]:
    ticks = gaps / _TICK_S
    off: npt.NDArray[np.bool_] = np.abs(ticks - np.round(ticks)) * _TICK_S > SAME_S
    return off


def measured(name: str, streams: Sequence[Stream], findings: Sequence[Finding]) -> Trace:
    """A Trace of those streams whose times were measured; the others are counted (finding I012)."""
    kept = tuple(one for one in streams if not len(one) or not made_up(since(one.t_ns, int(one.t_ns[0]))))
    return gathered(name, kept, findings, len(streams) - len(kept))


def gathered(name: str, kept: Sequence[Stream], findings: Sequence[Finding], invented: int, **meta: Any) -> Trace:
    """A Trace of `kept`, where `invented` streams were left out."""
    told = list(findings)
    if invented:
        of = f"{invented} of {invented + len(kept)} requests"
        told.append(finding("I012", f"{name}: the times of {of} are spread evenly, not measured"))
    return Trace(tuple(kept), ({} if kept else {HOLDS: {}}) | meta, tuple(told))
