"""The way to a service: round trips of a cheap request, and on demand what happens to the events of short answers."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

import httpx2
import numpy as np

from ..errors import ConnectionFailed
from ..findings import finding
from ..fingerprint import Finding
from ..sources.dialing import address, dial
from ..sources.dialing.call import Call
from ..sources.dialing.find import Target
from ..sources.dialing.line import Line, limited, within
from ..sources.dialing.manner import Manner
from ..sources.dialing.routes import Question
from ..sources.live import Capture
from . import path
from .listening import FEW, Ears, spread
from .path import Arrivals

TOKENS: Final = 48
ANSWERS: Final = 3
"""Answers of each kind: acknowledged at once, acknowledged as the system likes, compressed."""

ASKED: Final = (3 * ANSWERS + 1) * TOKENS
"""Tokens that a burst test asks for, with the answer that warms up."""

_ROUNDS: Final = 12
_TOLD: Final = ("server", "via", "x-accel-buffering", "x-served-by", "cf-ray")
_PROMPT: Final = "Count from 1 to 100, one number after the other, and say nothing else."
_LONGEST: Final = 80


@dataclass(frozen=True, slots=True)
class Burst:
    """What happened to the events of short answers.

    Attributes
    ----------
    answers, events : how many were looked at.
    alone : share of the events that came in a read of their own.
    per_read : mean events of the reads that brought any.
    nagle : small pieces wait for delayed acknowledgements, which `Capture` does not delay.
    block : bytes of a buffer that is passed on when it is full, or None.
    whole : answers come in one piece.
    encoding : how bodies are packed when the client takes packed ones; None when they are not.
    packed_per_read : events of a read then.
    packing_holds : packing makes lumps.
    """

    answers: int
    events: int
    alone: float
    per_read: float
    nagle: bool
    block: int | None
    whole: bool
    encoding: str | None
    packed_per_read: float | None
    packing_holds: bool


@dataclass(frozen=True, slots=True)
class Service:
    """A service and the way to it.

    Attributes
    ----------
    origin, dialect, model : which one, and what it speaks.
    http, tls : versions; `tls` is None without.
    told : headers by which servers and proxies name themselves.
    round_trip_ms : of a cheap request, p50, p99, max.
    jitter_ms : half of the middle two thirds of the round trips.
    burst : None unless asked for.
    """

    origin: str
    dialect: str
    model: str | None
    http: str
    tls: str | None
    told: Mapping[str, str]
    round_trip_ms: dict[str, float]
    jitter_ms: float
    burst: Burst | None

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What the way does to events."""
        if self.burst is None:
            return ()
        b, found = self.burst, []
        if b.whole:
            found.append(finding("Q013", f"{b.events} events of {b.answers} answers came in one piece each"))
        elif b.block is not None:
            found.append(finding("Q013", f"most reads hold {b.block} bytes, with {b.per_read:.1f} events on average"))
        if b.nagle:
            found.append(finding("Q012", "lumps after 40 ms, which go away when everything is acknowledged at once"))
        if b.packing_holds:
            lumps = f"{b.packed_per_read:.1f} events a read instead of {b.per_read:.1f}"
            found.append(finding("Q014", f"packed with {b.encoding}, answers come with {lumps}"))
        return tuple(found)


def visit(
    url: str, *, burst: bool, model: str | None, key_env: str | None, timeout: float, tell: Callable[[str], None]
) -> Service:
    """Look at the service at `url`; see `doctor.examine`."""
    where = address.parse(url)
    way, target = dial.meet(where, os.environ, model=model, key_env=key_env, timeout=timeout)
    service = _round_trips(way, target)
    if not burst:
        return service
    tell(f"asking {where.origin} for {3 * ANSWERS + 1} short answers, {ASKED} tokens at most")
    return replace(service, burst=_burst(way, target))


def _round_trips(way: dial.Way, target: Target) -> Service:
    """The same small GET again and again; which status it has does not matter."""
    keeper = Ears()
    with Capture(keeper) as capture, capture.client(**way.options) as client:
        line = way.line(client, dial.headers(target, way.key))
        for _ in range(_ROUNDS):
            http, tls, told = within(line.timeout, lambda: _look(client, line), line.silent)
    trips = np.concatenate([ear.round_trips_ns() for ear in keeper.ears]) / 1e6
    later = trips[1:]  # the first one may have opened something at the other end
    low, high = np.quantile(later, (0.16, 0.84))
    return Service(
        way.address.origin, target.route.name, target.model, http, tls, told, spread(later),
        float(high - low) / 2, None,
    )  # fmt: skip


def _look(client: httpx2.Client, line: Line) -> tuple[str, str | None, dict[str, str]]:
    """One small GET: versions of HTTP and TLS, and what the server calls itself."""
    try:
        with client.stream("GET", f"{line.address.origin}/health", headers=dict(line.headers)) as response:
            limited(response)
            inside = response.extensions["network_stream"].get_extra_info("ssl_object")
            told = {k: line.shown(response.headers[k])[:_LONGEST] for k in _TOLD if k in response.headers}
            return response.http_version, inside.version() if inside else None, told
    except httpx2.HTTPError as error:
        raise line.told(error) from None


def _burst(way: dial.Way, target: Target) -> Burst:
    manner = Manner(target.route, target.asks)
    question = Question(_PROMPT, TOKENS, target.model)
    quick = _listen(way, target, manner, question, ANSWERS + 1)[0][1:]
    if not quick:
        raise ConnectionFailed(f"{way.address.origin} answers with less than {FEW} events", "is it streaming?")
    delayed, _ = _listen(way, target, manner, question, ANSWERS, quick=False)
    packed, encoding = _listen(way, target, manner, question, ANSWERS, packed=True)
    per_read = float(np.mean([a.per_read for a in quick]))
    return Burst(
        answers=len(quick),
        events=sum(a.total for a in quick),
        alone=path.alone(quick),
        per_read=per_read,
        nagle=path.nagle(delayed, quick),
        block=path.block(quick),
        whole=path.whole(quick),
        encoding=encoding,
        packed_per_read=float(np.mean([a.per_read for a in packed])) if packed and encoding else None,
        packing_holds=encoding is not None and path.packing_holds(packed, quick),
    )


def _listen(
    way: dial.Way,
    target: Target,
    manner: Manner,
    question: Question,
    answers: int,
    *,
    quick: bool = True,
    packed: bool = False,
) -> tuple[list[Arrivals], str | None]:
    """Ask one after the other over one connection; the reads of each answer, and how bodies were packed."""
    keeper = Ears()
    with Capture(keeper, quick=quick) as capture:
        # what a held connection does to the second answer is looked for, so this client holds its connection
        with capture.client(**{**way.options, "limits": httpx2.Limits()}) as client:
            headers = dial.headers(target, way.key)
            line = way.line(client, headers | {"accept-encoding": "gzip, br, zstd"} if packed else headers)
            for _ in range(answers):
                call = Call(line, target.url, manner, question)
                call.start()
                while not call.over.wait(0.02):
                    capture.poll()
                if call.error is not None:
                    raise call.error
        capture.poll()
    return keeper.arrivals(), next((ear.encoding for ear in keeper.ears if ear.encoding), None)
