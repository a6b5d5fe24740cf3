"""What each stream adds to the whole: the units that two recordings are compared by."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from .fingerprint import INDEPENDENT_LAYER, StreamTotals
from .stats.gaps import pauses
from .stats.result import Arrays, LayerFit
from .trace import Stream

FloatArray = npt.NDArray[np.float64]

_QUARTILES: Final = 1.349
"""Interquartile range of a normal law, in standard deviations."""

_SEVERAL: Final = 1.5
"""Steps between two events from which on their time is that of several."""

_CONDITIONS: Final = (
    "model", "temperature", "max_tokens", "top_p", "workload", "concurrency", "dialect", "engine", "event_is", "stamps",
)  # fmt: skip


def by_stream(
    fit: LayerFit | None, streams: Sequence[Stream], arrays: Sequence[Arrays], *, events_are_steps: bool = False
) -> tuple[StreamTotals, ...] | None:
    """Tokens, steps and the mean step of each stream; None where the fit does not say which steps are whose.

    Parameters
    ----------
    fit : of the winning explanation.
    streams, arrays : the same streams as records and as the statistics saw them.
    events_are_steps : every event is a step, with as many tokens on average as the total says.
    """
    held_back = fit is not None and fit.extra.get("held_back", 0.0) > 0
    single = events_are_steps or (fit is not None and fit.max_burst == 1)
    told = fit is not None and len(fit.bursts) == len(arrays) and all(b.size for b in fit.bursts)
    if not arrays or not (single or told):
        return None
    totals = []
    for k, (one, a, steps_at) in enumerate(zip(streams, arrays, _steps(fit, arrays, single=single), strict=True)):
        if single or fit is None:
            steps = tokens = float(a.tokens.sum() - 1 if held_back and a.tokens is not None else a.t.size - 1)
            if events_are_steps and one.total_tokens is not None:
                tokens = float(one.total_tokens - 1)
        else:
            tokens, steps = float(fit.bursts[k].sum()), float(fit.bursts[k].size)
        first = None if one.start_ns is None or not len(one) else float(one.t_ns.min() - one.start_ns) * 1e-6
        mean, spread = (None, None) if steps_at is None else _times(*steps_at, a.resolution)
        if len(arrays) == 1 and mean is not None and fit is not None:
            mean = fit.step_s * 1e3
        asked = one.meta.get("question")
        totals.append(StreamTotals(tokens, steps, mean, spread, first, asked if isinstance(asked, str) else None))
    return tuple(totals)


def _steps(
    fit: LayerFit | None, arrays: Sequence[Arrays], *, single: bool
) -> Iterator[tuple[FloatArray, FloatArray] | None]:
    """For each stream the times at which steps arrived, shape (n+1,), seconds, and the steps between them, shape (n,).

    None where delays hide which tokens those are.
    """
    if fit is None or fit.layer == INDEPENDENT_LAYER or not np.isfinite(fit.step_s):
        yield from (None for _ in arrays)
        return
    ends = np.cumsum([a.t.size - 1 for a in arrays])
    known = fit.begins is not None and fit.begins.size == ends[-1]
    for k, a in enumerate(arrays):
        if single:
            yield a.t, np.ones(a.t.size - 1)
        elif a.tokens is not None:
            # complete steps, and so those between events, are known from where their tokens are
            done = np.searchsorted(np.cumsum(fit.bursts[k]), np.cumsum(a.tokens[1:]), "right")
            end = int(np.searchsorted(done, fit.bursts[k].size)) + 1
            yield a.t[: end + 1], np.diff(done[:end], prepend=0).astype(np.float64)
        elif not known or fit.begins is None:
            yield None
        else:
            begins = fit.begins[ends[k] - a.t.size + 1 : ends[k]]
            # a pile behind a stall is several steps, though it is not known which tokens begin them
            first = np.flatnonzero(begins > 0.5)
            yield a.t[1:][first], np.diff(np.cumsum(begins)[first])


def _times(t: FloatArray, steps: FloatArray, resolution: float) -> tuple[float | None, float | None]:
    """Mean and spread of the time of a step, milliseconds; pauses of the service and stalls of the way left out."""
    # imported where it is used: it brings scipy, which a single stream without counts never needs
    from .stats.schedule import step_time

    if t.size < 3:
        return None, None
    gap = np.diff(t)
    each = gap / np.maximum(steps, 1.0)
    idle = pauses(each, steps)
    if idle.any():
        gap = np.where(idle, float(np.median(each)) * steps, gap)
        t = np.concatenate(([0.0], np.cumsum(gap)))
    low, high = np.quantile(each[steps < _SEVERAL], [0.25, 0.75]) if (steps < _SEVERAL).any() else (np.nan, np.nan)
    mean = step_time([t], [steps], resolution=resolution).step * 1e3
    spread = float(high - low) / _QUARTILES * 1e3
    return (mean if np.isfinite(mean) and mean > 0 else None), (spread if np.isfinite(spread) else None)


def conditions(streams: Sequence[Stream], meta: Mapping[str, Any]) -> Mapping[str, Any]:
    """How the streams were asked for: the value all share, or a list of those there are; `meta` is of all together."""
    found: dict[str, Any] = {}
    for key in _CONDITIONS:
        told = [s.meta.get(key, meta.get(key)) for s in streams]
        values = sorted({value for value in told if isinstance(value, str | int | float)}, key=str)
        if values:
            found[key] = values[0] if len(values) == 1 else values
    ticks = {s.resolution_ns for s in streams if s.resolution_ns}
    if ticks:
        found["resolution_ns"] = max(ticks)
    return found
