"""From what the payloads say to token counts: choose the best source that covers the whole answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ..trace import ASSUMED_ONE, COUNTED, NOT_SAID, ONE_EACH, TOTAL_ONLY, UNKNOWN
from .dialects import Said

_SOURCES: Final = ("token ids", "usage per event", "log-probabilities", "tokens predicted")


@dataclass(frozen=True, slots=True)
class Counted:
    """Which payloads are events with tokens, and how many.

    Attributes
    ----------
    keep : indices of the payloads that are events.
    tokens : their counts, same length; `UNKNOWN` where the server did not say.
    count_source : one of the constants of `trace`.
    count_field : the field that the counts come from, in words; None where there is none.
    skipped : how many payloads were left out, by reason.
    """

    keep: list[int]
    tokens: list[int]
    count_source: str
    count_field: str | None
    skipped: dict[str, int]


def count(payloads: Sequence[Said], total: int | None, most: int | None, event_is: str | None) -> Counted:
    """Counts for one answer.

    Parameters
    ----------
    payloads : what each payload of the answer says, in order of arrival.
    total : the server's total, where it can be trusted; None otherwise.
    most : the largest number of tokens that the request allowed, or None.
    event_is : "token" or "step": what the engine puts into one event, or None when it is not known.
    """
    field, counts = _best(payloads)
    keep: list[int] = []
    tokens: list[int] = []
    skipped: Counter[str] = Counter()
    for index, (said, n) in enumerate(zip(payloads, counts, strict=True)):
        if reason := _not_tokens(said, n):
            skipped[reason] += 1
        else:
            keep.append(index)
            tokens.append(UNKNOWN if n is None else n)
    if field is None:
        # Every event has at least one token, so as many events as tokens (or as tokens allowed) have one each.
        seen = all(payloads[index].text for index in keep)
        for bound, words in ((total, "total"), (most, "token limit of the request")):
            if keep and seen and bound == len(keep):
                return Counted(keep, [1] * len(keep), ONE_EACH, words, dict(skipped))
        untold = NOT_SAID if event_is == "step" else ASSUMED_ONE
        return Counted(keep, tokens, untold if total is None else TOTAL_ONLY, None, dict(skipped))
    source = ONE_EACH if tokens and min(tokens) == max(tokens) == 1 else COUNTED
    return Counted(keep, tokens, source, field, dict(skipped))


def _best(payloads: Sequence[Said]) -> tuple[str | None, list[int | None]]:
    """The best source that tells about every payload with text, and the new tokens of each payload."""
    columns = (
        [p.ids for p in payloads],
        _growth([p.used for p in payloads]),
        [p.logprobs for p in payloads],
        _growth([p.predicted for p in payloads]),
    )
    for field, column in zip(_SOURCES, columns, strict=True):
        told = [n for p, n in zip(payloads, column, strict=True) if p.text]
        if told and None not in told and any(told):
            return field, column
    return None, [None] * len(payloads)


def _growth(running: list[int | None]) -> list[int | None]:
    """New tokens of each payload from a running total; None where the total is missing or falls."""
    new: list[int | None] = []
    before = 0
    for now in running:
        if now is None or now < before:
            new.append(None)
        else:
            new.append(now - before)
            before = now
    return new


class Running:
    """Counts of one choice while it runs: what each payload tells at once. `count` decides when all are there."""

    def __init__(self) -> None:
        self._before = [0, 0]

    def add(self, said: Said) -> tuple[int, bool]:
        """New tokens of the next payload by the best source it has (`UNKNOWN` without one), and whether any says so."""
        used, predicted = (self._new(i, now) for i, now in enumerate((said.used, said.predicted)))
        told = [n for n in (said.ids, used, said.logprobs, predicted) if n is not None]
        return (told[0] if told else UNKNOWN), any(told)

    def _new(self, column: int, now: int | None) -> int | None:
        before = self._before[column]
        if now is None or now < before:
            return None
        self._before[column] = now
        return now - before


def _not_tokens(said: Said, n: int | None) -> str:
    """Why a payload is no event with tokens, or ""."""
    if said.other:
        return said.other
    if n:
        return ""
    if said.role:
        return "role"
    if n == 0:
        return "text without a new token" if said.text else "final" if said.finish else "no new token"
    if said.text:
        return ""
    return "final" if said.finish else ""
