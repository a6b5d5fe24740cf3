"""Backward: how many tokens and streams it takes to know something."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import ceil, inf, isfinite, log1p, sqrt
from statistics import NormalDist
from typing import Final

import numpy as np

from .. import ratios
from ..errors import UsageError
from ..fingerprint import COUNTED_LAYER, INDEPENDENT_LAYER, LAYERS, Estimate, Fingerprint
from ..planned import (
    ACCEPTANCE_LENGTH,
    ACCEPTANCE_RATE,
    CHANGE_OF_LENGTH,
    CHANGE_OF_STEP,
    MAX_BURST,
    SPECULATION,
    STEP,
    TARGETS,
    DataPlan,
    Need,
    Setting,
)
from ..stats import intervals, needed, period
from . import words
from .service import given, measured

USUAL_CV: Final = 0.05
"""Coefficient of variation of step times where none is given; 0 for independent delays, as in the founding article."""

MOST: Final = 10**9
"""Tokens beyond which no recording goes."""

_TOLD_TO: Final = 1.0
"""Jitter over step up to which the in-order layer was measured to lose nothing (benchmarks/plan.py)."""


def plan_data(
    known: Fingerprint | None = None, *, k: int | None = None, alpha: float | Sequence[float] = 0.8,
    bonus: bool = True, step_ms: float = 20.0, jitter_ms: float = 0.0, step_cv: float | None = None,
    spread: float = 0.0, tokens_per_stream: int = 600, precision: float = 0.05, change: float | None = None,
    layers: Sequence[str] | None = None, targets: Sequence[str] = TARGETS, level: float = 0.95, sure: float = 0.9,
) -> DataPlan:  # fmt: skip
    """Tokens and streams that it takes to know how a service decodes.

    An interval needs what its information says: binomial for the acceptance, Var(B) for the acceptance length, a random
    walk seen through the delays for the step. Telling speculation from plain decoding and finding M also need enough
    steps and full bursts; with independent delays the step has to be found first, which grows steeply with jitter over
    step. `plan.check` simulates recordings of these sizes.

    Parameters
    ----------
    known : a service that was measured: its settings, and the intervals that it reached, take the place of the numbers.
    k, bonus, alpha : drafted tokens (3 when not given), the convention, and the acceptance, as of `plan_speed`.
    step_ms, jitter_ms : of a step, and standard deviation of the delay, milliseconds.
    step_cv : coefficient of variation of the step times; when not given 0.05, and 0 with independent delays.
    spread : relative standard deviation of acceptance length and step from one stream to the next.
    tokens_per_stream : length of an answer.
    precision : half-width of an interval over its value.
    change : relative change to be found between two recordings; as `precision` when not given.
    layers : ways of observing (counted, in-order, independent); all when not given, or that of `known`.
    targets : of `TARGETS`.
    level : of the intervals.
    sure : probability with which a question of yes or no is answered right.

    Raises
    ------
    UsageError : a value that cannot be. InputError : `known` shows no speculation.

    >>> found = plan_data(jitter_ms=6, step_ms=20, precision=0.05, targets=["acceptance_rate"])
    >>> [(n.layer, n.tokens) for n in found.needs]
    [('counted', 468), ('in-order', 468), ('independent', 524)]
    """
    change = precision if change is None else change
    for name, value in (("precision", precision), ("change", change)):
        if not isfinite(value) or not 0.0005 <= value <= 1:
            raise UsageError(f"a {name} of {value:g} is out of range", "it is a share, from 0.05% to 100%")
    for name, value in (("level", level), ("sure", sure)):
        if not 0.5 <= value < 1:
            raise UsageError(f"{name} = {value:g} is no probability between 0.5 and 1", "0.9 is customary")
    for name in targets:
        if name not in TARGETS:
            raise UsageError(f"nothing is called {name!r}", f"ask for {', '.join(TARGETS)}")
    if known is not None:
        setting, layers = _of(known, tokens_per_stream, spread), layers or ([known.layer] if known.layer else None)
    else:
        setting = _setting(k, alpha, bonus, step_ms, jitter_ms, step_cv, spread, tokens_per_stream)
    for name in layers or ():
        if name not in LAYERS:
            raise UsageError(f"no layer is called {name!r}", f"use {', '.join(LAYERS)}")
    bare = DataPlan("", setting, precision, change, level, sure, (), ())
    needs = tuple(_need(target, layer, bare, known) for target in targets for layer in layers or LAYERS)
    return words.told(replace(bare, needs=needs), _assumed(setting, layers or LAYERS, known))


def _setting(
    k: int | None, alpha: float | Sequence[float], bonus: bool, step_ms: float, jitter_ms: float,
    step_cv: float | None, spread: float, tokens: int,
) -> Setting:  # fmt: skip
    single = isinstance(alpha, int | float)
    if k is None:
        k = 3 if single else len(alpha) + (0 if bonus else 1)  # type: ignore[arg-type]
    burst = k + 1 if bonus else k
    if not 2 <= burst <= 512:
        raise UsageError(f"k = {k} leaves nothing to be accepted", "a step has to give two tokens at least")
    each = tuple(a.value for a in given(alpha, burst - 1))
    if len(each) != burst - 1:
        raise UsageError(f"{len(each)} acceptances for {burst - 1} positions", f"give one for all, or {burst - 1}")
    if not 0 < each[0] <= 1 or not all(each):
        raise UsageError("an acceptance of 0 ends every draft there", "give a smaller k")
    for name, value, low, high in (
        ("step", step_ms, 0.001, 3_600_000), ("jitter", jitter_ms, 0, 60_000), ("cv", step_cv or 0.0, 0, 2),
        ("spread", spread, 0, 1),
    ):  # fmt: skip
        if not isfinite(value) or not low <= value <= high:
            raise UsageError(f"{name} = {value:g} is out of range", f"allowed are values from {low:g} to {high:g}")
    if tokens < 2:
        raise UsageError(f"streams of {tokens} tokens show nothing", "give a length from 2 tokens on")
    return Setting(burst, each, step_ms, jitter_ms, step_cv, spread, tokens)


def _of(found: Fingerprint, tokens: int, spread: float) -> Setting:
    """The settings of a service that was measured."""
    known = measured(found)
    assert known.max_burst is not None
    step = found.step_ms.value if found.step_ms is not None else 20.0
    jitter = found.jitter_ms.value if found.jitter_ms is not None else 0.0
    each = found.tokens / found.streams if found.tokens and found.streams else tokens
    hazards = tuple(min(max(a.value, 1e-6), 1.0) for a in known.acceptance)
    return Setting(known.max_burst, hazards, step, jitter, None, spread or _between(found), max(round(each), 2))


def _between(found: Fingerprint) -> float:
    """Relative standard deviation of the acceptance length between streams, beyond that of their steps."""
    each = [s for s in found.by_stream or () if s.steps >= 1]
    if len(each) < intervals.FEW_STREAMS:
        return 0.0
    lengths = np.array([s.tokens / s.steps for s in each])
    mean = float(lengths.mean())
    inner = needed.length_variance([a.value for a in found.acceptance_by_position or ()])
    chance = inner * float(np.mean([1 / s.steps for s in each]))
    return sqrt(max(float(lengths.var(ddof=1)) / mean**2 - chance, 0.0))


def _need(target: str, layer: str, plan: DataPlan, known: Fingerprint | None) -> Need:
    setting, z = plan.setting, intervals.quantile(plan.level)
    least, floor = _floor(layer, setting, plan.sure)
    probability = plan.level if target in (ACCEPTANCE_RATE, ACCEPTANCE_LENGTH, STEP) else plan.sure
    streams, per_stream = 1, setting.tokens_per_stream
    if target in (CHANGE_OF_LENGTH, CHANGE_OF_STEP):
        what = "acceptance length" if target == CHANGE_OF_LENGTH else "step time"
        wanted = f"{what} changed {plan.change * 100:.3g}%"
        streams = _streams_for_change(_relative(target, layer, setting), setting, plan)
        tokens, limit = float(streams * per_stream), "streams a side"
        if streams == intervals.FEW_STREAMS:
            limit = f"{streams} streams a side, to see how they differ"
    elif target == SPECULATION:
        wanted, tokens, limit = "speculation on or off", least, floor
    elif target == MAX_BURST:
        wanted, limit = "M exact and bounded", "full bursts"
        tokens = needed.tokens_for(
            needed.steps_with_full(setting.acceptance, plan.level, plan.sure), setting.acceptance
        )
    else:
        name = {ACCEPTANCE_RATE: "acceptance rate", ACCEPTANCE_LENGTH: "acceptance length", STEP: "step time"}[target]
        wanted, limit = f"{name} ±{plan.precision * 100:.3g}%", "its interval"
        tokens, streams = _for_width(target, layer, setting, plan.precision / z)
        if known is not None and (seen := _width(known, target)) is not None and known.tokens:
            tokens, limit = needed.scaled(known.tokens, seen, plan.precision), "its interval in this recording"
            streams = 1
    if tokens < least:
        tokens, limit = least, floor
    if not tokens <= MOST:
        return Need(target, wanted, probability, layer, None, None, limit)
    tokens = ceil(tokens)
    streams = max(streams, ceil(tokens / per_stream))
    return Need(target, wanted, probability, layer, streams * ceil(tokens / streams), streams, limit)


def _floor(layer: str, setting: Setting, sure: float) -> tuple[float, str]:
    """Tokens below which this way of observing gives no verdict, and why."""
    from .. import fit  # slow to import; forward plans do without

    steps = needed.tokens_for_steps(fit.FEWEST_STEPS, setting.acceptance, sure)
    if layer == COUNTED_LAYER:
        return max(float(fit.FEWEST), steps), "the fewest that are judged"
    if layer == INDEPENDENT_LAYER:
        comb = period.needed_tokens(setting.jitter_ms / setting.step_ms)
        if comb > fit.ENOUGH:
            return comb, "finding the step"
    return max(float(fit.ENOUGH), steps), "bursts against chance"


def cv_of(layer: str, setting: Setting) -> float:
    """Coefficient of variation of the step times that a layer is planned with."""
    if setting.step_cv is not None:
        return setting.step_cv
    return 0.0 if layer == INDEPENDENT_LAYER else USUAL_CV


def _relative(target: str, layer: str, setting: Setting) -> Callable[[float], float]:
    """Relative variance of a quantity in one stream, by the steps in it; without what differs between streams."""
    if target == ACCEPTANCE_RATE:
        value = needed.alpha_variance(setting.acceptance)
        return lambda steps: value / steps
    if target in (ACCEPTANCE_LENGTH, CHANGE_OF_LENGTH):
        value = needed.length_variance(setting.acceptance)
        return lambda steps: value / steps
    walk = cv_of(layer, setting)
    noise = setting.jitter_ms / setting.step_ms
    if layer == INDEPENDENT_LAYER:
        # every token of a step has a delay of its own: their mean varies less
        noise /= sqrt(float(np.sum(np.cumprod((1.0, *setting.acceptance)))))
    return lambda steps: needed.step_variance(max(steps, 1.0), walk, noise)


def _for_width(target: str, layer: str, setting: Setting, se: float) -> tuple[float, int]:
    """Tokens and streams with which a relative standard error comes down to `se`."""
    variance = _relative(target, layer, setting)
    hazards, between = setting.acceptance, setting.spread**2
    full = needed.steps_in(setting.tokens_per_stream, hazards)
    if full <= 0:
        return inf, 1
    streams = ceil((variance(full) + between) / se**2)
    low, high = 0.0, full  # steps of each: no longer than they have to be
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if variance(max(middle, 1e-9)) + between > streams * se**2 else (low, middle)
    return streams * needed.tokens_for(high, hazards), streams


def _streams_for_change(variance: Callable[[float], float], setting: Setting, plan: DataPlan) -> int:
    """Streams a side for `compare` to call a change one: beyond its 99% interval with probability `sure`."""
    steps = needed.steps_in(setting.tokens_per_stream, setting.acceptance)
    if steps <= 0:
        return MOST
    each = variance(steps) + setting.spread**2
    size, power = log1p(plan.change), NormalDist().inv_cdf(plan.sure)
    streams = intervals.FEW_STREAMS
    while True:
        reach = intervals.quantile(ratios.SURE, 2 * (streams - 1)) + power
        wanted = ceil(needed.scaled(1, reach * sqrt(2 * each), size))
        if wanted <= streams or streams > MOST:
            return streams
        streams = wanted if streams == intervals.FEW_STREAMS else streams + 1


def _width(found: Fingerprint, target: str) -> float | None:
    """Relative half-width that a recording reached; None where its interval is open."""
    estimate: Estimate | None = getattr(found, target)
    if estimate is None or estimate.high is None or estimate.value <= 0 or estimate.high <= estimate.low:
        return None
    return (estimate.high - estimate.low) / 2 / estimate.value


def _assumed(setting: Setting, layers: Sequence[str], known: Fingerprint | None) -> list[str]:
    notes = []
    ratio = setting.jitter_ms / setting.step_ms
    if setting.spread == 0:
        notes.append("streams are alike: where their content differs, --spread says by how much, and more are needed")
    if INDEPENDENT_LAYER in layers and setting.step_cv:
        notes.append("independent: the step is taken to be exact; on a drifting clock more is needed")
    if "in-order" in layers and ratio > _TOLD_TO:
        notes.append(f"in-order: was measured up to a jitter of {_TOLD_TO:g} of the step; beyond, more may be needed")
    if setting.step_cv is None and known is None:
        notes.append(f"step times vary by {USUAL_CV:.0%}, and not at all with independent delays (--cv)")
    return notes
