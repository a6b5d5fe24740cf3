"""What a dialect has to offer: a request in, events out; and the errors that it answers with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import msgspec

from .script import Ask, Piece, Script, Steps

Json = dict[str, Any]

MOST_TOKENS: Final = 200_000
MOST_CHOICES: Final = 128

encode: Final = msgspec.json.encode


class Refused(Exception):
    """A request that a server of this kind would refuse.

    Attributes
    ----------
    status : of HTTP.
    message, kind, param, code : what the dialects put into their errors.
    """

    def __init__(self, status: int, message: str, *, kind: str = "", param: str | None = None, code: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.kind = kind
        self.param = param
        self.code = code


def sse(payload: Json, event: str = "") -> bytes:
    """One server-sent event."""
    head = b"event: " + event.encode() + b"\n" if event else b""
    return head + b"data: " + encode(payload) + b"\n\n"


def parse(text: bytes | str) -> Json:
    """What a client sent, which has to be a JSON object.

    Raises
    ------
    Refused : it is not.
    """
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refused(400, f"this is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise Refused(400, "this is not a JSON object")
    return value


def wish(body: Mapping[str, Any], name: str, kind: type, default: Any = None) -> Any:
    """The value of a field, checked.

    Raises
    ------
    Refused : it is of another kind.
    """
    value = body.get(name)
    if value is None:
        return default
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise Refused(400, f"{name} must be of type {kind.__name__}", param=name)
    return value


def limit(body: Mapping[str, Any], *names: str) -> int | None:
    """The most tokens that a request allows, under the first of `names` that it gives; None if under none."""
    for name in names:
        value = wish(body, name, int)
        if value is not None:
            if not 1 <= value <= MOST_TOKENS:
                raise Refused(400, f"{name} must be between 1 and {MOST_TOKENS}", param=name)
            return int(value)
    return None


def stops(body: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """Texts before which an answer ends: one, or a list."""
    value = body.get(name)
    listed = [value] if isinstance(value, str) else value or []
    if not isinstance(listed, list) or not all(isinstance(v, str) for v in listed):
        raise Refused(400, f"{name} must be a text or a list of texts", param=name)
    return tuple(v for v in listed if v)


def length(prompt: object) -> int:
    """Tokens of a prompt, roughly: a quarter of the characters of all its texts; a number is a token."""
    characters, left = 0, [prompt]
    while left:
        match left.pop():
            case str() as text:
                characters += len(text)
            case list() as values:
                left += values
            case dict() as table:
                left += table.values()
            case int():
                characters += 4
    return max(1, characters // 4)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a writer knows about the answer that it writes.

    Attributes
    ----------
    id : number of the request, as text.
    ask, scripts : what was asked, and what each choice will be.
    model : name that the answer bears.
    created_ns : when the request came, nanoseconds since 1970.
    told : what the server tells about counts: each, total or none.
    report : one of `engines.REPORTS`.
    fingerprint, finish_apart : see `engines.Engine`.
    """

    id: str
    ask: Ask
    scripts: tuple[Script, ...]
    model: str
    created_ns: int
    told: str
    report: str
    fingerprint: str
    finish_apart: bool

    @property
    def tokens(self) -> int:
        """Tokens of all choices."""
        return sum(s.tokens for s in self.scripts)

    def steps(self, script: Script, sofar: int | None = None) -> Steps | None:
        """What the server says about its drafts; None when it says nothing or has none."""
        if self.report == "none":
            return None
        steps = script.steps(sofar)
        return steps.lie() if self.report == "lying" else steps


class Writer:
    """Writes one answer in one dialect. Subclasses say how.

    Every item that the methods below yield becomes one write to the socket.
    """

    media: ClassVar = "text/event-stream; charset=utf-8"

    def __init__(self, answer: Answer) -> None:
        self.answer = answer

    def early(self) -> Iterable[bytes]:
        """What is sent as soon as the request is accepted."""
        return ()

    def opening(self, choice: int) -> Iterable[bytes]:
        """What is sent with the first event of a choice, before it."""
        return ()

    def piece(self, piece: Piece) -> bytes:
        """The event itself."""
        raise NotImplementedError

    def ended(self, script: Script) -> Iterable[bytes]:
        """What is sent right after the last event of a choice."""
        return ()

    def closing(self) -> Iterable[bytes]:
        """What is sent when all choices have ended."""
        return ()

    def whole(self) -> Json:
        """The answer in one piece."""
        raise NotImplementedError
