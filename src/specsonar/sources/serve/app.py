"""Routes of the simulated service."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute

from . import about, sockets
from .dialects import anthropic, llamacpp, ollama, openai, responses, tgi
from .play import Played
from .script import Ask
from .simulation import Simulation
from .writer import Json, Refused, Writer, encode, parse

MOST_BODY: Final = 16 << 20
"""Bytes of a request that are read."""

Handler = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a route is asked, how it answers, and how it refuses.

    Attributes
    ----------
    ask : reads the body of a request.
    writer : writes the answer.
    error : the body of an error.
    one_model : the name of the model is not looked at.
    bad : status of a request that is wrong.
    """

    ask: Callable[[Json], Ask]
    writer: type[Writer]
    error: Callable[[Refused], Json]
    one_model: bool = False
    bad: int = 400


def _tgi(stream: bool | None) -> Dialect:
    return Dialect(partial(tgi.ask, stream=stream), tgi.Generate, tgi.error, one_model=True, bad=422)


_COMPLETION: Final = Dialect(llamacpp.ask, llamacpp.Completion, llamacpp.error, one_model=True)

ROUTES: Final[dict[str, tuple[tuple[str, Dialect], ...]]] = {
    "chat": (("/v1/chat/completions", Dialect(partial(openai.ask, chat=True), openai.Chat, openai.error)),),
    "completions": (("/v1/completions", Dialect(partial(openai.ask, chat=False), openai.Completions, openai.error)),),
    "completion": (("/completion", _COMPLETION), ("/completions", _COMPLETION)),
    "responses": (("/v1/responses", Dialect(responses.ask, responses.Responses, openai.error)),),
    "messages": (("/v1/messages", Dialect(anthropic.ask, anthropic.Messages, anthropic.error)),),
    "ollama": (
        ("/api/generate", Dialect(ollama.ask, ollama.Generate, ollama.error)),
        ("/api/chat", Dialect(ollama.ask, ollama.Chat, ollama.error)),
    ),
    "generate": (
        ("/generate", _tgi(False)),
        ("/generate_stream", _tgi(True)),
        ("/", _tgi(None)),
    ),
}
"""Routes that answer with tokens, by the names in `engines.Engine.routes`."""

LLAMACPP: Final = {
    "chat": (("/v1/chat/completions", Dialect(
        partial(openai.ask, chat=True), openai.LlamaChat, llamacpp.error, one_model=True)),),
    "completions": (("/v1/completions", Dialect(
        partial(openai.ask, chat=False), openai.LlamaCompletions, llamacpp.error, one_model=True)),),
}  # fmt: skip
"""llama.cpp's own way with two of them."""


SOCKETS: Final = {"responses": (("/v1/responses", False),), "realtime": (("/v1/realtime", True),)}
"""WebSocket routes, and whether they are Realtime sessions."""


def make(simulation: Simulation) -> Starlette:
    """The application."""
    routes: list[BaseRoute] = []
    for name in simulation.engine.routes:
        table = LLAMACPP if simulation.options.engine == "llama.cpp" and name in LLAMACPP else ROUTES
        for path, dialect in table.get(name, ()):
            routes.append(Route(path, _answering(simulation, dialect), methods=["POST"]))
        for path, realtime in SOCKETS.get(name, ()):
            routes.append(WebSocketRoute(path, sockets.session(simulation, realtime=realtime)))
        for path, tell in about.PAGES.get(name, ()):
            routes.append(
                Route(path, _telling(simulation, tell), methods=["GET", "POST"] if path in about.POSTED else ["GET"])
            )
    for path, tell in about.OWN:
        routes.append(Route(path, _telling(simulation, tell), methods=["GET"]))
    return Starlette(routes=routes, exception_handlers={404: _unknown, 405: _unknown})


async def _unknown(_request: Request, error: Exception) -> Response:
    status = getattr(error, "status_code", 404)
    return _json({"error": {"message": "no such route", "type": "not_found_error", "code": status}}, status)


def _json(value: object, status: int = 200) -> Response:
    return Response(encode(value), status, media_type="application/json")


def _answering(simulation: Simulation, dialect: Dialect) -> Handler:
    async def handle(request: Request) -> Response:
        try:
            simulation.admit(request.headers.get("authorization"), request.headers.get("x-api-key"))
            body = await _body(request)
            answer = simulation.accept(dialect.ask, body, any_model=dialect.one_model)
        except Refused as refused:
            refused.status = dialect.bad if refused.status == 400 else refused.status
            return _served(simulation, _json(dialect.error(refused), refused.status))
        return _served(simulation, Played(simulation, dialect.writer(answer)))

    return handle


def _served(simulation: Simulation, response: Response) -> Response:
    if simulation.engine.server:
        response.headers["server"] = simulation.engine.server
    return response


async def _body(request: Request) -> Json:
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > MOST_BODY:
            raise Refused(413, f"the request has more than {MOST_BODY >> 20} MB")
    return parse(bytes(data))


def _telling(simulation: Simulation, tell: about.Tell) -> Handler:
    async def handle(request: Request) -> Response:
        value = tell(simulation, request.headers)
        if value is None:
            return await _unknown(request, Refused(404, ""))
        if isinstance(value, str):
            return _served(simulation, PlainTextResponse(value))
        return _served(simulation, _json(value))

    return handle
