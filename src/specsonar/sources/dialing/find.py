"""What a service speaks and which models it has, from its URL and a few cheap GET requests."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ...errors import ConnectionFailed, UsageError
from .address import Address
from .keys import hosted, locked
from .routes import HOSTED_ASKS, ROUTES, Route, by_path

_VERSION: Final = re.compile(r"/v\d\w*$")
_NOT_FOR_TEXT: Final = re.compile(r"(?i)embed|rerank|whisper|tts|moderation|dall-e|image|transcri|speech|audio")
_MODEL_NEEDED: Final = ("openai", "completions", "responses", "anthropic", "ollama", "ollama-generate")
_LOCKED: Final = (401, 403)
_LONGEST_NAME: Final = 300
_SHOWN: Final = 6


@dataclass(frozen=True, slots=True)
class Peek:
    """The answer to a GET: status, and the JSON value of the body (None where it is none)."""

    status: int
    value: Any = None


Get = Callable[[str], Peek]
"""Asks an URL. Raises ConnectionFailed where nobody answers."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where and how a service is asked.

    Attributes
    ----------
    url : where questions are posted.
    models : names that the server lists; empty when it lists none or was not asked.
    model : the chosen one, or None where the dialect needs none.
    note : what the user should know about the choice, or "".
    """

    address: Address
    url: str
    route: Route
    models: tuple[str, ...] = ()
    model: str | None = None
    note: str = ""

    @property
    def asks(self) -> dict[str, Any]:
        """The fields for token counts that are worth a try with this host."""
        strict = hosted(self.address)
        return {k: v for k, v in self.route.asks.items() if not strict or k in HOSTED_ASKS}


def find(address: Address, get: Get, *, dialect: str | None = None, model: str | None = None) -> Target:
    """The dialect of `address` and the model to ask.

    Parameters
    ----------
    get : asks an URL.
    dialect : name of a route, to force it.
    model : the model to ask; without it the server's list decides.

    Raises
    ------
    UsageError : an unknown dialect, or a provider with several models and none named.
    ConnectionFailed : no known API there, a key is missing, or the server lists no model.
    """
    if dialect is not None and dialect not in ROUTES:
        raise UsageError(f"no dialect is called {dialect!r}", f"dialects: {', '.join(ROUTES)}")
    named = by_path(address.path)
    route = ROUTES[dialect] if dialect else named or _by_host(address)
    if route is None:
        route, path, models = _explore(address, get)
    else:
        prefix = address.path.removesuffix(_tail(named)) if named else address.path
        path = address.path if named else _join(prefix, route)
        models = _models_of(route, address, prefix, get) if model is None and route.name in _MODEL_NEEDED else ()
    url = address.at(path)
    if model is not None or route.name not in _MODEL_NEEDED:
        return Target(address, url, route, models, model)
    chosen, note = _choose(models, address)
    return Target(address, url, route, models, chosen, note)


def _by_host(address: Address) -> Route | None:
    return ROUTES["anthropic"] if hosted(address) == "ANTHROPIC_API_KEY" else None


def _choose(models: tuple[str, ...], address: Address) -> tuple[str, str]:
    """The model to ask when none was named, and what to say about it."""
    usable = [name for name in models if not _NOT_FOR_TEXT.search(name)] or list(models)
    if not usable:
        raise ConnectionFailed(f"{address.host} lists no model", "name one with --model")
    if len(usable) == 1:
        return usable[0], ""
    shown = ", ".join(usable[:_SHOWN]) + (", ..." if len(usable) > _SHOWN else "")
    if hosted(address):
        raise UsageError(f"{address.host} has {len(usable)} models: {shown}", "name one with --model")
    return usable[0], f"{len(usable)} models ({shown}): asking {usable[0]}; name another with --model"


def _tail(route: Route) -> str:
    """The path of a route without the version, which servers behind a gateway replace by their own."""
    return route.path.removeprefix("/v1")


def _join(prefix: str, route: Route) -> str:
    """The route below `prefix`, whose version takes the place of the route's own.

    >>> _join("/api/v1", ROUTES["openai"])
    '/api/v1/chat/completions'
    """
    return prefix + (_tail(route) if _VERSION.search(prefix) else route.path)


def _models_of(route: Route, address: Address, prefix: str, get: Get) -> tuple[str, ...]:
    if route.name in ("ollama", "ollama-generate"):
        return _ollama_models(get(address.at(f"{prefix}/api/tags"))) or ()
    for path in _model_lists(prefix):
        peek = get(address.at(path))
        if peek.status in _LOCKED:
            raise _locked(address, peek.status)
        if models := _models(peek):
            return models
    return ()


def _model_lists(prefix: str) -> list[str]:
    return [f"{prefix}/models"] if _VERSION.search(prefix) else [f"{prefix}/v1/models", f"{prefix}/models"]


def _models(peek: Peek) -> tuple[str, ...] | None:
    """Names in a list of models as OpenAI and Anthropic write it; None where the answer is no such list."""
    return _listed(_object(peek), "data", "id")


def _ollama_models(peek: Peek) -> tuple[str, ...] | None:
    return _listed(_object(peek), "models", "name")


def _listed(value: Mapping[str, Any], key: str, name: str) -> tuple[str, ...] | None:
    entries = value.get(key)
    if entries is None and value.get("object") == "list":
        return ()  # an empty list that Go wrote
    if not isinstance(entries, list):
        return None
    names = [entry.get(name) for entry in entries if isinstance(entry, Mapping)]
    return tuple(n for n in names if isinstance(n, str) and n and n.isprintable() and len(n) <= _LONGEST_NAME)


def _object(peek: Peek) -> Mapping[str, Any]:
    return peek.value if peek.status == 200 and isinstance(peek.value, Mapping) else {}


def _explore(address: Address, get: Get) -> tuple[Route, str, tuple[str, ...]]:
    """Dialect, path of its route, and models, by asking around."""
    prefix = address.path
    seen: dict[str, Peek] = {}

    def peek(path: str) -> Peek:
        if path not in seen:
            seen[path] = get(address.at(path))
        return seen[path]

    for path in _model_lists(prefix):
        models = _models(peek(path))
        if models is not None:
            route = _by_models(peek(path), lambda: peek(f"{prefix}/api/tags"))
            root = path.removesuffix("/models")
            return route, prefix + route.path if route.name == "ollama" else root + _tail(route), models
    models = _ollama_models(peek(f"{prefix}/api/tags"))
    if models is not None:
        return ROUTES["ollama"], _join(prefix, ROUTES["ollama"]), models
    for path, key, name in _PROPERTIES:
        if key in _object(peek(prefix + path)):
            return ROUTES[name], _join(prefix, ROUTES[name]), ()
    if locked := next((p.status for p in seen.values() if p.status in _LOCKED), None):
        raise _locked(address, locked)
    if broken := next((path for path, p in seen.items() if p.status >= 500), None):
        # transformers serve fails to list models where no download ever made a cache of them
        raise ConnectionFailed(
            f"{address.origin}{broken} answers HTTP {seen[broken].status}",
            "with --dialect and --model both given, nothing is looked up; or look at the server's log",
        )
    raise ConnectionFailed(
        f"{address.origin}{prefix} answers, but with no API that is known (asked {', '.join(seen)})",
        "give the URL of the route itself, e.g. .../v1/chat/completions, or --dialect and --model",
    )


_PROPERTIES: Final = (
    ("/props", "default_generation_settings", "llama.cpp"),
    ("/info", "model_id", "tgi"),
    ("/get_model_info", "model_path", "sglang"),
)


def _by_models(seen: Peek, tags: Callable[[], Peek]) -> Route:
    """The dialect of a server that lists its models as OpenAI does: Anthropic and Ollama do so too."""
    entries = _object(seen).get("data") or [{}]
    first = entries[0] if isinstance(entries[0], Mapping) else {}
    if first.get("type") == "model" and "object" not in first:
        return ROUTES["anthropic"]
    # Ollama's own route carries its clock and its counts. Others list models in its form as well, under other owners.
    if first.get("owned_by") in ("library", None) and _ollama_models(tags()):
        return ROUTES["ollama"]
    return ROUTES["openai"]


def _locked(address: Address, status: int) -> ConnectionFailed:
    return ConnectionFailed(f"{address.host} wants a key, or another one (HTTP {status})", locked(address))
