"""Two fingerprints side by side: what changed, acceptance or the step, and by how much.

tokens/s = acceptance length / step, so log ratio of rates = log ratio of lengths - log ratio of steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import log, log1p
from typing import TYPE_CHECKING, Any, Final

from . import sentence
from .errors import InputError
from .findings import finding
from .fingerprint import (
    AUTOREGRESSIVE,
    CHANGED,
    EQUIVALENT,
    FAILED,
    HELD,
    SPECULATIVE,
    UNDETERMINED,
    Change,
    Check,
    Comparison,
    Finding,
    Fingerprint,
)

if TYPE_CHECKING:
    from .ratios import Sides

MARGIN: Final = 0.03
"""Relative difference up to which two services count as equivalent."""

DECIDING: Final = ("tokens_per_s", "acceptance_length", "step_ms")
"""Quantities that a gate looks at."""

ALIKE: Final = (
    "model", "temperature", "max_tokens", "top_p", "workload", "concurrency", "dialect", "stamps", "resolution_ns",
)  # fmt: skip
"""Conditions that must agree; an engine may change, for that is what people compare."""


def compare(
    base: Fingerprint, candidate: Fingerprint, *, margin: float = MARGIN, level: float = 0.95,
    allow_mismatch: bool = False, sure: float = 0.99,
) -> Comparison:  # fmt: skip
    """What changed from `base` to `candidate`.

    Parameters
    ----------
    base, candidate : fingerprints of several streams each, where possible.
    margin : relative difference within which a quantity is equivalent.
    level : of the intervals.
    allow_mismatch : compare recordings made under different conditions all the same; a finding names them.
    sure : "changed" is said only where an interval of this level leaves out "no change". Who asks often asks for more.

    Raises
    ------
    InputError : the recordings were made under different conditions.
    """
    from . import ratios  # brings numpy; `import specsonar` imports this module

    notes: list[Finding] = []
    if differing := _mismatch(base, candidate):
        if not allow_mismatch:
            raise InputError(
                f"the recordings are unlike: {differing}", "record both alike, or compare with --allow-mismatch"
            )
        notes.append(finding("C001", differing))
    sides = ratios.sides(base, candidate)
    notes += _notes(sides)
    lengths, steps = ratios.length_of(sides), ratios.step_of(sides)
    length = ratios.change("acceptance_length", lengths, margin, level, sure)
    step = ratios.change("step_ms", steps, margin, level, sure)
    rate = ratios.change("tokens_per_s", ratios.rate_of(sides, lengths, steps), margin, level, sure)
    first = ratios.change("first_token_ms", ratios.each_of(sides, "first_token_ms"), margin, level, sure)
    jitter = ratios.change("jitter_ms", ratios.each_of(sides, "spread_ms"), margin, level, sure)
    verdict = _overall(length, step)
    needed = None
    if verdict == UNDETERMINED:
        open_ = [c for c in (length, step) if c is not None and c.verdict == UNDETERMINED and c.needed_streams]
        needed = max((c.needed_streams for c in open_ if c.needed_streams), default=None)
    found = Comparison(
        verdict=verdict, sentence="", tokens_per_s=rate, acceptance_length=length, step_ms=step, first_token_ms=first,
        jitter_ms=jitter, margin=margin, needed_streams=needed,
        needed_tokens=None if needed is None else needed * _tokens_a_stream(base, candidate),
        findings=tuple(notes), base=base, candidate=candidate,
    )  # fmt: skip
    return replace(found, sentence=sentence.of_comparison(found), checks=tuple(_checks(found)))


def _notes(sides: Sides) -> Iterator[Finding]:
    """What a reader of the comparison should know about its two sides."""
    from .stats import intervals

    base, candidate = sides.base, sides.candidate
    if base.by_stream and base.by_stream == candidate.by_stream:
        yield finding("C006", "both sides are the same recording")
    if otherwise := sentence.otherwise(base, candidate):
        yield finding("C005", otherwise)
    for name, side in (("base", base), ("candidate", candidate)):
        if side.verdict not in (SPECULATIVE, AUTOREGRESSIVE):
            yield finding("C002", f"{name}: {side.verdict}")
        elif side.streams < intervals.FEW_STREAMS:
            yield finding("C003", f"{name}: {side.streams} stream{'' if side.streams == 1 else 's'}")
        yield from (replace(f, message=f"{name}: {f.message}") for f in side.findings if f.severity == "warning")
    if sides.alone:
        common = f"{len(sides.pairs)} prompts were asked of both"
        if sides.paired:
            yield finding("C004", f"{common}; {sides.alone} answers are to others")
        else:
            yield finding("C004", f"only {common}", severity="warning")


def _overall(length: Change | None, step: Change | None) -> str:
    said = (length.verdict if length else UNDETERMINED, step.verdict if step else UNDETERMINED)
    if said == (CHANGED, CHANGED):
        return "both"
    if CHANGED in said:
        return "acceptance" if said[0] == CHANGED else "step"
    return EQUIVALENT if said == (EQUIVALENT, EQUIVALENT) else UNDETERMINED


def _checks(found: Comparison) -> Iterator[Check]:
    """What a gate makes of it: it fails on a change for the worse whose size is beyond the margin.

    The rate is decided by its parts where both are known, so that it cannot be open when they are not. Waiting time
    and jitter belong to queue and path as much as to the decoder: they are told, and decide nothing.
    """
    for name, change in found.changes.items():
        if change is None:
            decides = name in DECIDING and (name == "tokens_per_s" or found.tokens_per_s is None)
            yield Check(name, UNDETERMINED if decides else None, "not known on both sides")
            continue
        text = f"{sentence.percent(change)}, {change.verdict}"
        if name not in DECIDING:
            yield Check(name, None, text)
        elif change.verdict == EQUIVALENT or (name == "tokens_per_s" and found.verdict == EQUIVALENT):
            yield Check(name, HELD, f"{text} within {found.margin * 100:.3g}%")
        elif change.verdict == UNDETERMINED:
            more = f"; about {change.needed_streams} streams a side are needed" if change.needed_streams else ""
            yield Check(name, UNDETERMINED, text + more)
        elif change.better:
            yield Check(name, HELD, f"{text} for the better")
        elif abs(log(change.ratio)) > log1p(found.margin):
            yield Check(name, FAILED, f"{text} for the worse")
        else:
            yield Check(name, UNDETERMINED, f"{text} for the worse, by about the margin of {found.margin * 100:.3g}%")


def _mismatch(base: Fingerprint, candidate: Fingerprint) -> str:
    """What both recordings know and do not share, in words; "" when nothing."""
    a, b = base.conditions, candidate.conditions
    both = [key for key in ALIKE if key in a and key in b]
    return ", ".join(f"{key} {a[key]!r} and {b[key]!r}" for key in both if not _alike(key, a[key], b[key]))


def _alike(key: str, a: Any, b: Any) -> bool:
    """Equal; of stamps, that both have some of a kind: the kernel may begin to stamp after the first reads."""
    return a == b or (key == "stamps" and not {*_listed(a)}.isdisjoint(_listed(b)))


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _tokens_a_stream(*sides: Fingerprint) -> int:
    return round(max((s.tokens or s.events) / max(s.streams, 1) for s in sides))
