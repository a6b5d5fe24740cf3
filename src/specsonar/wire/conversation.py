"""Several answers over one WebSocket.

Services of the OpenAI Realtime kind name their events: `response.create` asks, `response.created` begins an answer,
`response.done` or `response.completed` ends it. Other services take one JSON message and stream JSON messages back:
there each message of the client begins an answer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, Final

from .answer import Answer
from .dialects.said import table
from .exchange import keep
from .limits import Limits, too_much
from .values import payload

_ENDS: Final = {f"response.{word}" for word in ("done", "completed", "failed", "incomplete", "cancelled")}
_QUESTION_KEYS: Final = {"prompt", "messages", "input", "inputs", "contents", "text_input"}

_NO_QUESTION_KEYS: Final = {"setup", "realtimeInput", "realtime_input"}
"""Messages of Gemini Live that open the session or carry sound, without a type."""


class Conversation:
    """JSON messages of both sides in, `Answer` objects out.

    Parameters
    ----------
    limits : see `Limits`.
    answers : the list of the connection.
    path : where the WebSocket was opened.
    """

    def __init__(self, limits: Limits, answers: list[Answer], path: str) -> None:
        self._limits = limits
        self._answers = answers
        self._path = path
        self._asked: deque[tuple[int, Mapping[str, Any]]] = deque(maxlen=limits.streams)
        self._open: dict[str, Answer] = {}
        self._named = False  # whether this service announces its answers

    def sent(self, t_ns: int, message: bytes) -> None:
        """A message of the client."""
        value = payload(message)
        if isinstance(value, Mapping) and _is_question(value):
            self._asked.append((t_ns, {**value, **table(value.get("response"))}))

    def received(self, t_ns: int, message: bytes, read: int) -> None:
        """A message of the server."""
        value = payload(message)
        said = table(value)
        kind = str(said.get("type", ""))
        if kind == "response.created":
            self._named = True
            self._begin(t_ns, str(table(said.get("response")).get("id", "")))
        elif "." in kind and not kind.startswith("response."):
            return  # about the session, not about an answer
        elif (self._asked and not self._named) or not self._open:
            if not said:
                return
            self._end_all(t_ns)
            self._begin(t_ns, "")
        name = str(said.get("response_id") or table(said.get("response")).get("id", ""))
        answer = self._open.get(name) or next(reversed(self._open.values()))
        answer.event(t_ns, read, value, len(message))
        if kind in _ENDS:
            answer.end(t_ns)
            self._open = {key: one for key, one in self._open.items() if not one.ended}

    def closed(self, t_ns: int) -> None:
        """Nothing more comes."""
        self._end_all(t_ns)

    def _begin(self, t_ns: int, name: str) -> None:
        if before := self._open.pop(name, None):
            before.end(t_ns)
        start_ns, request = self._asked.popleft() if self._asked else (None, None)
        if len(self._open) >= self._limits.streams:
            raise too_much("the number of answers at once", self._limits.streams)
        answer = Answer(request, url=self._path, start_ns=start_ns)
        keep(self._answers, answer, self._limits)
        self._open[name] = answer

    def _end_all(self, t_ns: int) -> None:
        for answer in self._open.values():
            answer.end(t_ns)
        self._open.clear()


def _is_question(value: Mapping[str, Any]) -> bool:
    kind = value.get("type")
    if not kind:
        return not _NO_QUESTION_KEYS & set(value)
    return kind == "response.create" or ("." not in str(kind) and bool(_QUESTION_KEYS & set(value)))
