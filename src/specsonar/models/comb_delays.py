"""Which law the delays follow: normal, or skewed towards late tokens, by likelihood."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..stats.combfit import Comb, FloatArray, Problem
from ..stats.delays import EXPONENTIAL_KIND, LOGNORMAL_KIND, NORMAL_KIND, DelayLaw
from .comb_search import PART, part_of

PATHS = (
    (NORMAL_KIND, (0.0,)),
    (LOGNORMAL_KIND, (0.3, 0.45, 0.6, 0.75, 0.9, 1.05, 1.25, 1.5)),
    (EXPONENTIAL_KIND, (0.8, 0.4, 0.2, 0.1, 0.05)),
)
"""Shapes from nearly normal to very skewed."""

LEAD = 4.0
"""Nats by which a skewed law must beat the normal one, which has no shape to fit."""

FAINT = 0.15
"""A hazard below which a position may be there for stragglers only."""

PRICE = 3.0
"""Nats that a position has to earn."""

COARSE = 5.0
"""Spread, in smallest ones that the clock shows, below which delays have no shape."""

BEHIND = 3.0
"""Nats behind the best of a path at which it is not followed further."""


def likeliest(times: Sequence[FloatArray], floor: float, start: Comb) -> Comb:
    """`start`, climbed under the normal law, or the comb under the skewed law that leads it by `LEAD` nats.

    Laws are followed from nearly normal to very skewed, each climb from its neighbour's top: late tokens that the
    normal law gave to the next steps come home one by one. First with room for every burst, then with the bursts that
    were left: a position that takes but the stragglers of a law that is not skewed enough hides the right one.
    """
    some = part_of(times, PART)
    rough = Problem(some, floor, rough=True)
    found = []
    begin = replace(start, phase=start.phase[: len(some)])
    at, top = begin, -np.inf
    for kind, shapes in PATHS:
        wide = _path(rough, kind, shapes, at, top, {})
        if not wide:
            continue
        value, best = max(wide.values(), key=lambda x: x[0])
        if kind == NORMAL_KIND:
            at, top = best, value
            if at.sigma < COARSE * floor:
                break
        small = int(np.argmax(np.append(best.hazards, 0.0) < FAINT)) + 1
        tight = _path(rough, kind, shapes, None, -np.inf, {k: _cut(c, small) for k, (_, c) in wide.items()})
        lead = 0.0 if kind == NORMAL_KIND else LEAD
        found += [(_score(c, v) - lead, c) for way in (wide, tight) for v, c in way.values()]
    best = max(found, key=lambda x: x[0])[1] if found else begin
    return replace(best, step=start.step, phase=start.phase + float(np.mean(best.phase - begin.phase)))


def _path(
    rough: Problem, kind: int, shapes: Sequence[float], at: Comb | None, top: float, hints: dict[float, Comb]
) -> dict[float, tuple[float, Comb]]:
    """Log-likelihood and comb at each shape, and at the top of the parabola through the best three.

    Each climb starts from the one before (first: `at`) or from the hint at its shape, whichever gets higher.
    """
    seen: dict[float, tuple[float, Comb]] = {}
    for shape in shapes:
        starts = [c for c in (at, hints.get(shape)) if c is not None]
        if not starts:
            continue
        climbs = [rough.climb(_under(c, DelayLaw(kind, shape))) for c in starts]
        here, value = max(climbs, key=lambda x: x[1])
        if not np.isfinite(value):
            continue
        at = here
        seen[shape] = value, here
        top = max(top, value)
        if value < top - BEHIND:
            break
    order = sorted(seen)
    k = max(range(len(order)), key=lambda i: seen[order[i]][0], default=0)
    if 0 < k < len(order) - 1:
        x = np.log(order[k - 1 : k + 2])
        bend, slope, _ = np.polyfit(x, [seen[shape][0] for shape in order[k - 1 : k + 2]], 2)
        shape = float(np.exp(np.clip(-0.5 * slope / bend, x.min(), x.max())))
        here, value = rough.climb(_under(seen[order[k]][1], DelayLaw(kind, shape)))
        seen[shape] = value, here
    return seen


def _score(at: Comb, loglik: float) -> float:
    """Log-likelihood less `PRICE` for each position up to the last one that takes anything."""
    return loglik - PRICE * float(np.flatnonzero(at.hazards > 1e-3).max(initial=-1) + 1)


def _cut(at: Comb, most: int) -> Comb:
    return replace(at, hazards=at.hazards[: most - 1])


def _under(at: Comb, law: DelayLaw) -> Comb:
    """The comb under another law with the same median delay and the same density there."""
    (middle, width), (was, wide) = law.core(), at.law.core()
    sigma = at.sigma * wide / width
    hazards = np.clip(at.hazards, 0.02, 0.98)
    return replace(at, hazards=hazards, sigma=sigma, phase=at.phase + at.sigma * was - sigma * middle, law=law)
