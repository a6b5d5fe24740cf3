"""How many steps each event holds, given how late the events around it were: exact on a grid of lateness.

Event i holds m steps, so its emission time moves on by X ~ N(m s, m v), and it arrives D later, or right behind the
event before it when that one was later still. With u the lateness before and g the gap, the lateness after is
w = u + g - X, and either D = w, or D < w and g ~ 0. A late event makes its own gap longer and the next one shorter:
a gap of two steps before a gap of nearly none is no merge.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

PRUNE = 1e-10


@njit(cache=True, nogil=True)
def sweep(
    jump: IntArray, tie: FloatArray, prior: FloatArray, kernel: FloatArray, first: IntArray, slow: float, longest: int,
    delay: FloatArray, below: FloatArray, message: FloatArray, seen: FloatArray,
) -> float:  # fmt: skip
    """Log-likelihood of the gaps of one stream, in cells, and the message of each event about its steps.

    Parameters
    ----------
    jump : shape (n,), gaps in cells.
    tie : shape (n,), probability of the gap for an event that waited behind another.
    prior : shape (K, n), P(m steps and the event's tokens).
    kernel, first : shapes (K, W) and (K,); P(X = first[m-1] + k | m steps).
    slow, longest : probability of a stray step time, uniform on 0..longest cells, whatever m.
    delay, below : shape (U,), P(D = w) and P(D < w).
    message : shape (K, n), written: probability of all gaps given m steps at event i, up to a factor of i.
    seen : shape (U,), added to: expected delays by cell.
    """
    n, top, width, cells = jump.size, kernel.shape[0], kernel.shape[1], delay.size
    forward = np.zeros((n + 1, cells))
    low, high = np.zeros(n + 1, np.int64), np.zeros(n + 1, np.int64)
    scale = np.ones(n + 1)
    high[0] = cells
    forward[0] = delay
    sums = np.zeros(cells + 1)
    total = 0.0
    stray = slow / (longest + 1)
    for i in range(n):
        a, b, g = low[i], high[i], jump[i]
        weight = 0.0
        for m in range(top):
            weight += prior[m, i]
        for u in range(a, b):
            sums[u + 1] = sums[u] + forward[i, u] if u > a else forward[i, u]
        sums[a] = 0.0
        end = min(cells, b + g)
        norm = 0.0
        for w in range(max(0, a + g - longest - width), end):
            arrives = delay[w] + tie[i] * below[w]
            if arrives <= 0.0:
                continue
            value = 0.0
            for m in range(top):
                if prior[m, i] <= 0.0:
                    continue
                part = 0.0
                start = w - g + first[m]  # u = w - g + X
                for k in range(max(a - start, 0), min(b - start, width)):
                    part += forward[i, start + k] * kernel[m, k]
                value += prior[m, i] * part
            value *= 1.0 - slow
            c, d = max(a, w - g), min(b, w - g + longest + 1)
            if d > c:
                value += weight * stray * (sums[d] - sums[c])
            value *= arrives
            forward[i + 1, w] = value
            norm += value
        if not norm > 0.0:
            return -np.inf
        total += np.log(norm)
        scale[i + 1] = norm
        x, y = cells, 0
        for w in range(end):
            forward[i + 1, w] /= norm
            if forward[i + 1, w] > PRUNE:
                x = min(x, w)
                y = w + 1
        low[i + 1], high[i + 1] = x, y
    back = np.ones(cells)
    fresh = np.zeros(cells)
    for i in range(n - 1, -1, -1):
        a, b, g = low[i], high[i], jump[i]
        c, d = low[i + 1], high[i + 1]
        weight = 0.0
        for m in range(top):
            weight += prior[m, i]
            message[m, i] = 0.0
        sums[c] = 0.0
        for w in range(c, d):
            arrives = delay[w] + tie[i] * below[w]
            if arrives > 0.0:
                seen[w] += forward[i + 1, w] * back[w] * delay[w] / arrives
            fresh[w] = arrives * back[w] / scale[i + 1]
            sums[w + 1] = sums[w] + fresh[w]
        strays = 0.0
        for u in range(a, b):
            value = 0.0
            x, y = max(c, u + g - longest), min(d, u + g + 1)
            if y > x:
                value = stray * (sums[y] - sums[x])
            strays += forward[i, u] * value
            value *= weight
            for m in range(top):
                part = 0.0
                start = u + g - first[m]  # w = u + g - X
                for k in range(max(start - d + 1, 0), min(start - c + 1, width)):
                    part += fresh[start - k] * kernel[m, k]
                part *= 1.0 - slow
                message[m, i] += forward[i, u] * part
                value += prior[m, i] * part
            back[u] = value
        for m in range(top):
            message[m, i] += strays
    return total
