"""Servers that say exactly what a test wants, and that can be as bad as they like."""

import json
import socketserver
import threading
from dataclasses import dataclass

MODELS = {"object": "list", "data": [{"id": "m", "object": "model", "owned_by": "me"}]}
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
CHUNKED = HEAD.replace(b"connection: close\r\n", b"transfer-encoding: chunked\r\n")


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    headers: dict
    body: object


def page(value, status=200, **headers):
    """A whole response with a JSON body."""
    body = json.dumps(value).encode()
    lines = [f"HTTP/1.1 {status} X", f"content-length: {len(body)}", "connection: close"]
    lines += [f"{name.replace('_', '-')}: {text}" for name, text in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def event(text="a", **more):
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": None}
    return f"data: {json.dumps({'id': 'x', 'model': 'm', 'choices': [choice], **more})}\n\n".encode()


def end(tokens):
    choice = {"index": 0, "delta": {}, "finish_reason": "length"}
    last = {"id": "x", "model": "m", "choices": [choice], "usage": {"completion_tokens": tokens}}
    return f"data: {json.dumps(last)}\n\ndata: [DONE]\n\n".encode()


def answer(tokens=15, step=0.002):
    """A well-behaved stream of `tokens` plain tokens."""
    pause = threading.Event()
    yield HEAD
    for _ in range(tokens):
        pause.wait(step)
        yield event()
    yield end(tokens)


class Scripted:
    """`respond(request)` gives the pieces of the response to each POST; a GET of the model list is answered.

    `requests` has everything that was asked. A response may wait for `gone`, which is set when the test is over.
    """

    def __init__(self, respond, get=None, context=None):
        self.requests = []
        self.gone = threading.Event()
        outer = self

        class Handler(socketserver.StreamRequestHandler):
            disable_nagle_algorithm = True

            def handle(self):
                try:
                    request = outer.read(self.rfile)
                    outer.requests.append(request)
                    pieces = respond(request) if request.method == "POST" else outer.pages(request, get)
                    for piece in [pieces] if isinstance(pieces, bytes) else pieces:
                        self.wfile.write(piece)
                except (OSError, ValueError):
                    return  # the client has had enough

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True
            request_queue_size = 128

            def get_request(self):
                connection, where = super().get_request()
                if context is None:
                    return connection, where
                # the handshake is for the thread of the connection, which may fail
                return context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False), where

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http{'s' if context else ''}://127.0.0.1:{self._server.server_address[1]}"

    @staticmethod
    def read(file):
        method, path, _ = file.readline().decode().split()
        headers = {}
        while line := file.readline().decode().strip():
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        body = file.read(int(headers.get("content-length", 0)))
        return Request(method, path, headers, json.loads(body) if body else None)

    @staticmethod
    def pages(request, get):
        if get is not None and (made := get(request)) is not None:
            return made
        return page(MODELS) if request.path.endswith("/v1/models") else page({}, 404)  # a proxy gets the whole URL

    @property
    def posts(self):
        return [r for r in self.requests if r.method == "POST"]

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.gone.set()
        self._server.shutdown()
        self._server.server_close()
