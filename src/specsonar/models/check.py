"""The absolute check: does the winner produce data like these at all?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ..stats.result import Arrays
from .explanation import Explanation

FloatArray = npt.NDArray[np.float64]

BINS = 10
TOLERATED = 0.12
"""Share of gaps, or of runs, that a useful model may misplace. Real engines are never exactly any model."""

_CHANCE = 0.7
"""Times the root of bins over events: about twice the total variation that chance makes between equal laws."""

_LONGEST_RUN = 12
_SIMULATED = 20_000


def misfit(best: Explanation, streams: Sequence[Arrays], seed: int) -> tuple[float, float]:
    """Distance between the data and a simulation of the fitted explanation, and the largest distance allowed.

    The distance is the larger of two total variations: of the gaps (in deciles) and of the runs of short gaps (up to
    12). Allowed is `TOLERATED` and twice what chance adds at this many events.

    Returns
    -------
    (0.0, TOLERATED) for an explanation that cannot be simulated.
    """
    if best.draw is None:
        return 0.0, TOLERATED
    rng = np.random.default_rng(seed)
    made = np.diff(best.draw(_SIMULATED, rng))
    seen = np.concatenate([np.diff(s.t) for s in streams])
    tick = max(s.resolution for s in streams)
    finest = max(1e-6, 0.6 * tick)
    border = np.empty(0)
    if (seen > finest).any():
        border = np.unique(np.quantile(seen[seen > finest], np.arange(1, BINS) / BINS))
    # just below the deciles, so that a gap which comes again and again lies on one side with its neighbours
    edges = np.concatenate(([finest], 0.97 * border))
    gaps = _variation(np.searchsorted(edges, seen), np.searchsorted(edges, made), edges.size + 1)
    runs = 0.0
    chance = _CHANCE * np.sqrt(edges.size / max(seen.size, 1))
    if best.fit is not None:
        # steps without a draft are steps too, however short beside the others
        cut = 0.4 * min(best.fit.step_s, best.fit.extra.get("plain_s", np.inf))
        ours = np.concatenate([_runs(np.diff(s.t), cut) for s in streams])
        theirs = _runs(made, cut)
        if ours.size > 20 and theirs.size > 20:
            runs = _variation(ours, theirs, _LONGEST_RUN + 1)
            chance = max(chance, _CHANCE * float(np.sqrt(min(ours.max(), _LONGEST_RUN) / ours.size)))
    return max(gaps, runs), TOLERATED + float(chance)


def _variation(a: npt.NDArray[np.int64], b: npt.NDArray[np.int64], bins: int) -> float:
    """Total variation between two samples of whole numbers below `bins`."""
    p = np.bincount(a, minlength=bins) / max(a.size, 1)
    q = np.bincount(b, minlength=bins) / max(b.size, 1)
    return float(0.5 * np.abs(p - q).sum())


def _runs(gap: FloatArray, cut: float) -> npt.NDArray[np.int64]:
    """Tokens between neighbouring gaps above the cut, at most `_LONGEST_RUN`."""
    return np.minimum(np.diff(np.flatnonzero(gap > cut)), _LONGEST_RUN).astype(np.int64)
