"""The independent layer's explanations: what a fitted comb may mean.

With a delay of its own for every token, two never arrive at the same instant. Where the clock shows ties, each has
the probability density times tick, so that the likelihood is of the same data as that of the in-order layer, which
gives ties a probability of their own.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..fingerprint import AUTOREGRESSIVE, FIXED_CHUNKS, INDEPENDENT_LAYER, SPECULATIVE
from ..stats.bursts import law_penalty, oddity
from ..stats.gaps import FINEST, prepare
from ..stats.result import Arrays, LayerFit
from . import draw, independent
from .buffered import burst_loglik
from .direct import SLIP
from .explanation import Explanation

MOST_TOKENS = 60_000
"""More tokens than this add nothing that the first ones have not settled; the comb's cost is high."""


def explain(streams: Sequence[Arrays]) -> list[Explanation]:
    """Speculation, plain decoding or fixed chunks, with a delay of its own for every token.

    Nothing where the layer is out of the question: `independent.plausible` says so.
    """
    streams = _some(streams)
    if not independent.plausible(streams):
        return []
    fit = independent.fit(streams)
    gaps = prepare(streams)
    ties = float(gaps.zero.sum()) * float(np.log(max(gaps.tick, FINEST)))
    if fit.max_burst == 1:
        return [_explanation(AUTOREGRESSIVE, fit, fit.loglik + ties, 0.0)]
    counts = fit.burst_counts
    went = np.append(np.cumsum(counts[::-1])[::-1][1:], 0.0)
    one, free = (law_penalty(went[:-1], counts[:-1], rule) for rule in ("one", "free"))
    loglik, penalty = max((fit.alpha_loglik, one), (fit.loglik, free), key=lambda pair: pair[0] - pair[1])
    found = [_explanation(SPECULATIVE, fit, loglik + ties, penalty + oddity(went[:-1], counts[:-1]))]
    chunk = int(np.argmax(counts)) + 1
    if chunk > 1:
        without = fit.loglik + ties - burst_loglik(np.append(fit.hazards, 0.0), went, counts)
        slips = float(counts.sum() - counts[chunk - 1])
        extra = {"chunk": float(chunk)}
        found.append(
            Explanation(FIXED_CHUNKS, INDEPENDENT_LAYER, without + slips * np.log(SLIP), _gap_laws(fit), fit, extra)
        )
    return found


def _some(streams: Sequence[Arrays]) -> Sequence[Arrays]:
    """The first streams, up to about `MOST_TOKENS`."""
    ends = np.cumsum([s.t.size for s in streams])
    return streams[: int(np.searchsorted(ends, MOST_TOKENS)) + 1]


def _gap_laws(fit: LayerFit) -> float:
    """Free parameters beside the burst law."""
    return float(fit.parameters - (fit.max_burst - 1))


def _explanation(model: str, fit: LayerFit, loglik: float, penalty: float) -> Explanation:
    return Explanation(
        model, INDEPENDENT_LAYER, loglik, _gap_laws(fit), fit, penalty=penalty,
        draw=lambda n, rng: draw.independent(fit, n, rng),
    )  # fmt: skip
