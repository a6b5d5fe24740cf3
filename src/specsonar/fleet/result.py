"""What is known of a fleet: its groups with their fingerprints, what changed between them, and what was left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from ..fingerprint import CHANGED, EQUIVALENT, UNDETERMINED, Change, Finding, Fingerprint

SCHEMA: Final = "specsonar.fleet/1"

EXPLANATION: Final = "explanation"
"""Drift of a service that is explained in another way than before: a buffer, say, where steps were to be seen."""

UNKNOWN: Final = "?"
"""Stands for a value that nobody told."""

NEXT: Final = "next"
WHOLE: Final = "whole"


@dataclass(frozen=True, slots=True)
class Group:
    """Streams that agree in everything they are grouped by.

    Attributes
    ----------
    key : their values, in the order of `Fleet.by`.
    streams, events, tokens : of all of them; tokens None where a stream does not tell.
    pooled : streams that the fingerprint was made of.
    fingerprint : of the pooled streams; None where they could not be used, and `problem` says why.
    first_token_ms : median over all streams that tell; None without any.
    acceptance_length, step_ms : means over the steps of all streams, each measured by the law of the group; or None.
    """

    key: tuple[str, ...]
    streams: int
    events: int
    tokens: int | None
    pooled: int
    fingerprint: Fingerprint | None
    problem: str = ""
    first_token_ms: float | None = None
    acceptance_length: float | None = None
    step_ms: float | None = None

    @property
    def verdict(self) -> str:
        """Of its fingerprint."""
        return UNDETERMINED if self.fingerprint is None else self.fingerprint.verdict

    def to_dict(self, by: tuple[str, ...]) -> dict[str, Any]:
        """Plain JSON types, in the order of the contract."""
        found = self.fingerprint and replace(self.fingerprint, arrivals=()).to_dict()
        return {
            "key": dict(zip(by, self.key, strict=True)), "streams": self.streams, "events": self.events,
            "tokens": self.tokens, "pooled": self.pooled, "first_token_ms": self.first_token_ms,
            "acceptance_length": self.acceptance_length, "step_ms": self.step_ms, "problem": self.problem or None,
            "fingerprint": found,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Drift:
    """What changed from one group of a series to another.

    Attributes
    ----------
    series : what both have in common: all they are grouped by but the last.
    base, candidate : their values of the last.
    span : "next" (neighbours) or "whole" (the first and the last of the series).
    verdict : "acceptance", "step", "both", "equivalent", "undetermined", or "explanation".
    changes : by quantity, from all streams of both groups; None where one of them does not show it.
    needed_streams : about how many in each group would settle what is undetermined; None when nothing is.
    findings : in what else the groups differ.
    """

    series: tuple[str, ...]
    base: str
    candidate: str
    span: str
    verdict: str
    sentence: str
    changes: Mapping[str, Change | None]
    needed_streams: int | None = None
    findings: tuple[Finding, ...] = ()

    @property
    def changed(self) -> bool:
        """Whether anything did for certain."""
        return self.verdict not in (EQUIVALENT, UNDETERMINED)

    def of(self, quantity: str) -> Change | None:
        """The change of one quantity where it is certain."""
        change = self.changes.get(quantity)
        return change if change is not None and change.verdict == CHANGED else None

    def to_dict(self, by: tuple[str, ...]) -> dict[str, Any]:
        """Plain JSON types, in the order of the contract."""
        return {
            "series": dict(zip(by[:-1], self.series, strict=True)), "along": by[-1], "base": self.base,
            "candidate": self.candidate, "span": self.span, "verdict": self.verdict, "sentence": self.sentence,
            "needed_streams": self.needed_streams,
            **{name: None if change is None else change.to_dict() for name, change in self.changes.items()},
            "findings": [f.to_dict() for f in self.findings],
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file that could not be used, and why."""

    name: str
    reason: str

    def to_dict(self) -> dict[str, str]:
        """Plain JSON types."""
        return {"name": self.name, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class Fleet:
    """The answer to `specsonar fleet`.

    Attributes
    ----------
    by : what streams are grouped by; groups that agree in all but the last are a series, and compared along it.
    groups : in the order of their keys.
    drift : of neighbours in each series, then of its first and last.
    skipped : files that could not be used.
    files, streams, events : what was read.
    sample, seed, level, margin : how it was done.
    """

    by: tuple[str, ...]
    groups: tuple[Group, ...]
    drift: tuple[Drift, ...]
    skipped: tuple[Skipped, ...]
    findings: tuple[Finding, ...]
    files: int
    streams: int
    events: int
    sample: int
    seed: int
    level: float
    margin: float

    @property
    def changed(self) -> tuple[Drift, ...]:
        """Neighbours between which something changed."""
        return tuple(d for d in self.drift if d.span == NEXT and d.changed)

    def before(self, group: Group) -> Drift | None:
        """What changed from the group before it in its series; None for the first."""
        for one in self.drift:
            if one.span == NEXT and (*one.series, one.candidate) == group.key:
                return one
        return None

    @property
    def sentence(self) -> str:
        """The answer in plain words."""
        told = f"{_many(self.streams, 'stream')} of {_many(self.events, 'event')} in {_many(len(self.groups), 'group')}"
        neighbours = [d for d in self.drift if d.span == NEXT]
        if not neighbours:
            return f"{told}; nothing to compare along {self.by[-1]}."
        if not self.changed:
            unsure = sum(d.verdict == UNDETERMINED for d in neighbours)
            rest = f", {unsure} of {len(neighbours)} steps undetermined" if unsure else ""
            return f"{told}: no change along {self.by[-1]} to be seen{rest}."
        where = [
            f"{' '.join(part for part in (*d.series, d.candidate) if part != UNKNOWN)} ({d.verdict})"
            for d in self.changed[:3]
        ]
        more = f" and {len(self.changed) - 3} more" if len(self.changed) > 3 else ""
        return f"{told}; changed: {', '.join(where)}{more}."

    def to_dict(self) -> dict[str, Any]:
        """The JSON contract, `specsonar.fleet/1`."""
        return {
            "schema": SCHEMA, "sentence": self.sentence, "by": list(self.by), "files": self.files,
            "streams": self.streams, "events": self.events, "sample": self.sample, "seed": self.seed,
            "level": self.level, "margin": self.margin, "groups": [g.to_dict(self.by) for g in self.groups],
            "drift": [d.to_dict(self.by) for d in self.drift], "skipped": [s.to_dict() for s in self.skipped],
            "findings": [f.to_dict() for f in self.findings],
        }  # fmt: skip


def _many(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"
