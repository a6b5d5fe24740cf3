"""When bytes arrived: the kernel's own stamp where it gives one, on the axis of one monotonic clock.

Linux notes for each segment when it reached the machine and hands that out with the bytes (SO_TIMESTAMPNS; no
privileges needed). On TCP it is the time of the last segment of a read. The kernel stamps with the wall clock, which
can be set; everything else here is `time.perf_counter_ns`, which cannot.
"""

from __future__ import annotations

import socket
import struct
import sys
from typing import Final

Ancillary = list[tuple[int, int, bytes]]

OPTION: Final[int] = getattr(socket, "SO_TIMESTAMPNS", 35)
"""Number of the socket option and of its control message; Python names it in few versions."""

_TIMESPEC: Final = struct.Struct("@ll")
SPACE: Final = 64
"""Room for one control message with a timespec, with some to spare."""

_STEP_NS: Final = 100_000
_MEMORY_NS: Final = 1_000_000_000


def ask(sock: socket.socket) -> bool:
    """Ask the kernel to stamp what `sock` receives; False where it cannot."""
    if not sys.platform.startswith("linux") or not hasattr(sock, "recvmsg"):
        return False
    try:
        sock.setsockopt(socket.SOL_SOCKET, OPTION, 1)
    except OSError:
        return False
    return True


def stamp_of(ancillary: Ancillary) -> int | None:
    """The kernel's stamp among the control messages of a read, wall-clock nanoseconds; None when there is none.

    The kernel switches its stamping on in the background, so that the first segments may come without.
    """
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == OPTION and len(data) >= _TIMESPEC.size:
            seconds, nanoseconds = _TIMESPEC.unpack_from(data)
            return int(seconds) * 1_000_000_000 + int(nanoseconds)
    return None


class Axis:
    """Puts wall-clock stamps on the monotonic axis, and notices when the wall clock is set.

    Between two settings the wall clock minus the monotonic clock is constant: slewing moves both. Each reading of the
    wall clock between two readings of the monotonic clock bounds that constant, and the bounds are intersected. So
    the mapping is good to some ten nanoseconds, however often the reader is interrupted.
    """

    def __init__(self) -> None:
        self._low = self._high = self._old = 0
        self._set_at: int | None = None
        self._started = False
        self.steps = 0
        """How often the wall clock was set, or the machine slept."""
        self.largest_step_ns = 0

    def place(self, stamp: int, before: int, wall: int, after: int) -> int:
        """Monotonic time of a stamp, nanoseconds.

        Parameters
        ----------
        stamp : wall-clock time of the arrival.
        before, wall, after : monotonic, wall-clock and monotonic time, read in this order after the arrival.
        """
        low, high = wall - after, wall - before
        apart = low - self._high if low > self._high else min(high - self._low, 0)
        if not self._started or abs(apart) > _STEP_NS:
            self._moved(low, high, before)
        elif apart:
            # A clock that is not Linux's own, as in some sandboxes, may wander a little; that is no step.
            self._low, self._high = self._low + apart, self._high + apart
        else:
            self._low, self._high = max(self._low, low), min(self._high, high)
        t = stamp - (self._low + self._high) // 2
        if self._set_at is not None and before - self._set_at < _MEMORY_NS:
            # The stamp may be older than the step. The later of the two readings that are not in the future is right.
            t = max((c for c in (t, stamp - self._old) if c <= before), default=before)
        return min(t, before)

    def _moved(self, low: int, high: int, now: int) -> None:
        if self._started:
            self._old, self._set_at = (self._low + self._high) // 2, now
            self.steps += 1
            self.largest_step_ns = max(self.largest_step_ns, abs((low + high) // 2 - self._old))
        self._low, self._high, self._started = low, high, True
