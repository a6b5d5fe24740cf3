"""How one server wants to be asked, learned from what it refuses."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from .routes import Body, Question, Route

_NONE: Final[Mapping[str, Any]] = MappingProxyType({})

_OPTIONAL: Final = {"temperature": ("temperature",), "seed": ("seed", "sampling_seed")}
"""What the user asked for and a model may not offer; going without it is told."""


class Asked(NamedTuple):
    """A request body, and how much was known when it was made."""

    body: Body
    version: int


class Manner:
    """The fields that a server takes. Several threads may ask and learn at once.

    Parameters
    ----------
    route : the dialect.
    asks : fields that ask for token counts, see `Route.asks`; unlike the question itself they may all be refused.

    Attributes
    ----------
    refused : names of the fields that were dropped, in the order in which they were refused.
    """

    def __init__(self, route: Route, asks: Mapping[str, Any]) -> None:
        self.route = route
        self.refused: list[str] = []
        self._asks = dict(asks)
        self._without: dict[str, Any] = {}
        self._renamed = False
        self._version = 0
        self._lock = threading.Lock()

    def ask(self, question: Question) -> Asked:
        """The request for `question`, as far as it is known what the server takes."""
        with self._lock:
            body = self.route.request(replace(question, **self._without), self._asks)
            if self._renamed:
                body["max_completion_tokens"] = body.pop("max_tokens")
            return Asked(body, self._version)

    def change(self, *, more: Mapping[str, Any] = _NONE, less: Mapping[str, Any] = _NONE) -> None:
        """Ask for the fields of `more` too, and no longer for those of `less`."""
        with self._lock:
            self._asks = {k: v for k, v in self._asks.items() if k not in less} | dict(more)
            self._version += 1

    def learn(self, asked: Asked, complaint: str) -> bool:
        """Leave out what the server complains about; whether another attempt is worth while."""
        with self._lock:
            if asked.version == self._version:  # else another thread learned from the same refusal
                if not self._adapt(asked.body, complaint):
                    return False
                self._version += 1
            return True

    def _adapt(self, body: Body, complaint: str) -> bool:
        named = [path for path in self._asks if _mentions(complaint, path.rpartition(".")[2])]
        named = named or [path for path in self._asks if _mentions(complaint, path.partition(".")[0])]
        if named:
            return self._drop(named)
        if "max_tokens" in body and _mentions(complaint, "max_completion_tokens"):
            self._renamed = True
            return True
        for field, names in _OPTIONAL.items():
            if field not in self._without and any(_mentions(complaint, name) for name in names):
                self._without[field] = None
                self.refused.append(field)
                return True
        # Some servers refuse without a name. What is not necessary goes first.
        return self._drop(list(self._asks))

    def _drop(self, paths: list[str]) -> bool:
        for path in paths:
            del self._asks[path]
        self.refused += paths
        return bool(paths)


def _mentions(text: str, name: str) -> bool:
    return re.search(rf"(?<![A-Za-z0-9_]){re.escape(name)}(?![A-Za-z0-9_])", text) is not None
