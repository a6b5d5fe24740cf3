"""How much a peer may make us keep. Beyond a limit `errors.LimitError` is raised; what was read before stays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..errors import LimitError


@dataclass(frozen=True, slots=True)
class Limits:
    """What one connection may cost.

    Attributes
    ----------
    header_bytes, header_count : of one request or response, names and values together.
    event_bytes : one event: a line, a JSON value, a WebSocket message, a frame of an event stream.
    frame_bytes : one HTTP/2 frame.
    decoded_bytes : one body after its content-encoding is undone.
    decoded_ratio : decoded over encoded bytes, judged from `RATIO_FLOOR` decoded bytes on.
    events : events of one answer.
    answers : answers that are kept for one connection; a consumer may remove ended ones from the list.
    streams : requests of one connection without an end of their answer (HTTP/2 streams, pipelined requests).
    request_bytes : a request body that is read for its settings; a larger one is left out, which is no error.
    """

    header_bytes: int = 256 << 10
    header_count: int = 256
    event_bytes: int = 8 << 20
    frame_bytes: int = 1 << 20
    decoded_bytes: int = 1 << 30
    decoded_ratio: int = 500
    events: int = 1_000_000
    answers: int = 10_000
    streams: int = 256
    request_bytes: int = 8 << 20


LIMITS: Final = Limits()
RATIO_FLOOR: Final = 8 << 20
"""Below this many decoded bytes a high ratio is harmless: a repeated prompt compresses well."""


def too_much(what: str, limit: int) -> LimitError:
    """The error for `what` ("a line of an event stream", ...) that is larger than `limit` (bytes, or a number)."""
    return LimitError(f"{what} is larger than {limit:,}", "the peer is broken or hostile; what came before was kept")
