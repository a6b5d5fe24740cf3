"""In-order link with delays: the lateness filter, its laws, and their estimation.

A step takes S ~ Normal(step, sd), now and then a stray time; what it emits is delayed by D, a mixture of fixed
log-normal bumps that covers microseconds to stalls. One delay for all tokens of a step, or one for each token.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import erf, sqrt

import numpy as np
import numpy.typing as npt

from ..stats import gaplaw
from ..stats.gaps import Gaps
from ..stats.lateness import sweep
from .direct import updated_hazards

FloatArray = npt.NDArray[np.float64]

COARSE, FINE = 20, 40
"""Cells a step: to search for M, and for the numbers that are reported."""

_BUMP_RATIO = 1.5
_BUMP_SD = 0.35
_MOST_CELLS = 6000
_TINY = 1e-14

STALLED = 4.0
"""Stray steps that take more than so many steps on average are stalls of the path, and no part of the step time."""

WIDEST = 0.4
"""Longest gap inside a burst, in steps: a sender or a reader that had to wait for its processor."""

_OVER = 1.8

_TAIL = 8.3
"""Standard deviations beyond which double precision knows no share but 0 and 1."""


def normal_cdf(z: FloatArray) -> FloatArray:
    """Standard normal distribution, elementwise."""
    share = (z > 0).astype(np.float64)
    near = np.abs(z) < _TAIL
    share[near] = [0.5 * (1.0 + erf(x / sqrt(2.0))) for x in z[near]]
    return share


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """The lateness grid and the delay's bumps on it.

    Attributes
    ----------
    delta : seconds of a cell. jump : shape (n,), gaps in cells.
    density, cdf : shape (C, U), each bump per second and cumulated at the cells' centres.
    centres : shape (C,), the bumps' medians in seconds.
    """

    delta: float
    jump: npt.NDArray[np.int64]
    density: FloatArray
    cdf: FloatArray
    centres: FloatArray

    @property
    def cells(self) -> int:
        """U."""
        return int(self.density.shape[1])


@dataclass(frozen=True, slots=True, eq=False)
class Parameters:
    """Everything the filter needs besides the gaps.

    hazards : shape (M,), a_M = 0. weights : shape (C,), of the delay's bumps. step, step_sd : seconds.
    stray : probability of a stray step. inside : law of gaps between tokens that leave together.
    """

    hazards: FloatArray
    weights: FloatArray
    step: float
    step_sd: float
    stray: float
    inside: gaplaw.GapLaw
    per_token: bool


@dataclass(frozen=True, slots=True, eq=False)
class LateFit:
    """Parameters with what the filter says of the data under them.

    loglik : nats, density of the gaps in seconds. new : shape (n,), posterior that a gap starts a step.
    went, stopped : shape (M,). mean_step : seconds, stray steps included. jitter : standard deviation of the delay.
    """

    parameters: Parameters
    loglik: float
    new: FloatArray
    went: FloatArray
    stopped: FloatArray
    mean_step: float
    jitter: float

    @property
    def max_burst(self) -> int:
        """M."""
        return self.parameters.hazards.size


def make_grid(gaps: Gaps, step: float, cells_per_step: int = FINE) -> Grid:
    """A grid of `cells_per_step`, coarser only where a stall would need too many cells.

    The bumps depend on `step` and the data alone, so that their weights hold on grids of any fineness.
    """
    reach = 1.2 * float(gaps.gap.max()) + 4 * step
    delta = max(step / cells_per_step, reach / _MOST_CELLS)
    cells = int(reach / delta) + 2
    jump = np.empty(len(gaps), np.int64)
    for begin, end in zip(gaps.offsets[:-1], gaps.offsets[1:], strict=True):
        at = np.rint(np.cumsum(gaps.gap[begin:end]) / delta).astype(np.int64)
        jump[begin:end] = np.diff(at, prepend=0)
    centres = bump_centres(step, reach)
    edges = np.log(np.maximum(np.arange(cells + 1) * delta, 1e-12))
    at_edges = normal_cdf((edges[None, :] - np.log(centres)[:, None]) / _BUMP_SD)
    middle = np.log((np.arange(cells) + 0.5) * delta)
    at_middle = normal_cdf((middle[None, :] - np.log(centres)[:, None]) / _BUMP_SD)
    return Grid(delta, jump, np.diff(at_edges, axis=1) / delta, at_middle, centres)


def bump_centres(step: float, reach: float) -> FloatArray:
    """Medians of the delay's bumps, seconds: from about 1/80 of a step to the longest stall.

    They lie on one geometric ladder whatever the step, so that weights move between grids.
    """
    first = _BUMP_RATIO ** np.floor(np.log(step / (2 * FINE)) / np.log(_BUMP_RATIO))
    count = int(np.log(reach / first) / np.log(_BUMP_RATIO)) + 1
    centres: FloatArray = first * np.power(_BUMP_RATIO, np.arange(count, dtype=np.float64))
    return centres


def initial(gaps: Gaps, grid: Grid, cut: float, step: float, max_burst: int, *, per_token: bool) -> Parameters:
    """A neutral start: short delays likely, stalls possible, step noise of 15%."""
    weights = np.where(grid.centres < 0.3 * step, 1.0, 0.05)
    short = gaps.gap <= cut
    inside = gaplaw.initial(
        gaps.log[short], gaps.zero[short], 2, 0.002, cap=float(np.log(WIDEST * step)), most_tail=0.3
    )
    return Parameters(
        hazards=np.append(np.full(max_burst - 1, 0.6), 0.0),
        weights=weights / weights.sum(),
        step=step,
        step_sd=0.15 * step,
        stray=0.005,
        inside=inside,
        per_token=per_token,
    )


def _kernel(p: Parameters, delta: float) -> tuple[FloatArray, int]:
    """Probability that a step takes first + k cells, and `first`."""
    sd = max(p.step_sd, 0.35 * delta)
    first = max(1, int((p.step - 5 * sd) / delta))
    last = int((p.step + 5 * sd) / delta) + 1
    edges = (np.arange(first, last + 2, dtype=np.float64) - 0.5) * delta
    pmf = np.diff(normal_cdf((edges - p.step) / sd))
    return pmf / pmf.sum() * (1.0 - p.stray), first


def evaluate(gaps: Gaps, grid: Grid, p: Parameters, *, smooth: bool) -> tuple[float, dict[str, FloatArray]]:
    """Log-likelihood of all pieces, and the expectations of `stats.lateness.sweep` when `smooth`."""
    n, m = len(gaps), p.hazards.size
    law = p.inside.density(gaps.log, gaps.zero)
    inside = np.where(gaps.zero, law, law / np.exp(gaps.log)) + _TINY
    fresh = np.where(gaps.zero, max(gaps.tick, 1e-6), 1.0)
    density, cdf = p.weights @ grid.density, p.weights @ grid.cdf
    start = density / density.sum()
    pmf, first = _kernel(p, grid.delta)
    longest = int(max(gaps.gap.max() / grid.delta, first + pmf.size)) + 1
    e = {
        "new": np.zeros(n), "tied": np.zeros(n), "went": np.zeros(m), "stopped": np.zeros(m),
        "delay_seen": np.zeros(grid.cells), "delay_below": np.zeros(grid.cells),
        "step_seen": np.zeros(pmf.size), "stray_seen": np.zeros(2), "first": np.array([float(first)]),
    }  # fmt: skip
    total = 0.0
    for begin, end in zip(gaps.offsets[:-1], gaps.offsets[1:], strict=True):
        total += sweep(
            grid.jump[begin:end], inside[begin:end], fresh[begin:end], p.hazards, p.per_token,
            density, cdf, start, pmf, first, p.stray, longest, smooth,
            e["new"][begin:end], e["tied"][begin:end], e["went"], e["stopped"],
            e["delay_seen"], e["delay_below"], e["step_seen"], e["stray_seen"],
        )  # fmt: skip
        if not np.isfinite(total):
            break
    return total, e


def em(
    gaps: Gaps, grid: Grid, p: Parameters, *, rule: str = "free", rounds: int = 30, tolerance: float = 0.05
) -> LateFit:
    """Expectation-maximisation; `rule` as in `direct.em`."""
    last = -np.inf
    for turn in range(rounds):
        loglik, e = evaluate(gaps, grid, p, smooth=True)
        if not loglik - last > tolerance or turn == rounds - 1:
            break
        last = loglik
        p = _maximised(gaps, grid, p, e, rule, settle=turn < 2)
    k = e["first"][0] + np.arange(e["step_seen"].size)
    strays, stray_cells = e["stray_seen"]
    if stray_cells * grid.delta > STALLED * p.step * strays:
        strays = stray_cells = 0.0
    steps = e["step_seen"].sum() + strays
    mean = (k @ e["step_seen"] + stray_cells) / steps * grid.delta if steps > 0 else p.step
    return LateFit(p, loglik, e["new"], e["went"], e["stopped"], float(mean), _jitter(grid, p))


def _maximised(
    gaps: Gaps, grid: Grid, p: Parameters, e: dict[str, FloatArray], rule: str, *, settle: bool
) -> Parameters:
    """The M-step. While the delays settle in the first rounds, the step law stays."""
    step, sd, stray = p.step, p.step_sd, p.stray
    seen = e["step_seen"].sum()
    if seen > 0 and not settle:
        k = e["first"][0] + np.arange(e["step_seen"].size)
        mean = float(k @ e["step_seen"] / seen)
        variance = float((k - mean) ** 2 @ e["step_seen"] / seen)
        step = mean * grid.delta
        # the spread of steps and that of delays trade places slowly: go further in the direction of the EM step
        sd *= (sqrt(max(variance, 0.04)) * grid.delta / sd) ** _OVER
        stray = float(np.clip(e["stray_seen"][0] / (seen + e["stray_seen"][0]), 1e-6, 0.3))
    density, cdf = p.weights @ grid.density, p.weights @ grid.cdf
    share = grid.density @ (e["delay_seen"] / np.maximum(density, 1e-300))
    share += grid.cdf @ (e["delay_below"] / np.maximum(cdf, 1e-300))
    weights = p.weights * share + 1e-3
    return replace(
        p,
        hazards=updated_hazards(p.hazards, e["went"], e["stopped"], rule),
        weights=weights / weights.sum(),
        step=step,
        step_sd=sd,
        stray=stray,
        inside=p.inside.updated(gaps.log, gaps.zero, e["tied"], gaps.floor),
    )


def polished(gaps: Gaps, grid: Grid, p: Parameters) -> Parameters:
    """`p` with the spread of the steps at the top of a parabola through three log-likelihoods, twice.

    Steps and delays trade spread along a ridge that expectation-maximisation climbs too slowly.
    """
    for factor in (1.5, 1.2):
        trial = np.array([p.step_sd / factor, p.step_sd, p.step_sd * factor])
        low, middle, high = (evaluate(gaps, grid, replace(p, step_sd=float(sd)), smooth=False)[0] for sd in trial)
        bend = low - 2 * middle + high
        shift = 0.5 * (low - high) / bend if bend < 0 else float(np.sign(high - low))
        p = replace(p, step_sd=float(p.step_sd * factor ** np.clip(shift, -1.5, 1.5)))
    return p


def _jitter(grid: Grid, p: Parameters) -> float:
    """Standard deviation of the delays without their largest 2%: a stall is not jitter, and has its own finding."""
    mass = (p.weights @ grid.density) * grid.delta
    u = (np.arange(grid.cells) + 0.5) * grid.delta
    kept = np.where(np.cumsum(mass) - mass <= 0.98 * mass.sum(), mass, 0.0)
    mean = (kept @ u) / kept.sum()
    return float(sqrt(max(kept @ (u - mean) ** 2 / kept.sum(), 0.0)))


def at(p: Parameters, max_burst: int) -> Parameters:
    """The same laws with room for bursts of another length."""
    free = p.hazards[:-1]
    start = np.append(free, np.full(max_burst, free[-1] if free.size else 0.5))[: max_burst - 1]
    return replace(p, hazards=np.append(np.clip(start, 0.02, 0.98), 0.0))


def on(p: Parameters, grid: Grid) -> Parameters:
    """The same laws on a grid whose longest stall, and so whose number of bumps, is another."""
    missing = grid.centres.size - p.weights.size
    weights = np.append(p.weights, np.full(max(missing, 0), 1e-4))[: grid.centres.size]
    return replace(p, weights=weights / weights.sum())
