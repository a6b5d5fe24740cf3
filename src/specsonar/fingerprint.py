"""The answer: estimates with their intervals, a verdict, and what stands in the way of a better one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from .pictures import Arrivals, Histogram, Profile
from .shown import Shown

SCHEMA: Final = "specsonar.fingerprint/1"

SPECULATIVE: Final = "speculative"
AUTOREGRESSIVE: Final = "autoregressive"
FIXED_CHUNKS: Final = "fixed-chunks"
BUFFERED: Final = "buffered"
PACED: Final = "paced"
UNDETERMINED: Final = "undetermined"
VERDICTS: Final = (SPECULATIVE, AUTOREGRESSIVE, FIXED_CHUNKS, BUFFERED, PACED, UNDETERMINED)

COUNTED_LAYER: Final = "counted"
IN_ORDER_LAYER: Final = "in-order"
INDEPENDENT_LAYER: Final = "independent"
LAYERS: Final = (COUNTED_LAYER, IN_ORDER_LAYER, INDEPENDENT_LAYER)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its interval.

    Attributes
    ----------
    value : the point estimate.
    low, high : ends of the interval; `high` is None when the interval is one-sided.
    level : probability with which such intervals hold the truth, e.g. 0.95.
    method : how the interval was made, in a few words.
    """

    value: float
    low: float
    high: float | None
    level: float
    method: str

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types, in the order of the contract."""
        return {
            "value": self.value, "low": self.low, "high": self.high, "level": self.level, "method": self.method,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Finding:
    """Something the user should know about the data or the answer; `specsonar explain CODE` tells the rest."""

    code: str
    severity: str
    message: str
    hint: str = ""

    def to_dict(self) -> dict[str, str]:
        """Plain JSON types."""
        return {"code": self.code, "severity": self.severity, "message": self.message, "hint": self.hint}


@dataclass(frozen=True, slots=True)
class Alternative:
    """One explanation of the data and its share of the evidence (weights sum to one).

    Attributes
    ----------
    model : one of `VERDICTS`.
    behind : nats by which its penalised log-likelihood is behind the best; None where it was not scored.
    layer : the observation layer in which it did best.
    reason : why it won or lost, in a few words.
    """

    model: str
    weight: float
    behind: float | None = None
    layer: str | None = None
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {
            "model": self.model, "weight": self.weight, "behind": self.behind, "layer": self.layer,
            "reason": self.reason,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class StreamTotals:
    """What one stream adds to the estimates.

    Attributes
    ----------
    tokens, steps : of its complete steps.
    step_ms : mean time of its steps, stalls left out, milliseconds; None where steps cannot be told apart in time.
    spread_ms : how far these times scatter: their interquartile range as a normal standard deviation; or None.
    first_token_ms : from the request to the first token; None where the request was not seen.
    question : the name of what was asked, the same wherever it is asked again; None where it is not known.
    """

    tokens: float
    steps: float
    step_ms: float | None = None
    spread_ms: float | None = None
    first_token_ms: float | None = None
    question: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {
            "tokens": self.tokens, "steps": self.steps, "step_ms": self.step_ms, "spread_ms": self.spread_ms,
            "first_token_ms": self.first_token_ms, "question": self.question,
        }  # fmt: skip


HELD: Final = "held"
FAILED: Final = "failed"


@dataclass(frozen=True, slots=True)
class Check:
    """One question that a gate asks, and its answer.

    Attributes
    ----------
    name : what is asked: an expectation as it was written, or a quantity of a comparison.
    verdict : "held", "failed" or "undetermined"; None for a quantity that is told but does not decide.
    message : the figures behind it, one line.
    """

    name: str
    verdict: str | None
    message: str

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {"name": self.name, "verdict": self.verdict, "message": self.message}


@dataclass(frozen=True, slots=True)
class Fingerprint(Shown):
    """How a service decodes, as far as its arrival times tell. Field names are those of the JSON contract.

    Attributes
    ----------
    verdict : one of `VERDICTS`.
    max_burst : most tokens one step can give (M); `high` None when full bursts are too rare to bound it.
    acceptance_rate : the common conditional acceptance of a drafted token (alpha).
    acceptance_by_position : the same for each draft position, free of each other.
    acceptance_length : mean tokens per step, E[B].
    step_ms, jitter_ms : time of a step and spread of the delivery delay, milliseconds.
    tokens_per_s : rate while decoding, E[B] / step.
    efficiency, gap_tokens : E[B] / M and M - E[B].
    alternatives : every explanation that was fitted, best first.
    layer : one of `LAYERS`: which observation model the numbers rest on.
    streams, tokens, events, steps : how much data there was; `steps` is an estimate.
    needed_tokens : about how many tokens would settle an undetermined question; None when none is open.
    burst_sizes : steps by size (edges k..k+1), with the fitted law.
    gaps : gaps between events in milliseconds on logarithmic edges, with the fitted law where there is one.
    phases : events by their time from the nearest tooth of a comb one step apart, with the fitted law where the layer
        has one: a hump where steps keep time, flat where they do not.
    burst_profile : log-likelihood over M with the penalty of the layer, as far as it was tried.
    arrivals : the beginnings of a few streams.
    by_stream : what each stream adds, in the order of the streams; None where steps cannot be told apart.
    conditions : how the answers were asked for (model, temperature...), as far as it is known.
    checks : the answer to each expectation that was stated.
    """

    verdict: str
    sentence: str
    max_burst: Estimate | None
    acceptance_rate: Estimate | None
    acceptance_by_position: tuple[Estimate, ...] | None
    acceptance_length: Estimate | None
    step_ms: Estimate | None
    jitter_ms: Estimate | None
    tokens_per_s: Estimate | None
    efficiency: Estimate | None
    gap_tokens: Estimate | None
    alternatives: tuple[Alternative, ...]
    layer: str | None
    count_source: str
    streams: int
    tokens: int | None
    events: int
    steps: int | None
    needed_tokens: int | None = None
    chunk_tokens: int | None = None
    flush_ms: float | None = None
    flush_bytes: int | None = None
    server_report: Mapping[str, Any] | None = None
    findings: tuple[Finding, ...] = ()
    burst_sizes: Histogram | None = None
    gaps: Histogram | None = None
    phases: Histogram | None = None
    burst_profile: Profile | None = None
    arrivals: tuple[Arrivals, ...] = ()
    by_stream: tuple[StreamTotals, ...] | None = None
    conditions: Mapping[str, Any] = field(default_factory=dict)
    checks: tuple[Check, ...] = ()
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The JSON contract, `specsonar.fingerprint/1`: plain types only, keys in a fixed order."""
        burst = None if self.max_burst is None else int(self.max_burst.value)
        draft = None if burst is None else {"with_bonus": burst - 1, "without_bonus": burst, "convention": "unknown"}
        return {
            "schema": SCHEMA,
            "verdict": self.verdict,
            "sentence": self.sentence,
            "max_burst": _plain(self.max_burst, whole=True),
            "draft_length": draft,
            "acceptance_rate": _plain(self.acceptance_rate),
            "acceptance_by_position": _each(self.acceptance_by_position),
            "acceptance_length": _plain(self.acceptance_length),
            "step_ms": _plain(self.step_ms),
            "jitter_ms": _plain(self.jitter_ms),
            "tokens_per_s": _plain(self.tokens_per_s),
            "ceiling": _ceiling(self.efficiency, self.gap_tokens),
            "alternatives": [a.to_dict() for a in self.alternatives],
            "layer": self.layer,
            "count_source": self.count_source,
            "streams": self.streams,
            "tokens": self.tokens,
            "events": self.events,
            "steps": self.steps,
            "needed_tokens": self.needed_tokens,
            "chunk_tokens": self.chunk_tokens,
            "flush_ms": self.flush_ms,
            "flush_bytes": self.flush_bytes,
            "server_report": None if self.server_report is None else dict(self.server_report),
            "findings": [f.to_dict() for f in self.findings],
            "burst_sizes": None if self.burst_sizes is None else self.burst_sizes.to_dict(),
            "gaps": None if self.gaps is None else self.gaps.to_dict(),
            "phases": None if self.phases is None else self.phases.to_dict(),
            "burst_profile": None if self.burst_profile is None else self.burst_profile.to_dict(),
            "arrivals": [a.to_dict() for a in self.arrivals],
            "by_stream": None if self.by_stream is None else [s.to_dict() for s in self.by_stream],
            "conditions": dict(self.conditions),
            "checks": [c.to_dict() for c in self.checks],
            "provenance": dict(self.provenance),
        }


