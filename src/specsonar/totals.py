"""What each stream adds to the whole: the units that two recordings are compared by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from .fingerprint import INDEPENDENT_LAYER, StreamTotals
from .stats.result import Arrays, LayerFit
from .trace import Stream

_STEP: Final = (0.5, 1.8)
"""In mean steps: what lies outside is a pile behind a stall, or the stall itself, and no step of the decoder."""

_QUARTILES: Final = 1.349
"""Interquartile range of a normal law, in standard deviations."""

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
    single = events_are_steps or (fit is not None and fit.max_burst == 1)
    told = fit is not None and len(fit.bursts) == len(arrays) and all(b.size for b in fit.bursts)
    if not arrays or not (single or told):
        return None
    totals = []
    for k, (one, a) in enumerate(zip(streams, arrays, strict=True)):
        if single or fit is None:
            steps = tokens = float(a.t.size - 1)
            if events_are_steps and one.total_tokens is not None:
                tokens = float(one.total_tokens - 1)
        else:
            tokens, steps = float(fit.bursts[k].sum()), float(fit.bursts[k].size)
        first = None if one.start_ns is None or not len(one) else float(one.t_ns.min() - one.start_ns) * 1e-6
        totals.append(StreamTotals(tokens, steps, *_step_ms(fit, a), first))
    return tuple(totals)


def _step_ms(fit: LayerFit | None, a: Arrays) -> tuple[float | None, float | None]:
    """Mean and spread of the time between the first tokens of neighbouring steps, milliseconds.

    None where delays hide which tokens those are.
    """
    if fit is None or fit.layer == INDEPENDENT_LAYER or not np.isfinite(fit.step_s):
        return None, None
    starts = a.t[1:][np.diff(a.t) > 0.5 * fit.step_s] if a.tokens is None and fit.max_burst > 1 else a.t[1:]
    step = np.diff(starts) / fit.step_s
    step = step[(step > _STEP[0]) & (step < _STEP[1])]
    if step.size < 2:
        return None, None
    low, high = np.quantile(step, [0.25, 0.75])
    unit = fit.step_s * 1e3
    return float(step.mean()) * unit, float(high - low) / _QUARTILES * unit


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
