"""How fast a server is at the moment: steps that all take longer for a while, because something else wants the cores.

A gap of two steps and a gap of one slow step are told apart by their neighbours: the pace around an event is the
weighted mean of what its neighbours took, on a logarithmic scale.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy.ndimage import gaussian_filter1d

from .stepgaps import mode

FloatArray = npt.NDArray[np.float64]

REACH = 6.0  # events, standard deviation of the weights
FAR = 0.6  # a gap further from the present pace (in logarithms) is no such number of steps
CALM = 1.0  # weight of the common pace, in events
AROUND = 10  # events on each side whose most frequent gap is a first guess
TINY = 0.1  # of a step: what is shorter lies inside a burst


def local_pace(gaps: FloatArray, pace: FloatArray, steps: FloatArray, step: float) -> FloatArray:
    """Time of a step around each event over `step`, shape (n,).

    Parameters
    ----------
    gaps : shape (n,), seconds. pace : shape (n,), the present one. step : seconds.
    steps : shape (n, K+1), probability that a gap holds m = 0..K steps.

    >>> g = np.repeat([0.01, 0.02], 40)
    >>> one = np.tile([0.0, 1.0], (80, 1))
    >>> local_pace(g, np.ones(80), one, 0.014)[[10, -10]].round(2)
    array([0.73, 1.4 ])
    """
    order = np.arange(1, steps.shape[1])
    ratio = np.log(np.maximum(gaps, 1e-9)[:, None] / (order * step))
    weight = steps[:, 1:] * order * (np.abs(ratio - np.log(pace)[:, None]) < FAR)
    known = _blurred(weight.sum(1))
    result: FloatArray = np.exp(_blurred((weight * ratio).sum(1)) / (known + CALM))
    return result


def local_modes(gaps: Sequence[FloatArray], step: float) -> list[FloatArray]:
    """A first guess at the pace from the most frequent gap around each event, per stream, shape (n,)."""
    result = []
    for g in gaps:
        busy = np.flatnonzero(g > TINY * step)
        if busy.size < AROUND:
            result.append(np.ones(g.size))
            continue
        weight, level = np.zeros(g.size), np.zeros(g.size)
        weight[busy] = 1.0
        near = (g[busy[max(i - AROUND, 0) : i + AROUND + 1]] for i in range(busy.size))
        level[busy] = np.log([mode(x) / step for x in near])
        result.append(np.exp(_blurred(level) / np.maximum(_blurred(weight), 1e-12)))
    return result


def _blurred(values: FloatArray) -> FloatArray:
    """Sums over the neighbours, weighted with exp(-d^2 / 2 REACH^2)."""
    blurred = gaussian_filter1d(values, REACH, mode="constant", truncate=6.0)
    return np.asarray(blurred * REACH * np.sqrt(2 * np.pi), np.float64)
