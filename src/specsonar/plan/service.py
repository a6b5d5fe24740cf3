"""What a plan starts from: an acceptance that is given, or a service that was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite
from typing import Any

from ..errors import InputError, UsageError
from ..fingerprint import AUTOREGRESSIVE, SPECULATIVE, Estimate, Fingerprint
from ..stats.speedup import break_even


@dataclass(frozen=True, slots=True)
class Known:
    """What is known before anything is planned.

    Attributes
    ----------
    acceptance : at each draft position for which it is known.
    common : they are one number that holds for every position.
    max_burst, length, step : of the present service: M, E[B], and the time of a step in milliseconds.
    service : the same in plain JSON types, for the reader; None where nothing was measured.
    assumptions : what the plan rests on, in plain words.
    """

    acceptance: tuple[Estimate, ...]
    common: bool = False
    max_burst: int | None = None
    length: Estimate | None = None
    step: Estimate | None = None
    service: Mapping[str, Any] | None = None
    assumptions: tuple[str, ...] = ()

    def drafts(self, bonus: bool) -> int | None:
        """The present k; None where nothing was measured."""
        return None if self.max_burst is None else self.max_burst - 1 if bonus else self.max_burst


def given(alpha: float | Sequence[float], positions: int = 1, level: float = 0.95) -> tuple[Estimate, ...]:
    """Acceptances that a user gave, one for all or one for each position, as estimates without a width.

    Raises
    ------
    UsageError : one of them is no probability.
    """
    values = [alpha] * positions if isinstance(alpha, int | float) else list(alpha)
    if not values and positions:
        raise UsageError("an acceptance is missing", "give --alpha 0.8, or one for each draft position")
    for a in values:
        if not isinstance(a, int | float) or not isfinite(a) or not 0 <= a <= 1:
            raise UsageError(f"an acceptance of {a} is out of range", "it is a probability, from 0 to 1")
    return tuple(Estimate(float(a), float(a), float(a), level, "given") for a in values)


def told(alpha: float | Sequence[float], level: float = 0.95) -> Known:
    """An acceptance that a user gave: one number for all positions, or one for each.

    Raises
    ------
    UsageError : one of them is no probability.
    """
    several = not isinstance(alpha, int | float) and len(alpha) > 1
    return Known(given(alpha, 1, level), common=not several)


def reached(shares: Sequence[float], level: float = 0.95) -> Known:
    """An acceptance from the shares of steps in which each draft position was accepted, as servers print them.

    A position is accepted only after all before it: its acceptance is its share over that of the one before.

    >>> [round(a.value, 3) for a in reached([0.76, 0.608, 0.5]).acceptance]
    [0.76, 0.8, 0.822]

    Raises
    ------
    UsageError : they are no shares, or a later position is accepted more often than an earlier one.
    """
    each = [1.0, *(a.value for a in given(list(shares), 1, level))]
    if any(later > earlier for earlier, later in pairwise(each)):
        raise UsageError(
            "a later draft position is accepted in more steps than an earlier one",
            "these are shares of all steps, falling; give acceptances after acceptance with --alpha",
        )
    return told([later / earlier if earlier else 0.0 for earlier, later in pairwise(each)], level)


def of_length(length: float, k: int | None, bonus: bool, level: float = 0.95) -> Known:
    """The one acceptance for all positions at which `k` drafts give `length` tokens a step.

    >>> round(of_length(3.3616, 4, True).acceptance[0].value, 6)
    0.8

    Raises
    ------
    UsageError : no draft length, or one that cannot give so many tokens.
    """
    if k is None:
        raise UsageError("an acceptance length says nothing without a draft length", "give --k too")
    burst = k + 1 if bonus else k
    alpha = break_even(length, burst) if isfinite(length) and length >= 1 else None
    if alpha is None:
        raise UsageError(f"{length:g} tokens a step cannot be with k = {k}", f"a step gives from 1 to {burst} tokens")
    note = f"every draft position is accepted alike, {alpha:.3g}: all that an acceptance length tells"
    return Known(given(alpha, 1, level), common=True, assumptions=(note,))


def measured(found: Fingerprint) -> Known:
    """The acceptance of a service that was measured.

    Raises
    ------
    InputError : it does not speculate, or its acceptance at each position is not known.
    """
    if found.verdict == AUTOREGRESSIVE:
        step = f" at its step of {found.step_ms.value:.4g} ms" if found.step_ms else ""
        raise InputError(
            f"its acceptance cannot be seen: {found.sentence}",
            f"give --alpha to plan a draft{step}",
        )
    if found.verdict != SPECULATIVE:
        raise InputError(f"there is no speculation to plan with: {found.sentence}", "give --k and --alpha instead")
    burst, each = found.max_burst, found.acceptance_by_position
    if burst is None or not each or found.acceptance_length is None:
        raise InputError(
            f"its acceptance at each position is not known: {found.sentence}",
            "record the token count of every event, or give --k and --alpha instead",
        )
    m = int(burst.value)
    notes = ["the draft of another length meets the same acceptance at the positions that it shares with this one"]
    if burst.high is None:
        notes.append(f"steps of more than {m} tokens were too rare to be ruled out: the present draft may be longer")
    return Known(
        acceptance=each, max_burst=m, length=found.acceptance_length, step=found.step_ms, service=_said(found),
        assumptions=tuple(notes),
    )  # fmt: skip


def plain_step(found: Fingerprint) -> float | None:
    """Time of a plain step, milliseconds, of a service that does not speculate; None of any other."""
    return found.step_ms.value if found.verdict == AUTOREGRESSIVE and found.step_ms is not None else None


def _said(found: Fingerprint) -> dict[str, Any]:
    names = ("max_burst", "acceptance_length", "step_ms", "tokens_per_s", "efficiency", "gap_tokens", "jitter_ms")
    each = {name: getattr(found, name) for name in names}
    return {
        "verdict": found.verdict, "sentence": found.sentence, "streams": found.streams, "tokens": found.tokens,
        **{name: None if e is None else e.to_dict() for name, e in each.items()},
    }  # fmt: skip
