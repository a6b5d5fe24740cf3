"""What a plan says: which draft would be how fast, and how much has to be recorded to know something."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from .fingerprint import Estimate
from .shown import Shown

SCHEMA: Final = "specsonar.plan/1"

SPECULATION: Final = "speculation"
MAX_BURST: Final = "max_burst"
ACCEPTANCE_RATE: Final = "acceptance_rate"
ACCEPTANCE_LENGTH: Final = "acceptance_length"
STEP: Final = "step_ms"
CHANGE_OF_LENGTH: Final = "acceptance_length_change"
CHANGE_OF_STEP: Final = "step_ms_change"

TARGETS: Final = (
    SPECULATION, MAX_BURST, ACCEPTANCE_RATE, ACCEPTANCE_LENGTH, STEP, CHANGE_OF_LENGTH, CHANGE_OF_STEP,
)  # fmt: skip
"""What can be asked for, in the order in which it becomes known."""


@dataclass(frozen=True, slots=True)
class VerifyCost:
    """How long the target takes to verify several tokens in one pass.

    Attributes
    ----------
    widths : numbers of tokens for which it is known, rising, the first of them 1.
    costs : its time for each, in passes of one token: the first is 1.
    plain_ms : milliseconds of a pass of one token; None where only ratios are known.
    source : where the figures come from.
    """

    widths: tuple[int, ...] = (1,)
    costs: tuple[float, ...] = (1.0,)
    plain_ms: float | None = None
    source: str = "as long as one token, whatever their number"

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {
            "widths": list(self.widths), "costs": list(self.costs), "plain_ms": self.plain_ms, "source": self.source,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class AtCost:
    """A draft length at one draft cost.

    Attributes
    ----------
    draft_cost : of one drafted token, in passes of the target that decode one token.
    speedup : over plain decoding.
    against_now : its speed over that of the present draft length; None without one.
    break_even_alpha : the common acceptance from which on it is faster than plain decoding; None where no acceptance is
        enough.
    step_ms, tokens_per_s : None where no time is known.
    """

    draft_cost: float
    speedup: Estimate
    against_now: Estimate | None
    break_even_alpha: float | None
    step_ms: float | None
    tokens_per_s: Estimate | None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {
            "draft_cost": self.draft_cost, "speedup": self.speedup.to_dict(), "against_now": _plain(self.against_now),
            "break_even_alpha": self.break_even_alpha, "step_ms": self.step_ms,
            "tokens_per_s": _plain(self.tokens_per_s),
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Draft:
    """One draft length k.

    Attributes
    ----------
    k, max_burst : tokens drafted, and the most that a step can give.
    verify_cost : of the pass that verifies them, in passes of one token.
    acceptance_length : mean tokens of a step, E[B].
    efficiency, gap_tokens : E[B] / M and M - E[B].
    break_even_cost : the draft cost from which on it is no faster than plain decoding; None where it never is.
    even_cost : the draft cost at which it is as fast as the present one: above it the shorter draft wins; None where
        one of them is faster at any cost.
    assumed : it reaches positions whose acceptance is not known, and was carried on from the last known one.
    at : one entry for each draft cost of the plan.
    """

    k: int
    max_burst: int
    verify_cost: float
    acceptance_length: Estimate
    efficiency: Estimate
    gap_tokens: Estimate
    break_even_cost: float | None
    even_cost: float | None
    assumed: bool
    at: tuple[AtCost, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {
            "k": self.k, "max_burst": self.max_burst, "verify_cost": self.verify_cost,
            "acceptance_length": self.acceptance_length.to_dict(), "efficiency": self.efficiency.to_dict(),
            "gap_tokens": self.gap_tokens.to_dict(), "break_even_cost": self.break_even_cost,
            "even_cost": self.even_cost, "assumed": self.assumed, "at": [a.to_dict() for a in self.at],
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Fastest:
    """The fastest draft length of the table for draft costs from `low` to `high`; None is without end. 0: no draft."""

    low: float
    high: float | None
    k: int

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {"from": self.low, "to": self.high, "k": self.k}


@dataclass(frozen=True, slots=True)
class SpeedPlan(Shown):
    """Draft lengths side by side. Field names are those of the JSON contract.

    Attributes
    ----------
    sentence : the answer in plain words.
    bonus : whether a step in which all drafts are accepted gives one token more.
    acceptance : at each draft position for which it is known.
    draft_costs : those that were asked for, or that followed from measured times.
    cost_known : False where the draft cost was not given, and these are examples.
    verify_cost : of the target.
    now, asked : the present draft length, and the one that was asked about.
    drafts : one entry for each k from 1 on.
    best : the fastest k of the table for each of `draft_costs`; 0 where plain decoding is.
    fastest : the same for every draft cost.
    service : what was measured; None where nothing was.
    assumptions : what the answer rests on, in plain words.
    """

    sentence: str
    bonus: bool
    acceptance: tuple[Estimate, ...]
    draft_costs: tuple[float, ...]
    cost_known: bool
    verify_cost: VerifyCost
    now: int | None
    asked: int | None
    drafts: tuple[Draft, ...]
    best: tuple[int, ...]
    fastest: tuple[Fastest, ...]
    service: Mapping[str, Any] | None
    assumptions: tuple[str, ...]
    level: float

    def draft(self, k: int) -> Draft:
        """The entry of draft length `k`."""
        return self.drafts[k - 1]

    def to_dict(self) -> dict[str, Any]:
        """The JSON contract, `specsonar.plan/1` about speed."""
        return {
            "schema": SCHEMA,
            "about": "speed",
            "sentence": self.sentence,
            "bonus": self.bonus,
            "acceptance": [a.to_dict() for a in self.acceptance],
            "draft_costs": list(self.draft_costs),
            "cost_known": self.cost_known,
            "verify_cost": self.verify_cost.to_dict(),
            "now": self.now,
            "asked": self.asked,
            "drafts": [d.to_dict() for d in self.drafts],
            "best": list(self.best),
            "fastest": [f.to_dict() for f in self.fastest],
            "service": None if self.service is None else dict(self.service),
            "assumptions": list(self.assumptions),
            "level": self.level,
        }

    def flat(self) -> tuple[list[str], list[list[Any]]]:
        """Column names and one list of values for each draft length and draft cost, for tables and CSV."""
        names = [
            "k", "max_burst", "draft_cost", "verify_cost", "acceptance_length", "acceptance_length_low",
            "acceptance_length_high", "efficiency", "gap_tokens", "speedup", "speedup_low", "speedup_high",
            "break_even_alpha", "break_even_cost", "even_cost", "step_ms", "tokens_per_s", "against_now", "assumed",
        ]  # fmt: skip
        table = []
        for d in self.drafts:
            length = d.acceptance_length
            for a in d.at:
                rate, against = a.tokens_per_s, a.against_now
                table.append([
                    d.k, d.max_burst, a.draft_cost, d.verify_cost, length.value, length.low, length.high,
                    d.efficiency.value, d.gap_tokens.value, a.speedup.value, a.speedup.low, a.speedup.high,
                    a.break_even_alpha, d.break_even_cost, d.even_cost, a.step_ms, None if rate is None else rate.value,
                    None if against is None else against.value, d.assumed,
                ])  # fmt: skip
        return names, table


@dataclass(frozen=True, slots=True)
class Setting:
    """The service that a recording is planned for.

    Attributes
    ----------
    max_burst, acceptance : M, and the acceptance at each of its M - 1 positions.
    step_ms, jitter_ms : time of a step, and standard deviation of the delivery delay, milliseconds.
    step_cv : coefficient of variation of the step times; None where each layer has its usual one.
    spread : relative standard deviation of the acceptance length, and of the step, from stream to stream.
    tokens_per_stream : length of an answer.
    """

    max_burst: int
    acceptance: tuple[float, ...]
    step_ms: float
    jitter_ms: float
    step_cv: float | None
    spread: float
    tokens_per_stream: int

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {
            "max_burst": self.max_burst, "acceptance": list(self.acceptance), "step_ms": self.step_ms,
            "jitter_ms": self.jitter_ms, "step_cv": self.step_cv, "spread": self.spread,
            "tokens_per_stream": self.tokens_per_stream,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Trial:
    """How often simulated recordings gave what was wanted.

    Attributes
    ----------
    streams, tokens : of each recording, all streams together.
    recordings, right : how many there were, and how many of them were right.
    share, low, high : right over all, with its 95% interval (Wilson 1927).
    """

    streams: int
    tokens: int
    recordings: int
    right: int
    share: float
    low: float
    high: float

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {
            "streams": self.streams, "tokens": self.tokens, "recordings": self.recordings, "right": self.right,
            "share": self.share, "low": self.low, "high": self.high,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Need:
    """What one question needs when tokens are observed in one way.

    Attributes
    ----------
    target : what is asked for, e.g. "max_burst".
    wanted : the same in words, with the precision.
    probability : with which a recording of that size gives it.
    layer : how tokens are observed: counted, in-order or independent.
    tokens, streams : of the whole recording (of each side, for a change); None where no recording is long enough.
    limit : what it is that takes so many, in a few words.
    trial, quarter : recordings of that size, and of a quarter of it, that were simulated; None where none were.
    """

    target: str
    wanted: str
    probability: float
    layer: str
    tokens: int | None
    streams: int | None
    limit: str
    trial: Trial | None = None
    quarter: Trial | None = None

    @property
    def reached(self) -> bool | None:
        """Whether the simulation agrees that it is enough; None when it was not tried."""
        return None if self.trial is None else self.trial.high >= self.probability

    @property
    def tight(self) -> bool | None:
        """Whether a quarter of it is not enough; None when that was not tried."""
        return None if self.quarter is None else self.quarter.high < self.probability

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {
            "target": self.target, "wanted": self.wanted, "probability": self.probability, "layer": self.layer,
            "tokens": self.tokens, "streams": self.streams, "limit": self.limit, "reached": self.reached,
            "tight": self.tight, "trial": None if self.trial is None else self.trial.to_dict(),
            "quarter": None if self.quarter is None else self.quarter.to_dict(),
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class DataPlan(Shown):
    """How much has to be recorded. Field names are those of the JSON contract.

    Attributes
    ----------
    sentence : the answer in plain words.
    setting : the service.
    precision, change : relative half-width of an interval, and relative change, that are asked for.
    level, sure : of the intervals; and the probability with which a question of yes or no is answered right.
    needs : one entry for each question and way of observing.
    assumptions : what the answer rests on, in plain words.
    """

    sentence: str
    setting: Setting
    precision: float
    change: float
    level: float
    sure: float
    needs: tuple[Need, ...]
    assumptions: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """The JSON contract, `specsonar.plan/1` about data."""
        return {
            "schema": SCHEMA,
            "about": "data",
            "sentence": self.sentence,
            "setting": self.setting.to_dict(),
            "precision": self.precision,
            "change": self.change,
            "level": self.level,
            "sure": self.sure,
            "needs": [n.to_dict() for n in self.needs],
            "assumptions": list(self.assumptions),
        }

    def flat(self) -> tuple[list[str], list[list[Any]]]:
        """Column names and one list of values for each question and way of observing, for tables and CSV."""
        names = ["target", "wanted", "probability", "layer", "tokens", "streams", "limit", "share", "quarter_share"]
        table = [
            [n.target, n.wanted, n.probability, n.layer, n.tokens, n.streams, n.limit,
             None if n.trial is None else n.trial.share, None if n.quarter is None else n.quarter.share]
            for n in self.needs
        ]  # fmt: skip
        return names, table


def _plain(estimate: Estimate | None) -> dict[str, Any] | None:
    return None if estimate is None else estimate.to_dict()
