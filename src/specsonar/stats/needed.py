"""How much has to be recorded: the errors that the information in the data allows, turned round.

The estimators reach these errors wherever the steps can be told apart (benchmarks/results/calibration.md), so what
follows from them is what is needed. A half-width shrinks with the square root of the data.
"""

from __future__ import annotations

from math import cosh, inf, log, sinh, sqrt, tanh

import numpy as np
import numpy.typing as npt

from .bursts import mean_burst, pmf


def scaled(have: float, width: float, wanted: float) -> float:
    """How much data shrinks an interval of `width`, seen with `have` of them, to the width `wanted`.

    >>> scaled(600, 0.10, 0.05), scaled(600, 0.05, 0.10)
    (2400.0, 150.0)
    """
    return have * (width / wanted) ** 2


def length_variance(hazards: npt.ArrayLike) -> float:
    """Var(B) / E[B]^2: relative variance of the acceptance length, times the number of steps.

    >>> round(length_variance([1.0, 1.0]), 12), round(length_variance([0.5]), 4)  # 1 or 2 tokens: .25 / 1.5^2
    (0.0, 0.1111)
    """
    p = pmf(hazards)
    b = np.arange(1, p.size + 1)
    mean = float(p @ b)
    return max(float(p @ b**2) - mean**2, 0.0) / mean**2


def pooled(hazards: npt.ArrayLike) -> float:
    """The one acceptance rate that draft positions with these acceptances show: accepted over looked at.

    >>> round(pooled([0.8, 0.8]), 9), round(pooled([1.0, 0.5]), 9)
    (0.8, 0.75)
    """
    p = pmf(hazards)
    b = np.arange(1, p.size + 1)
    return float(p @ (b - 1) / (p @ np.minimum(b, p.size - 1)))


def alpha_variance(hazards: npt.ArrayLike) -> float:
    """Relative variance of `pooled`, times the number of steps: that of a ratio of sums.

    With one alpha for all it is (1 - alpha) / (alpha sum_{j=0}^{M-2} alpha^j), the binomial one of the oracle.

    >>> a = 0.8
    >>> bool(np.isclose(alpha_variance([a] * 3), (1 - a) / (a * (1 + a + a * a))))
    True
    """
    p = pmf(hazards)
    b = np.arange(1, p.size + 1)
    trials = np.minimum(b, p.size - 1)
    alpha = pooled(hazards)
    rest = (b - 1) - alpha * trials
    return float(p @ rest**2) / (float(p @ trials) * alpha) ** 2


def step_variance(steps: float, walk: float, noise: float) -> float:
    """Variance of the mean step from the arrivals of one stream: step times vary by `walk`, each arrival by `noise`.

    Generalised least squares for a random walk seen through noise (a local level model, Harvey 1989): walk^2 / steps
    without noise, and that of a straight line, 12 noise^2 / steps^3, without a walk. Units: those of `walk`, squared.

    >>> round(step_variance(100, 0.05, 0.0), 9), round(step_variance(100, 0.0, 1.0) * 100 * 101 * 102, 6)
    (2.5e-05, 12.0)
    >>> r, q, s = 7, 0.3, 0.8  # against the inverse of the covariance of the gaps
    >>> sigma = (q**2 + 2 * s**2) * np.eye(r) - s**2 * (np.eye(r, k=1) + np.eye(r, k=-1))
    >>> bool(np.isclose(step_variance(r, q, s), 1 / np.linalg.inv(sigma).sum()))
    True
    """
    if noise <= 0:
        return walk**2 / steps
    if walk < 1e-4 * noise / steps:
        return 12 * noise**2 / (steps * (steps + 1) * (steps + 2))
    theta = 2 * np.arcsinh(walk / (2 * noise))  # cosh theta = 1 + walk^2 / (2 noise^2)
    reach = tanh(steps * theta / 2)
    lost = reach / sinh(theta / 2) / (cosh(theta / 2) + sinh(theta / 2) * reach)
    return walk**2 / max(steps - lost, 1e-12)


def full_bursts(hazards: npt.ArrayLike, level: float) -> int:
    """Bursts of the largest size after which a larger one can be ruled out at `level`.

    Each would have gone on with about the last acceptance; that none did must have a chance below (1 - level) / 2. One
    more, because that acceptance is an estimate itself.

    >>> full_bursts([0.8] * 3, 0.95), full_bursts([0.6] * 7, 0.95), full_bursts([0.3] * 3, 0.95)
    (4, 6, 12)
    """
    a = np.asarray(hazards, np.float64)
    onward = min(float(a[-1]), float(a.mean()))
    if onward >= 1:
        return 2
    return int(np.ceil(log((1 - level) / 2) / log(1 - onward))) + 1 if onward > 0 else 1 << 31


def steps_with_full(hazards: npt.ArrayLike, level: float, sure: float) -> float:
    """Steps among which there are `full_bursts` of the largest size with probability `sure` (Poisson).

    >>> round(steps_with_full([0.8] * 3, 0.95, 0.9)), round(steps_with_full([0.6] * 7, 0.95, 0.9))
    (13, 331)
    """
    from scipy.special import gammaincinv  # scipy costs a third of a second, and forward plans do without

    reach = float(np.prod(np.asarray(hazards, np.float64)))
    return float(gammaincinv(full_bursts(hazards, level), sure)) / reach if reach > 0 else inf


def steps_in(tokens: float, hazards: npt.ArrayLike) -> float:
    """Complete steps in a stream: the first token is the prefill's, the last step is cut.

    >>> round(steps_in(601, [0.8] * 3), 1)
    202.8
    """
    return max((tokens - 1) / mean_burst(hazards) - 0.5, 0.0)


def tokens_for(steps: float, hazards: npt.ArrayLike) -> float:
    """The other way round.

    >>> round(tokens_for(steps_in(600, [0.8] * 3), [0.8] * 3), 9)
    600.0
    """
    return (steps + 0.5) * mean_burst(hazards) + 1


def tokens_for_steps(steps: float, hazards: npt.ArrayLike, sure: float) -> float:
    """Tokens after which at least `steps` steps are complete with probability `sure`: their sum is about normal.

    >>> tokens_for_steps(8, [0.8] * 3, 0.9) > tokens_for(8, [0.8] * 3)
    True
    """
    from statistics import NormalDist

    spread = sqrt(length_variance(hazards) * steps) * mean_burst(hazards)
    return tokens_for(steps, hazards) + NormalDist().inv_cdf(sure) * spread
