"""The server's own account of its speculation against what was inferred: agreement, or which quantity, by how much.

A report is about the very answers that were heard, so it differs from the inference by the error of the inference
alone. It agrees where it lies inside the intervals, widened for the number of quantities that are looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final

from .findings import finding
from .fingerprint import SPECULATIVE, Estimate, Finding
from .stats import intervals
from .trace import Stream
from .wire.dialects import report as vocabulary
from .wire.dialects.said import name, number, rows, whole

Json = Mapping[str, Any]

_NEAR: Final = 0.03
"""Relative difference that is never called one: counters and streams are not cut at the same token."""

_NEAR_RATE: Final = 0.05
"""The same for the acceptance of one position."""

_TRIES: Final = 30
"""Fewer tries of a position say little about its acceptance."""

_OTHERS: Final = 1.1
"""Counters that cover this many times the tokens of the streams count the answers of others too."""

_LONG_DRAFT: Final = 16

_ALIKE: Final = 0.02
_FEW: Final = 3.0


@dataclass(frozen=True, slots=True)
class Inferred:
    """What was inferred, as far as a server may speak of it too.

    Attributes
    ----------
    streams, tokens : how much data there was; `tokens` is None where it is not known.
    blurred : bursts do not end where steps do (held-back text, stream intervals), so single sizes are not compared.
    """

    verdict: str
    length: Estimate | None
    burst: Estimate | None
    positions: tuple[Estimate, ...] | None
    streams: int
    tokens: int | None
    blurred: bool = False


@dataclass(frozen=True, slots=True)
class _Claim:
    """One quantity in two accounts."""

    quantity: str
    agrees: bool
    text: str


def pooled(streams: Sequence[Stream]) -> Json | None:
    """What the server says of all streams together; None when it says nothing of any.

    The same report with every stream is that of the whole run, and counts once.
    """
    told: list[Json] = []
    for one in streams:
        said = one.server_report
        if not said or any(said == other for other in told):
            continue
        told.append(said)
    if len(told) < 2:
        return told[0] if told else None
    of = {id(one.server_report): one.known_tokens or len(one) for one in streams}
    return vocabulary.pooled([{"tokens": max(of[id(r)] - 1, 0), **_known(r)} for r in told])


def compared(report: Json | None, inferred: Inferred) -> list[Finding]:
    """What comes of setting a server's report against the inference: nothing, or one finding."""
    if not report:
        return []
    source = name(report.get("source")) or "server"
    covered = whole(report.get("tokens"))
    if covered and inferred.tokens and covered > _OTHERS * inferred.tokens:
        return [finding("S003", f"{source} counts {covered:,} tokens, the streams have {inferred.tokens:,}")]
    claims = list(_claims(report, inferred))
    if not claims:
        said = number(report.get("acceptance_length"))
        if said is None or inferred.length is not None:
            return []
        return [finding("S003", f"{source}: {said:.2f} tokens a step; the streams do not show the steps")]
    wrong = [claim for claim in claims if not claim.agrees]
    text = f"{source}: " + "; ".join(claim.text for claim in wrong or claims)
    return [finding("S002", text) if wrong else finding("S001", text)]


def _known(report: Json) -> dict[str, Any]:
    return {key: value for key, value in report.items() if value is not None}


def _claims(report: Json, inferred: Inferred) -> Iterator[_Claim]:
    length = inferred.length
    if length is None:
        return
    alike = _drafts_alike(report) and not inferred.blurred and inferred.verdict == SPECULATIVE
    rates = [r for value in rows(report.get("acceptance_by_position")) if (r := number(value)) is not None]
    tried = [whole(n) or 0 for n in rows(report.get("tried_by_position"))]
    positions = list(zip(inferred.positions or (), rates, tried, strict=False)) if alike else []
    positions = [entry for entry in positions if entry[2] >= _TRIES]
    wide = _widening(length.level, 2 + len(positions))
    low, high = _range(length, wide)
    slack = _NEAR + (inferred.burst.value if inferred.burst else 1.0) / max(inferred.tokens or 0, 20)
    low, high = low / (1 + slack), high * (1 + slack)
    yield from _length(report, inferred, low, high)
    yield from _draft_length(report, inferred, rates)
    for place, (estimate, rate, _) in enumerate(positions, 1):
        below, above = _range(estimate, wide)
        agrees = below - _NEAR_RATE <= rate <= above + _NEAR_RATE
        text = f"acceptance at position {place} {rate:.2f}, by the stream {estimate.value:.2f}"
        if not agrees:
            yield _Claim("acceptance by position", agrees, text)


