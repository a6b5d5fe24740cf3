"""Unordered tokens on a clock that drifts: a sweep that tracks the step times along with the counts.

As `comb`, but T_r = T_{r-1} + S_r with S_r ~ N(step, wander^2). Given how many tokens each open step has taken, the
times of the open steps are Gaussian; a point updates them as in a Kalman filter, and hypotheses with the same counts
are merged to the Gaussian with their mean and covariance (generalised pseudo-Bayes of order one; Blom and Bar-Shalom
1988, IEEE Trans. Automatic Control 33, 780). The likelihood is exact when hypotheses that merge agree on the step
times, a good approximation while sigma is below about .3 step.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from numba import njit

from .comb import STARTED

FloatArray = npt.NDArray[np.float64]
OPEN = 6  # most steps open at once
NODES = 256  # most hypotheses kept after a point
SLOTS = 1 << 12


@njit(cache=True, nogil=True, error_model="numpy")
def track(
    t: FloatArray, sigma: float, step: float, wander: float, weights: FloatArray, bits: int, prune: float
) -> tuple[float, FloatArray]:
    """Log-likelihood of sorted times `t`, shape (n,), in nats, and the expected number of complete steps of each size.

    `weights` as `comb.step_weights`. The first step time has the prior N(t_1, step^2). Second result: shape (2,
    M+1), complete steps by tokens, and P(the last, cut step has n tokens).
    """
    m = weights.shape[1] - 1
    mask = (1 << bits) - 1
    n = len(t)
    reach = 4.5
    width = 1 + OPEN + OPEN * OPEN + m + 1
    first, square, sizes = 1, 1 + OPEN, 1 + OPEN + OPEN * OPEN
    keys, fresh = np.zeros(NODES, np.int64), np.zeros(SLOTS, np.int64)
    now, made_data = np.zeros((NODES, width)), np.zeros((SLOTS, width))
    table, stamp = np.zeros(SLOTS, np.int64), np.zeros(SLOTS, np.int64)
    mean, cov = np.zeros(OPEN + 1), np.zeros((OPEN + 1, OPEN + 1))
    count = np.zeros(m + 1)
    opened = np.zeros(NODES, np.int64)
    fresh_open = np.zeros(SLOTS, np.int64)
    live = 1
    now[0, 0] = 1.0
    now[0, first] = 0.0
    now[0, square] = step * step
    opened[0] = 1
    loglik = 0.0
    for i in range(n):
        shift = t[i] - t[i - 1] if i > 0 else 0.0
        made = 0
        total = 0.0
        for u in range(live):
            k = opened[u]
            key = keys[u] & (STARTED - 1)
            begun = keys[u] & STARTED
            w = now[u, 0]
            # times are kept relative to the current point
            for a in range(k):
                mean[a] = now[u, first + a] - shift
                for b in range(k):
                    cov[a, b] = now[u, square + a * OPEN + b]
            for b in range(m + 1):
                count[b] = now[u, sizes + b]
            while w > 0.0:
                spread = math.sqrt(cov[k - 1, k - 1] + wander * wander + sigma * sigma)
                wants = mean[k - 1] + step - reach * spread < 0.0
                closes = k > 1 and mean[0] + reach * math.sqrt(cov[0, 0] + sigma * sigma) < 0.0
                if closes or (wants and k == OPEN):
                    c = key & mask
                    if begun:
                        w *= weights[0, c]
                        count[c] += 1.0
                    else:
                        w *= weights[1, c]
                        if c > 0:
                            begun = STARTED
                    key >>= bits
                    k -= 1
                    for a in range(k):
                        mean[a] = mean[a + 1]
                        for b in range(k):
                            cov[a, b] = cov[a + 1, b + 1]
                elif wants:
                    mean[k] = mean[k - 1] + step
                    for a in range(k):
                        cov[a, k] = cov[a, k - 1]
                        cov[k, a] = cov[a, k - 1]
                    cov[k, k] = cov[k - 1, k - 1] + wander * wander
                    k += 1
                else:
                    break
            for j in range(k):
                c = (key >> (j * bits)) & mask
                v = cov[j, j] + sigma * sigma
                if c >= m or made >= SLOTS // 2:
                    continue
                q = w * math.exp(-0.5 * mean[j] * mean[j] / v) / math.sqrt(2 * math.pi * v)
                if q < 1e-200:
                    continue
                new = (key + (1 << (j * bits))) | begun
                slot = ((new * 0x9E3779B97F4A7C1) ^ (new >> 23) ^ k) & (SLOTS - 1)
                while stamp[slot] == i + 1 and (fresh[table[slot]] != new or fresh_open[table[slot]] != k):
                    slot = (slot + 1) & (SLOTS - 1)
                if stamp[slot] != i + 1:
                    stamp[slot] = i + 1
                    table[slot] = made
                    fresh[made] = new
                    fresh_open[made] = k
                    for x in range(width):
                        made_data[made, x] = 0.0
                    made += 1
                d = table[slot]
                made_data[d, 0] += q
                total += q
                for a in range(k):
                    ma = mean[a] - cov[a, j] / v * mean[j]
                    made_data[d, first + a] += q * ma
                    for b in range(k):
                        mb = mean[b] - cov[b, j] / v * mean[j]
                        made_data[d, square + a * OPEN + b] += q * (cov[a, b] - cov[a, j] * cov[j, b] / v + ma * mb)
                for b in range(m + 1):
                    made_data[d, sizes + b] += q * count[b]
        if not total > 0.0:
            return -np.inf, np.zeros((2, m + 1))
        loglik += math.log(total)
        floor = prune * total
        kept = NODES + 1
        while kept > NODES:
            kept = 0
            for d in range(made):
                if made_data[d, 0] >= floor:
                    kept += 1
            if kept > NODES:
                floor *= 4.0
        live = 0
        for d in range(made):
            q = made_data[d, 0]
            if q >= floor:
                keys[live] = fresh[d]
                opened[live] = fresh_open[d]
                k = fresh_open[d]
                now[live, 0] = q / total
                for a in range(k):
                    now[live, first + a] = made_data[d, first + a] / q
                for a in range(k):
                    for b in range(k):
                        x = square + a * OPEN + b
                        now[live, x] = made_data[d, x] / q - now[live, first + a] * now[live, first + b]
                for b in range(m + 1):
                    now[live, sizes + b] = made_data[d, sizes + b] / q
                live += 1
    out = np.zeros((2, m + 1))
    total = 0.0
    for pas in range(2):
        for u in range(live):
            w = now[u, 0]
            rest, begun = keys[u] & (STARTED - 1), keys[u] & STARTED
            for b in range(m + 1):
                count[b] = now[u, sizes + b]
            while rest:
                c = rest & mask
                rest >>= bits
                if rest == 0:
                    w *= weights[2, c]
                    if pas == 1:
                        out[1, c] += w / total
                elif begun:
                    w *= weights[0, c]
                    count[c] += 1.0
                elif c > 0:
                    w *= weights[1, c]
                    begun = STARTED
            if pas == 0:
                total += w
            else:
                for b in range(m + 1):
                    out[0, b] += w / total * count[b]
        if not total > 0.0:
            return -np.inf, out
    return loglik + math.log(total), out
