"""What one payload says, in the words that all dialects share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Said:
    """One choice of one payload. Counting (`wire.counting`) decides later whether it is an event with tokens.

    Attributes
    ----------
    choice : index of the answer, where a request asked for several.
    text : the payload carries some text of the answer (content, reasoning or a tool call).
    role : it only announces who speaks.
    other : it is an envelope, a comment or a report, never a token: the word for the statistics, else "".
    finish : why the answer ended, when this payload says so.
    ids : number of token ids in it, or None.
    logprobs : number of token log-probabilities in it, or None.
    used : tokens of the answer so far by `usage`, or None.
    predicted : tokens of the answer so far by the engine's own counter, or None.
    """

    choice: int = 0
    text: bool = False
    role: bool = False
    other: str = ""
    finish: str | None = None
    ids: int | None = None
    logprobs: int | None = None
    used: int | None = None
    predicted: int | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """What a payload says about the whole answer; later payloads override earlier ones field by field.

    Attributes
    ----------
    engine : name of the engine, when a payload or a header betrays it.
    event_is : "token" or "step": what this engine puts into one event, or None when it is not known.
    model : the model's name as the server gives it.
    total : the server's total of tokens in the answer.
    report : the server's own account of its speculation, in the words of `report.py`.
    """

    engine: str | None = None
    event_is: str | None = None
    model: str | None = None
    total: int | None = None
    report: Json | None = None

    def without_total(self) -> Facts:
        """The same, for an answer whose total is not to be trusted."""
        return replace(self, total=None)


def whole(value: object) -> int | None:
    """`value` when it is a count (a non-negative integer, not a bool), else None."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62 else None


def number(value: object) -> float | None:
    """`value` as a float when it is a JSON number, else None."""
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def table(value: object) -> Json:
    """`value` when it is a JSON object, else an empty one: servers write null where they have nothing to say."""
    return value if isinstance(value, Mapping) else {}
