"""Logs of the Chrome DevTools protocol: network events, as JSON lines or as an array.

Messages of event sources and WebSockets come with their text. Of a fetch the protocol tells when bytes came, and which
bytes only where the recording tool asked for them.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ..bytefile import ByteFile
from ..errors import LimitError
from ..fingerprint import Finding
from ..trace import Trace
from ..wire.answer import Answer
from ..wire.body import Body
from ..wire.conversation import Conversation
from ..wire.dialects.said import table, whole
from ..wire.limits import LIMITS
from ..wire.recordsizes import sizes_only
from ..wire.values import payload
from .answers import add_answers, say_sizes_only, stamp_ns
from .gather import MAX_EVENTS, Gathered
from .har import message_bytes
from .jsonparts import Parts
from .refusals import no_times, refuse_gaps
from .sniff import has
from .values import decoded

NAME: Final = "DevTools protocol log"
LOOKS: Final = 'JSON lines {"method":"Network...","params":{..}}, or an array of them'
KEYS: Final = ("method", "params", "requestId")

_PREFIX: Final = "Network."
_NETWORK: Final = re.compile(rb'\\?"method\\?"\s*:\s*\\?"Network\.')  # ChromeDriver has it inside a text
_FEWEST: Final = 4
_MOST_REQUESTS: Final = 100_000


@dataclass(slots=True)
class _Request:
    url: str = ""
    start_ns: int | None = None
    status: int | None = None
    headers: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] | None = None
    reads: list[tuple[int, int]] = field(default_factory=list)
    last_ns: int = 0
    answers: list[Answer] = field(default_factory=list)
    body: Body | None = None
    socket: Conversation | None = None

    def answer(self) -> Answer:
        """The answer to this request, made at the first need."""
        if not self.answers:
            self.answers.append(
                Answer(
                    dict(self.settings or {}), url=self.url, headers=dict(self.headers), status=self.status,
                    start_ns=self.start_ns,
                )
            )  # fmt: skip
        return self.answers[0]


def sniff(head: bytes) -> float:
    """How much `head` looks like this format, 0 to 1."""
    return has(head, ()) if _NETWORK.search(head) else 0.0


def read(source: ByteFile, *, unit: str | None = None, gaps: bool = False) -> Trace:
    """Read all requests.

    Raises
    ------
    UsageError : `gaps` was asked for. LimitError : too many requests, or one event larger than 64 MiB.
    """
    refuse_gaps(gaps)
    gathered = Gathered(source)
    parts = Parts(source, [()])
    requests: dict[str, _Request] = {}
    for number, (_, _, raw) in enumerate(parts, 1):
        event = _event(raw)
        method, params = str(event.get("method", "")), table(event.get("params"))
        name = params.get("requestId")
        if not method.startswith(_PREFIX) or not isinstance(name, str):
            continue
        if name not in requests and len(requests) >= _MOST_REQUESTS:
            raise LimitError(f"{source.name} has more than {_MOST_REQUESTS:,} requests", "split the file")
        request = requests.setdefault(name, _Request())
        try:
            _take(request, method.removeprefix(_PREFIX), params, number, gathered.findings)
        except LimitError as error:
            gathered.skip(f"event {number}: {error.message}")
    only_sizes = 0
    for request in requests.values():
        if request.body is not None:
            request.body.end(request.last_ns)
        if request.socket is not None:
            request.socket.closed(request.last_ns)
        if request.answers:
            add_answers(gathered, request.answers, 1000)
        elif len(request.reads) >= _FEWEST:
            only_sizes += 1
            t_ns, size = zip(*request.reads, strict=True)
            gathered.add(sizes_only(t_ns, size, name=gathered.name(), start_ns=request.start_ns, resolution_ns=1000))
    say_sizes_only(gathered, only_sizes, "since the protocol told when bytes came and not which")
    if not gathered.streams:
        return no_times(
            source, f"has {len(requests)} requests, none of which was answered in parts",
            "record Network.dataReceived and Network.eventSourceMessageReceived", notes=gathered.findings,
        )  # fmt: skip
    return gathered.trace(parts)


def _event(raw: bytes) -> Mapping[str, Any]:
    """A protocol event; ChromeDriver's performance log wraps it twice, the second time as text."""
    event = table(decoded(raw))
    inner = event.get("message")
    if isinstance(inner, str):
        inner = table(decoded(inner.encode(errors="replace"))).get("message")
    return table(inner) if isinstance(inner, Mapping) else event


def _take(request: _Request, what: str, params: Mapping[str, Any], number: int, findings: list[Finding]) -> None:
    """One network event of a request."""
    t_ns = stamp_ns(params.get("timestamp"))
    if t_ns is None:
        if what == "webSocketCreated":
            request.url = str(params.get("url", ""))
        return
    request.last_ns = t_ns
    if what == "requestWillBeSent":
        sent = table(params.get("request"))
        asked = payload(str(sent.get("postData", "")))
        request.url, request.start_ns = str(sent.get("url", "")), t_ns
        request.settings = asked if isinstance(asked, dict) else None
    elif what == "responseReceived":
        response = table(params.get("response"))
        request.status = whole(response.get("status")) or None
        request.headers = {
            "content-type": response.get("mimeType"),
            **{str(k).lower(): v for k, v in table(response.get("headers")).items()},
        }
    elif what == "dataReceived":
        _bytes(request, params, t_ns, number, findings)
    elif what == "eventSourceMessageReceived" and isinstance(text := params.get("data"), str):
        name = params.get("eventName")
        kind = name if isinstance(name, str) and name != "message" else ""
        if request.body is None:  # else the bytes were there, and tell the same once more
            request.answer().event(t_ns, number, payload(text), len(text.encode(errors="replace")), kind)
    elif what in ("webSocketFrameSent", "webSocketFrameReceived"):
        frame = table(params.get("response"))
        if (data := message_bytes(frame.get("payloadData"), whole(frame.get("opcode")))) is not None:
            if request.socket is None:
                request.socket = Conversation(LIMITS, request.answers, request.url)
            if what.endswith("Sent"):
                request.socket.sent(t_ns, data)
            else:
                request.socket.received(t_ns, data, number)


def _bytes(request: _Request, params: Mapping[str, Any], t_ns: int, number: int, findings: list[Finding]) -> None:
    size = whole(params.get("dataLength"))
    if size and len(request.reads) < MAX_EVENTS:
        request.reads.append((t_ns, size))
    if not isinstance(text := params.get("data"), str):
        return
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return
    if request.body is None:
        request.body = Body(request.answer(), str(request.headers.get("content-type") or ""), findings=findings)
    request.body.feed(t_ns, data, number)
