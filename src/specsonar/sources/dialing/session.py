"""Many questions to one service: started, watched and counted, while the recorder keeps what comes back."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ...errors import ConnectionFailed, SpecsonarError
from ...trace import Stream, Trace
from .call import Call
from .line import Line
from .manner import Manner
from .routes import Question

if TYPE_CHECKING:
    from ..keeper import Keeper
    from ..live import Capture

POLL_S: Final = 0.05
_COUNT_S: Final = 0.5

WORTH: Final = 32
"""Tokens below which what is left of a budget buys no answer worth recording."""

FAILURES: Final = 3
"""Failures in a row after which no further question is asked."""

_LONGEST: Final = 10
"""An answer may take so many times as long as a silence."""

_FAR_MORE: Final = 4
"""A server that sends so many times the tokens that were asked for does not know the limit."""


class Session:
    """Asks questions until they are answered, the budget is spent, or somebody has seen enough.

    Parameters
    ----------
    questions : in this order.
    concurrency : how many are asked at once.
    budget : tokens of all answers together. What an answer may have cost counts where its tokens are not known.

    Attributes
    ----------
    errors : what went wrong, question by question.
    ended : why it ended early: "budget", "interrupted", "failed", "enough"; "" when all questions were answered.
    answered : answers that came to their end.
    """

    def __init__(
        self,
        line: Line,
        url: str,
        manner: Manner,
        questions: Sequence[Question],
        *,
        concurrency: int,
        budget: int,
        capture: Capture,
        keeper: Keeper,
    ) -> None:
        self.errors: list[SpecsonarError] = []
        self.ended = ""
        self.answered = 0
        self._line, self._url, self._manner = line, url, manner
        self._waiting = list(reversed(questions))
        self._concurrency, self._budget = concurrency, budget
        self._capture, self._keeper = capture, keeper
        self._running: list[Call] = []
        self._in_a_row = 0
        self._wake = threading.Event()
        self._events = 0
        self._moved = self._counted = time.monotonic()

    def run(self, enough: Callable[[Session], bool]) -> None:
        """Until the end, with `enough` asked after every look at the connections: True ends it.

        An interrupt from the keyboard ends it too, and is noted in `ended` instead of raised: it must not tear the
        decoding of what has come apart.

        Raises
        ------
        SpecsonarError : the recording cannot be written any more.
        """
        with _interrupt() as interrupted:
            try:
                while self.ended != "interrupted":
                    self._start()
                    if not self._running:
                        break
                    self._wake.wait(POLL_S)
                    self._wake.clear()
                    self._look()
                    if interrupted.is_set():
                        self.ended = "interrupted"
                    elif not self.ended and enough(self):
                        self.ended = "enough"  # what is running runs to its end
            finally:
                for call in self._running:
                    call.give_up()

    @property
    def busy(self) -> bool:
        """Whether an answer is on its way."""
        return bool(self._running)

    def trace(self) -> Trace:
        """What was recorded so far."""
        return self._keeper.trace()

    def spent(self) -> int:
        """Tokens so far."""
        return sum(cost(one) for one in self.trace().streams)

    def _start(self) -> None:
        while self._waiting and len(self._running) < self._concurrency and not self.ended:
            if self._in_a_row >= FAILURES or (self.errors and not self._keeper.events):
                self.ended = "failed"
                return
            left = self._budget - self.spent() - sum(call.question.tokens for call in self._running)
            question = self._waiting[-1]
            if left < min(WORTH, question.tokens):
                if not self._running:
                    self.ended = "budget"
                return
            self._waiting.pop()
            question = replace(question, tokens=min(question.tokens, left))
            call = Call(self._line, self._url, self._manner, question, self._wake.set)
            self._running.append(call)
            call.start()

    def _look(self) -> None:
        """Take what has come, see who has ended, and lose patience where it is time."""
        over = [call for call in self._running if call.over.is_set()]
        self._capture.poll()  # after `over` was looked at: all that those calls received is there now
        for call in over:
            self._end(call)
        now = time.monotonic()
        if self._keeper.events != self._events:
            self._events, self._moved = self._keeper.events, now
        if any(call.resting for call in self._running):
            self._moved = now
        for call in list(self._running):
            since = now - max(self._moved, call.began)
            if since > self._line.timeout or now - call.began > _LONGEST * self._line.timeout:
                self._lose(call, self._line.silent())
        if now - self._counted > _COUNT_S:
            self._counted = now
            self._stop_a_flood()

    def _stop_a_flood(self) -> None:
        asked = max((call.question.tokens for call in self._running), default=0)
        longest = max((len(one) for one in self.trace().streams), default=0)
        if asked and longest > _FAR_MORE * (asked + WORTH):
            for call in list(self._running):
                text = f"{self._line.address.origin} sends {longest} events where {asked} tokens were asked for"
                self._lose(call, ConnectionFailed(text, "what came was kept"))

    def _end(self, call: Call) -> None:
        self._running.remove(call)
        if call.error is None:
            self.answered += 1
            self._in_a_row = 0
        else:
            self._in_a_row += 1
            self.errors.append(call.error)

    def _lose(self, call: Call, why: SpecsonarError) -> None:
        call.give_up(why)
        self._end(call)


def cost(one: Stream) -> int:
    """Tokens of a stream: known, or as many as it may have had, or one for each event."""
    known = one.known_tokens
    if known is not None:
        return known
    asked: Any = one.meta.get("max_tokens")
    return max(len(one), asked if isinstance(asked, int) else 0)


def complete(trace: Trace) -> Trace:
    """The streams whose server has said why they ended; what runs may still tell more about its counts."""
    return replace(trace, streams=tuple(one for one in trace.streams if one.meta.get("finish_reason")))


@contextmanager
def _interrupt() -> Iterator[threading.Event]:
    """An event that the first interrupt from the keyboard sets; the second one is raised as ever."""
    noticed = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield noticed  # only the main thread hears of signals
        return
    before = signal.getsignal(signal.SIGINT)

    def note(_number: int, _frame: Any) -> None:
        noticed.set()
        signal.signal(signal.SIGINT, before)

    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, note)
    try:
        yield noticed
    finally:
        if signal.getsignal(signal.SIGINT) is note:
            signal.signal(signal.SIGINT, before)
