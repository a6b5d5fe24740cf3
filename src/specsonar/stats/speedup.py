"""What a draft brings: tokens of a step over its cost, both in passes of the target that decode one token.

With E[B] tokens a step, v(M) for verifying M tokens in one pass, k drafts and c for drafting one of them,
speed-up = E[B] / (v(M) + k c). With one acceptance for all positions, a bonus token (M = k + 1) and v = 1 that is
(1 - alpha^(k+1)) / ((1 - alpha) (k c + 1)), theorem 3.8 of Leviathan et al. 2023. M tokens are verified under either
convention: the last token and k drafts where a bonus token can follow them all, the last token and k - 1 drafts where
the k-th draft can only end the step.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]


def lengths(hazards: npt.ArrayLike) -> FloatArray:
    """E[B] for M = 1..len(hazards)+1: a shorter draft meets the same acceptance at the positions that it keeps.

    >>> lengths([0.8, 0.8, 0.8]).round(3).tolist()
    [1.0, 1.8, 2.44, 2.952]
    >>> [round(float(x), 9) for x in lengths([0.9] * 400)[[0, -1]]]  # the limit of long drafts is 1 / (1 - alpha)
    [1.0, 10.0]
    """
    result: FloatArray = np.cumsum(
        np.cumprod(np.concatenate(([1.0], np.asarray(hazards, np.float64)))), dtype=np.float64
    )
    return result


def break_even(cost: float, max_burst: int) -> float | None:
    """The common acceptance at which a step of at most `max_burst` tokens gives as many as it costs; None above it.

    `cost` is v(M) + k c, in passes of the target. Solves E[B] = cost by bisection: E[B] rises with alpha, from 1 to M.

    >>> break_even(1.0, 5), break_even(6.0, 5), break_even(5.0, 5)
    (0.0, None, 1.0)
    >>> round(break_even(1.8, 2), 9)  # one draft: 1 + alpha tokens
    0.8
    """
    if cost > max_burst:
        return None
    if cost <= 1.0:
        return 0.0
    if cost == max_burst:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if lengths(np.full(max_burst - 1, middle))[-1] < cost:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def even_cost(
    length: float, verify: float, drafts: float, other_length: float, other_verify: float, other_drafts: float
) -> float | None:
    """The draft cost c at which two drafts are equally fast; None where one of them is faster at any c >= 0.

    E (v' + k' c) = E' (v + k c), solved for c. Above it the shorter draft is the faster one.

    >>> round(even_cost(1.8, 1.0, 1, 2.952, 1.0, 3), 3)
    0.471
    >>> round(1.8 / (1 + 0.4705882), 3) == round(2.952 / (1 + 3 * 0.4705882), 3)
    True
    """
    slope = length * other_drafts - other_length * drafts
    if slope == 0:
        return None
    c = (other_length * verify - length * other_verify) / slope
    return c if c >= 0 else None


def fastest(length: npt.ArrayLike, verify: npt.ArrayLike, drafts: npt.ArrayLike) -> list[tuple[float, float, int]]:
    """Which draft is the fastest from which draft cost c to which: (from, to, index), from c = 0 to infinity.

    Parameters
    ----------
    length, verify, drafts : E[B], v(M) and k of each candidate, shape (n,).

    >>> fastest([1.0, 1.8, 2.44], [1.0, 1.0, 1.0], [0, 1, 2])
    [(0.0, 0.5517241379310344, 2), (0.5517241379310344, 0.8, 1), (0.8, inf, 0)]
    """
    e, v, k = (np.asarray(x, np.float64).tolist() for x in (length, verify, drafts))
    found: list[tuple[float, float, int]] = []
    low = 0.0
    best = _best(e, v, k, low)
    while True:
        # only a shorter draft overtakes as c rises: the next is the one that does so first
        crossings = [
            (c, i) for i in range(len(k))
            if k[i] < k[best] and (c := even_cost(e[i], v[i], k[i], e[best], v[best], k[best])) is not None and c > low
        ]  # fmt: skip
        if not crossings:
            return [*found, (low, float("inf"), best)]
        high, _ = min(crossings)
        found.append((low, high, best))
        best = min((i for c, i in crossings if c == high), key=lambda i: k[i])
        low = high


def _best(e: Sequence[float], v: Sequence[float], k: Sequence[float], c: float) -> int:
    """The fastest at `c`, the shortest of those that are equally fast."""
    speed = [tokens / (pass_ + drafts * c) for tokens, pass_, drafts in zip(e, v, k, strict=True)]
    return min((i for i, s in enumerate(speed) if s >= max(speed) * (1 - 1e-12)), key=lambda i: k[i])


def interpolated(widths: Sequence[int], costs: Sequence[float], width: int) -> float:
    """The cost of verifying `width` tokens: linear between the measured ones, and on from the last two beyond them.

    >>> interpolated([1, 3], [1.0, 1.2], 2), round(interpolated([1, 3], [1.0, 1.2], 5), 9), interpolated([1], [1.0], 9)
    (1.1, 1.4, 1.0)
    """
    if width <= widths[-1] or len(widths) == 1:
        return float(np.interp(width, widths, costs))
    slope = (costs[-1] - costs[-2]) / (widths[-1] - widths[-2])
    return float(costs[-1] + max(slope, 0.0) * (width - widths[-1]))
