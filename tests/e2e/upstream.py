"""A small HTTP/1.1 server in a thread that answers each POST with a stream of events, byte by byte as told."""

from __future__ import annotations

import asyncio
import json
import ssl
import threading


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def event(text: str, finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": finish}
    return f"data: {json.dumps({'object': 'chat.completion.chunk', 'model': 'm', 'choices': [choice]})}\n\n".encode()


class Upstream:
    """Answers every request with `events` events; what it was sent and what it sent are kept.

    With `gated`, each event waits for a call of `go`; with `gap`, for so many seconds.
    """

    HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nX-Odd:  kept \r\ntransfer-encoding: Chunked\r\n\r\n"

    def __init__(
        self,
        events: int = 5,
        *,
        word: str = "w",
        gap: float = 0.0,
        gated: bool = False,
        port: int = 0,
        context: ssl.SSLContext | None = None,
    ) -> None:
        self.events, self.word, self.gap, self.gated, self.port = events, word, gap, gated, port
        self.context = context
        self.heads: list[bytes] = []
        self.bodies: list[bytes] = []
        self.sent: list[bytes] = []
        self.gone = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    @property
    def url(self) -> str:
        return f"{'https' if self.context else 'http'}://127.0.0.1:{self.port}"

    def go(self, events: int = 1) -> None:
        """Let so many events go."""
        for _ in range(events):
            self._loop.call_soon_threadsafe(self._gate.release)

    def _run(self):
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._main())
        self._loop.close()

    async def _main(self):
        self._stop, self._gate = asyncio.Event(), asyncio.Semaphore(0)
        server = await asyncio.start_server(self._client, "127.0.0.1", self.port, ssl=self.context, backlog=2048)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _client(self, reader, writer):
        try:
            while True:
                await self._answer(reader, writer)
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError, ssl.SSLError):
            return
        finally:
            self.gone.set()
            writer.close()

    async def _answer(self, reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        self.heads.append(head)
        lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        body = b""
        if lengths:
            body = await reader.readexactly(int(lengths[0].split(b":")[1]))
        elif b"transfer-encoding: chunked" in head.lower():
            while size := int((await reader.readline()).strip(), 16):
                body += await reader.readexactly(size)
                await reader.readline()
            await reader.readline()
        self.bodies.append(body)
        sent = bytearray(self.HEAD + chunk(b": hello\n\n"))
        writer.write(bytes(sent))
        for k in range(self.events):
            if self.gated:
                await self._gate.acquire()
            if self.gap:
                await asyncio.sleep(self.gap)
            data = chunk(event(f"{self.word}{k} ", "stop" if k == self.events - 1 else None))
            sent += data
            writer.write(data)
            await writer.drain()
            if reader.at_eof():
                raise ConnectionResetError
        data = chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n"
        self.sent.append(bytes(sent + data))
        writer.write(data)
        await writer.drain()
