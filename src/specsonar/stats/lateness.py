"""In-order link with lateness: exact filtering of how late the last token was.

Step r ends at T_r = T_{r-1} + S_r; what it emits arrives at A = max(A_before, T_r + D): the link keeps the order,
so a late packet makes the next gap shorter, and steps that pile up behind it arrive together. The hidden state is
(position j in the burst, lateness u = A - T_r) with u on a grid. With g the gap to the next token,

    same burst:  u' = u + g            weight a_j       and  inside(g)                       [one delay per step]
                                                        or   d(u') + D(u' - g) inside(g)     [one delay per token]
    next step:   u' = u + g - S        weight 1 - a_j   and  d(u') + D(u' - g) inside(g)

where d and D are density and distribution of the delay: either the token came the moment it could (its delay is u'),
or it was ready when its predecessor came, and followed right behind (delay at most u' - g, gap by the law of gaps
inside a burst). Both together have probability one over all g.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from .runs import ELSEWHERE

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

PRUNE = 1e-7
"""Cells with less than this share of the probability leave the window at its edges."""


# sums may be reordered (SIMD); infinities keep their meaning, for impossible data give minus infinity
@njit(cache=True, fastmath={"reassoc", "contract", "nsz"})
def sweep(
    jump: IntArray, inside: FloatArray, fresh: FloatArray, hazards: FloatArray, per_token: bool,
    delay_density: FloatArray, delay_cdf: FloatArray, start: FloatArray,
    step_pmf: FloatArray, step_first: int, slow: float, slow_last: int,
    smooth: bool, new: FloatArray, tied: FloatArray, went: FloatArray, stopped: FloatArray,
    delay_seen: FloatArray, delay_below: FloatArray, step_seen: FloatArray, slow_seen: FloatArray,
) -> float:  # fmt: skip
    """Log-likelihood of one stream, and expectations when `smooth`.

    Parameters
    ----------
    jump : shape (n,), gaps in grid cells.
    inside : shape (n,), density of the gap as one that follows right behind (probability where the gap is zero).
    fresh : shape (n,), 1 where the gap is positive; for a zero gap the time (s) within which arrivals tie.
    hazards : shape (M,), a_M = 0.
    per_token : one delay per token instead of one per step.
    delay_density, delay_cdf : shape (U,), per second and probability, of a delay at each lateness cell.
    start : shape (U,), probability of the lateness of the prefill's token.
    step_pmf, step_first : probability that a step takes step_first + k cells.
    slow, slow_last : probability of a stray step (slow, or hurried), uniform on the cells 1..`slow_last`.
    new, tied : shape (n,), written: posterior that the gap starts a step; that its token came right behind.
    went, stopped : shape (M,), added to: expected bursts that continued past, or ended at, each position.
    delay_seen, delay_below : shape (U,), added to: expected delays equal to, and at most, each cell.
    step_seen : shape (K,), added to: expected steps by kernel cell.
    slow_seen : shape (2,), added to: expected slow steps and the sum of their cells.

    Returns
    -------
    log-likelihood in nats, minus infinity where the model cannot have produced the data.
    """
    n = jump.size
    top = hazards.size
    cells = delay_density.size
    kernel = step_pmf.size
    slow_first = 1
    slow_each = slow / max(slow_last - slow_first + 1, 1)
    use_slow = slow > 0.0 and slow_last >= slow_first

    low = np.zeros(n + 1, np.int64)
    high = np.zeros(n + 1, np.int64)  # exclusive
    at = np.zeros(n + 1, np.int64)  # where token i's cells begin in `alpha`, in units of cells
    scale = np.ones(n + 1)
    alpha = np.empty((max(64 * (n + 1), 2 * cells), top))
    leave = np.empty(cells)
    conv = np.empty(cells)
    sums = np.empty(cells + 1)

    a = 0
    b = cells
    while b > 1 and start[b - 1] <= PRUNE:
        b -= 1
    low[0], high[0] = a, b
    for u in range(a, b):
        alpha[u, :] = start[u] * ELSEWHERE / top
        alpha[u, top - 1] += start[u] * (1.0 - ELSEWHERE)
    used = b - a
    at[0] = 0
    total = 0.0
    for i in range(n):
        a, b = low[i], high[i]
        base = at[i] - a
        g = jump[i]
        sums[a] = 0.0
        for u in range(a, b):
            value = 0.0
            for j in range(top):
                value += alpha[base + u, j] * (1.0 - hazards[j])
            leave[u] = value
            sums[u + 1] = sums[u] + value
        # reachable lateness: same burst a+g..b+g; next step from a+g-slow_last or the kernel's end
        longest = max(slow_last, step_first + kernel - 1)
        lo = max(0, a + g - longest)
        hi = min(cells, b + g)
        if hi <= lo:
            return -np.inf
        need = used + hi - lo
        if need > alpha.shape[0]:
            grown = np.empty((2 * need, top))
            grown[:used] = alpha[:used]
            alpha = grown
        at[i + 1] = used
        norm = 0.0
        reached = conv[: hi - lo]
        reached[:] = 0.0
        for k in range(kernel):
            # v = u + g - (step_first + k), for u in [a, b) and v in [lo, hi)
            shift = g - step_first - k
            begin = max(a, lo - shift)
            size = min(b, hi - shift) - begin
            if size > 0:
                weight_k = step_pmf[k]
                source = leave[begin : begin + size]
                target = reached[begin + shift - lo : begin + shift - lo + size]
                for q in range(size):
                    target[q] += weight_k * source[q]
        for v in range(lo, hi):
            row = used + v - lo
            value = reached[v - lo]
            if use_slow:
                begin = max(a, v - g + slow_first)
                end = min(b, v - g + slow_last + 1)
                if end > begin:
                    value += slow_each * (sums[end] - sums[begin])
            arrives = delay_density[v] * fresh[i]
            if v >= g:
                arrives += delay_cdf[v - g] * inside[i]
            value *= arrives
            alpha[row, 0] = value
            norm += value
            u = v - g
            if u >= a and u < b:
                emission = arrives if per_token else inside[i]
                for j in range(1, top):
                    value = alpha[base + u, j - 1] * hazards[j - 1] * emission
                    alpha[row, j] = value
                    norm += value
            else:
                for j in range(1, top):
                    alpha[row, j] = 0.0
        if not norm > 0.0:
            return -np.inf
        total += np.log(norm)
        scale[i + 1] = norm
        inverse = 1.0 / norm
        # normalise, and prune the edges
        first_kept = -1
        last_kept = lo
        for v in range(lo, hi):
            row = used + v - lo
            mass = 0.0
            for j in range(top):
                alpha[row, j] *= inverse
                mass += alpha[row, j]
            if mass > PRUNE:
                if first_kept < 0:
                    first_kept = v
                last_kept = v
        low[i + 1] = first_kept
        high[i + 1] = last_kept + 1
        at[i + 1] = used + first_kept - lo
        used = at[i + 1] + last_kept + 1 - first_kept
    if not smooth:
        return total

    beta = np.ones((cells, top))
    before = np.zeros((cells, top))
    weight = np.empty(cells)
    gain = np.empty(cells + 1)
    moment = np.empty(cells + 1)
    for i in range(n - 1, -1, -1):
        a, b = low[i], high[i]
        base = at[i] - a
        lo, hi = low[i + 1], high[i + 1]
        base_next = at[i + 1] - lo
        g = jump[i]
        inverse = 1.0 / scale[i + 1]
        gain[lo] = 0.0
        moment[lo] = 0.0
        behind = 0.0
        fresh_start = 0.0
        for v in range(lo, hi):
            density = delay_density[v] * fresh[i]
            arrives = density
            if v >= g:
                arrives += delay_cdf[v - g] * inside[i]
            weight[v] = arrives * beta[v, 0] * inverse
            gain[v + 1] = gain[v] + weight[v]
            moment[v + 1] = moment[v] + weight[v] * v
            posterior = alpha[base_next + v, 0] * beta[v, 0]
            fresh_start += posterior
            seen = posterior * density / arrives if arrives > 0.0 else 0.0
            delay_seen[v] += seen
            if v >= g:
                delay_below[v - g] += posterior - seen
            behind += posterior - seen
            if per_token:
                posterior = 0.0
                for j in range(1, top):
                    posterior += alpha[base_next + v, j] * beta[v, j]
                seen = posterior * density / arrives if arrives > 0.0 else 0.0
                delay_seen[v] += seen
                if v >= g:
                    delay_below[v - g] += posterior - seen
                behind += posterior - seen
        new[i] = fresh_start
        tied[i] = behind if per_token else behind + (1.0 - fresh_start)
        for u in range(a, b):
            out = 0.0
            for j in range(top):
                out += alpha[base + u, j] * (1.0 - hazards[j])
            leave[u] = out
        onward = conv[: b - a]
        onward[:] = 0.0
        for k in range(kernel):
            shift = g - step_first - k
            begin = max(a, lo - shift)
            size = min(b, hi - shift) - begin
            if size > 0:
                weight_k = step_pmf[k]
                source = weight[begin + shift : begin + shift + size]
                origin = leave[begin : begin + size]
                target = onward[begin - a : begin - a + size]
                seen = 0.0
                for q in range(size):
                    target[q] += weight_k * source[q]
                    seen += origin[q] * source[q]
                step_seen[k] += weight_k * seen
        for u in range(a, b):
            value = onward[u - a]
            out = leave[u]
            if use_slow:
                begin = max(lo, u + g - slow_last)
                end = min(hi, u + g - slow_first + 1)
                if end > begin:
                    part = slow_each * (gain[end] - gain[begin])
                    value += part
                    slow_seen[0] += out * part
                    slow_seen[1] += (
                        out * slow_each * ((u + g) * (gain[end] - gain[begin]) - (moment[end] - moment[begin]))
                    )
            v = u + g
            reachable = v >= lo and v < hi
            emission = 0.0
            if reachable:
                emission = inside[i]
                if per_token:
                    emission = delay_density[v] * fresh[i] + delay_cdf[u] * inside[i]
                emission *= inverse
            for j in range(top):
                ends = (1.0 - hazards[j]) * value
                if i > 0 or j < top - 1:  # the prefill's token is no burst
                    stopped[j] += alpha[base + u, j] * ends
                before[u, j] = ends
                if reachable and j < top - 1:
                    stays = hazards[j] * emission * beta[v, j + 1]
                    went[j] += alpha[base + u, j] * stays
                    before[u, j] += stays
        for u in range(a, b):
            for j in range(top):
                beta[u, j] = before[u, j]
    return total
