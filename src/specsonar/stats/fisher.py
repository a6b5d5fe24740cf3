"""What nobody can beat: the Fisher information of tokens with independent delays, by simulation under the model.

The bound of Cramer and Rao is the inverse of the expected information. That is the mean, over streams drawn from the
model, of minus the second derivative of the log-likelihood at the truth; `combfit` has it exactly for each stream.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .bursts import mean_slope, pmf
from .combfit import Comb, FloatArray, Problem
from .delays import NORMAL, DelayLaw


@dataclass(frozen=True, slots=True)
class Bound:
    """Least standard errors of unbiased estimates from one stream; K streams: divide by the root of K.

    Attributes
    ----------
    alpha, length : of the common hazard and of the acceptance length.
    spread : of sigma, as a share of it.
    step : of the step, as a share of it.
    oracle : of alpha for one who sees every burst.
    """

    alpha: float
    length: float
    spread: float
    step: float
    oracle: float


def bound(
    alpha: float, max_burst: int, spread: float, tokens: int, *, law: DelayLaw = NORMAL, draws: int = 24, seed: int = 0
) -> Bound:
    """The bound for streams of `tokens` tokens at `spread` = sigma / step.

    Parameters
    ----------
    draws : simulated streams; 24 give the bound to about 2%.

    Raises
    ------
    ValueError : no step has room for a draft, or a delay without spread.
    """
    if max_burst < 2 or spread <= 0:
        raise ValueError("the bound needs max_burst >= 2 and a spread above 0")
    hazards = np.full(max_burst - 1, alpha)
    rng = np.random.default_rng(seed)
    infos = []
    trials = 0.0
    for _ in range(draws):
        t, sizes = _stream(hazards, spread, tokens, law, rng)
        middle = float(round(0.5 * (t[0] + t[-1])))
        problem = Problem([t], 1e-6)
        at = Comb(hazards, spread, 1.0, np.array([middle]), law)
        problem.build(at)
        infos.append(problem.information(at, common=True))
        trials += float(np.minimum(sizes, max_burst - 1).sum())
    covariance = np.linalg.inv(np.nanmean(infos, axis=0))
    error = np.sqrt(np.diag(covariance))
    slope = alpha * (1 - alpha)
    return Bound(
        float(error[0]) * slope, float(error[0] * slope * mean_slope(hazards).sum()), float(error[1]), float(error[2]),
        float(np.sqrt(slope * draws / trials)),
    )  # fmt: skip


def _stream(
    hazards: FloatArray, spread: float, tokens: int, law: DelayLaw, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Sorted times in steps, shape (tokens,), and the complete bursts: the prefill's token left out, the last cut."""
    p = pmf(hazards)
    sizes = rng.choice(p.size, size=tokens, p=p / p.sum()) + 1
    ready = np.repeat(np.arange(tokens, dtype=np.float64), sizes)[:tokens]
    whole = sizes[: int(np.searchsorted(np.cumsum(sizes), tokens))]
    return np.sort(ready + spread * law.sample(tokens, rng)), whole.astype(np.float64)
