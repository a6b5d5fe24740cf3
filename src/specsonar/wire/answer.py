"""One streamed answer: request and payloads with their receive times in, `Stream` records out.

Live capture, proxy, packet capture and recordings all end here. No clock and no socket: times are arguments.
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from ..findings import finding
from ..fingerprint import Finding
from ..trace import Stream, stream
from .counting import Counted, count
from .dialects import Facts, Json, Said, find, from_headers
from .dialects.said import number, table, whole

_LIMIT_KEYS: Final = ("max_completion_tokens", "max_tokens", "n_predict", "max_new_tokens", "max_output_tokens")


def payload(data: bytes | str) -> object:
    """The value of an event's data: JSON where it is JSON, else the text itself (`[DONE]`)."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return data if isinstance(data, str) else data.decode(errors="replace")


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
        self._request: Json = request or {}
        self._route = urlsplit(url).path if url else ""
        self._status = status
        self._start_ns = start_ns
        self._facts = from_headers(headers or {})
        self._dialect: Any = None
        self._said: list[Said] = []
        self._where: list[tuple[int, int, int]] = []
        self._error = ""

    def event(self, t_ns: int, read: int, value: object, size: int) -> None:
        """One event: receive time in nanoseconds, index of the read that completed it, payload, its bytes."""
        for said in self._interpret(value):
            self._said.append(said)
            self._where.append((t_ns, read, size))

    def _interpret(self, value: object) -> list[Said]:
        if not isinstance(value, Mapping):
            return [Said(other="end mark" if value == "[DONE]" else "not JSON")]
        if set(value) == {"comment"}:
            return [Said(other="comment")]
        if value.get("error"):
            error = value["error"]
            self._error = str(table(error).get("message") or error)[:200]
            return [Said(other="error")]
        dialect = self._dialect if self._dialect and self._dialect.matches(value) else find(value)
        if dialect is None:
            return [Said(other="unknown payload")]
        self._dialect = self._dialect or dialect
        self._facts = _update(self._facts, dialect.facts(value))
        said: list[Said] = dialect.said(value)
        return said

    def streams(self, name: str = "") -> tuple[list[Stream], list[Finding]]:
        """A `Stream` for each choice of the answer, and what was noticed. Call it once the answer has ended."""
        findings: list[Finding] = []
        if self._error or (self._status or 200) >= 400:
            findings.append(finding("I007", f"{name or 'the server'}: {self._error or f'HTTP status {self._status}'}"))
        choices = sorted({s.choice for s in self._said if not s.other}) or [0]
        made = [self._stream(c, name if len(choices) == 1 else f"{name}#{c}", choices, findings) for c in choices]
        return made, findings

    def _stream(self, choice: int, name: str, choices: list[int], findings: list[Finding]) -> Stream:
        # Envelope payloads belong to the whole answer; they are counted with its first choice.
        mine = [i for i, s in enumerate(self._said) if (choices[0] if s.other else s.choice) == choice]
        said = [self._said[i] for i in mine]
        finish = next((s.finish for s in reversed(said) if s.finish), None)
        settings = _settings(self._request)
        facts = self._facts if len(choices) == 1 else Facts(self._facts.engine, self._facts.event_is, self._facts.model)
        total = facts.total
        events = sum(s.text for s in said)
        if facts.engine == "transformers" and total == events and not (
            finish == "length" and total == settings.get("max_tokens")
        ):  # fmt: skip
            # This server counts its steps when it speculates. A total that equals the number of events proves nothing.
            findings.append(finding("I006", f"{name or 'the stream'}: a total of {total} for {events} events"))
            total = None
        counted = count(said, total, whole(settings.get("max_tokens")), facts.event_is)
        known = sum(counted.tokens) if counted.count_field and -1 not in counted.tokens else None
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
            meta=self._meta(facts, settings, counted, finish),
            server_report=facts.report,
        )

    def _meta(self, facts: Facts, settings: Json, counted: Counted, finish: str | None) -> dict[str, Any]:
        meta = {
            "dialect": self._dialect.NAME if self._dialect else None,
            "engine": facts.engine,
            "event_is": facts.event_is,
            "model": _no_folder(facts.model or settings.get("model")),
            "route": self._route or None,
            "status": self._status,
            "finish_reason": finish,
            "count_field": counted.count_field,
            "skipped_payloads": counted.skipped,
        }
        meta |= {k: v for k, v in settings.items() if k != "model"}
        return {k: v for k, v in meta.items() if v is not None}


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


def _settings(request: Json) -> dict[str, Any]:
    """The settings of a request that say how it was decoded. No prompt, no text, no key."""
    inner: Json = {}
    if isinstance(extra := request.get("generation_config"), str):
        inner = table(payload(extra))
    both = {**inner, **request}
    limit = next((n for key in _LIMIT_KEYS if (n := whole(both.get(key)))), None)
    temperature = number(both.get("temperature"))
    if temperature is None and both.get("do_sample") is False:
        temperature = 0.0
    model = request.get("model")
    return {
        key: value
        for key, value in (
            ("model", model if isinstance(model, str) else None),
            ("temperature", temperature),
            ("max_tokens", limit),
            ("top_p", number(both.get("top_p"))),
            ("seed", whole(both.get("seed"))),
        )
        if value is not None
    }


def _no_folder(model: object) -> str | None:
    """A model's name; of an absolute path only the last part, since folders tell about people."""
    if not isinstance(model, str):
        return None
    return os.path.basename(model.rstrip("/\\")) if re.match(r"/|~|[A-Za-z]:[\\/]", model) else model
