"""One request and its response, whatever HTTP version carries them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ..errors import LimitError
from ..findings import finding
from ..fingerprint import Finding
from .answer import Answer
from .body import Body, note
from .broken import BrokenError
from .encodings import Decoder
from .limits import Limits, too_much
from .values import payload

if TYPE_CHECKING:
    from .websocket import WebSocket

Headers = Sequence[tuple[bytes, bytes]]

_KEPT: Final = ("content-type", "content-encoding", "server", "via", "openai-processing-ms", "openai-version")
"""Response headers that tell about the engine or the path. No other header is kept, of a request none at all."""
_STREAMS: Final = ("event-stream", "eventstream", "ndjson", "jsonl", "stream+json", "json-seq")
_ASKED_WITH: Final = ("POST", "PUT", "CONNECT")


class Exchange:
    """What the two directions say is brought together here; an `Answer` is made at the response head.

    Parameters
    ----------
    limits : see `Limits`.
    findings, answers : the lists of the connection.
    method, target : of the request line; only the path is kept.
    headers : of the request, names in lower case. They are looked at and not kept.
    """

    def __init__(
        self,
        limits: Limits,
        findings: list[Finding],
        answers: list[Answer],
        *,
        method: str = "POST",
        target: str = "",
        headers: Headers = (),
    ) -> None:
        self._limits = limits
        self._findings = findings
        self._answers = answers
        self._path = target.partition("?")[0]
        self._encoding = joined(headers, b"content-encoding")
        self._request: bytearray | None = bytearray()
        self._body: Body | None = None
        self._answer: Answer | None = None
        self._sent_ns: int | None = None
        self.method = method
        self.ended = False
        """Whether the response is complete, or given up."""

    @property
    def answered(self) -> bool:
        """Whether the head of the response was seen; a second one would leave the first answer without an end."""
        return self._answer is not None or self.ended

    def request(self, t_ns: int, data: bytes = b"") -> None:
        """Bytes of the request body, or its head alone."""
        self._sent_ns = t_ns
        if self._request is None or self._answer:
            return
        self._request += data
        if len(self._request) > self._limits.request_bytes:
            self._request = None
            note(self._findings, finding("I017", f"a request body of more than {self._limits.request_bytes:,} bytes"))

    def response(self, t_ns: int, status: int, headers: Headers) -> None:
        """The response head.

        Raises
        ------
        LimitError : too many answers are kept for this connection.
        """
        kept = {name: value for name in _KEPT if (value := joined(headers, name.encode()))}
        self._answer = Answer(
            self._settings(), url=self._path, headers=kept, status=status, start_ns=self._sent_ns
        )  # fmt: skip
        self._request = None
        content_type = kept.get("content-type", "")
        listed = self.method in _ASKED_WITH or any(word in content_type for word in _STREAMS)
        if listed:
            keep(self._answers, self._answer, self._limits)
        self._body = Body(
            self._answer,
            content_type,
            kept.get("content-encoding", ""),
            self._limits,
            findings=self._findings if listed else None,
        )

    def data(self, t_ns: int, data: bytes, read: int) -> None:
        """Bytes of the response body."""
        if self._body:
            self._body.feed(t_ns, data, read)

    def end(self, t_ns: int, why: str = "") -> None:
        """The response is complete; or it broke off, then `why` says how."""
        if self.ended:
            return
        self.ended = True
        if self._body:
            self._body.end(t_ns)
            if why:
                note(self._findings, finding("I014", why))

    def websocket(self, extensions: str) -> WebSocket:
        """What looks on after the server agreed to a WebSocket with these extensions."""
        from .conversation import Conversation  # these take a tenth of a second to load, and few captures need them
        from .websocket import WebSocket

        self.ended = True
        return WebSocket(Conversation(self._limits, self._answers, self._path), extensions, self._limits)

    def _settings(self) -> Mapping[str, Any] | None:
        if not self._request:
            return None
        try:
            plain = b"".join(Decoder(self._encoding, self._limits).feed(bytes(self._request)))
        except (BrokenError, LimitError):
            return None
        value = payload(plain)
        return value if isinstance(value, Mapping) else None


def keep(answers: list[Answer], answer: Answer, limits: Limits) -> None:
    """Append `answer`, as long as the limits allow."""
    if len(answers) >= limits.answers:
        raise too_much("the number of answers of a connection", limits.answers)
    answers.append(answer)


def joined(headers: Headers, name: bytes) -> str:
    """All values of a header, as one list; names are in lower case."""
    return ", ".join(value.decode("latin-1") for key, value in headers if key == name)


def check(headers: Headers, limits: Limits) -> None:
    """Refuse a head that is larger than the limits.

    Raises
    ------
    LimitError : too many headers, or too many bytes.
    """
    sizes = [len(name) + len(value) for name, value in headers]
    if len(sizes) > limits.header_count:
        raise too_much("the number of headers", limits.header_count)
    if sum(sizes) > limits.header_bytes:
        raise too_much("a head", limits.header_bytes)
