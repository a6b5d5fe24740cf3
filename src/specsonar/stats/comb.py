"""Unordered tokens on a comb of steps: the exact likelihood, by a sweep over the points in time.

Step r stands at time T_r and sends B_r tokens, B_r ~ P on 1..M; each token arrives at T_r + D, D independent of all
others with mean 0, standard deviation sigma and density f (`delays`), and only the sorted arrivals t_1 <= ... <= t_n
are seen. Summing over every assignment z of points to steps,

    p(t) = sum_z  prod_i f(t_i - T_z(i))  prod_r P(n_r) n_r!,      n_r = #{i: z(i) = r},

because n_r! orders of one step's tokens lead to the same sorted points. The sum is a sweep: points in time order,
state = how many tokens each reachable step has taken so far; a point adds one token to one reachable step, a step
out of reach is closed with P(n) n!. States are kept as a layered graph, pruned where their share of the forward sum
is negligible, so a fit builds the graph once and evaluates likelihood and expectations on it many times: the
function that is optimised is smooth.

Ends: no step before the first one with a token exists; that first step is complete or has lost one token (the dropped
first event of the stream); the last step with a token is cut by the length limit and weighted with P(B >= n) n!. A step
without tokens between the two has probability EMPTY instead of 0, so that a pause does not make it all zero; more
tokens at once than the steps in reach can have sent do (log-likelihood -inf).
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from numba import njit

from .delays import NOWHERE, log_density

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
EMPTY = 1e-12
STARTED = 1 << 62
LIVE = 1024  # most states kept after one layer
TABLE = 1 << 14
WIDE = 8  # most steps open at once


def step_weights(probabilities: FloatArray) -> FloatArray:
    """Weights of a step by its token count n = 0..M; shape (3, M+1): complete, first, last.

    complete: P(n) n!; first: (P(n) + P(n+1)) n! / 2; last: P(B >= n) n!. `probabilities` is P(1..M), shape (M,).

    >>> step_weights(np.array([0.5, 0.5]))[:, 2]
    array([1. , 0.5, 1. ])
    """
    m = len(probabilities)
    p = np.concatenate(([0.0], probabilities, [0.0]))
    factorial = np.array([math.factorial(n) for n in range(m + 1)], np.float64)
    tail = np.cumsum(p[::-1])[::-1]
    out = np.stack((p[:-1], 0.5 * (p[:-1] + p[1:]), tail[:-1])) * factorial
    out[:, 0] = (EMPTY, 1.0, 1.0)
    return out


@njit(cache=True, nogil=True, error_model="numpy")
def reachable(
    t: FloatArray, steps: FloatArray, sigma: float, reach: float, width: int, kind: int, shape: float
) -> tuple[IntArray, IntArray]:
    """First and last step that each point can belong to; shapes (n,), both non-decreasing.

    Left out are steps from which the point is e^-reach less likely than from the likeliest step.
    """
    n, r = len(t), len(steps)
    lo, hi = np.empty(n, np.int64), np.empty(n, np.int64)
    a, b, near = 0, 0, 0
    for i in range(n):
        best = log_density((t[i] - steps[near]) / sigma, kind, shape)[0]
        while near + 1 < r:
            after = log_density((t[i] - steps[near + 1]) / sigma, kind, shape)[0]
            if after < best:
                break
            best = after
            near += 1
        while a < near and log_density((t[i] - steps[a]) / sigma, kind, shape)[0] < best - reach:
            a += 1
        b = max(b, near)
        while b + 1 < r and log_density((t[i] - steps[b + 1]) / sigma, kind, shape)[0] >= best - reach:
            b += 1
        lo[i] = a
        hi[i] = max(min(b, a + width - 1), near)
        if hi[i] - lo[i] >= width:
            a = hi[i] - width + 1
            lo[i] = a
        if i > 0 and hi[i] < hi[i - 1]:
            hi[i] = hi[i - 1]
    return lo, hi


@njit(cache=True, nogil=True, error_model="numpy")
def _terminal(key: int, bits: int, weights: FloatArray) -> float:
    """Weight of the steps that are still open after the last point."""
    started = key & STARTED
    rest = key & (STARTED - 1)
    mask = (1 << bits) - 1
    w = 1.0
    while rest:
        n = rest & mask
        rest >>= bits
        if rest == 0:
            w *= weights[2, n]
        elif started:
            w *= weights[0, n]
        elif n > 0:
            w *= weights[1, n]
            started = STARTED
    return w


@njit(cache=True, nogil=True, error_model="numpy")
def build(
    t: FloatArray,
    steps: FloatArray,
    sigma: float,
    weights: FloatArray,
    reach: float,
    prune: float,
    bits: int,
    kind: int,
    shape: float,
) -> tuple[IntArray, IntArray, IntArray, npt.NDArray[np.int32], IntArray, IntArray]:
    """The pruned graph of states for points `t`, shape (n,), and step times `steps`, shape (R,), both sorted.

    Returns lo, hi (see `reachable`); offset of the nodes of each layer, shape (L+1,); offset of its edges; node ->
    node edges (-1: pruned); the packed counts of every node. A layer closes the lowest open step, or takes the next
    point when that point reaches the lowest open step; the last layer holds the final states.
    """
    m = weights.shape[1] - 1
    lo, hi = reachable(t, steps, sigma, reach, min(60 // bits, WIDE), kind, shape)
    n = len(t)
    mask = (1 << bits) - 1
    layers = n + lo[n - 1] - lo[0] + 1
    node_off = np.zeros(layers + 1, np.int64)
    edge_off = np.zeros(layers + 1, np.int64)
    keys = np.empty(64 * layers, np.int64)
    edges = np.empty(128 * layers, np.int32)
    table = np.empty(TABLE, np.int64)
    stamp = np.zeros(TABLE, np.int64)
    mass = np.empty(TABLE, np.float64)
    fresh = np.empty(TABLE, np.int64)
    remap = np.empty(TABLE, np.int32)
    now = np.empty(LIVE, np.float64)
    phi = np.empty(WIDE, np.float64)
    keys[0] = 0
    now[0] = 1.0
    live = 1
    node_off[1] = 1
    i, low = 0, lo[0]
    for layer in range(layers - 1):
        start = node_off[layer]
        e0 = edge_off[layer]
        takes = lo[i] == low if i < n else False
        width = hi[i] - lo[i] + 1 if takes else 1
        if e0 + live * width > len(edges):
            grown = np.empty(2 * len(edges) + live * width, np.int32)
            for x in range(e0):
                grown[x] = edges[x]
            edges = grown
        if takes:
            best = NOWHERE
            for k in range(width):
                phi[k] = log_density((t[i] - steps[low + k]) / sigma, kind, shape)[0]
                best = max(best, phi[k])
            for k in range(width):
                phi[k] = math.exp(phi[k] - best)
        made = 0
        total = 0.0
        e = e0
        for u in range(live):
            key = keys[start + u]
            for k in range(width):
                if takes:
                    count = (key >> (k * bits)) & mask
                    if count >= m:
                        edges[e] = -1
                        e += 1
                        continue
                    new = key + (1 << (k * bits))
                    w = now[u] * phi[k]
                else:
                    count = key & mask
                    begun = key & STARTED
                    new = (key & (STARTED - 1)) >> bits
                    if begun:
                        w = now[u] * weights[0, count]
                        new |= STARTED
                    else:
                        w = now[u] * weights[1, count]
                        if count > 0:
                            new |= STARTED
                if w < 1e-290 or made >= TABLE * 3 // 4:
                    edges[e] = -1
                    e += 1
                    continue
                slot = ((new * 0x9E3779B97F4A7C1) ^ (new >> 23)) & (TABLE - 1)
                while stamp[slot] == layer + 1 and fresh[table[slot]] != new:
                    slot = (slot + 1) & (TABLE - 1)
                if stamp[slot] != layer + 1:
                    stamp[slot] = layer + 1
                    table[slot] = made
                    fresh[made] = new
                    mass[made] = 0.0
                    made += 1
                mass[table[slot]] += w
                total += w
                edges[e] = table[slot]
                e += 1
        floor = prune * total
        kept = LIVE + 1
        while kept > LIVE:
            kept = 0
            for v in range(made):
                if mass[v] >= floor:
                    kept += 1
            if kept > LIVE:
                floor *= 4.0
        base = node_off[layer + 1]
        if base + kept > len(keys):
            wider = np.empty(2 * len(keys) + kept, np.int64)
            for x in range(base):
                wider[x] = keys[x]
            keys = wider
        kept = 0
        for v in range(made):
            if mass[v] >= floor:
                remap[v] = kept
                keys[base + kept] = fresh[v]
                now[kept] = mass[v] / total
                kept += 1
            else:
                remap[v] = -1
        for x in range(e0, e):
            if edges[x] >= 0:
                edges[x] = remap[edges[x]]
        live = kept
        edge_off[layer + 1] = e
        node_off[layer + 2] = base + kept
        if takes:
            i += 1
        else:
            low += 1
    return lo, hi, node_off, edges, edge_off, keys


@njit(cache=True, nogil=True, error_model="numpy")
def sweep(
    t: FloatArray,
    steps: FloatArray,
    sigma: float,
    weights: FloatArray,
    bits: int,
    kind: int,
    shape: float,
    lo: IntArray,
    hi: IntArray,
    node_off: IntArray,
    edges: npt.NDArray[np.int32],
    edge_off: IntArray,
    keys: IntArray,
) -> tuple[float, FloatArray, FloatArray, FloatArray]:
    """Log-likelihood and expectations given the data, on the graph of `build`.

    Returns log p(t) in nats; moments, shape (R, 3): expected number of tokens of each step, sum of their pulls, sum of
    delay times pull; sizes, shape (R, M+1): P(step r is complete and has n tokens | t); ends, shape (2, M+1): the same
    for the first and for the last step (which `sizes` leaves out). The pull of a delay d = sigma u is -sigma times the
    derivative of log f at u: d itself under the normal law.
    """
    m = weights.shape[1] - 1
    n, layers = len(t), len(node_off) - 1
    mask = (1 << bits) - 1
    forward = np.zeros(node_off[layers], np.float64)
    scale = np.ones(layers, np.float64)
    took = np.zeros(layers, np.bool_)
    forward[0] = 1.0
    phi, pull = np.empty((n, WIDE), np.float64), np.empty((n, WIDE), np.float64)
    loglik = -n * math.log(sigma)
    for i in range(n):
        best = NOWHERE
        for k in range(hi[i] - lo[i] + 1):
            phi[i, k], slope = log_density((t[i] - steps[lo[i] + k]) / sigma, kind, shape)
            pull[i, k] = sigma * slope
            best = max(best, phi[i, k])
        loglik += best
        for k in range(hi[i] - lo[i] + 1):
            phi[i, k] = math.exp(phi[i, k] - best)
    i, low = 0, lo[0]
    for layer in range(layers - 1):
        a, b, c = node_off[layer], node_off[layer + 1], node_off[layer + 2]
        e = edge_off[layer]
        if i < n and lo[i] == low:
            width = hi[i] - low + 1
            for u in range(a, b):
                for k in range(width):
                    v = edges[e]
                    e += 1
                    if v >= 0:
                        forward[b + v] += forward[u] * phi[i, k]
            took[layer] = True
            i += 1
        else:
            for u in range(a, b):
                v = edges[e]
                e += 1
                if v >= 0:
                    forward[b + v] += forward[u] * weights[0 if keys[u] & STARTED else 1, keys[u] & mask]
            low += 1
        total = 0.0
        for v in range(b, c):
            total += forward[v]
        if not total > 0.0:
            return -np.inf, np.zeros((1, 3)), np.zeros((1, m + 1)), np.zeros((2, m + 1))
        for v in range(b, c):
            forward[v] /= total
        scale[layer + 1] = total
        loglik += math.log(total)
    moments = np.zeros((len(steps), 3), np.float64)
    sizes = np.zeros((len(steps), m + 1), np.float64)
    ends = np.zeros((2, m + 1), np.float64)
    a, b = node_off[layers - 1], node_off[layers]
    back = np.zeros(LIVE, np.float64)
    older = np.zeros(LIVE, np.float64)
    total = 0.0
    for u in range(a, b):
        back[u - a] = _terminal(keys[u], bits, weights)
        total += forward[u] * back[u - a]
    if not total > 0.0:
        return -np.inf, moments, sizes, ends
    loglik += math.log(total)
    for u in range(a, b):
        back[u - a] /= total
        post = forward[u] * back[u - a]
        rest, r, started = keys[u] & (STARTED - 1), low, keys[u] & STARTED
        while rest:
            count = rest & mask
            rest >>= bits
            if rest == 0:
                ends[1, count] += post
            elif started:
                sizes[r, count] += post
            elif count > 0:
                ends[0, count] += post
                started = STARTED
            r += 1
    for layer in range(layers - 2, -1, -1):
        a, b = node_off[layer], node_off[layer + 1]
        e = edge_off[layer]
        if took[layer]:
            i -= 1
            width = hi[i] - low + 1
            for u in range(a, b):
                s = 0.0
                f = forward[u] / scale[layer + 1]
                for k in range(width):
                    v = edges[e]
                    e += 1
                    if v >= 0:
                        q = phi[i, k] * back[v]
                        s += q
                        q *= f
                        moments[low + k, 0] += q
                        moments[low + k, 1] += q * pull[i, k]
                        moments[low + k, 2] += q * pull[i, k] * (t[i] - steps[low + k])
                older[u - a] = s / scale[layer + 1]
        else:
            low -= 1
            for u in range(a, b):
                v = edges[e]
                e += 1
                older[u - a] = 0.0
                if v >= 0:
                    count = keys[u] & mask
                    started = keys[u] & STARTED
                    w = weights[0 if started else 1, count] * back[v] / scale[layer + 1]
                    older[u - a] = w
                    if started:
                        sizes[low, count] += forward[u] * w
                    elif count > 0:
                        ends[0, count] += forward[u] * w
        back, older = older, back
    return loglik, moments, sizes, ends
