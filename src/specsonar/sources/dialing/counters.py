"""What a server counts in its `/metrics` while it is asked: a second account of its speculation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ...trace import Trace
from ...wire import metrics
from .keys import hosted
from .line import Line

_OTHERS: Final = 0.1
"""Share of tokens that are not ours from which on the counters tell of others too."""


class Counters:
    """Reads `/metrics` when it is made, and again when it is asked for the report.

    Parameters
    ----------
    line : the way to the server. Providers do not offer counters and are not asked.
    """

    def __init__(self, line: Line) -> None:
        self._line = line
        self._before = self._read()

    def _read(self) -> str | None:
        return None if hosted(self._line.address) else self._line.text(self._line.address.origin + "/metrics")

    def report(self, trace: Trace) -> tuple[Mapping[str, Any] | None, str]:
        """What was counted in between, in the words of `wire.dialects.report`, or None; and what should be known.

        Parameters
        ----------
        trace : what was received in between. Counters that tell of much more are those of others too, and not used.
        """
        after = None if self._before is None else self._read()
        if self._before is None or after is None:
            return None, ""
        told = metrics.report(self._before, after, answers=len(trace.streams))
        counted = (told or {}).get("tokens")
        tokens = [one.known_tokens for one in trace.streams]
        if counted is not None and None not in tokens:
            mine = sum(n - 1 for n in tokens if n is not None)
            if abs(counted - mine) > _OTHERS * max(mine, 1):
                return None, f"/metrics counts {counted} tokens where {mine} were received: others were served too"
        return told, ""
