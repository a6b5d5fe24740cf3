"""The draft-verify mechanism in virtual time: which step gives which tokens, and when it is done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from . import drift
from .service import Service

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

_BLOCK: Final = 1 << 16

# Each use of chance has a generator of its own, so that changing one knob leaves every other draw as it was.
# The place in this tuple is part of what a seed means: append, never reorder.
_PURPOSES: Final = (
    "accept", "drift", "draft", "step", "slow", "origin", "merge", "spacing", "bytes", "timer",
    "step-delay", "token-delay", "stall", "stall-length", "words", "defence",
)  # fmt: skip


class Dice:
    """The generators of one stream, made on first use from (seed, stream, purpose).

    Stream i depends on the seed and on i alone, not on how many streams there are.
    """

    def __init__(self, seed: int, stream: int) -> None:
        self._key = (seed, stream)
        self._made: dict[str, np.random.Generator] = {}

    def __getitem__(self, purpose: str) -> np.random.Generator:
        if purpose not in self._made:
            seed, stream = self._key
            sequence = np.random.SeedSequence(seed, spawn_key=(stream, _PURPOSES.index(purpose)))
            self._made[purpose] = np.random.Generator(np.random.PCG64(sequence))
        return self._made[purpose]


@dataclass(frozen=True, slots=True, eq=False)
class Decoded:
    """What the service did for one answer. The prefill's token is not a step.

    Attributes
    ----------
    sizes : shape (r,), tokens that each step gave; their sum is the number of tokens less one.
    drafted : shape (r,), whether the step drafted.
    took_ns : shape (r,), duration of each step, nanoseconds, at least 1.
    complete : the leading steps whose size the token limit did not touch.
    last_truncated : the last step had more tokens than the limit let through.
    """

    sizes: IntArray
    drafted: BoolArray
    took_ns: IntArray
    complete: int
    last_truncated: bool


def decode(service: Service, tokens: int, dice: Dice) -> Decoded:
    """Run steps until `tokens` tokens are out, the first of which is the prefill's.

    Each step drafts k tokens; the target accepts them one after the other until it rejects one, and then adds a
    token of its own: the correction, or the bonus when all were accepted and the service gives one.
    """
    goal = tokens - 1
    change = tokens * service.change_at if service.acceptance_after is not None else np.inf
    sizes: list[IntArray] = []
    drafts: list[BoolArray] = []
    out, state = 1, None
    while out < tokens:
        n = min(tokens - out, _BLOCK)
        drafted = _drafts(service, n, dice)
        chance = dice["accept"].random((n, service.k or 0))
        z, state = _stretches(service, n, dice, state)
        b = _verify(service, chance, drafted, z, after=False)
        before = out + np.concatenate(([0], np.cumsum(b[:-1])))
        first = int(np.searchsorted(before, change))
        if first < n:
            rest = slice(first, n)
            b[rest] = _verify(service, chance[rest], drafted[rest], None if z is None else z[rest], after=True)
            before = out + np.concatenate(([0], np.cumsum(b[:-1])))
        used = int(np.searchsorted(before, tokens))
        sizes.append(b[:used])
        drafts.append(drafted[:used])
        out = int(before[used - 1] + b[used - 1])
    b = np.concatenate(sizes) if sizes else np.empty(0, np.int64)
    drafted = np.concatenate(drafts) if drafts else np.empty(0, np.bool_)
    left = goal - (np.cumsum(b) - b)
    truncated = bool(b.size and b[-1] > left[-1] and not service.clip_draft)
    if service.clip_draft:
        # A draft of at most left-1 (with bonus) or left tokens gives min(B, left): the limit clips, never cuts.
        complete = int(np.searchsorted(-left, -service.burst, side="right"))
        drafted &= left > service.bonus
    else:
        complete = b.size - truncated
    b = np.minimum(b, left)
    return Decoded(b, drafted, _durations(service, drafted, dice), complete, truncated)


def _drafts(service: Service, n: int, dice: Dice) -> BoolArray:
    if not service.k:
        return np.zeros(n, np.bool_)
    if service.draft_probability == 1.0:
        return np.ones(n, np.bool_)
    return dice["draft"].random(n) < service.draft_probability


def _stretches(service: Service, n: int, dice: Dice, last: float | None) -> tuple[FloatArray | None, float | None]:
    if not service.correlation or service.burst == 1:
        return None, None
    z = drift.latent(dice["drift"], n, service.persistence, last)
    return z, float(z[-1])


def _verify(service: Service, chance: FloatArray, drafted: BoolArray, z: FloatArray | None, *, after: bool) -> IntArray:
    """Tokens of each step, shape (n,), from one uniform number per drafted token, `chance` of shape (n, k)."""
    hazards = service.hazards(after=after)
    if z is not None:
        shift, spread = drift.calibrate(tuple(hazards.tolist()), service.correlation, service.persistence)
        hazards = drift.odds(hazards, (shift + spread * z)[:, None])
    k = chance.shape[1]
    if k > hazards.shape[-1] and k:
        # Without a bonus token the verdict on the last draft does not show: rejected, it is corrected.
        last = hazards[..., -1:] if hazards.shape[-1] else np.zeros((*hazards.shape[:-1], 1))
        hazards = np.concatenate((hazards, last), axis=-1)
    accepted = np.logical_and.accumulate(chance < hazards, axis=1).sum(axis=1) * drafted
    own = np.ones_like(accepted) if service.bonus else (accepted < np.maximum(k, 1)).astype(accepted.dtype)
    return np.asarray(accepted + own, np.int64)


def _durations(service: Service, drafted: BoolArray, dice: Dice) -> IntArray:
    mean = np.where(drafted | (service.burst == 1), service.step_ms, service.plain_ms) * 1e6
    if service.step_cv:
        shape = service.step_cv**-2
        mean = mean * (dice["step"].standard_gamma(shape, mean.size) / shape)
    if service.slow_probability:
        slow = dice["slow"].random(mean.size) < service.slow_probability
        mean = np.where(slow, mean * service.slow_factor, mean)
    return np.maximum(np.rint(mean).astype(np.int64), 1)
