"""What hiding brings and costs: what observers still learn behind each policy, and what its users wait for it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from .shown import Shown

SCHEMA: Final = "specsonar.defend/1"

BASELINE: Final = "baseline"
OURS: Final = "likelihood"
INFORMED: Final = "informed"
OBSERVERS: Final = (OURS, BASELINE, INFORMED)
"""specsonar's estimator, the founding article's, and one who knows the policy (where such a one was built)."""

ALPHA_WITHIN: Final = 0.05
STEP_WITHIN: Final = 0.05
"""How near an estimate has to come to count as known: in acceptance, and as a share of the step."""

HIDDEN: Final = 0.1
"""Share of the streams up to which something counts as hidden."""


@dataclass(frozen=True, slots=True)
class Share:
    """A share of trials with its 95% interval (Wilson 1927).

    Attributes
    ----------
    count, of : trials in which it was so, and all.
    """

    count: int
    of: int

    @property
    def value(self) -> float:
        """The share; nan of no trials."""
        return self.count / self.of if self.of else math.nan

    @property
    def interval(self) -> tuple[float, float]:
        """Its ends."""
        if not self.of:
            return math.nan, math.nan
        n, p, z = self.of, self.value, 1.959963984540054
        middle = (p + z * z / (2 * n)) / (1 + z * z / n)
        half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
        return max(middle - half, 0.0), min(middle + half, 1.0)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        low, high = self.interval
        return {"value": _known(self.value), "low": _known(low), "high": _known(high), "of": self.of}


@dataclass(frozen=True, slots=True)
class Learnt:
    """What one observer learns.

    Attributes
    ----------
    observer : one of `OBSERVERS`.
    speculative : trials in which speculation was seen; the baseline sees it where it finds M > 1.
    falsely : the same for the service without drafts; None where there is no such service (a recording).
    max_burst : M exact. alpha : acceptance within `ALPHA_WITHIN`. step : step within `STEP_WITHIN` of it.
    alpha_error, step_error : median absolute errors where a number was given, the step's as a share of it; or None.
    """

    observer: str
    speculative: Share
    falsely: Share | None
    max_burst: Share
    alpha: Share
    step: Share
    alpha_error: float | None
    step_error: float | None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {
            "observer": self.observer, "speculative": self.speculative.to_dict(),
            "falsely": None if self.falsely is None else self.falsely.to_dict(), "max_burst": self.max_burst.to_dict(),
            "alpha": self.alpha.to_dict(), "step": self.step.to_dict(), "alpha_error": self.alpha_error,
            "step_error": self.step_error,
        }  # fmt: skip

    @property
    def verdict(self) -> float:
        """How much better than chance speculation is told: seen where it is, less seen where it is not.

        0 for the baseline, which sees it nearly everywhere.
        """
        if self.observer == BASELINE:
            return 0.0
        return self.speculative.value - (self.falsely.value if self.falsely else 0.0)

    @property
    def leak(self) -> float:
        """What is learnt about the drafts: the verdict or M, whichever is learnt more often.

        Acceptance does not count: without M it says little, and the baseline finds about .75 in pure noise.
        """
        return max(self.verdict, self.max_burst.value)


@dataclass(frozen=True, slots=True)
class Sizes:
    """What sizes tell one who sees encrypted writes only.

    Attributes
    ----------
    correlation : of the bytes of a write with its tokens; None where every write has the same number of tokens.
    bytes_per_token : slope of that line; None likewise.
    told : share of writes whose number of tokens the line gives exactly.
    guessed : the same for one who always says the commonest number.
    tokens_per_write : mean.
    """

    correlation: float | None
    bytes_per_token: float | None
    told: float
    guessed: float
    tokens_per_write: float


@dataclass(frozen=True, slots=True)
class Price:
    """What a policy costs, means over the trials.

    Attributes
    ----------
    first_ms, mean_ms, p99_ms : how much later the first token comes, every token, and one in a hundred at least.
    time_ratio : time of a whole answer over that without the policy.
    bytes_ratio : bytes of a whole answer over those without the policy.
    """

    first_ms: float
    mean_ms: float
    p99_ms: float
    time_ratio: float
    bytes_ratio: float


@dataclass(frozen=True, slots=True)
class Row:
    """One policy at one length of answers.

    Attributes
    ----------
    policy : as `--policy` takes it; "none" for no defence.
    way : kind of the policy with its law, "scatter=exponential".
    strength : mean random delay, period or expected step over the step of the service; nan where there is none.
    tokens : length of each answer.
    learnt : by each observer that there is for this policy.
    failed : trials that ended with an error.
    """

    policy: str
    way: str
    strength: float
    tokens: int
    learnt: tuple[Learnt, ...]
    sizes: Sizes
    price: Price
    failed: int = 0

    def by(self, observer: str) -> Learnt | None:
        """What that observer learns; None where there is no such observer here."""
        return next((one for one in self.learnt if one.observer == observer), None)

    @property
    def leak(self) -> float:
        """The most that any observer learns about the drafts."""
        return max(one.leak for one in self.learnt)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {
            "policy": self.policy, "way": self.way, "strength": _known(self.strength), "tokens": self.tokens,
            "learnt": [one.to_dict() for one in self.learnt], "sizes": asdict(self.sizes), "price": asdict(self.price),
            "failed": self.failed,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Enough:
    """From which mean delay on an observer learns something in at most `HIDDEN` of the streams.

    Attributes
    ----------
    way, observer, tokens : whose delay, against whom, with how long an answer.
    quantity : "speculative" (better than chance) or "max_burst".
    delay : in steps; None where no delay that was tried is enough.
    """

    way: str
    observer: str
    tokens: int
    quantity: str
    delay: float | None


@dataclass(frozen=True, slots=True)
class Defended(Shown):
    """Policies beside each other.

    Attributes
    ----------
    sentence : the answer in plain words.
    preset : name of the grid, or "policies".
    source : "simulated", or the names of the recordings.
    max_burst, alpha, step_ms : what there is to be learnt; alpha and M None where the recording itself does not tell.
    tokens_per_step : mean.
    reps, streams, seed : trials a row, streams that an observer has in each, and the seed.
    rows : one for each policy and length.
    enough : the answer to "how much delay", for grids that have several strengths of a random delay.
    assumptions : what the figures rest on.
    """

    sentence: str
    preset: str
    source: str
    max_burst: int | None
    alpha: float | None
    step_ms: float
    tokens_per_step: float
    reps: int
    streams: int
    seed: int
    rows: tuple[Row, ...]
    enough: tuple[Enough, ...] = ()
    assumptions: tuple[str, ...] = ()
    service: Mapping[str, Any] | None = field(default=None)

    @property
    def cheapest(self) -> Row | None:
        """The policy that hides the drafts of the longest answers and delays them least; None where none does."""
        most = max(row.tokens for row in self.rows)
        closed = [row for row in self.rows if row.tokens == most and row.leak <= HIDDEN]
        return min(closed, key=lambda row: (row.price.mean_ms, row.price.bytes_ratio), default=None)

    def to_dict(self) -> dict[str, Any]:
        """The JSON contract, `specsonar.defend/1`."""
        return {
            "schema": SCHEMA, "sentence": self.sentence, "preset": self.preset, "source": self.source,
            "max_burst": self.max_burst, "alpha": self.alpha, "step_ms": self.step_ms,
            "tokens_per_step": self.tokens_per_step, "reps": self.reps, "streams": self.streams, "seed": self.seed,
            "rows": [row.to_dict() for row in self.rows], "enough": [asdict(one) for one in self.enough],
            "assumptions": list(self.assumptions), "service": None if self.service is None else dict(self.service),
        }  # fmt: skip

    def flat(self) -> tuple[list[str], list[list[Any]]]:
        """Column names and one list of values for each row, for tables and CSV."""
        table = []
        names: list[str] = []
        for row in self.rows:
            flat: dict[str, Any] = {
                "policy": row.policy, "way": row.way, "strength": row.strength, "tokens": row.tokens,
                **asdict(row.price), **{f"size_{k}": v for k, v in asdict(row.sizes).items()}, "failed": row.failed,
            }  # fmt: skip
            for observer in OBSERVERS:
                learnt = row.by(observer)
                for name in ("speculative", "falsely", "max_burst", "alpha", "step"):
                    share = getattr(learnt, name) if learnt else None
                    flat[f"{observer}_{name}"] = None if share is None else share.value
                for name in ("alpha_error", "step_error"):
                    flat[f"{observer}_{name}"] = getattr(learnt, name) if learnt else None
            names = list(flat)
            table.append(list(flat.values()))
        return names, table


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value
