"""What a fitted layer hands on: numbers about the speculative law, free of files, verdicts and words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from .delays import NORMAL, DelayLaw

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Arrays:
    """One stream as the statistics see it.

    Attributes
    ----------
    t : shape (n,), seconds since the first event, not decreasing.
    tokens : shape (n,), tokens of each event, or None where an event is one token by assumption.
    resolution : tick of the clock in seconds; 0 for a clock finer than the data.
    """

    t: FloatArray
    tokens: npt.NDArray[np.int64] | None = None
    resolution: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class LayerFit:
    """A speculative law fitted to streams that share it.

    Attributes
    ----------
    layer : observation layer, as in `fingerprint.LAYERS`.
    max_burst : the M with the largest penalised likelihood.
    loglik_by_burst : {M: maximised log-likelihood} for every M that was tried, natural logarithm, same data measure.
    hazards : shape (M-1,), P(B > j | B >= j) for j = 1..M-1, free of each other.
    hazards_se : shape (M-1,), standard errors from the observed information.
    alpha, alpha_se : the common hazard and its standard error; nan when M = 1.
    alpha_loglik : log-likelihood at max_burst under one alpha, or nan; twice the lead of the free hazards is
        chi-square with M-2 degrees of freedom under one alpha.
    burst_counts : shape (M,), expected number of complete steps of each size given the data, all streams.
    bursts : per stream, the most probable sizes of the complete steps, in order; shape (r,) each.
    step_s, step_se : mean step time and standard error, seconds.
    step_sd : spread of single step times, seconds (0 for an exact clock).
    jitter_s, jitter_se : spread (standard deviation) of the delivery delay, seconds.
    parameters : free parameters at max_burst, for penalties.
    loglik : log-likelihood at the optimum.
    extra : layer-specific numbers for reports (merge probability, stalls...).
    delay_law : shape of the delivery delay's law, where the layer knows laws by name.
    begins : for each gap of all streams, the probability that a step begins after it; None where the layer hides it.
    gaps_below : distribution of the gaps, seconds -> probability, shape (n,) -> (n,); None where only a simulation of
        the explanation tells.
    """

    layer: str
    max_burst: int
    loglik_by_burst: dict[int, float]
    hazards: FloatArray
    hazards_se: FloatArray
    alpha: float
    alpha_se: float
    alpha_loglik: float
    burst_counts: FloatArray
    bursts: tuple[npt.NDArray[np.int64], ...]
    step_s: float
    step_se: float
    step_sd: float
    jitter_s: float
    jitter_se: float
    parameters: int
    loglik: float
    extra: dict[str, float] = field(default_factory=dict)
    begins: FloatArray | None = None
    gaps_below: Callable[[FloatArray], FloatArray] | None = None
    delay_law: DelayLaw = NORMAL
