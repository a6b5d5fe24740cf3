"""From an address to a service that is known: key, client, dialect, model, and the fields that it takes."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import urlsplit

import httpx2

from ...errors import ConnectionFailed, UsageError
from ...trace import COUNTED, ONE_EACH, Trace
from ..keeper import Keeper
from ..live import Capture
from . import keys
from .address import Address
from .find import Target, find
from .line import PLAIN, Line, shown
from .manner import Manner
from .routes import ROUTES, Question, by_path
from .session import Session

_CONNECT_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Way:
    """How a service is reached: what a client is made with, and the key."""

    address: Address
    options: Mapping[str, Any]
    timeout: float
    key: keys.Key
    secrets: keys.Secrets

    def line(self, client: httpx2.Client, headers: Mapping[str, str]) -> Line:
        """The service through `client`; `headers` are the dialect's and the key's."""
        return Line(client, self.address, {**PLAIN, **headers}, self.secrets, self.timeout)


def way(address: Address, key: keys.Key, *, proxy: str | None, timeout: float) -> Way:
    """How `address` is reached. This machine is asked directly, whatever proxies the environment names.

    Raises
    ------
    UsageError : the proxy is none that could be used.
    """
    patience = httpx2.Timeout(timeout, connect=min(timeout, _CONNECT_S))
    # A connection for each answer: llama.cpp closes after a streamed one, though it has promised to keep it open.
    limits = httpx2.Limits(max_keepalive_connections=0)
    options: dict[str, Any] = {"timeout": patience, "limits": limits, "follow_redirects": False}
    password = None
    if proxy is not None:
        options["proxy"] = _proxy(proxy)
        password = urlsplit(proxy).password
    elif address.loopback:
        options |= {"trust_env": False, "verify": ssl.create_default_context()}
    return Way(address, options, timeout, key, keys.Secrets([key.value, password or ""]))


def _proxy(url: str) -> httpx2.Proxy:
    try:
        parts = urlsplit(url)
        if parts.scheme in ("http", "https") and parts.hostname:
            return httpx2.Proxy(url)
    except (ValueError, httpx2.InvalidURL):
        pass
    raise UsageError("this proxy cannot be used", "give it as http://host:port")


def meet(
    address: Address,
    environment: Mapping[str, str],
    *,
    dialect: str | None = None,
    model: str | None = None,
    key_env: str | None = None,
    key_over_http: bool = False,
    proxy: str | None = None,
    timeout: float,
) -> tuple[Way, Target]:
    """Find out what `address` speaks and which model to ask.

    Raises
    ------
    UsageError : see `find.find` and `keys.pick`. ConnectionFailed : see `find.find`.
    """
    route = ROUTES.get(dialect or "") or by_path(address.path) or ROUTES["openai"]
    customary, style = route.key
    key = keys.pick(address, customary, environment, named=key_env, over_http=key_over_http)
    first = way(address, key, proxy=proxy, timeout=timeout)
    with httpx2.Client(**first.options) as client:
        line = first.line(client, {**route.headers, **key.headers(style, address)})
        target = find(address, line.get, dialect=dialect, model=model)
    if target.route.key == route.key:
        return first, target
    key = keys.pick(address, target.route.key[0], environment, named=key_env, over_http=key_over_http)
    return way(address, key, proxy=proxy, timeout=timeout), target


def headers(target: Target, key: keys.Key) -> dict[str, str]:
    """Request headers for questions to `target`."""
    return {**target.route.headers, **key.headers(target.route.key[1], target.address)}


def warm_up(found: Way, target: Target, question: Question, tell: Callable[[str], None]) -> Manner:
    """Ask once without counting it, so that the model is loaded and the server has shown which fields it takes.

    Where the server tells no counts, log-probabilities are tried, which tell them at some cost.

    Raises
    ------
    ConnectionFailed : no usable answer. KeyboardInterrupt : as it says.
    """
    manner = Manner(target.route, target.asks)
    seen = _listen(found, target, manner, question)
    if not _told(seen) and target.route.last_resort:
        before = list(manner.refused)
        manner.change(more=target.route.last_resort)
        try:
            helped = _told(_listen(found, target, manner, question))
        except ConnectionFailed:
            helped = False
        if not helped:
            manner.change(less=target.route.last_resort)
            manner.refused[:] = before
    for field in ("temperature", "seed"):
        if field in manner.refused:
            tell(f"{target.model or 'the server'} takes no {field}: its own default applies")
    return manner


def _told(trace: Trace) -> bool:
    """Whether the server says how many tokens each event holds."""
    return all(one.count_source in (COUNTED, ONE_EACH) for one in trace.streams)


def _listen(found: Way, target: Target, manner: Manner, question: Question) -> Trace:
    keeper = Keeper()
    with Capture(keeper) as capture:
        with capture.client(**found.options) as client:
            line = found.line(client, headers(target, found.key))
            session = Session(
                line, target.url, manner, [question], concurrency=1, budget=question.tokens, capture=capture,
                keeper=keeper,
            )  # fmt: skip
            session.run(lambda _: False)
        if session.ended == "interrupted":
            raise KeyboardInterrupt
    if session.errors:
        raise session.errors[-1]
    trace = keeper.trace()
    if not trace.events:
        raise nothing(target, trace, found.secrets)
    return trace


def nothing(target: Target, trace: Trace, secrets: keys.Secrets) -> ConnectionFailed:
    """The error for answers without a token: with the server's words, where it sent any."""
    said = next((f.message for f in trace.findings if f.code == "I007"), "")
    text = f"{target.address.origin} answers {target.route.name} without a single token"
    return ConnectionFailed(
        f"{text} ({shown(said, secrets)})" if said else text, "check the URL, --dialect and --model"
    )


def hidden(trace: Trace, secrets: keys.Secrets) -> Trace:
    """`trace` without the key, should the server have sent it back."""
    findings = tuple(replace(f, message=secrets.hide(f.message)) for f in trace.findings)
    streams = tuple(replace(one, meta=_hide(one.meta, secrets)) for one in trace.streams)
    return replace(trace, streams=streams, findings=findings)


def _hide(value: Any, secrets: keys.Secrets) -> Any:
    if isinstance(value, str):
        return secrets.hide(value)
    if isinstance(value, Mapping):
        return {k: _hide(v, secrets) for k, v in value.items()}
    return [_hide(v, secrets) for v in value] if isinstance(value, (list, tuple)) else value
