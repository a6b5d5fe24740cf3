"""One explanation of the data, fitted and scored on the same footing as its rivals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ..stats.gaps import Gaps
from ..stats.result import LayerFit

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Explanation:
    """A model of `fingerprint.VERDICTS` with its evidence.

    Attributes
    ----------
    model : the verdict it stands for.
    layer : observation layer it was fitted in.
    loglik : nats, density of the times in seconds.
    parameters : free parameters, for the penalty.
    refit : gaps of all streams -> `fit` on them, started from here; None where `fit` covers all data already.
    penalty : what else fitting it cost, nats (`stats.bursts.law_penalty`).
    fit : what it says about the burst law; None for explanations without one.
    extra : numbers of its own (chunk size, flush period).
    draw : (tokens, generator) -> event times of one simulated stream, seconds; None when it cannot be simulated.
    """

    model: str
    layer: str
    loglik: float
    parameters: float
    fit: LayerFit | None = None
    extra: dict[str, float] = field(default_factory=dict)
    draw: Callable[[int, np.random.Generator], FloatArray] | None = None
    penalty: float = 0.0
    refit: Callable[[Gaps], LayerFit] | None = None

    def score(self, observations: int) -> float:
        """Log-likelihood less half of log n for each parameter (Schwarz 1978) and less the penalty, nats."""
        return self.loglik - 0.5 * self.parameters * float(np.log(max(observations, 2))) - self.penalty


def weights(explanations: list[Explanation], observations: int) -> dict[str, float]:
    """Share of the evidence for each model: exp(score), best layer of each model, summing to one.

    The scores are divided by nothing: with hundreds of tokens the weights are nearly always 0 and 1.
    """
    best: dict[str, float] = {}
    for e in explanations:
        score = e.score(observations)
        if np.isfinite(score):
            best[e.model] = max(best.get(e.model, -np.inf), score)
    if not best:
        return {}
    top = max(best.values())
    raw = {model: float(np.exp(score - top)) for model, score in best.items()}
    total = sum(raw.values())
    return dict(sorted(((m, w / total) for m, w in raw.items()), key=lambda item: -item[1]))
