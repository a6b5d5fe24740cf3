"""Run-length hidden Markov model: which gaps separate steps, and how long the runs between them are.

The hidden state is the position j = 1..M of a token in its burst. A gap either continues the burst (probability
a_j, density `inside`) or starts the next step (probability 1 - a_j, density `between`). The densities are
computed by the caller, gap by gap, so the kernels know nothing of clocks or laws.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

ELSEWHERE = 0.1
"""Probability that the first token of a stream is not the prefill's, alone, but stands anywhere in a burst."""
LEAST, MOST = 1e-30, 1e30
"""Bounds of the sum of the forward variables between two rescalings."""


@njit(cache=True)
def forward_backward(
    inside: FloatArray, between: FloatArray, offsets: IntArray, hazards: FloatArray, new: FloatArray, went: FloatArray,
    stopped: FloatArray,
) -> float:  # fmt: skip
    """Log-likelihood and expectations of the run-length model (Rabiner 1989, with scaling).

    Parameters
    ----------
    inside, between : shape (n,), density of each gap inside a burst and between two steps.
    offsets : shape (streams+1,), gaps of stream k are offsets[k]..offsets[k+1]. The token before the first gap
        most probably stands at position M (the prefill's token, alone); the burst at the end may be cut.
    hazards : shape (M,), a_1..a_{M-1} and a_M = 0.
    new : shape (n,), written: posterior probability that the gap starts a step.
    went, stopped : shape (M,), written: expected bursts that continued past, or ended at, each position.

    Returns
    -------
    log-likelihood in nats; minus infinity when the data are impossible under the hazards.
    """
    top = hazards.size
    total = 0.0
    went[:] = 0.0
    stopped[:] = 0.0
    longest = 0
    for k in range(offsets.size - 1):
        longest = max(longest, offsets[k + 1] - offsets[k])
    f = np.empty((longest + 1, top))
    scale = np.empty(longest + 1)
    b = np.empty(top)
    back = np.empty(top)
    ends = 1.0 - hazards
    for k in range(offsets.size - 1):
        first = offsets[k]
        n = offsets[k + 1] - first
        f[0, :] = ELSEWHERE / top
        f[0, top - 1] += 1.0 - ELSEWHERE
        norm = 1.0
        for i in range(n):
            starts = 0.0
            for j in range(top):
                starts += f[i, j] * ends[j]
            f[i + 1, 0] = starts * between[first + i]
            norm = f[i + 1, 0]
            for j in range(1, top):
                value = f[i, j - 1] * (hazards[j - 1] * inside[first + i])
                f[i + 1, j] = value
                norm += value
            if not norm > 0.0:
                return -np.inf
            # A division at every gap would take most of the time, so the sum is left to wander within bounds.
            scale[i + 1] = 1.0
            if not LEAST < norm < MOST:
                scale[i + 1] = 1.0 / norm
                for j in range(top):
                    f[i + 1, j] /= norm
                total += np.log(norm)
                norm = 1.0
        total += np.log(norm)
        # The same scales on the way back make the sum over positions of f * b the same at every gap: 1.
        b[:] = 1.0 / norm
        for i in range(n - 1, -1, -1):
            begin = between[first + i] * scale[i + 1] * b[0]
            onward = inside[first + i] * scale[i + 1]
            probability = 0.0
            for j in range(top):
                back[j] = ends[j] * begin
                last = f[i, j] * back[j]
                probability += last
                if i > 0 or j < top - 1:  # the prefill's token is no burst
                    stopped[j] += last
                if j < top - 1:
                    step = hazards[j] * onward * b[j + 1]
                    went[j] += f[i, j] * step
                    back[j] += step
            new[first + i] = probability
            for j in range(top):
                b[j] = back[j]
    return total
