"""WebSocket routes: the Responses events as messages, and Realtime sessions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

from starlette.responses import Response
from starlette.websockets import WebSocket, WebSocketDisconnect

from .dialects import openai, responses
from .play import play
from .script import Ask
from .simulation import Simulation
from .writer import Json, Refused, Writer, encode, parse

Session = Callable[[WebSocket], Coroutine[Any, Any, None]]


def session(simulation: Simulation, *, realtime: bool) -> Session:
    """The handler of one of the two routes."""

    async def handle(socket: WebSocket) -> None:
        try:
            simulation.admit(socket.headers.get("authorization"), None)
        except Refused as refused:
            body = encode(openai.error(refused))
            await socket.send_denial_response(Response(body, refused.status, media_type="application/json"))
            return
        await socket.accept()
        talk = _Realtime(simulation, socket) if realtime else _Talk(simulation, socket)
        try:
            await talk.run()
        except WebSocketDisconnect:
            pass
        finally:
            await talk.stop()

    return handle


class _Talk:
    """One connection of the Responses WebSocket; one answer at a time."""

    ask: Callable[[Json], Ask] = staticmethod(responses.ask_socket)
    writer: type[Writer] = responses.ResponsesSocket

    def __init__(self, simulation: Simulation, socket: WebSocket) -> None:
        self._simulation = simulation
        self._socket = socket
        self._playing: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Until the client leaves."""
        await self.greet()
        while True:
            text = await self._socket.receive_text()
            try:
                await self.hear(parse(text))
            except Refused as refused:
                await self.say({"type": "error", "status": refused.status, **openai.error(refused)})

    async def greet(self) -> None:
        """What is said first."""

    async def hear(self, message: Json) -> None:
        """One message of the client.

        Raises
        ------
        Refused : it cannot be answered.
        """
        if message.get("type") != "response.create":
            raise Refused(400, f"unknown message type {message.get('type')!r}", param="type")
        await self.create(message)

    async def create(self, message: Json) -> None:
        """Begin an answer."""
        if self._playing is not None and not self._playing.done():
            raise Refused(400, "there is an active response", code="conversation_already_has_active_response")
        start_ns = time.monotonic_ns()
        answer = self._simulation.accept(self.ask, message, any_model=False)
        self._playing = asyncio.create_task(self._play(self.writer(answer), start_ns))

    async def _play(self, writer: Writer, start_ns: int) -> None:
        try:
            await play(self._simulation, writer, self._put, start_ns)
        except WebSocketDisconnect:  # `run` hears of it too
            pass

    async def stop(self) -> None:
        """Break off what is being answered."""
        if self._playing is not None:
            self._playing.cancel()
            await asyncio.gather(self._playing, return_exceptions=True)

    async def say(self, message: Json) -> None:
        """Send a message that is no part of an answer."""
        await self._put(encode(message))

    async def _put(self, data: bytes) -> None:
        await self._socket.send_text(data.decode())


class _Realtime(_Talk):
    """One Realtime session, text only; what was said before is the prompt."""

    ask = staticmethod(responses.ask_realtime)
    writer = responses.Realtime

    def __init__(self, simulation: Simulation, socket: WebSocket) -> None:
        super().__init__(simulation, socket)
        self._model = socket.query_params.get("model", "")
        self._said: list[Json] = []

    def _session(self) -> Json:
        return {
            "type": "realtime", "object": "realtime.session", "id": f"sess_{id(self):x}",
            "model": self._model or self._simulation.options.model, "output_modalities": ["text"],
        }  # fmt: skip

    async def greet(self) -> None:
        """Open the session."""
        await self.say({"type": "session.created", "event_id": "event_0", "session": self._session()})

    async def hear(self, message: Json) -> None:
        """One message of the client; what has no effect on text is not heard."""
        match message.get("type"):
            case "response.create":
                await self.create({**message, "model": self._model, "said": self._said})
            case "response.cancel":
                await self.stop()
                await self.say({"type": "response.done", "event_id": "event_0", "response": {
                    "object": "realtime.response", "status": "cancelled", "output": [], "usage": None,
                }})  # fmt: skip
            case "conversation.item.create":
                item = message.get("item")
                self._said.append(item if isinstance(item, dict) else {})
                item = {"id": f"item_{len(self._said)}", "object": "realtime.item", **self._said[-1]}
                for kind in ("conversation.item.added", "conversation.item.done"):
                    await self.say({"type": kind, "event_id": "event_0", "previous_item_id": None, "item": item})
            case "session.update":
                await self.say({"type": "session.updated", "event_id": "event_0", "session": self._session()})
            case str():
                pass
            case _:
                raise Refused(400, "a message needs a type", param="type")
