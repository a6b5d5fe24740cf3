"""Output that is paced on purpose: gaps more equal than any decoder makes them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..fingerprint import AUTOREGRESSIVE, IN_ORDER_LAYER, PACED
from ..stats.result import Arrays
from .explanation import Explanation

EVEN = 0.004
"""Relative spread of the gaps below which they are paced: decoders scatter by 1% and more, clocks by far less."""

MOST = 0.8
"""Share of the gaps that must be this even. A queue that runs empty now and then makes the others."""


def explain(streams: Sequence[Arrays], found: Sequence[Explanation]) -> Explanation | None:
    """Paced output, with the likelihood of even gaps; None when the gaps are not even.

    A perfectly regular decoder would look the same; but none is known, and what is behind a pacer cannot be seen in
    either case. So where gaps are even, "paced" takes the place of plain decoding.
    """
    gap = np.concatenate([np.diff(s.t) for s in streams])
    if gap.size < 20:
        return None
    centre = float(np.median(gap))
    if centre <= 0 or np.mean(np.abs(gap / centre - 1) < EVEN) < MOST:
        return None
    plain = max((e.loglik for e in found if e.model == AUTOREGRESSIVE), default=-np.inf)
    best = max((e.loglik for e in found), default=plain)
    return Explanation(PACED, IN_ORDER_LAYER, best + 10.0, 2.0, None, {"pace_s": centre})
