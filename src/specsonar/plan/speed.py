"""Forward: which draft length would be how fast, at a known or a measured acceptance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, isfinite, sqrt
from typing import Final

import numpy as np

from ..errors import UsageError
from ..fingerprint import Estimate, Fingerprint
from ..planned import AtCost, Draft, Fastest, SpeedPlan, VerifyCost
from ..stats import intervals
from ..stats import speedup as law
from ..stats.bursts import mean_slope
from . import costs, words
from .service import Known, given, measured, told

LONGEST: Final = 511
"""Drafted tokens of a step beyond which nobody goes."""

EXAMPLES: Final = (0.0, 0.05, 0.1, 0.2)
"""Draft costs that are shown where none is known: a lookup costs nothing, a head of the target little, a model more."""

SIDE_BY_SIDE: Final = 5
"""Draft costs in one table."""

FIRST: Final = 8
"""Draft lengths that are shown at least, where one acceptance holds for all positions."""

MOST: Final = 16
"""The same at most, in search of the fastest; with `up_to` more."""

FloatArray = law.FloatArray


def speedup(
    alpha: float | Sequence[float], k: int, draft_cost: float = 0.0, *, bonus: bool = True,
    verify_cost: Mapping[int, float] | None = None,
) -> float:  # fmt: skip
    """How many times as fast as plain decoding speculation with `k` drafts is.

    E[B] / (v(M) + k c): theorem 3.8 of Leviathan et al. 2023, for an acceptance of its own at each position and a cost
    of verification. `plan_speed` tells more.

    Parameters
    ----------
    alpha : acceptance of a drafted token whose predecessors were accepted: one for all, or one for each of the M - 1
        positions that can be seen.
    k : drafted tokens of a step; 0 is plain decoding.
    draft_cost : c, of one drafted token, in passes of the target that decode one token.
    bonus : a step in which all drafts are accepted gives one token more: M = k + 1, else M = k.
    verify_cost : v by tokens verified in one pass, in passes of one token; straight lines between. 1 when not given.

    Raises
    ------
    UsageError : a value that cannot be.

    >>> round(speedup(0.8, 4, 0.05), 4), round((1 - 0.8**5) / ((1 - 0.8) * (4 * 0.05 + 1)), 4)
    (2.8013, 2.8013)
    >>> speedup(0.0, 4), speedup(1.0, 4), speedup(0.8, 0, 0.3)
    (1.0, 5.0, 1.0)
    >>> speedup(0.8, 4, bonus=False) == speedup(0.8, 3)
    True
    """
    burst = _burst(k, bonus)
    hazards = np.array([a.value for a in given(alpha, burst - 1, 0.95)][: burst - 1])
    if hazards.size < burst - 1:
        raise UsageError(f"{hazards.size} acceptances for {burst - 1} positions", f"give one for all, or {burst - 1}")
    _check_cost(draft_cost)
    verify = VerifyCost() if verify_cost is None else costs.of_ratios(verify_cost)
    at = law.interpolated(verify.widths, verify.costs, burst)
    return float(law.lengths(hazards)[-1] / (at + k * draft_cost))


def plan_speed(
    known: Known | Fingerprint | float | Sequence[float], *, k: int | None = None,
    draft_cost: float | Sequence[float] | None = None, bonus: bool = True,
    verify_cost: VerifyCost | None = None, step_ms: float | None = None, plain_step_ms: float | None = None,
    up_to: int | None = None, level: float = 0.95,
) -> SpeedPlan:  # fmt: skip
    """Draft lengths from 1 on side by side: tokens of a step, distance to the ceiling, speed over plain decoding.

    Parameters
    ----------
    known : the acceptance of a drafted token, one for all positions or one for each; or the fingerprint of a service.
    k : the draft length to speak about.
    draft_cost : of one drafted token, in passes of the target that decode one token; several are shown side by side.
        Where it is not given it follows from the step with drafts and the one without, if both are known; else examples
        are shown.
    bonus : a step in which all drafts are accepted gives one token more.
    verify_cost : of the target, from `plan.costs`; as long as a plain step when not given.
    step_ms : time of a step with the present draft length; a fingerprint has it.
    plain_step_ms : time of a step without drafts.
    up_to : the last draft length that is shown.
    level : of the intervals, where acceptance or step were measured.

    Raises
    ------
    UsageError : values that cannot be, or that contradict each other.
    InputError : the fingerprint shows no speculation, or not its acceptance at each position.

    >>> found = plan_speed(0.8, k=4, draft_cost=0.05)
    >>> found.best, round(found.draft(4).at[0].speedup.value, 4), round(found.draft(4).gap_tokens.value, 4)
    ((8,), 2.8013, 1.6384)
    """
    if isinstance(known, Fingerprint):
        known = measured(known)
    elif not isinstance(known, Known):
        known = told(known, level)
    verify = verify_cost or VerifyCost()
    now = known.drafts(bonus)
    asked = k
    if known.service is None:
        now = k
    if asked is not None:
        _burst(asked, bonus)
        if asked < 1:
            raise UsageError("k = 0 is plain decoding", "ask about k from 1 on")
    step = known.step if step_ms is None else Estimate(step_ms, step_ms, step_ms, level, "given")
    times = _times(verify, step, plain_step_ms, draft_cost, now, bonus, level)
    table = _Table(known, verify, times, now, bonus, level)
    last = _last(table, asked, up_to)
    drafts = tuple(table.row(n) for n in range(1, last + 1))
    plain = (1.0, 1.0, 0)
    rivals = [plain, *((d.acceptance_length.value, d.verify_cost, d.k) for d in drafts)]
    e, v, n = zip(*rivals, strict=True)
    ranges = law.fastest(e, v, n)
    fastest = tuple(Fastest(low, high if isfinite(high) else None, n[i]) for low, high, i in ranges)
    best = tuple(_best_at(fastest, t.cost) for t in times.at)
    found = SpeedPlan(
        sentence="", bonus=bonus, acceptance=known.acceptance, draft_costs=tuple(t.cost for t in times.at),
        cost_known=times.known, verify_cost=verify, now=now, asked=asked, drafts=drafts, best=best, fastest=fastest,
        service=known.service, assumptions=(), level=level,
    )  # fmt: skip
    return words.completed(found, [*known.assumptions, *times.assumptions])


def _burst(k: int, bonus: bool) -> int:
    """M of `k` drafts."""
    if isinstance(k, bool) or k != int(k) or not 0 <= k <= LONGEST:
        raise UsageError(f"k = {k} is out of range", f"a step drafts from 0 to {LONGEST} tokens")
    return int(k) + 1 if bonus or k == 0 else int(k)


def _check_cost(cost: float) -> None:
    if not isfinite(cost) or not 0 <= cost <= 100:
        raise UsageError(
            f"a draft cost of {cost:g} is out of range",
            "it is the time to draft one token over that of a plain step of the target: 0.05, say",
        )


def _last(table: _Table, asked: int | None, up_to: int | None) -> int:
    """The last draft length that is shown."""
    known, bonus = table.known, table.bonus
    if up_to is not None:
        _burst(up_to, bonus)
        if up_to < 1:
            raise UsageError("a table of no draft lengths", "give the last one, from 1 on")
        return max(up_to, asked or 1, table.now or 1)
    least = max(asked or 1, table.now or 1)
    if known.common:
        # until longer drafts become slower at the lowest cost that was given
        cost = min((t.cost for t in table.times.at if t.cost > 0), default=0.0)
        speeds = [table.speed(n, cost) for n in range(1, MOST + 1)]
        return min(max(FIRST, least + 2, int(np.argmax(speeds)) + 2), max(MOST, least))
    positions = len(known.acceptance)
    shown = positions if bonus else positions + 1
    # two more than are known: whether a longer draft would pay is the next question
    return min(max(shown + 2 if known.service is not None else shown, least), LONGEST)


@dataclass(frozen=True, slots=True)
class _At:
    """One draft cost: c, its standard error, milliseconds of a plain step, and what its logarithm is uncertain by."""

    cost: float
    cost_se: float
    plain_ms: float | None
    log_se: float


@dataclass(frozen=True, slots=True)
class _Times:
    at: tuple[_At, ...]
    known: bool
    assumptions: tuple[str, ...]


def _times(
    verify: VerifyCost, step: Estimate | None, plain_ms: float | None, draft_cost: float | Sequence[float] | None,
    now: int | None, bonus: bool, level: float,
) -> _Times:  # fmt: skip
    """The draft costs to show, and the milliseconds behind them, as far as they follow from what is known."""
    for name, ms in (("step", step.value if step else None), ("plain step", plain_ms)):
        if ms is not None and not (isfinite(ms) and 0 < ms <= 3_600_000):
            raise UsageError(f"a {name} of {ms:g} ms cannot be", "give milliseconds")
    if plain_ms is not None and verify.plain_ms is not None:
        raise UsageError("the plain step is given twice, by itself and in the verification cost", "leave out one")
    plain = plain_ms if plain_ms is not None else verify.plain_ms
    asked = None if draft_cost is None else tuple(np.atleast_1d(np.asarray(draft_cost, np.float64)).tolist())
    for cost in asked or ():
        _check_cost(cost)
    if asked is not None and not 0 < len(asked) <= SIDE_BY_SIDE:
        raise UsageError(f"{len(asked)} draft costs do not fit side by side", f"give from 1 to {SIDE_BY_SIDE}")
    if step is not None and now is None:
        raise UsageError("the draft length of the step that was given is not known", "give --k too")
    if step is None or now is None:
        return _Times(tuple(_At(c, 0.0, plain, 0.0) for c in asked or EXAMPLES), asked is not None, ())
    pass_ = law.interpolated(verify.widths, verify.costs, _burst(now, bonus))
    spread = _se(step)
    if plain is None:
        # the step that was seen holds one pass and `now` drafts: each draft cost says how long a plain step is
        at = (_At(c, 0.0, step.value / (pass_ + now * c), spread / step.value) for c in asked or EXAMPLES)
        return _Times(tuple(at), asked is not None, ())
    if asked is not None:
        raise UsageError(
            "draft cost, step and plain step are all given, and two of them tell the third", "leave out one of them"
        )
    cost = (step.value / plain - pass_) / now
    if cost < 0:
        raise UsageError(
            f"a step of {step.value:.4g} ms is shorter than the verification alone, {pass_ * plain:.4g} ms",
            "the plain step or the verification cost was measured on another machine, or under another load",
        )
    se = spread / (now * plain)
    note = f"draft cost {cost:.3g}: what {step.value:.4g} ms leave beside a pass of {pass_ * plain:.4g} ms, over {now}"
    return _Times((_At(cost, se, plain, 0.0),), True, (note,))


def _se(estimate: Estimate) -> float:
    """Back from an interval to a standard error; 0 for a number that was given."""
    high = estimate.value if estimate.high is None else estimate.high
    return (high - estimate.low) / 2 / intervals.quantile(estimate.level)


@dataclass(frozen=True, slots=True)
class _Table:
    """Rows of a plan. Standard errors by the delta method, the positions being independent of each other."""

    known: Known
    verify: VerifyCost
    times: _Times
    now: int | None
    bonus: bool
    level: float

    def row(self, k: int) -> Draft:
        """Draft length `k`."""
        burst, pass_ = self._shape(k)
        length = self._length(burst)
        over = [] if self.now is None else [self._even(k, length.value, pass_)]
        return Draft(
            k=k, max_burst=burst, verify_cost=pass_, acceptance_length=length,
            efficiency=_scaled(length, 1.0 / burst), gap_tokens=_gap(length, burst),
            break_even_cost=c if (c := (length.value - pass_) / k) > 0 else None,
            even_cost=over[0] if over else None,
            assumed=burst - 1 > len(self.known.acceptance) and not self.known.common,
            at=tuple(self._at(k, burst, pass_, length, at) for at in self.times.at),
        )  # fmt: skip

    def speed(self, k: int, cost: float) -> float:
        """Speed-up of draft length `k` at a draft cost."""
        burst, pass_ = self._shape(k)
        return self._length(burst).value / (pass_ + k * cost)

    def _shape(self, k: int) -> tuple[int, float]:
        burst = _burst(k, self.bonus)
        return burst, law.interpolated(self.verify.widths, self.verify.costs, burst)

    def _even(self, k: int, length: float, pass_: float) -> float | None:
        assert self.now is not None
        if k == self.now:
            return None
        burst, present = self._shape(self.now)
        return law.even_cost(length, pass_, k, self._length(burst).value, present, self.now)

    def _hazards(self, burst: int) -> tuple[FloatArray, FloatArray]:
        """Acceptance and standard errors at M - 1 positions; beyond the known ones as at the last of them."""
        known = self.known.acceptance
        used = [known[min(j, len(known) - 1)] for j in range(burst - 1)] if known else []
        return np.array([a.value for a in used]), np.array([_se(a) for a in used])

    def _gradient(self, burst: int) -> FloatArray:
        """d log E[B] / d acceptance at each known position, times its standard error; carried-on ones add up."""
        hazards, errors = self._hazards(burst)
        each = mean_slope(hazards) * errors / law.lengths(hazards)[-1]
        known = len(self.known.acceptance)
        summed = np.zeros(max(known, 1))
        np.add.at(summed, np.minimum(np.arange(each.size), max(known, 1) - 1), each)
        return summed

    def _length(self, burst: int) -> Estimate:
        if self.known.length is not None and burst == self.known.max_burst:
            return self.known.length
        value = float(law.lengths(self._hazards(burst)[0])[-1])
        se = float(np.linalg.norm(self._gradient(burst))) * value
        return _between(value, se, burst, self.level)

    def _at(self, k: int, burst: int, pass_: float, length: Estimate, at: _At) -> AtCost:
        cost = pass_ + k * at.cost
        relative = self._relative(burst, length)
        timed = sqrt(relative**2 + (k * at.cost_se / cost) ** 2)
        plain = at.plain_ms
        rate = None
        if plain is not None:
            rate = _positive(length.value / cost / plain * 1e3, sqrt(timed**2 + at.log_se**2), self.level)
        against = None
        if self.now is not None:
            against = self._against(k, burst, length.value / cost, at)
        return AtCost(
            draft_cost=at.cost, speedup=_positive(length.value / cost, timed, self.level), against_now=against,
            break_even_alpha=law.break_even(cost, burst), step_ms=None if plain is None else cost * plain,
            tokens_per_s=rate,
        )  # fmt: skip

    def _relative(self, burst: int, length: Estimate) -> float:
        """Standard error of log E[B]."""
        if self.known.length is not None and burst == self.known.max_burst:
            return _se(length) / length.value
        return float(np.linalg.norm(self._gradient(burst)))

    def _against(self, k: int, burst: int, speed: float, at: _At) -> Estimate:
        assert self.now is not None
        present, pass_ = self._shape(self.now)
        cost = pass_ + self.now * at.cost
        value = speed / (self._length(present).value / cost)
        if k == self.now:
            return Estimate(1.0, 1.0, 1.0, self.level, "the present one")
        # both rest on the same acceptances: what they share cancels
        se = float(np.linalg.norm(self._gradient(burst) - self._gradient(present)))
        mine = self._shape(k)[1] + k * at.cost
        costs_ = (k / mine - self.now / cost) * at.cost_se
        return _positive(value, sqrt(se**2 + costs_**2), self.level)


_FROM: Final = "from the acceptance at each position"
_EXACT: Final = "from the numbers that were given"


def _between(value: float, se: float, burst: int, level: float) -> Estimate:
    """E[B] with its interval, inside 1 to M."""
    if se <= 0 or burst == 1:
        return Estimate(value, value, value, level, _EXACT)
    room = burst - 1.0
    low, high = intervals.share((value - 1.0) / room, se / room, level)
    return Estimate(value, min(1.0 + room * low, value), max(1.0 + room * high, value), level, _FROM)


def _positive(value: float, log_se: float, level: float) -> Estimate:
    if log_se <= 0:
        return Estimate(value, value, value, level, _EXACT)
    half = intervals.quantile(level) * log_se
    return Estimate(value, value * exp(-half), value * exp(half), level, _FROM)


def _scaled(length: Estimate, by: float) -> Estimate:
    high = None if length.high is None else length.high * by
    return Estimate(length.value * by, length.low * by, high, length.level, length.method)


def _gap(length: Estimate, burst: int) -> Estimate:
    low = 0.0 if length.high is None else max(burst - length.high, 0.0)
    return Estimate(burst - length.value, low, burst - length.low, length.level, length.method)


def _best_at(ranges: Sequence[Fastest], cost: float) -> int:
    return next(r.k for r in reversed(ranges) if cost >= r.low)
