"""A recording of HTTP connections: an httpx2 client whose sockets a stamping reader reads, and taps that get it all."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final, Protocol, Self

import httpcore2
import httpx2

from ...errors import SpecsonarError, UsageError
from ...findings import finding
from ...fingerprint import Finding
from .lag import Lag
from .reader import Reader
from .stream import CLOSED, SENT, Backend, Stream

KERNEL: Final = "kernel"
CLOCK: Final = "clock"

LATE_NS: Final = 5_000_000
"""A read this late may hold the events of several steps; faster steps are rare."""

MANY_LATE: Final = 0.01
"""Share of late reads that is worth a finding."""

SWITCH_S: Final = 0.0005
"""How long another thread may keep the interpreter from the reader; Python's own 5 ms is a step of a fast model."""


class Tap(Protocol):
    """Gets both directions of one connection, times in nanoseconds of `time.perf_counter_ns`."""

    def sent(self, t_ns: int, data: bytes) -> None:
        """Bytes to the server, at the time before they were sent."""

    def received(self, t_ns: int, data: bytes) -> None:
        """The bytes of one read."""

    def closed(self, t_ns: int) -> None:
        """Either side has closed."""


class Keeper(Protocol):
    """Makes a tap for each connection."""

    def tap(self, name: str, meta: Mapping[str, Any] | None = None) -> Tap:
        """A tap for a connection called `name`."""


class Capture:
    """Clients whose connections are stamped, and handed to a keeper when `poll` is called.

    Parameters
    ----------
    keeper : gets a tap for each connection; it is called in the thread that calls `poll` or `close`, never in others.
    kernel : use the kernel's stamps where there are any.
    quick : acknowledge at once where the system can, as if the server had switched Nagle's algorithm off.

    Use it in a `with` block, and call `poll` now and then: what is received waits in memory until then, and beyond
    some megabytes of a connection the sender has to wait too, which is a finding.
    """

    def __init__(self, keeper: Keeper, *, kernel: bool = True, quick: bool = True) -> None:
        self._keeper = keeper
        self._reader = Reader()
        self._backend = Backend(self._reader, self._add, kernel=kernel, quick=quick)
        self._lock = threading.Lock()
        self._streams: list[Stream] = []
        self._taps: dict[Stream, Tap] = {}
        self._number = 0
        self._asked = kernel
        self._open = True
        # Two ways in which the rest of the program stops the reader. A collection of everything that has been imported
        # so far takes a tenth of a second; it is left out of collections while the capture lasts.
        self._switch = sys.getswitchinterval()
        sys.setswitchinterval(min(self._switch, SWITCH_S))
        gc.freeze()

    def client(self, **options: Any) -> httpx2.Client:
        """An httpx2 client with these options of `httpx2.Client`, proxies of the environment included.

        Raises
        ------
        UsageError : an option that leads past our sockets: a transport of one's own, a SOCKS proxy.
        """
        if options.get("transport") is not None or options.get("mounts"):
            raise UsageError("the capture brings its own transport", "leave out `transport` and `mounts`")
        try:
            client = httpx2.Client(**options)
        except ImportError as error:
            raise UsageError(
                "a SOCKS proxy is set, and those are not supported", "set NO_PROXY, or use HTTP"
            ) from error
        for transport in (client._transport, *client._mounts.values()):
            if transport is not None:
                # httpx2 does not pass a network backend through, httpcore2 takes one: this is where they meet.
                pool = getattr(transport, "_pool", None)
                if not isinstance(pool, httpcore2.ConnectionPool) or not hasattr(pool, "_network_backend"):
                    raise SpecsonarError(f"httpx2 {httpx2.__version__} is not supported", "please report this")
                pool._network_backend = self._backend
        return client

    def poll(self) -> int:
        """Hand everything collected so far to the taps; how many reads that were. Call it from one thread."""
        with self._lock:
            streams = tuple(self._streams)
        reads = 0
        for stream in streams:
            stream.collect()
            reads += self._hand(stream)
        return reads

    def _hand(self, stream: Stream) -> int:
        reads, notes = 0, stream.notes
        while notes:
            note = notes.popleft()
            stream.handed += len(note.data)
            if note.kind == CLOSED:
                if (tap := self._taps.pop(stream, None)) is not None:
                    tap.closed(note.t_ns)
                with self._lock:
                    if stream in self._streams:
                        self._streams.remove(stream)
                continue
            tap = self._taps.get(stream) or self._tap(stream)
            if note.kind == SENT:
                tap.sent(note.t_ns, note.data)
            else:
                tap.received(note.t_ns, note.data)
                reads += 1
        return reads

    def _tap(self, stream: Stream) -> Tap:
        self._number += 1
        self._taps[stream] = self._keeper.tap(f"connection {self._number}", {"stamps": self.stamps})
        return self._taps[stream]

    def _add(self, new: Stream, old: Stream | None) -> None:
        """A connection was opened, or went on inside TLS. A closed one stays until its notes are handed over."""
        with self._lock:
            self._streams.append(new)
            if old in self._streams:
                self._streams.remove(old)

    def close(self) -> None:
        """Close all connections, hand over what is left, stop the reader. A second call does nothing."""
        if not self._open:
            return
        self._open = False
        try:
            with self._lock:
                streams = tuple(self._streams)
            for stream in streams:
                stream.close()
            self.poll()
        finally:
            self._reader.stop()
            sys.setswitchinterval(self._switch)
            gc.unfreeze()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    @property
    def lag(self) -> Lag:
        """How late the reader was after the kernel's stamps; empty without them."""
        return self._reader.lag

    @property
    def stamps(self) -> str:
        """ "kernel" or "clock": who stamped most of the reads, or will stamp them."""
        kernel, clock = self._reader.lag.count, self._reader.unstamped
        if kernel or clock:
            return KERNEL if kernel >= clock else CLOCK
        return KERNEL if self._asked and sys.platform.startswith("linux") else CLOCK

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What should be known about the times."""
        found = []
        reader, lag = self._reader, self._reader.lag
        late = lag.above(LATE_NS)
        if late > MANY_LATE:
            found.append(
                finding(
                    "Q008",
                    f"{late:.1%} of {lag.count} reads were late by more than {LATE_NS / 1e6:.0f} ms "
                    f"(99th percentile {lag.quantile_ns(0.99) / 1e6:.1f} ms, at most {lag.max_ns / 1e6:.1f} ms)",
                )
            )
        if reader.unstamped > lag.count:
            found.append(finding("Q009", f"{reader.unstamped} reads were stamped by the program's clock"))
        if reader.axis.steps:
            found.append(
                finding(
                    "Q010", f"the wall clock was set {_times(reader.axis.steps)}, "
                    f"by up to {reader.axis.largest_step_ns / 1e9:.3g} s",
                )
            )  # fmt: skip
        if reader.pauses:
            found.append(finding("Q011", f"reading paused {_times(reader.pauses)}, until the program had caught up"))
        return tuple(found)


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"
