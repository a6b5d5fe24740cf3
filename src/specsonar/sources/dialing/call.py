"""One question in a thread of its own: posted, asked again where the server wants that, read to its end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from ...errors import ConnectionFailed, SpecsonarError
from .line import Line, Refused
from .manner import Manner
from .routes import Question

AGAIN: Final = (429, 503, 529)
"""Statuses of a server that is busy."""

ATTEMPTS: Final = 5

_BYTES_A_TOKEN: Final = 16 << 10
_BYTES_BESIDE: Final = 1 << 20
"""What an answer may weigh: with token ids, log-probabilities and usage an event has about a kilobyte."""


class Call(threading.Thread):
    """Asks one question. The answer is not looked at here; the connection's recorder has it.

    Parameters
    ----------
    ended : called in this thread when all is over.

    Attributes
    ----------
    error : why there is no answer, or not all of it; None while it runs and when all went well.
    over : set when all is over.
    began : when the question was last asked, seconds of the monotonic clock.
    resting : whether it waits before it asks again.
    """

    def __init__(
        self, line: Line, url: str, manner: Manner, question: Question, ended: Callable[[], None] = lambda: None
    ) -> None:
        super().__init__(name="specsonar-call", daemon=True)
        self.question = question
        self.error: SpecsonarError | None = None
        self.over = threading.Event()
        self.began = time.monotonic()
        self.resting = False
        self._line, self._url, self._manner, self._ended = line, url, manner, ended
        self._given_up = threading.Event()

    def give_up(self, why: SpecsonarError | None = None) -> None:
        """Stop reading at the next byte; what came stays. `why` is the error that is told."""
        self.error = self.error or why
        self._given_up.set()

    def run(self) -> None:
        """Called by `start`."""
        import stamina

        try:
            for attempt in stamina.retry_context(
                on=self._again, attempts=ATTEMPTS, timeout=None, wait_initial=1.0, wait_max=20.0, wait_jitter=0.5
            ):
                with attempt:
                    self._ask()
        except SpecsonarError as error:
            self.error = self.error or error
        except Exception as error:
            # a defect, but one line too: a traceback of a thread would show the request
            self.error = self.error or ConnectionFailed(f"{type(error).__name__}: {self._line.shown(str(error))}")
        finally:
            self.over.set()
            self._ended()

    def _ask(self) -> None:
        """Post the question until the server takes its fields."""
        self.began, self.resting = time.monotonic(), False
        while not self._given_up.is_set():
            asked = self._manner.ask(self.question)
            with self._line.opened("POST", self._url, msgspec.json.encode(asked.body)) as response:
                if response.status_code < 300:
                    return self._read(response.iter_raw())
                refusal = self._line.refused(response)
            if refusal.status not in (400, 422) or not self._manner.learn(asked, refusal.complaint):
                raise refusal

    def _read(self, parts: Iterable[bytes]) -> None:
        left = _BYTES_BESIDE + self.question.tokens * _BYTES_A_TOKEN
        for part in parts:
            left -= len(part)
            if left < 0:
                raise ConnectionFailed(
                    f"{self._line.address.origin} sends far more than was asked for", "what came was kept"
                )
            if self._given_up.is_set():
                return

    def _again(self, error: Exception) -> bool | float:
        """Whether to ask again, or after how many seconds."""
        if not isinstance(error, Refused) or error.status not in AGAIN or self._given_up.is_set():
            return False
        if error.retry_after is not None and error.retry_after > self._line.timeout:
            return False
        self.resting = True
        return True if error.retry_after is None else error.retry_after
