"""Second look at merged steps: events tell about their neighbours how late they were (`stats.countedlate`).

The first look takes gaps one by one, so a late event with a gap of two steps may pass for a merge, although the event
after it came early. Here step time and spread come from the first look, delays follow a log-normal law with a flat
tail for stalls, re-estimated on the way, and what the neighbours say about the steps of an event takes the place of
the density of its gap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from ..stats.bursts import pmf
from ..stats.counted import Events
from ..stats.countedlate import sweep
from ..stats.result import Arrays
from ..stats.schedule import StepTime, step_time
from .counted_rivals import Data, Rival, choose

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

PER_STEP = 20  # grid cells in a step
CELLS_MOST = 1500
STRAY = 0.005
SAMPLE = 200  # streams from which the law of the delay is learnt


def _delay_law(centre: float, width: float, stall: float, cells: int, cell_s: float) -> FloatArray:
    """P(D in each cell): log-normal, and a flat tail of weight `stall`; shape (cells,)."""
    edges = np.log(np.maximum(np.arange(cells + 1) - 0.5, 1e-3) * cell_s)
    cdf = ndtr((edges - centre) / width)
    cdf[0] = 0.0
    core = np.diff(cdf)
    result: FloatArray = (1.0 - stall) * core / max(core.sum(), 1e-300) + stall / cells
    return result


def _kernels(step_cells: float, sd_cells: float, most: int) -> tuple[FloatArray, IntArray]:
    """P(X = first + k) for m = 1..most steps, normal cut at 5 standard deviations."""
    sd = np.sqrt(np.arange(1, most + 1) * sd_cells**2 + 0.3**2)
    reach = int(np.ceil(5 * sd[-1])) + 1
    centre = step_cells * np.arange(1, most + 1)
    first = np.maximum(np.floor(centre).astype(np.int64) - reach, 0)
    x = first[:, None] + np.arange(2 * reach + 2)
    z = ndtr((x + 0.5 - centre[:, None]) / sd[:, None]) - ndtr((x - 0.5 - centre[:, None]) / sd[:, None])
    return z / z.sum(1, keepdims=True), first


def messages(
    times: Sequence[FloatArray], prior: Sequence[FloatArray], density: Sequence[FloatArray], first_look: StepTime
) -> tuple[list[FloatArray], float]:
    """What all gaps of a stream say about the steps of each event, and the log-likelihood of gaps and counts.

    Parameters
    ----------
    times : per stream, an anchor and n events, shape (n+1,), seconds.
    prior : per stream, P(m steps and the event's tokens), shape (K, n).
    density : per stream, density of each gap alone, shape (K, n), to fall back on.
    first_look : step time, its spread, and the jitter.
    """
    cell = first_look.step / PER_STEP
    ticks = [np.rint(t / cell).astype(np.int64) for t in times]
    jumps: list[IntArray] = [c[1:] - c[:-1] for c in ticks]
    longest = int(min(max(int(j.max(initial=0)) for j in jumps), 50 * PER_STEP))
    cells = int(min(longest + 3 * PER_STEP, CELLS_MOST))
    kernel, first = _kernels(PER_STEP, max(first_look.step_sd / cell, 0.02 * PER_STEP), prior[0].shape[0])
    jitter = first_look.jitter if np.isfinite(first_look.jitter) else 0.0
    centre, width, stall = float(np.log(max(jitter / 2, 0.3 * cell))), 1.0, 0.02
    known = np.log((np.arange(cells) + 0.1) * cell)
    for round_ in range(4):
        delay = _delay_law(centre, width, stall, cells, cell)
        below = np.concatenate(([0.0], np.cumsum(delay)[:-1]))
        seen = np.zeros(cells)
        out, total = [], 0.0
        chosen = range(len(times)) if round_ == 3 else range(min(len(times), SAMPLE))
        for i in chosen:
            message = np.empty_like(prior[i])
            tie = np.where(jumps[i] == 0, 0.9, np.where(jumps[i] == 1, 0.1, 0.0))
            loglik = sweep(
                jumps[i], tie, prior[i], kernel, first, STRAY, longest, delay, below, message, seen
            )  # fmt: skip
            if not np.isfinite(loglik):
                message = density[i]
                loglik = float(np.log((prior[i] * density[i]).sum(0) * cell).sum())
            out.append(message / np.maximum(message.max(0), 1e-300))
            total += loglik - jumps[i].size * np.log(cell)
        flat = stall / cells
        core = seen * (1.0 - flat / np.maximum(delay, 1e-300))
        stall = float(np.clip(1.0 - core.sum() / max(seen.sum(), 1e-300), 0.002, 0.3))
        if core.sum() > 5:
            centre = float(core @ known / core.sum())
            width = float(np.clip(np.sqrt(core @ (known - centre) ** 2 / core.sum()), 0.2, 2.5))
    return out, float(total)


def second_look(best: Rival, data: Data, streams: Sequence[Arrays], resolution: float) -> tuple[Rival, Data]:
    """Merged events fitted again with the messages of their neighbours; the first look where that cannot be had."""
    k = best.events.density.shape[0]
    if best.gaps.slope * float(data.counts.mean()) > 0.2 * best.gaps.step:
        return best, data
    mean = np.arange(1.0, k + 1) @ best.fit.steps
    ends = data.ends[:-1]
    pairs = [(s.t[:-1], m) for s, m in zip(streams, np.split(mean[data.cell], ends), strict=True)]
    first = step_time([t for t, m in pairs if m.size], [m for _, m in pairs if m.size], 0.0, resolution)
    if not (np.isfinite(first.step_se) and first.step > 0 and first.step_sd < 0.5 * first.step):
        return best, data
    joint = best.build(pmf(best.hazards), best.fit.weights, best.events.n_max).joint
    prior = np.split(joint[:, data.counts], ends, axis=1)
    alone = np.split(best.events.density[:, data.cell], ends, axis=1)
    told, total = messages([t for t, _ in pairs], prior, alone, first)
    every = Data(
        data.counts, data.gaps, data.ends, data.last, np.arange(data.counts.size), data.counts, data.gaps,
        np.ones(data.counts.size)
    )  # fmt: skip
    events = Events(data.counts, np.concatenate(told, axis=1), every.times)
    low = max(-(-events.n_max // k), best.burst - 8, 1)
    weights = np.clip(best.fit.weights, 1e-4, None)
    again = choose("merged", events, best.build, best.gaps, range(low, min(best.burst + 2, events.n_max) + 1), weights)
    if not np.isfinite(again.loglik):
        return best, data
    shift = total - again.loglik
    by_burst = {m: v + shift for m, v in again.by_burst.items()}
    return replace(again, loglik=total, alpha_loglik=again.alpha_loglik + shift, by_burst=by_burst), every
