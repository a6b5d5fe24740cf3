"""Events that are cut loose from steps: text held back until a character is complete, so that counts jump.

Tokens come in bursts; an event is sent with the token that completes a character and carries the tokens since the
event before it. The hidden state at a token is (j, m): its position in its burst, and the steps begun since the last
event. A token goes on in the burst with probability a_j, to (j+1, m), or begins a step, to (1, m+1); at the last token
of an event the gap is seen, with density G[m], and m starts again at 0. m = 0: the event came in the same burst as the
one before it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


@njit(cache=True, nogil=True)
def sweep(
    counts: IntArray, density: FloatArray, hazards: FloatArray, went: FloatArray, stopped: FloatArray, steps: FloatArray
) -> float:
    """Log-likelihood of one stream by forward-backward, and expectations.

    Parameters
    ----------
    counts : shape (n+1,), tokens of each event; the first token of the first event is the prefill's and stands alone.
    density : shape (n, K+1); G[i, m] of the gap before event i+1 given that m = 0..K steps began (K: K or more).
    hazards : shape (M,), a_M = 0.
    went, stopped : shape (M,), added to: expected tokens that went on past position j, or were the last of their burst.
    steps : shape (n, K+1), written: probability that m steps began with each event.
    """
    top, most, total = hazards.size, density.shape[1] - 1, int(counts.sum())
    event = np.full(total, -1, np.int64)
    at = -1
    for i in range(counts.size):
        at += counts[i]
        event[at] = i
    alpha = np.zeros((total, top, most + 1))  # after m was reset
    before = np.zeros((total, top, most + 1))  # before, at the last token of an event; with the density
    alpha[0, top - 1, 0] = 1.0
    scale = np.ones(total)
    logs = 0.0
    for t in range(1, total):
        here = before[t]
        for j in range(top):
            for m in range(most + 1):
                value = alpha[t - 1, j, m]
                if value > 0.0:
                    if j + 1 < top:
                        here[j + 1, m] += value * hazards[j]
                    here[0, min(m + 1, most)] += value * (1.0 - hazards[j])
        i = event[t]
        if i > 0:
            for j in range(top):
                for m in range(most + 1):
                    here[j, m] *= density[i - 1, m]
        norm = here.sum()
        if not norm > 0.0:
            return -np.inf
        scale[t] = norm
        logs += np.log(norm)
        for j in range(top):
            for m in range(most + 1):
                here[j, m] /= norm
                alpha[t, j, 0 if i >= 0 else m] += here[j, m]
    beta = np.ones((top, most + 1))  # of the state after the reset
    for t in range(total - 1, 0, -1):
        i = event[t]
        if i > 0:
            for m in range(most + 1):
                steps[i - 1, m] = 0.0
                for j in range(top):
                    steps[i - 1, m] += before[t, j, m] * beta[j, 0]
        for j in range(top):
            value = beta[j, 0]
            for m in range(most + 1):
                if i >= 0:
                    before[t, j, m] = value * (density[i - 1, m] if i > 0 else 1.0)  # now the backward message
                else:
                    before[t, j, m] = beta[j, m]
        fresh = np.zeros((top, most + 1))
        for j in range(top):
            for m in range(most + 1):
                stop = (1.0 - hazards[j]) * before[t, 0, min(m + 1, most)] / scale[t]
                go = hazards[j] * before[t, j + 1, m] / scale[t] if j + 1 < top else 0.0
                went[j] += alpha[t - 1, j, m] * go
                stopped[j] += alpha[t - 1, j, m] * stop
                fresh[j, m] = go + stop
        beta = fresh
    return logs


@njit(cache=True, nogil=True)
def most_probable(counts: IntArray, density: FloatArray, hazards: FloatArray) -> IntArray:
    """Sizes of the bursts on the most probable path (Viterbi), the last one cut; the prefill's token left out."""
    top, most, total = hazards.size, density.shape[1] - 1, int(counts.sum())
    event = np.full(total, -1, np.int64)
    at = -1
    for i in range(counts.size):
        at += counts[i]
        event[at] = i
    best = np.full((top, most + 1), -np.inf)
    best[top - 1, 0] = 0.0
    came_j = np.zeros((total, top, most + 1), np.int64)
    came_m = np.zeros((total, top, most + 1), np.int64)
    for t in range(1, total):
        new = np.full((top, most + 1), -np.inf)
        for j in range(top):
            for m in range(most + 1):
                if best[j, m] == -np.inf:
                    continue
                for stop in range(2):
                    p = 1.0 - hazards[j] if stop else hazards[j]
                    j2, m2 = (0, min(m + 1, most)) if stop else (j + 1, m)
                    if j2 >= top or p <= 0.0:
                        continue
                    value = best[j, m] + np.log(p)
                    i = event[t]
                    if i > 0:
                        value += np.log(max(density[i - 1, m2], 1e-300))
                    if i >= 0:
                        m2 = 0
                    if value > new[j2, m2]:
                        new[j2, m2] = value
                        came_j[t, j2, m2] = j
                        came_m[t, j2, m2] = m
        best = new
    j, m = 0, 0
    for a in range(top):
        for b in range(most + 1):
            if best[a, b] > best[j, m]:
                j, m = a, b
    sizes = []
    length = 0
    for t in range(total - 1, 0, -1):
        length += 1
        if j == 0:
            sizes.append(length)
            length = 0
        j, m = came_j[t, j, m], came_m[t, j, m]
    out = np.empty(len(sizes), np.int64)
    for k in range(len(sizes)):
        out[k] = sizes[len(sizes) - 1 - k]
    return out