def _length(report: Json, inferred: Inferred, low: float, high: float) -> Iterator[_Claim]:
    """Tokens per step; and steps and accepted tokens, where they alone are impossible."""
    assert inferred.length is not None
    value = inferred.length.value
    said = number(report.get("acceptance_length"))
    if said is not None:
        text = f"{said:.2f} tokens a step{_off(said, value)}, by the stream {value:.2f}"
        yield _Claim("acceptance length", low <= said <= high, text)
    steps, accepted = whole(report.get("steps")), whole(report.get("accepted"))
    if inferred.tokens is None:
        return
    after_first = max(inferred.tokens - inferred.streams, 0)
    most = after_first / low + inferred.streams
    given = (steps or 0) + (accepted or 0)
    past = (whole(report.get("draft_length")) or _LONG_DRAFT) * inferred.streams  # accepted beyond the limit
    if steps and accepted and given > after_first * (1 + _ALIKE / 2) + past:
        yield _Claim("tokens", False, f"its steps gave {given:,} tokens, the streams have {after_first:,}")
    if steps is not None and steps > most:
        yield _Claim("steps", False, f"{steps:,} steps, by the stream {after_first / value:.0f}")
    if said is None and accepted is not None:
        least, most = (after_first * (1 - 1 / edge) - inferred.streams for edge in (low, high))
        text = f"{accepted:,} tokens accepted, by the stream {after_first * (1 - 1 / value):.0f}"
        yield _Claim("accepted tokens", least <= accepted <= most + 2 * inferred.streams, text)


def _draft_length(report: Json, inferred: Inferred, rates: Sequence[float]) -> Iterator[_Claim]:
    """The largest burst is the draft and one token more, if drafts are accepted to their end at times."""
    said, burst = whole(report.get("draft_length")), inferred.burst
    if said is None or burst is None or inferred.blurred or inferred.verdict != SPECULATIVE:
        return
    top = said + 1
    agrees = burst.low <= top and (burst.high is None or top <= burst.high)
    steps = whole(report.get("steps"))
    if not agrees and top > burst.value and rates and steps:
        # longer drafts than any burst: no contradiction where the server itself says that they are not accepted so far
        agrees = steps * prod(rates[: int(burst.value)]) < _FEW
    text = f"drafts of {said}, by the stream {'at least ' if burst.high is None else ''}{burst.value - 1:.0f}"
    yield _Claim("draft length", agrees, text)


def _drafts_alike(report: Json) -> bool:
    """Whether every step had a draft of one length, so that positions mean the same in both accounts."""
    length, steps, drafted, accepted, tokens = (
        whole(report.get(key)) for key in ("draft_length", "steps", "drafted", "accepted", "tokens")
    )
    if not length or not steps or drafted is None or accepted is None or tokens is None:
        return False
    plain = tokens - accepted - steps
    return abs(drafted - length * steps) <= _ALIKE * drafted and plain <= _ALIKE * steps


def _widening(level: float, quantities: int) -> float:
    """Factor on an interval's half-width that keeps `level` for several of them together (Bonferroni)."""
    return intervals.quantile(1 - (1 - level) / quantities) / intervals.quantile(level)


def _range(estimate: Estimate, wide: float) -> tuple[float, float]:
    high = float("inf") if estimate.high is None else estimate.value + (estimate.high - estimate.value) * wide
    return estimate.value - (estimate.value - estimate.low) * wide, high


def _off(said: float, value: float) -> str:
    return f" ({said / value - 1:+.0%})" if abs(said / value - 1) >= _NEAR else ""
