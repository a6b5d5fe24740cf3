"""Plain decoding behind a buffer: what arrives together is what was produced since the last flush.

A timer, a buffer of bytes, a proxy, or a client that reads in blocks makes bursts that look like speculation. But the
number of tokens delivered then follows the clock: N(t) stays within a bounded distance of t / s, while under
speculation it walks away from every straight line. So the sizes are predicted by a local-level model (Harvey 1989)
of whole tokens:

    N_r = floor(A_r / s + level_r + e_r),   level_r = level_{r-1} + w_r

given that each flush brings at least one token, since nobody sees one of none. The rest, the law of the gaps between
flushes, is the same as for speculation.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..fingerprint import BUFFERED, IN_ORDER_LAYER
from ..stats.gaps import Gaps
from .explanation import Explanation
from .late import normal_cdf

FloatArray = npt.NDArray[np.float64]

FEWEST_FLUSHES = 8

FEWEST = 1.05
"""Tokens a flush, on average, below which a buffer would make no difference to anybody."""

FEW = 1.5
"""The same, below which only a timer is looked for: steps may take longer when they bring more, as in other buffers."""

SIZES = 3.0
"""Free parameters of the sizes: the pace and two noises."""

FIRST = 16
"""Flushes from which a timer's period is found first."""

REGULAR = 0.9
"""Share of the flushes of a timer that must come one period after another."""

FINER = 0.15
"""Part of a token's time within which flushes follow a timer. Those that wait for a token scatter by .375 of it."""

HOPELESS = 80.0
"""Nats behind the bursts at which a buffer is given up."""

SMALL = 8
"""A buffer never delivers less than such a part of the most that it delivers; a draft does."""

_CELL = 0.1
_GRID = np.arange(-40, 50) * _CELL
_MARGIN = 80
_LEVEL = np.array([0.0, 0.05, 0.12, 0.22, 0.4, 1.2])
_NOISE = np.array([0.03, 0.12, 0.3, 0.8])
"""Tokens: noise of the production between two flushes, which stays; and of the flush, which does not."""


def _spread(sd: float) -> FloatArray:
    """Matrix that spreads a distribution on the grid and its margins by noise of `sd`, and cuts the margins off."""
    apart = np.abs(np.arange(-_MARGIN, _GRID.size + _MARGIN)[:, None] - np.arange(_GRID.size))
    reach = int(np.ceil(4 * sd / _CELL))
    share = np.exp(-0.5 * (np.arange(reach + 1) * _CELL / sd) ** 2) if sd > 0 else np.ones(1)
    share /= share[0] + 2 * share[1:].sum()
    return np.where(apart <= reach, share[np.minimum(apart, reach)], 0.0)


_SPREADS = np.stack([_spread(float(sd)) for sd in _LEVEL])


