"""From what the payloads say to token counts: choose the best source that covers the whole answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ..trace import ASSUMED_ONE, COUNTED, NOT_SAID, ONE_EACH, TOTAL_ONLY, UNKNOWN
from .dialects import Said
from .dialects.said import ANY, STEP

_SOURCES: Final = ("token ids", "usage per event", "log-probabilities", "tokens predicted")

_MOST_AT_ONCE: Final = 1024
"""More tokens than this in one event are no step of a decoder: the source of the count is wrong and is not used."""

_MANY: Final = 0.05
"""Share of events with several words above which an event is not taken as one token."""


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
    unseen : tokens of the total that no event shows, though the counts are complete: the end token.
    """

    keep: list[int]
    tokens: list[int]
    count_source: str
    count_field: str | None
    skipped: dict[str, int]
    unseen: int = 0


def count(payloads: Sequence[Said], total: int | None, most: int | None, event_is: str | None) -> Counted:
    """Counts for one answer.

    Parameters
    ----------
    payloads : what each payload of the answer says, in order of arrival.
    total : the server's total, where it can be trusted; None otherwise.
    most : the largest number of tokens that the request allowed, or None.
    event_is : what the engine puts into one event (`said.TOKEN`, `STEP`, `ANY`), or None when it is not known.
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
        return _uncounted(payloads, keep, dict(skipped), total, most, event_is)
    source = ONE_EACH if tokens and min(tokens) == max(tokens) == 1 else COUNTED
    return Counted(keep, tokens, source, field, dict(skipped))


def _uncounted(
    payloads: Sequence[Said], keep: list[int], skipped: dict[str, int], total: int | None, most: int | None,
    event_is: str | None,
) -> Counted:  # fmt: skip
    """Every event has at least one token, so as many events as tokens (or as tokens allowed) have one each."""
    one_each = [1] * len(keep)
    if keep and all(payloads[index].text for index in keep):
        for bound, words in ((total, "total"), (most, "token limit of the request")):
            if bound == len(keep):
                return Counted(keep, one_each, ONE_EACH, words, skipped)
        ended = any(said.finish not in (None, "length") for said in payloads)
        if total == len(keep) + 1 and ended and event_is != STEP:
            return Counted(keep, one_each, ONE_EACH, "total without the end token", skipped, unseen=1)
    many = sum(payloads[index].several for index in keep) > _MANY * len(keep)
    untold = NOT_SAID if many or event_is in (STEP, ANY) else ASSUMED_ONE
    return Counted(keep, [UNKNOWN] * len(keep), untold if total is None else TOTAL_ONLY, None, skipped)


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
        if told and None not in told and any(told) and max(n or 0 for n in column) <= _MOST_AT_ONCE:
            # a payload without text or count brings nothing: a running total gives its tokens to the next
            return field, [n or 0 for n in column]
    return None, [None] * len(payloads)


def _growth(running: Sequence[int | None]) -> list[int | None]:
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


def apart(payloads: Sequence[Said]) -> Sequence[Said]:
    """The same, with a usage that runs over all choices of the answer turned into one for each of them.

    Most servers count each choice. Where the number rises from payload to payload whatever the choice, it is of all.
    """
    used = [p.used for p in payloads if p.text]
    shared = len({p.choice for p in payloads if p.text}) > 1 and None not in used
    if not shared or any(now <= before for before, now in zip([0, *used], used, strict=False)):  # type: ignore[operator]
        return payloads
    so_far: Counter[int] = Counter()
    made = []
    for said, new in zip(payloads, _growth([p.used for p in payloads]), strict=True):
        so_far[said.choice] += new or 0
        made.append(said._replace(used=so_far[said.choice]) if new is not None else said)
    return made


class Running:
    """Counts of one choice while it runs: what each payload tells at once. `count` decides when all are there."""

    def __init__(self) -> None:
        self._before = [0, 0]

    def add(self, said: Said) -> tuple[int, bool]:
        """New tokens of the next payload by the best source it has (`UNKNOWN` without one), and whether any says so."""
        used, predicted = self._new(0, said.used), self._new(1, said.predicted)
        told = [n for n in (said.ids, used, said.logprobs, predicted) if n is not None]
        return (told[0] if told else UNKNOWN), any(told)

    def _new(self, column: int, now: int | None) -> int | None:
        before = self._before[column]
        if now is None or now < before:
            return None
        self._before[column] = now
        return now - before


class Repeats:
    """Tells whether a dialect that may repeat the text from its beginning does so, and then what brings nothing new."""

    _SURE: Final = 2

    def __init__(self) -> None:
        self._last: dict[int, str] = {}
        self._grown = 0

    def checked(self, said: Said) -> Said:
        """`said` without its text; as an empty one where it only repeats."""
        now, before = said.so_far or "", self._last.get(said.choice)
        self._last[said.choice] = now
        if before:
            if not now.startswith(before):
                self._grown = -(1 << 30)  # these are pieces, whatever the first ones looked like
            elif now == before and self._grown >= self._SURE:
                return said._replace(text=False, hollow="repeat", so_far=None)
            self._grown += now != before
        return said._replace(so_far=None)


def _not_tokens(said: Said, n: int | None) -> str:
    """Why a payload is no event with tokens, or ""."""
    if said.other:
        return said.other
    if n:
        return ""
    if said.hollow:
        return "final" if said.finish else said.hollow
    if n == 0:
        return "text without a new token" if said.text else "final" if said.finish else "no new token"
    return "final" if said.finish and not said.text else ""
