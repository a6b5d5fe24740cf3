"""One streamed answer: request and payloads with their receive times in, `Stream` records out.

Live capture, proxy, packet capture and recordings all end here. No clock and no socket: times are arguments.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from ..findings import finding
from ..fingerprint import Finding
from ..trace import Stream, stream
from .counting import Counted, Running, count
from .dialects import Facts, Json, Said, find, from_headers
from .dialects.said import table, whole
from .request import no_folder, settings
from .values import payload, words

__all__ = ["Answer", "Fresh", "payload"]

_MOST_CHOICES: Final = 256
"""Services allow 128 at most; a server that numbers its choices without end is not followed."""


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
        self._settings = settings(request or {})
        self._route = urlsplit(url).path if url else ""
        self._status = status
        self._start_ns = start_ns
        self._facts = from_headers(headers or {})
        self._dialect: Any = None
        self._said: list[Said] = []
        self._where: list[tuple[int, int, int]] = []
        self._error = ""
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
        for said in self._interpret(value, kind):
            if said.choice not in self._running and not said.other:
                if len(self._running) == _MOST_CHOICES:
                    said = Said(other="one choice too many")
                else:
                    self._running[said.choice] = Running()
            self._said.append(said)
            self._where.append((t_ns, read, size))

    def fail(self, message: str) -> None:
        """The answer broke off, or the server refused it outside its payloads; the first message is kept."""
        self._error = self._error or words(message)

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
            if said.text or some or not (said.role or said.finish):
                self._fresh.setdefault(said.choice, []).append(index)
                found.append(Fresh(said.choice, *self._where[index], tokens))
        self._looked = len(self._said)
        return found

    def settled(self, choice: int) -> list[int]:
        """Token counts of the events of `choice` that `fresh` gave, as `streams` would count them now.

        In the same order; 0 for an event that turned out to be none, `UNKNOWN` where the count is not known.
        """
        mine, counted, _ = self._counted(choice, [], "")
        kept = {mine[i]: n for i, n in zip(counted.keep, counted.tokens, strict=True)}
        return [kept.get(index, 0) for index in self._fresh.get(choice, ())]

    def streams(self, name: str = "") -> tuple[list[Stream], list[Finding]]:
        """A `Stream` for each choice of the answer so far, and what was noticed."""
        findings: list[Finding] = []
        if self._error or (self._status or 200) >= 400:
            findings.append(finding("I007", f"{name or 'the server'}: {self._error or f'HTTP status {self._status}'}"))
        choices = self._choices()
        made = [self._stream(c, name if len(choices) == 1 else f"{name}#{c}", findings) for c in choices]
        return made, findings

    def _interpret(self, value: object, kind: str) -> list[Said]:
        if not isinstance(value, Mapping):
            return [Said(other="end mark" if value == "[DONE]" else "not JSON")]
        if set(value) == {"comment"}:
            return [Said(other="comment")]
        if value.get("error"):
            error = value["error"]
            said = (error, *(table(error).get(key) for key in ("message", "detail", "type", "code")))
            self.fail(next((str(part) for part in said if isinstance(part, str | int)), "an error without words"))
            return [Said(other="error")]
        dialect = self._dialect if self._dialect and self._dialect.matches(value) else find(value)
        if dialect is None:
            return [Said(other="unknown payload")]
        self._dialect = self._dialect or dialect
        self._facts = _update(self._facts, dialect.facts(value))
        spoken: list[Said] = dialect.said(value)
        return spoken

    def _choices(self) -> list[int]:
        return sorted(self._running) or [0]

    def _counted(self, choice: int, findings: list[Finding], name: str) -> tuple[list[int], Counted, Facts]:
        """The payloads of `choice`, what they count, and the facts that hold for it alone."""
        choices = self._choices()
        # Envelope payloads belong to the whole answer; they are counted with its first choice.
        mine = [i for i, s in enumerate(self._said) if (choices[0] if s.other else s.choice) == choice]
        said = [self._said[i] for i in mine]
        facts = self._facts if len(choices) == 1 else Facts(self._facts.engine, self._facts.event_is, self._facts.model)
        total = facts.total
        most = whole(self._settings.get("max_tokens"))
        events = sum(s.text for s in said)
        if facts.engine == "transformers" and total == events and not (_finish(said) == "length" and total == most):
            # This server counts its steps when it speculates. A total that equals the number of events proves nothing.
            findings.append(finding("I006", f"{name or 'the stream'}: a total of {total} for {events} events"))
            facts = facts.without_total()
        return mine, count(said, facts.total, most, facts.event_is), facts

    def _stream(self, choice: int, name: str, findings: list[Finding]) -> Stream:
        mine, counted, facts = self._counted(choice, findings, name)
        known = sum(counted.tokens) if counted.count_field and -1 not in counted.tokens else None
        total = facts.total
        if total is not None and known is not None and known != total:
            findings.append(finding("I005", f"{name or 'the stream'}: {known} tokens counted, the total says {total}"))
        where = [self._where[mine[i]] for i in counted.keep]
        return stream(
            [w[0] for w in where],
            counted.tokens,
            read=[w[1] for w in where],
            size=[w[2] for w in where],
            name=name,
            count_source=counted.count_source,
            total_tokens=total,
            start_ns=self._start_ns,
            meta=self._meta(facts, counted, _finish([self._said[i] for i in mine])),
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


def _finish(said: list[Said]) -> str | None:
    return next((s.finish for s in reversed(said) if s.finish), None)


def _update(old: Facts, new: Facts) -> Facts:
    return Facts(
        engine=_longer(old.engine, new.engine),
        event_is=new.event_is or old.event_is,
        model=new.model or old.model,
        total=old.total if new.total is None else new.total,
        report=new.report or old.report,
    )


def _longer(old: str | None, new: str | None) -> str | None:
    """The more telling of two names: a header names the program, a payload may only name its family."""
    if old and new:
        return new if new.startswith(old) else old
    return new or old
