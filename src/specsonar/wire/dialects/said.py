"""What one payload says, in the words that all dialects share."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

Json = Mapping[str, Any]

# What one event of an engine or a service holds.
TOKEN: Final = "token"
STEP: Final = "step"
ANY: Final = "any number of tokens"

_INNER_BLANK: Final = re.compile(r"\w\s+\w")

_DEEPEST: Final = 4
_LONGEST: Final = 200


class Said(NamedTuple):
    """One choice of one payload. Counting (`wire.counting`) decides later whether it is an event with tokens.

    Attributes
    ----------
    choice : index of the answer, where a request asked for several.
    text : the payload carries some text of the answer (content, reasoning or a tool call).
    thought : that text is reasoning.
    several : that text is of several words, so of several tokens.
    hollow : why it carries nothing ("role", "empty delta"), unless a count says otherwise; else "".
    other : it is an envelope, a comment or a report, never a token: the word for the statistics, else "".
    finish : why the answer ended, when this payload says so.
    ids : number of token ids in it, or None.
    logprobs : number of token log-probabilities in it, or None.
    used : tokens of the answer so far by `usage`, or None.
    predicted : tokens of the answer so far by the engine's own counter, or None.
    so_far : the whole text of the answer so far, where a dialect may repeat it in every payload; else None.
    clock_ns : when the server made the payload, nanoseconds by its own clock with any origin, or None.
    """

    choice: int = 0
    text: bool = False
    thought: bool = False
    several: bool = False
    hollow: str = ""
    other: str = ""
    finish: str | None = None
    ids: int | None = None
    logprobs: int | None = None
    used: int | None = None
    predicted: int | None = None
    so_far: str | None = None
    clock_ns: int | None = None


class Facts(NamedTuple):
    """What a payload says about the whole answer; later payloads override earlier ones field by field.

    Attributes
    ----------
    engine : name of the engine, when a payload or a header betrays it.
    event_is : `TOKEN`, `STEP` or `ANY`: what one event of this engine holds, or None when it is not known.
    model : the model's name as the server gives it.
    total : the server's total of tokens in the answer.
    running : tokens so far; the total, once the answer has finished and no payload gave one.
    hidden : tokens of the total that are reasoning. They are no events where the reasoning is not shown.
    report : the server's own account of its speculation, in the words of `report.py`.
    error : what went wrong, in the server's words.
    """

    engine: str | None = None
    event_is: str | None = None
    model: str | None = None
    total: int | None = None
    running: int | None = None
    hidden: int | None = None
    report: Json | None = None
    error: str | None = None

    def updated(self, new: Facts) -> Facts:
        """This, overridden by what `new` knows."""
        known: dict[str, Any] = {
            k: v for k, old, v in zip(self._fields, self, new, strict=True) if v is not None and v != old
        }
        if self.engine and new.engine and not new.engine.startswith(self.engine):
            # a header names the program, a payload may only name its family; what an event holds goes with the name
            known |= {"engine": self.engine, "event_is": self.event_is}
        return self._replace(**known) if known else self

    def alone(self) -> Facts:
        """What holds for each of several choices: totals and reports are those of all together."""
        return Facts(self.engine, self.event_is, self.model)


def whole(value: object) -> int | None:
    """`value` when it is a count (a non-negative integer, not a bool), else None."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53 else None


def number(value: object) -> float | None:
    """`value` as a float when it is a finite JSON number, else None."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not -1e300 < value < 1e300:
        return None
    return float(value)


def table(value: object) -> Json:
    """`value` when it is a JSON object, else an empty one: servers write null where they have nothing to say."""
    return value if isinstance(value, dict) else {}


def rows(value: object) -> Sequence[Any]:
    """`value` when it is a JSON list, else an empty one."""
    return value if isinstance(value, list) else ()


def name(value: object) -> str | None:
    """`value` when it is some text, cut to what a message or a file may hold; else None."""
    if not isinstance(value, str) or not value:
        return None
    return value[:_LONGEST].encode(errors="replace").decode()  # half a character of a pair is no text anywhere else


def length(value: object) -> int | None:
    """How many elements a JSON list has; None where there is no list."""
    return len(value) if isinstance(value, list) else None


def several_words(*values: object) -> bool:
    """Whether one of these texts has a blank between two words; no common tokenizer has a token like that."""
    return any(isinstance(value, str) and _INNER_BLANK.search(value) is not None for value in values)


def text_under(value: Json, keys: Sequence[str], deep: int = _DEEPEST) -> bool:
    """Whether some text is in `value` under one of these keys."""
    return any(has_text(value[key], deep) for key in keys if key in value)


def has_text(value: object, deep: int = _DEEPEST) -> bool:
    """Whether some text is in `value`: a string, a list of parts, or a part with text, arguments or a name in it."""
    if isinstance(value, str):
        return bool(value)
    if deep == 0:
        return False
    if isinstance(value, dict):
        return text_under(value, _TEXT_KEYS, deep - 1)
    return any(has_text(part, deep - 1) for part in rows(value))


_TEXT_KEYS: Final = ("text", "thinking", "content", "function", "functionCall", "arguments", "name", "input", "args")
