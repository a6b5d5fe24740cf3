"""Events leave at absolute times: an event loop whose timers are exact to microseconds, and the true send times."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from ..precise import Selector


def new_loop() -> asyncio.AbstractEventLoop:
    """An event loop whose timers are not rounded up to milliseconds."""
    return asyncio.SelectorEventLoop(Selector())


async def until(due_ns: int) -> None:
    """Wait until `time.monotonic_ns` says `due_ns`; at once, without a turn for others, when that has passed."""
    if time.monotonic_ns() >= due_ns:
        return
    loop = asyncio.get_running_loop()
    waiter = loop.create_future()
    timer = loop.call_at(due_ns * 1e-9, _wake, waiter)
    try:
        await waiter
    finally:
        timer.cancel()


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


class SendClock:
    """When the loop's thread last handed bytes to a socket, nanoseconds of the monotonic clock."""

    last_ns = 0

    def protocol(self) -> type[H11Protocol]:
        """The HTTP protocol of uvicorn, with transports that tell this clock when they write."""
        clock = self

        class Stamped(H11Protocol):
            def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
                super().connection_made(_Transport(transport, clock))  # type: ignore[arg-type]

        return Stamped


class _Transport:
    """A transport that notes the time right before the bytes go to the socket.

    After the call would be worse: waking the reader is part of it, and the reader may be given the processor first.
    """

    def __init__(self, inner: asyncio.Transport, clock: SendClock) -> None:
        self._inner = inner
        self._clock = clock

    def write(self, data: bytes) -> None:
        self._clock.last_ns = time.monotonic_ns()
        self._inner.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)
