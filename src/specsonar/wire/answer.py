"""One streamed answer: request and payloads with their receive times in, `Stream` records out.

Live capture, proxy, packet capture and recordings all end here. No clock and no socket: times are arguments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from ..findings import finding
from ..fingerprint import Finding
from ..trace import Stream, stream
from .counting import Counted, Repeats, Running, apart, count
from .dialects import Facts, Json, Said, find, from_headers, unwrap
from .dialects.said import name as kept_words
from .dialects.said import table, whole
from .request import no_folder, question, settings
from .values import payload

__all__ = ["Answer", "Fresh", "payload"]

_MOST_CHOICES: Final = 256
"""Services allow 128 at most; a server that numbers its choices without end is not followed."""


_COMMENT: Final = {"comment"}


class Fresh(NamedTuple):
    """An event that looks like one with tokens, while the answer still runs.

    `tokens` is what its payload tells now, `UNKNOWN` where it does not; `Answer.settled` has the last word.
    """

    choice: int
    t_ns: int
    read: int
    size: int
    tokens: int


class Answer:
    """Collects one answer.

    Parameters
    ----------
    request : the JSON body that was sent, or None where it is not known. Only settings are kept from it.
    url : where it was sent; only the path is kept.
    headers : response headers with lower-case names.
    status : HTTP status, or None.
    start_ns : when the request was sent, nanoseconds of the clock of the events, or None.

    Attributes
    ----------
    question : a digest of what was asked (`wire.request.question`), which is never written anywhere.
    """

    def __init__(
        self,
        request: Json | None = None,
        *,
        url: str = "",
        headers: Json | None = None,
        status: int | None = None,
        start_ns: int | None = None,
    ) -> None:
        self.question = question(request or {})
        self._settings = settings(request or {})
        self._route = _path(url)
        self._status = status
        self._start_ns = start_ns
        self._facts = from_headers(headers or {})
        self._dialect: ModuleType | None = None
        self._said: list[Said] = []
        self._where: list[tuple[int, int, int]] = []
        self._error = ""
        self._repeats = Repeats()
        self._running: dict[int, Running] = {}
        self._looked = 0
        self._fresh: dict[int, list[int]] = {}
        self._end_ns: int | None = None

    def event(self, t_ns: int, read: int, value: object, size: int, kind: str = "") -> None:
        """One event.

        Parameters
        ----------
        t_ns : receive time, nanoseconds.
        read : index of the read that completed it.
        value : the payload, see `payload`; `{"comment": ...}` for a comment of an event stream.
        size : bytes of the payload.
        kind : what the framing calls it: the `event:` field, or `:event-type` of an AWS event stream; "" if nothing.
        """
        for part in value if isinstance(value, list) else (value,):
            for said in self._interpret(part, kind):
                if said.choice >= _MOST_CHOICES:
                    said = Said(other="one choice too many")
                if said.so_far is not None:
                    said = self._repeats.checked(said)
                if not said.other and said.choice not in self._running:
                    self._running[said.choice] = Running()
                self._said.append(said)
                self._where.append((t_ns, read, size))

    def end(self, t_ns: int) -> None:
        """Nothing more will come; further calls change nothing."""
        if self._end_ns is None:
            self._end_ns = t_ns

    @property
    def ended(self) -> bool:
        """Whether `end` was called."""
        return self._end_ns is not None

    def fresh(self) -> list[Fresh]:
        """Events since the last call that may carry tokens; what is certainly none is left out."""
        found = []
        for index in range(self._looked, len(self._said)):
            said = self._said[index]
            if said.other:
                continue
            tokens, some = self._running[said.choice].add(said)
            if said.text or some or not (said.hollow or said.finish):
                self._fresh.setdefault(said.choice, []).append(index)
                found.append(Fresh(said.choice, *self._where[index], tokens))
        self._looked = len(self._said)
        return found

    def settled(self, choice: int) -> list[int]:
        """Token counts of the events of `choice` that `fresh` gave, as `streams` would count them now.

        In the same order; 0 for an event that turned out to be none, `UNKNOWN` where the count is not known.
        """
        parts = self._by_choice()
        if choice not in parts:
            return []
        mine, said = parts[choice]
        counted = self._counted(said, self._facts_of(said, len(parts), [], ""))
        kept = {mine[i]: n for i, n in zip(counted.keep, counted.tokens, strict=True)}
        return [kept.get(index, 0) for index in self._fresh.get(choice, ())]

    def streams(self, name: str = "") -> tuple[list[Stream], list[Finding]]:
        """A `Stream` for each choice of the answer so far, and what was noticed."""
        findings: list[Finding] = []
        if self._error or (self._status or 200) >= 400:
            findings.append(finding("I007", f"{name or 'the server'}: {self._error or f'HTTP status {self._status}'}"))
        parts = self._by_choice()
        made = []
        for choice, (mine, said) in parts.items():
            label = name if len(parts) == 1 else f"{name}#{choice}"
            facts = self._facts_of(said, len(parts), findings, label)
            made.append(self._stream(label, [self._where[i] for i in mine], said, facts, findings))
        if len(parts) > 1 and self._facts.report:  # it is of all choices together, so only one stream carries it
            made[0] = replace(made[0], server_report=self._facts.report)
        return made, findings

    def on_server_clock(self) -> bool:
        """Put every event at the time that its payload says the server made it, where all events with text say so.

        For bodies that were kept without receive times. Times then count from the server's origin, each event is a
        read of its own, and the time of the request is not known.
        """
        if not any(said.text for said in self._said) or any(s.text and s.clock_ns is None for s in self._said):
            return False
        now = next(said.clock_ns for said in self._said if said.clock_ns is not None)
        for index, said in enumerate(self._said):
            now = now if said.clock_ns is None else said.clock_ns
            self._where[index] = (now, index, self._where[index][2])
        self._start_ns = None
        return True

    def _interpret(self, value: object, kind: str) -> list[Said]:
        if not isinstance(value, dict):
            return [Said(other="end mark" if value == "[DONE]" else "not JSON")]
        if value.keys() == _COMMENT:
            return [Said(other="comment")]
        inner = unwrap(value)
        if inner is not value:
            return self._interpret(inner, "")
        if kind and kind != "message" and "type" not in value:
            value = {**value, "type": kind}
        if (error := _error(value)) is not None:
            self._error = self._error or error
            return [Said(other="error")]
        dialect = self._dialect if self._dialect and self._dialect.matches(value) else find(value)
        if dialect is None:
            return [Said(other="unknown payload")]
        self._dialect = self._dialect or dialect
        self._facts = self._facts.updated(dialect.facts(value))
        self._error = self._error or self._facts.error or ""
        said: list[Said] = dialect.said(value)
        return said

    def _by_choice(self) -> dict[int, tuple[list[int], list[Said]]]:
        """For each choice the indices of its payloads, and what they say."""
        parts: dict[int, tuple[list[int], list[Said]]] = {c: ([], []) for c in sorted(self._running) or [0]}
        first = next(iter(parts))
        told: Sequence[Said] = self._said if len(parts) == 1 else apart(self._said)
        for index, said in enumerate(told):
            # Envelope payloads belong to the whole answer; they are counted with its first choice.
            mine, its = parts[first if said.other else said.choice]
            mine.append(index)
            its.append(said)
        return parts

    def _facts_of(self, said: list[Said], choices: int, findings: list[Finding], name: str) -> Facts:
        """The facts that hold for one choice alone, with its total where that can be trusted."""
        facts = self._facts if choices == 1 else self._facts.alone()
        total, finish = facts.total, _finish(said)
        if total is None and finish:
            total = facts.running
        if total and facts.hidden and not any(s.thought for s in said):
            total = max(total - facts.hidden, 0)
        limit = self._settings.get("max_tokens")
        if facts.engine == "transformers" and total is not None and not (finish == "length" and total == limit):
            # This server counts its steps when it speculates, those without text (the end, half a character) included.
            # Only the limit, which it compares with its count, shows that steps and tokens are the same.
            events = sum(s.text for s in said)
            findings.append(finding("I006", f"{name or 'the stream'}: a total of {total} for {events} events"))
            total = None
        return facts._replace(total=total)

    def _counted(self, said: list[Said], facts: Facts) -> Counted:
        return count(said, facts.total, whole(self._settings.get("max_tokens")), facts.event_is)

    def _stream(
        self, name: str, where: list[tuple[int, int, int]], said: list[Said], facts: Facts, findings: list[Finding]
    ) -> Stream:
        counted = self._counted(said, facts)
        known = sum(counted.tokens) if counted.count_field else None
        total = facts.total
        if total is not None and known is not None and known + counted.unseen != total:
            findings.append(finding("I005", f"{name or 'the stream'}: {known} tokens counted, the total says {total}"))
        kept = [where[i] for i in counted.keep]
        return stream(
            [w[0] for w in kept],
            counted.tokens,
            read=[w[1] for w in kept],
            size=[w[2] for w in kept],
            name=name,
            count_source=counted.count_source,
            total_tokens=total,
            start_ns=self._start_ns,
            meta=self._meta(facts, counted, _finish(said)),
            server_report=facts.report,
        )

    def _meta(self, facts: Facts, counted: Counted, finish: str | None) -> dict[str, Any]:
        meta = {
            "dialect": self._dialect.NAME if self._dialect else None,
            "engine": facts.engine,
            "event_is": facts.event_is,
            "model": no_folder(facts.model or self._settings.get("model")),
            "route": self._route or None,
            "status": self._status,
            "finish_reason": finish,
            "count_field": counted.count_field,
            "skipped_payloads": counted.skipped,
        }
        meta |= {k: v for k, v in self._settings.items() if k != "model"}
        return {k: v for k, v in meta.items() if v is not None}


def _finish(said: Sequence[Said]) -> str | None:
    return next((s.finish for s in reversed(said) if s.finish), None)


def _error(value: Json) -> str | None:
    """The words of an error that the server sends in the middle of its answer; None where the payload is none."""
    error = value.get("error")
    if not error and "error" not in (value.get("type"), value.get("object")):
        return None
    tables = (table(error), value)
    words = (
        kept_words(error),
        *(kept_words(t.get(key)) for key in ("message", "detail", "type", "code") for t in tables),
    )
    return next((w for w in words if w), "an error without words")


def _path(url: str) -> str:
    try:
        return urlsplit(url).path
    except ValueError:  # a bracket without its other half
        return ""
