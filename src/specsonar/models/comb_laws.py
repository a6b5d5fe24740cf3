"""Which burst law: M and hazards by penalised likelihood, for either clock; and the record of the winner."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from ..stats.bursts import mean_burst, mean_slope
from ..stats.combfit import Comb
from ..stats.delays import NORMAL
from ..stats.result import LayerFit
from .comb_search import alpha_for_mean

FloatArray = npt.NDArray[np.float64]
FAR = 20.0  # nats behind the best at which smaller M are no longer tried


@dataclass(frozen=True, slots=True, eq=False)
class Drift:
    """A comb on a clock that drifts: step noise `wander` (standard deviation, seconds) beside `hazards`, `sigma` and
    `step` of `Comb`."""

    hazards: FloatArray
    sigma: float
    step: float
    wander: float
    loglik: float = -np.inf


P = TypeVar("P", Comb, Drift)


class Climber(Protocol[P]):
    """Maximises the likelihood from a start; gives up early below `give_up`."""

    def climb(self, at: P, *, common: bool = False, warm: int = 3, give_up: float = -np.inf) -> tuple[P, float]:
        """The maximum under free hazards, or under one alpha (`common`), and its log-likelihood."""


@dataclass(frozen=True, slots=True, eq=False)
class Laws(Generic[P]):
    """Fits under free hazards and under one alpha, with log-likelihoods, for every M tried; and the chosen M."""

    max_burst: int
    free: dict[int, P]
    free_ll: dict[int, float]
    one: dict[int, P]
    one_ll: dict[int, float]
    price: float

    def score(self, m: int) -> float:
        """Log-likelihood at M = `m` less the price of the hazards, under the better of the two laws."""
        alike = self.one_ll[m] - self.price * min(m - 1, 1)
        return max(self.free_ll[m] - self.price * (m - 1) - _faint(self.free[m].hazards), alike)


def choose(climber: Climber[P], best: P, guess: int, largest: int, steps: float) -> Laws[P]:
    """Climb over M from `guess`: BIC with `steps` observations, for the better of free hazards (M-1 parameters) and
    one alpha (1).

    One alpha has the same size at every M, so that the cut-off M is found from a single full burst; free hazards
    need the zero after M. A last hazard near zero has to earn its place (`_faint`). The smaller M wins a tie.
    """
    free: dict[int, P] = {}
    free_ll: dict[int, float] = {}
    one: dict[int, P] = {}
    one_ll: dict[int, float] = {}
    laws = Laws(1, free, free_ll, one, one_ll, 0.5 * float(np.log(max(steps, 2.0))))

    def visit(m: int) -> None:
        if m in free or not 1 <= m <= largest:
            return
        h = best.hazards
        hazards = np.clip(np.append(h[: m - 1], np.full(max(m - 1 - len(h), 0), 0.02)), 0.01, 0.99)
        at = replace(best, hazards=hazards)
        free[m], free_ll[m] = climber.climb(at, give_up=max(free_ll.values(), default=-np.inf) - 3 * FAR)
        if m <= 2:
            one[m], one_ll[m] = free[m], free_ll[m]
            return
        at = replace(free[m], hazards=np.full(m - 1, alpha_for_mean(mean_burst(free[m].hazards), m)))
        give_up = max(one_ll.values(), default=-np.inf) - 3 * FAR
        one[m], one_ll[m] = climber.climb(at, common=True, warm=1, give_up=give_up)

    m = min(guess, largest)
    while True:
        visit(m)
        visit(m + 1)
        if m + 1 in free and free[m + 1].hazards[m - 1] > 1e-3:
            visit(m + 2)
        for x in range(m - 1, 0, -1):
            visit(x)
            if free_ll[x] < max(free_ll.values()) - FAR:
                break
        winner = max(sorted(free), key=laws.score)
        if winner == m:
            return replace(laws, max_burst=m)
        best, m = free[winner], winner


def _faint(hazards: FloatArray) -> float:
    """Nats against a last hazard a below one half: -log 4a(1-a), a density that falls to zero at a = 0.

    Where delays are large, a few late tokens look like a further position that is almost never accepted. Published and
    recorded laws are level or rise with the position.
    """
    if hazards.size == 0 or hazards[-1] >= 0.5:
        return 0.0
    a = max(float(hazards[-1]), 1e-6)
    return -float(np.log(4 * a * (1 - a)))


def _beat_se(at: Comb | Drift, steps: float, streams: int) -> float:
    """Standard error of the step where the information is of no use: that of a straight line through the steps."""
    each = max(steps / max(streams, 1), 2.0)
    line = at.sigma * np.sqrt(12.0 / (streams * each**3))
    return float(np.hypot(line, getattr(at, "wander", 0.0) / np.sqrt(max(steps, 1.0))))


def record(
    laws: Laws[P],
    free_cov: FloatArray,
    one_cov: FloatArray,
    counts: FloatArray,
    bursts: tuple[npt.NDArray[np.int64], ...],
    others: int,
    extra: dict[str, float],
) -> LayerFit:
    """The `LayerFit` of the chosen M.

    Parameters
    ----------
    free_cov, one_cov : covariances of (logit hazards..., log sigma, step, ...) under the two laws; nan at a bound.
    counts : shape (M+1,), expected complete steps by size.
    others : free parameters beside the hazards.

    `extra` gains acceptance_length and acceptance_length_se (free hazards, delta method on their covariance), and
    the same under one alpha as acceptance_length_alpha and acceptance_length_alpha_se.
    """
    m = laws.max_burst
    at, alike = laws.free[m], laws.one[m]
    a = at.hazards
    spread = a * (1 - a)
    variance = np.diag(free_cov)
    deviation = np.sqrt(np.where(variance > 0, variance, np.nan))
    went = counts[::-1].cumsum()[::-1][2:]
    seen = went + counts[1:m]
    edge = np.sqrt((went + 0.5) * (counts[1:m] + 0.5) / (seen + 1) ** 3)
    se = deviation[: m - 1] * spread
    slope = mean_slope(a) * spread
    block = np.nan_to_num(free_cov[: m - 1, : m - 1])
    extra = {
        **extra,
        "acceptance_length": mean_burst(a),
        "acceptance_length_se": float(np.sqrt(max(float(slope @ block @ slope), 0.0))),
    }
    alpha = alpha_se = float("nan")
    if m > 1:
        alpha = float(alike.hazards[0])
        logit_se = np.sqrt(max(float(np.nan_to_num(one_cov[0, 0])), 0.0))
        # where the information is of no use, that of the expected bursts is the least there can be
        alpha_se = float(logit_se * alpha * (1 - alpha) or np.sqrt(alpha * (1 - alpha) / max(seen.sum(), 1.0)))
        extra["acceptance_length_alpha"] = mean_burst(alike.hazards)
        extra["acceptance_length_alpha_se"] = alpha_se * float(mean_slope(alike.hazards).sum())
    return LayerFit(
        layer="independent",
        max_burst=m,
        loglik_by_burst=dict(sorted(laws.free_ll.items())),
        hazards=a,
        hazards_se=np.where(np.isfinite(se) & (se > 0), se, edge),
        alpha=alpha,
        alpha_se=alpha_se,
        alpha_loglik=laws.one_ll[m] if m > 1 else float("nan"),
        burst_counts=counts[1:],
        bursts=bursts,
        step_s=at.step,
        step_se=float(deviation[m]) if np.isfinite(deviation[m]) else _beat_se(at, float(counts.sum()), len(bursts)),
        step_sd=float(getattr(at, "wander", 0.0)),
        jitter_s=at.sigma,
        jitter_se=float(np.nan_to_num(deviation[m - 1])) * at.sigma,
        parameters=m - 1 + others,
        loglik=laws.free_ll[m],
        extra=extra,
        delay_law=at.law if isinstance(at, Comb) else NORMAL,
    )
