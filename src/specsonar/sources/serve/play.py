"""An answer is played: every event at its time, each in a write of its own, until it ends or the client leaves."""

from __future__ import annotations

import asyncio
import heapq
import time
from collections.abc import Awaitable, Callable, Iterator
from operator import attrgetter

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from .pacing import until
from .script import Piece
from .simulation import Simulation
from .writer import Writer, encode

Put = Callable[[bytes], Awaitable[None]]


async def play(simulation: Simulation, writer: Writer, put: Put, start_ns: int) -> None:
    """Hand the events of an answer to `put`, each at its time after `start_ns`; note when it left.

    What an event consists of is made before it is due. A cancelled answer is noted as aborted.
    """
    answer, ledger, clock = writer.answer, simulation.ledger, simulation.clock
    entries = [ledger.open(answer.id, s, len(answer.scripts) > 1) for s in answer.scripts]
    state = "aborted"
    try:
        for data in writer.early() if answer.ask.stream else ():
            await put(data)
        for piece in _pieces(writer):
            entry = entries[piece.choice]
            due = start_ns + piece.due_ns
            if answer.ask.stream:
                opening = () if entry.due_ns else tuple(writer.opening(piece.choice))
                data = writer.piece(piece)
                await until(due)
                for first in opening:
                    await put(first)
                await put(data)
                entry.due_ns.append(due)
                entry.sent_ns.append(clock.last_ns)
            elif piece.last:
                await until(due)
            entry.tokens = piece.sofar
            if piece.last:
                script = answer.scripts[piece.choice]
                entry.tokens = script.tokens  # what a stop text hides was decoded too
                for data in writer.ended(script) if answer.ask.stream else ():
                    await put(data)
        for data in writer.closing() if answer.ask.stream else (encode(writer.whole()),):
            await put(data)
        state = "done"
    finally:
        for entry, script in zip(entries, answer.scripts, strict=True):
            ledger.close(entry, script, state, lying=answer.report == "lying")


def _pieces(writer: Writer) -> Iterator[Piece]:
    """The events of all choices in the order of their times."""
    return heapq.merge(*(s.pieces() for s in writer.answer.scripts), key=attrgetter("due_ns"))


class Played(Response):
    """The response that plays an answer."""

    def __init__(self, simulation: Simulation, writer: Writer) -> None:
        self._simulation = simulation
        self._writer = writer
        self._start_ns = time.monotonic_ns()
        stream = writer.answer.ask.stream
        super().__init__(media_type=writer.media if stream else "application/json")
        if stream:
            # The length of a stream is not known; nothing on the way shall hold it back.
            del self.headers["content-length"]
            self.headers["cache-control"] = "no-cache"
            self.headers["x-accel-buffering"] = "no"
        self._stream = stream

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it; stop as soon as the client has gone."""
        playing = asyncio.ensure_future(self._play(send))
        leaving = asyncio.ensure_future(_left(receive))
        try:
            await asyncio.wait((playing, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (playing, leaving):
                task.cancel()
        done = await asyncio.gather(playing, leaving, return_exceptions=True)
        if isinstance(done[0], Exception):
            raise done[0]

    async def _play(self, send: Send) -> None:
        async def put(data: bytes) -> None:
            await send({"type": "http.response.body", "body": data, "more_body": True})

        async def start(length: bytes = b"") -> None:
            headers = [pair for pair in self.raw_headers if pair[0] != b"content-length"]
            headers += [(b"content-length", length)] if length else []
            await send({"type": "http.response.start", "status": self.status_code, "headers": headers})

        async def put_whole(data: bytes) -> None:
            await start(str(len(data)).encode())
            await put(data)

        if self._stream:
            await start()
        await play(self._simulation, self._writer, put if self._stream else put_whole, self._start_ns)
        await send({"type": "http.response.body", "body": b""})


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