def explain(
    gaps: Gaps, new: FloatArray, hazards: FloatArray, went: FloatArray, stopped: FloatArray, loglik: float,
    parameters: float,
) -> list[Explanation]:  # fmt: skip
    """The buffered explanation: the gaps of a fitted burst model, and sizes from the clock; none with few flushes.

    Parameters
    ----------
    new, hazards, went, stopped, loglik : of the burst model; its log-likelihood less that of the bursts is kept.
    parameters : free parameters of its gap laws.
    """
    flushes: list[FloatArray] = []
    sizes: list[FloatArray] = []
    for begin, end in zip(gaps.offsets[:-1], gaps.offsets[1:], strict=True):
        start = np.flatnonzero(new[begin:end] > 0.5)
        if start.size < 3:
            continue
        at = np.cumsum(gaps.gap[begin:end])[start]
        flushes.append(at[:-1])
        sizes.append(np.diff(start).astype(np.float64))
    flushed = sum(s.size for s in sizes)
    if flushed < FEWEST_FLUSHES or (mean := sum(float(s.sum()) for s in sizes) / flushed) < FEWEST:
        return []
    timer = instants(flushes)
    accounts = [at for at in (flushes if mean >= FEW else [], timer) if at]
    if not accounts:
        return []
    bursts = burst_loglik(hazards, went, stopped)
    walk, pace = max(sizes_loglik(at, sizes, bursts - HOPELESS) for at in accounts)
    if stopped[: max(hazards.size // SMALL, 1)].sum() < 0.5 + 0.005 * flushed:
        # drafts behind a buffer scatter its counts beyond the level's noise, and no draft fails to fail early
        walk = max(walk, scatter_loglik(flushes, sizes, pace))
    return [
        Explanation(
            BUFFERED, IN_ORDER_LAYER, loglik - bursts + walk, parameters + SIZES, None,
            {"flush_s": _period(flushes, timer, pace), "pace_s": pace},
        )
    ]  # fmt: skip


def instants(flushes: list[FloatArray]) -> list[FloatArray]:
    """When a timer made the flushes that arrived at these times; [] where they do not come one period after another.

    A packet that is late tells nothing of what was produced before the flush. A delay is never negative, so the timer's
    instants are the multiples of the period before the arrivals, one flush each; the phase is where few lie below.
    """
    made: list[FloatArray] = []
    period = float(np.median(np.concatenate([np.diff(at) for at in flushes])))
    if not period > 0:
        return []
    for at in flushes:
        own, phase, size = period, float(at[0]), FIRST
        while True:  # what is found from some is good enough to number twice as many
            part = at[:size]
            for _ in range(2):
                number = np.rint((part - phase) / own)
                rest = part - own * number
                near = np.abs(rest - np.median(rest)) < own / 4
                centred = number[near] - number[near].mean()
                if not centred.any():
                    return []
                own = float(centred @ part[near] / (centred @ centred))
                phase = float(part[near].mean() - own * number[near].mean())
            if size >= at.size:
                break
            size *= 2
        order = np.arange(at.size)
        number = np.floor((at - np.quantile(at - own * number, 0.02)) / own + 0.02) - order
        number = np.minimum.accumulate(number[::-1])[::-1] + order
        if np.mean(np.diff(number) == 1) < REGULAR:
            return []
        made.append(own * number)
    return made


def _period(flushes: list[FloatArray], timer: list[FloatArray], pace: float) -> float:
    """The timer's period, seconds; NaN without one, and where flushes may as well wait for a token as for a timer."""
    if not timer:
        return float("nan")
    late = [at - ticks for at, ticks in zip(flushes, timer, strict=True)]
    if np.quantile(np.abs(np.concatenate([rest - np.median(rest) for rest in late])), 0.75) > FINER * pace:
        return float("nan")
    return float(np.median(np.concatenate([np.diff(ticks) for ticks in timer])))


def burst_loglik(hazards: FloatArray, went: FloatArray, stopped: FloatArray) -> float:
    """Log-probability of the bursts themselves: sum went log a + stopped log(1 - a)."""
    a = np.clip(hazards[:-1], 1e-12, 1 - 1e-12)
    return float(went[:-1] @ np.log(a) + stopped[:-1] @ np.log1p(-a))


def sizes_loglik(flushes: list[FloatArray], sizes: list[FloatArray], least: float = -np.inf) -> tuple[float, float]:
    """Log-likelihood of the sizes given the flush times, and the production time.

    What is known after each flush is the distribution of x = A / s + level - N on a grid; a flush that brings n tokens
    after time g moves it by g / s - n and spreads it by the level's noise, and then 0 <= x + e < 1 must hold.

    Parameters
    ----------
    flushes : per stream, shape (r,), seconds; what arrives at flush r is what was produced before it.
    sizes : per stream, shape (r,), tokens.
    least : below this the answer does not matter, and what was reached so far is returned.

    Returns
    -------
    nats, the maximum over a few sizes of the two noises, and seconds per token.
    """
    span = sum(float(f[-1] - f[0]) for f in flushes if f.size > 1)
    tokens = sum(float(s[1:].sum()) for s in sizes)
    pace = span / max(tokens, 1.0)
    if not pace > 0:
        return -np.inf, pace
    inside = normal_cdf((1.0 - _GRID) / _NOISE[:, None]) - normal_cdf(-_GRID / _NOISE[:, None])
    # by size: whether a flush at that instant could as well have brought nothing
    none = {n: normal_cdf((1.0 - n - _GRID) / _NOISE[:, None]) for n in np.unique(np.concatenate(sizes)).tolist()}
    total = np.zeros((_LEVEL.size, _NOISE.size))
    for at, size in zip(flushes, sizes, strict=True):
        start = np.where((_GRID >= 0) & (_GRID < 1), 1.0, 1e-6)
        known = np.broadcast_to(start / start.sum(), (_LEVEL.size, _NOISE.size, _GRID.size))
        for made, n in zip((np.diff(at) / pace).tolist(), size[1:].tolist(), strict=True):
            known = _moved(known, made - n)
            # nobody sees a flush of nothing
            seen = known.sum(-1) - (known * none[n]).sum(-1)
            known = known * inside
            mass = known.sum(-1)
            total += np.log(np.maximum(mass / np.maximum(seen, mass), 1e-12))
            if total.max() < least:
                return float(total.max()), pace
            known = known / np.maximum(mass, 1e-300)[..., None]
        # the first size fixes the level; any law would have had to say it
        total -= np.log(max(float(size.max()), 1.0))
    return float(total.max()), pace


def scatter_loglik(flushes: list[FloatArray], sizes: list[FloatArray], pace: float) -> float:
    """Log-likelihood of sizes that scatter freely about what the time since the last flush gives, nats.

    N_r ~ whole part of Normal(g_r / pace, sd^2), flush by flush; the first size of a stream has no time of its own.

    Parameters
    ----------
    flushes, sizes, pace : as in, and from, `sizes_loglik`.
    """
    if not pace > 0:
        return -np.inf
    most = max(float(size.max()) for size in sizes)
    rest = np.concatenate([size[1:] - np.diff(at) / pace for at, size in zip(flushes, sizes, strict=True)])
    sd = max(float(np.sqrt(np.mean(rest**2))), 0.3)
    share = normal_cdf((rest + 0.5) / sd) - normal_cdf((rest - 0.5) / sd)
    return float(np.log(np.maximum(share, 1e-12)).sum()) - len(sizes) * float(np.log(max(most, 1.0)))


def _moved(known: FloatArray, move: float) -> FloatArray:
    """`known`, shape (levels, noises, grid), shifted by `move` tokens and spread by each level's noise."""
    steps = move / _CELL
    whole = int(np.floor(steps))
    part = steps - whole
    size = _GRID.size
    wide = np.zeros((*known.shape[:2], size + 2 * _MARGIN))
    first = whole + _MARGIN
    if not 0 <= first < 2 * _MARGIN:
        return np.full(known.shape, 1e-9)
    wide[..., first : first + size] = (1 - part) * known
    wide[..., first + 1 : first + 1 + size] += part * known
    # a little everywhere, so that one odd flush does not end the explanation
    return wide @ _SPREADS + 1e-6 / size
