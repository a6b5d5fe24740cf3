"""What one choice of an answer will be: its words, its events and when each of them is due."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..decoder import Dice
from ..link import tick
from ..service import Service
from ..simulate import play, what_happened
from .words import PIECES, write


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What a request asks for, whatever its dialect.

    Attributes
    ----------
    model : as the request names it, or "".
    limit : most tokens of one choice, or None where the request leaves that to the server.
    stop : texts before which an answer ends.
    choices : how many answers at once.
    stream : in events, or in one piece.
    prompt_tokens : length of the prompt, roughly.
    usage, running : a total at the end; a running total in every event.
    ids, logprobs, timings : token ids, log-probabilities, llama.cpp's `timings` in every event.
    """

    model: str = ""
    limit: int | None = None
    stop: tuple[str, ...] = ()
    choices: int = 1
    stream: bool = False
    prompt_tokens: int = 1
    usage: bool = False
    running: bool = False
    ids: bool = False
    logprobs: bool = False
    timings: bool = False


@dataclass(frozen=True, slots=True)
class Piece:
    """One event.

    Attributes
    ----------
    choice : index of its choice.
    due_ns : when it has to leave, nanoseconds after the request.
    text : what is shown of its tokens.
    ids : its tokens.
    before : tokens of this choice that were sent before.
    last : nothing of this choice follows.
    """

    choice: int
    due_ns: int
    text: str
    ids: tuple[int, ...]
    before: int
    last: bool

    @property
    def sofar(self) -> int:
        """Tokens of this choice, this event included."""
        return self.before + len(self.ids)


@dataclass(slots=True)
class Steps:
    """What the engine would count.

    Attributes
    ----------
    accepted : per step that drafted, the draft tokens that were accepted.
    drafted : per step that drafted, the draft tokens.
    plain : steps without a draft.
    """

    accepted: list[int] = field(default_factory=list)
    drafted: list[int] = field(default_factory=list)
    plain: int = 0

    def lie(self) -> Steps:
        """The same with half of what was rejected called accepted."""
        return Steps([a + (d - a + 1) // 2 for a, d in zip(self.accepted, self.drafted, strict=True)], self.drafted,
                     self.plain)  # fmt: skip


class Script:
    """One choice.

    Parameters
    ----------
    service : the hidden settings.
    dice : chance of this choice.
    index : its place among the choices of the request.
    tokens : its length, if no stop text ends it before.
    stop : texts before which it ends.
    reason : why it ends when no stop text does: "length" or "stop".
    """

    def __init__(
        self, service: Service, dice: Dice, *, index: int, tokens: int, stop: tuple[str, ...], reason: str
    ) -> None:
        self.index = index
        self.finish = reason
        self.stopped_by: str | None = None
        self.ids = write(tokens, dice)
        self._end = np.cumsum([len(PIECES[i]) for i in self.ids]).tolist()
        self.text = "".join(PIECES[i] for i in self.ids)
        self._cut(stop)
        self.tokens = len(self.ids)
        self._service = service
        played = play(service, self.tokens, dice)
        self.run = played.run
        self.done_ns = played.done_ns
        self._events = played.events

    def _cut(self, stop: tuple[str, ...]) -> None:
        found = [(place, word) for word in stop if word and (place := self.text.find(word)) >= 0]
        if not found:
            return
        place, self.stopped_by = min(found)
        needed = int(np.searchsorted(self._end, place + len(self.stopped_by))) + 1
        self.ids, self.text, self.finish = self.ids[:needed], self.text[:place], "stop"

    def pieces(self) -> Iterator[Piece]:
        """Its events in the order of their times. Tokens whose text a stop text swallows are not shown."""
        due = np.maximum(tick(self._events.t, self._service.resolution_ms), 0).tolist()
        ends = np.cumsum(self._events.tokens).tolist()
        shown = [min(self._end[b - 1], len(self.text)) for b in ends]
        visible = [i for i in range(len(ends)) if shown[i] > (shown[i - 1] if i else 0)]
        for i in visible:
            a = ends[i - 1] if i else 0
            text = self.text[shown[i - 1] if i else 0 : shown[i]]
            yield Piece(self.index, due[i], text, tuple(self.ids[a : ends[i]]), a, i == visible[-1])

    def steps(self, sofar: int | None = None) -> Steps:
        """What the engine has counted once `sofar` tokens are out; all of them if None."""
        sizes, drafted = self.run.sizes, self.run.drafted
        if sofar is not None:
            # A step counts as soon as its first token is out: its tokens leave together.
            begun = int(np.searchsorted(1 + np.cumsum(sizes) - sizes, sofar))
            sizes, drafted = sizes[:begun], drafted[:begun]
        k = self._service.k or 0
        left = self.tokens - 1 - (np.cumsum(sizes) - sizes)
        length = np.minimum(k, left - self._service.bonus) if self._service.clip_draft else np.full(sizes.size, k)
        # Whether the last draft was accepted does not show when there is no bonus token.
        return Steps(
            (sizes - 1)[drafted].tolist(), np.maximum(length, sizes - 1)[drafted].tolist(), int((~drafted).sum())
        )

    def step_of(self, token: int) -> int:
        """Number of the step that gave the token with this index; 0 is the prefill."""
        return 0 if token == 0 else 1 + int(np.searchsorted(np.cumsum(self.run.sizes), token))

    def truth(self, law: dict[str, Any]) -> dict[str, Any]:
        """Settings and what happened, as the simulator keeps them beside a stream."""
        return {**law, **what_happened(self.run, self.tokens)}