COMPARISON_SCHEMA: Final = "specsonar.comparison/1"

CHANGED: Final = "changed"
EQUIVALENT: Final = "equivalent"


COMPARED: Final = ("tokens_per_s", "acceptance_length", "step_ms", "first_token_ms", "jitter_ms")
"""Compared quantities in reading order."""

MORE_IS_BETTER: Final = ("tokens_per_s", "acceptance_length")
"""Compared quantities of which one wants more."""


@dataclass(frozen=True, slots=True)
class Change:
    """One quantity of two recordings.

    Attributes
    ----------
    quantity : name of the field of a Fingerprint, or "first_token_ms".
    base, candidate : its value on each side.
    ratio, low, high : candidate over base, with its interval.
    level, method : of the interval.
    verdict : "changed", "equivalent" (within the margin) or "undetermined".
    needed_streams : about how many streams a side would settle it; None when it is settled.
    """

    quantity: str
    base: float
    candidate: float
    ratio: float
    low: float
    high: float
    level: float
    method: str
    verdict: str
    needed_streams: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types, in the order of the contract."""
        return {
            "ratio": self.ratio, "low": self.low, "high": self.high, "level": self.level, "method": self.method,
            "verdict": self.verdict, "base": self.base, "candidate": self.candidate,
        }  # fmt: skip

    @property
    def percent(self) -> tuple[float, float, float]:
        """The change and the ends of its interval, in percent of the base."""
        return (self.ratio - 1) * 100, (self.low - 1) * 100, (self.high - 1) * 100

    @property
    def better(self) -> bool:
        """Whether the candidate is on the better side of the base; times and jitter are better when small."""
        return self.ratio > 1 if self.quantity in MORE_IS_BETTER else self.ratio < 1


@dataclass(frozen=True, slots=True)
class Comparison(Shown):
    """What changed between two recordings. Field names are those of the JSON contract.

    Attributes
    ----------
    verdict : "acceptance", "step", "both", "equivalent" or "undetermined".
    sentence : the answer in plain words.
    tokens_per_s, acceptance_length, step_ms, first_token_ms, jitter_ms : None where a side does not have it.
    margin : relative difference within which a quantity is equivalent.
    needed_streams, needed_tokens : about what an undetermined question needs on each side; None when none is open.
    base, candidate : the fingerprints.
    checks : what a gate makes of each quantity.
    """

    verdict: str
    sentence: str
    tokens_per_s: Change | None
    acceptance_length: Change | None
    step_ms: Change | None
    first_token_ms: Change | None
    jitter_ms: Change | None
    margin: float
    needed_streams: int | None
    needed_tokens: int | None
    findings: tuple[Finding, ...]
    base: Fingerprint
    candidate: Fingerprint
    checks: tuple[Check, ...] = ()

    @property
    def changes(self) -> dict[str, Change | None]:
        """The compared quantities by name, in reading order."""
        return {name: getattr(self, name) for name in COMPARED}

    def to_dict(self) -> dict[str, Any]:
        """The JSON contract, `specsonar.comparison/1`."""
        needed = None
        if self.needed_streams is not None:
            needed = {"streams": self.needed_streams, "tokens": self.needed_tokens}
        return {
            "schema": COMPARISON_SCHEMA,
            "verdict": self.verdict,
            "sentence": self.sentence,
            **{name: None if c is None else c.to_dict() for name, c in self.changes.items()},
            "margin": self.margin,
            "needed": needed,
            "checks": [c.to_dict() for c in self.checks],
            "findings": [f.to_dict() for f in self.findings],
            "base": self.base.to_dict(),
            "candidate": self.candidate.to_dict(),
        }


def _plain(estimate: Estimate | None, *, whole: bool = False) -> dict[str, Any] | None:
    if estimate is None:
        return None
    plain = estimate.to_dict()
    if whole:
        for key in ("value", "low", "high"):
            plain[key] = None if plain[key] is None else int(plain[key])
    return plain


def _each(estimates: Sequence[Estimate] | None) -> list[dict[str, Any]] | None:
    return None if estimates is None else [e.to_dict() for e in estimates]


def _ceiling(efficiency: Estimate | None, gap: Estimate | None) -> dict[str, Any] | None:
    if efficiency is None or gap is None:
        return None
    return {
        "efficiency": efficiency.value,
        "gap_tokens": gap.value,
        "efficiency_interval": efficiency.to_dict(),
        "gap_tokens_interval": gap.to_dict(),
    }
