"""The service behind the routes: it takes requests, makes their scripts, and remembers what it sent."""

from __future__ import annotations

import hmac
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from ...errors import UsageError
from ..decoder import Dice
from ..service import Service, with_knobs
from ..simulate import law
from .engines import ENGINES, FIELDS, REPORTS, Engine
from .ledger import Ledger
from .pacing import SendClock
from .script import Ask, Script
from .writer import Answer, Refused

LENGTH: Final = 600
"""Tokens of an answer when neither the server nor the request limits them."""

_WISHES: Final = {
    "usage": ("running", "stream_options.continuous_usage_stats"),
    "token_ids": ("ids", "return_token_ids"),
    "logprobs": ("logprobs", "logprobs"),
    "timings": ("timings", "timings_per_token"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How the server presents the service.

    Attributes
    ----------
    seed : of all chance; stream i of the server is answer i of `simulate` with the same seed.
    tokens : length at which answers end by themselves; None for the request's limit, or 600.
    model : the one model that there is.
    engine : one of `engines.ENGINES`.
    fields : ways to tell token counts, of `engines.FIELDS`; None for those of the engine.
    strict : a wish for another way is refused (else not heard); None for what the engine does.
    report : one of `engines.REPORTS`.
    api_key : demanded of every request, unless empty.
    expose_truth : the truth can be read at `/specsonar/truth`.

    Raises
    ------
    UsageError : a value that is not known.
    """

    seed: int = 0
    tokens: int | None = None
    model: str = "simulated"
    engine: str = "any"
    fields: tuple[str, ...] | None = None
    strict: bool | None = None
    report: str = "true"
    api_key: str = ""
    expose_truth: bool = False

    def __post_init__(self) -> None:
        for name, value, known in (
            ("engine", self.engine, tuple(ENGINES)),
            ("report", self.report, REPORTS),
            *(("field", field, FIELDS) for field in self.fields or ()),
        ):
            if value not in known:
                raise UsageError(f"{name} {value!r} is not known", f"use one of {', '.join(known)}")
        if self.tokens is not None and self.tokens < 1:
            raise UsageError(f"tokens = {self.tokens}", "an answer has at least one token")


class Simulation:
    """The service.

    Parameters
    ----------
    service : the hidden settings.
    options : how they are presented.

    Raises
    ------
    UsageError : settings that need another program than a server.
    """

    def __init__(self, service: Service, options: Options) -> None:
        if service.defence.pad:
            raise UsageError("this server does not pad", "put `specsonar proxy --defend pad=BYTES` in front of it")
        self.options = options
        self.engine: Engine = ENGINES[options.engine]
        self.fields = self.engine.fields if options.fields is None else options.fields
        self.strict = self.engine.strict if options.strict is None else options.strict
        # A server tells what its dialect tells and the client asks for, unless a knob says otherwise.
        self.told = "each" if service.counts == "auto" else service.counts
        self.service = with_knobs(service, {"counts": self.told})
        self.ledger = Ledger(law(service))
        self.clock = SendClock()
        self._streams = 0

    def admit(self, authorization: str | None, api_key: str | None) -> None:
        """Check the key, if one is demanded.

        Raises
        ------
        Refused : it is missing or wrong.
        """
        wanted = self.options.api_key
        if not wanted:
            return
        given = api_key or (authorization or "").removeprefix("Bearer ")
        if not hmac.compare_digest(given.encode(), wanted.encode()):
            raise Refused(401, "the API key is missing or wrong", code="invalid_api_key")

    def accept(self, read: Callable[[dict[str, Any]], Ask], body: dict[str, Any], *, any_model: bool) -> Answer:
        """An answer to the request `body`, which `read` understands; `any_model` for servers that have only one.

        Raises
        ------
        Refused : the request is wrong, or names a model that there is not.
        """
        ask = read(body)
        if ask.model != self.options.model and not any_model and (ask.model or self.strict):
            raise Refused(404, f"The model `{ask.model}` does not exist", param="model", code="model_not_found")
        return self._answer(self._heard(ask))

    def _heard(self, ask: Ask) -> Ask:
        """What is left of the wishes of `ask`."""
        granted: dict[str, Any] = {}
        for field, (attribute, name) in _WISHES.items():
            if getattr(ask, attribute) and field not in self.fields:
                if self.strict:
                    raise Refused(400, f"Unrecognized request argument supplied: {name}", param=name)
                granted[attribute] = False
        if self.told != "each":
            granted |= {"running": False, "ids": False, "logprobs": False}
        if self.told == "none":
            granted["usage"] = False
        return replace(ask, **granted)

    def _answer(self, ask: Ask) -> Answer:
        natural = self.options.tokens or ask.limit or LENGTH
        tokens = min(natural, ask.limit or natural)
        reason = "length" if tokens == ask.limit else "stop"
        scripts = []
        for index in range(ask.choices):
            dice = Dice(self.options.seed, self._streams)
            self._streams += 1
            scripts.append(Script(self.service, dice, index=index, tokens=tokens, stop=ask.stop, reason=reason))
        self.ledger.requests += 1
        self.ledger.totals["prompt_tokens"] += ask.prompt_tokens
        return Answer(
            id=f"{self.ledger.requests:08d}",
            ask=ask,
            scripts=tuple(scripts),
            model=ask.model or self.options.model,
            created_ns=time.time_ns(),
            told=self.told,
            report=self.options.report if self.engine.reports else "none",
            fingerprint=self.engine.fingerprint,
            finish_apart=self.engine.finish_apart,
        )
