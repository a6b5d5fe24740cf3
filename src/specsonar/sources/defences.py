"""What a server can do to hide how it decodes: when events may leave, and how large a write is.

Each way is a state machine that is told of events as they come and says when the oldest one that waits may leave. It
owns no clock and never looks ahead, so that the simulator and the proxy run the very same. Nothing overtakes and
nothing is lost; a write is what leaves at one time.
"""

from __future__ import annotations

import heapq
import re
from collections import deque
from dataclasses import asdict, dataclass
from statistics import median
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from ..errors import UsageError
from .laws import Delay

IntArray = npt.NDArray[np.int64]

NONE: Final = "none"
DELAY: Final = "delay"
SCATTER: Final = "scatter"
PACE: Final = "pace"
BATCH: Final = "batch"
SPLIT: Final = "split"
PAD: Final = "pad"
KINDS: Final = (DELAY, SCATTER, PACE, BATCH, SPLIT)
"""Ways to choose times. `PAD` may stand beside each of them, or alone."""

GATHER_NS: Final = 1_000_000
"""`split` takes what comes within this time for the tokens of one step."""

_REMEMBERED: Final = 16
"""Steps from whose median `split` expects the next."""

_NO_DELAY: Final = Delay()
_UNITS_MS: Final = {"": 1.0, "ms": 1.0, "s": 1e3, "us": 1e-3}
_NUMBER: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ms|us|s|)")
_LONGEST_MS: Final = 60_000.0
_MOST_PAD: Final = 1 << 20
_HINT: Final = (
    "write it as delay=exponential:10ms, scatter=uniform:20ms, pace=8ms, batch=100ms, split, split=20ms, pad=512, or "
    "one of them with +pad=512"
)


class Timing(Protocol):
    """When events may leave; times in nanoseconds of any one clock."""

    def take(self, t_ns: int) -> None:
        """An event has come at `t_ns`, which never decreases."""

    def due(self) -> int | None:
        """When the oldest event that waits may leave; None when none waits.

        A later event can bring this forward, never before its own time.
        """

    def leave(self) -> None:
        """The oldest event has left, at the time that `due` told."""


class _Fixed:
    """Base of those that know the time of an event as soon as it comes."""

    def __init__(self) -> None:
        self._due: deque[int] = deque()

    def due(self) -> int | None:
        return self._due[0] if self._due else None

    def leave(self) -> None:
        self._due.popleft()


class _AtOnce(_Fixed):
    """Times stay as they are."""

    def take(self, t_ns: int) -> None:
        self._due.append(t_ns)


class _Delay(_Fixed):
    """Each event waits for a time of its own, and for those before it."""

    def __init__(self, law: Delay, rng: np.random.Generator) -> None:
        super().__init__()
        self._law, self._rng, self._last = law, rng, 0

    def take(self, t_ns: int) -> None:
        self._last = max(self._last, t_ns + _draw(self._law, self._rng))
        self._due.append(self._last)


class _Scatter:
    """Each event opens a place after a random delay; whatever waits longest takes it."""

    def __init__(self, law: Delay, rng: np.random.Generator) -> None:
        self._law, self._rng = law, rng
        self._places: list[int] = []

    def take(self, t_ns: int) -> None:
        heapq.heappush(self._places, t_ns + _draw(self._law, self._rng))

    def due(self) -> int | None:
        return self._places[0] if self._places else None

    def leave(self) -> None:
        heapq.heappop(self._places)


class _Grid(_Fixed):
    """Events leave at multiples of a period after the first one: one each time, or all that wait."""

    def __init__(self, period: int, *, alone: bool) -> None:
        super().__init__()
        self._period, self._alone = period, alone
        self._origin: int | None = None
        self._last = -1

    def take(self, t_ns: int) -> None:
        if self._origin is None:
            self._origin = t_ns
        place = -((self._origin - t_ns) // self._period)
        self._last = max(place, self._last + self._alone)
        self._due.append(self._origin + self._last * self._period)


class _Split:
    """What comes within `GATHER_NS` is a step; its events are spread evenly over the step that is expected.

    Parameters
    ----------
    step : nanoseconds; 0 to expect what the last steps took.
    """

    def __init__(self, step: int) -> None:
        self._step = step
        self._open = 0  # events of the step that is being gathered
        self._since: int | None = None
        self._gathered = 0
        self._last = 0
        self._closed: deque[int] = deque()
        self._took: deque[int] = deque(maxlen=_REMEMBERED)

    def take(self, t_ns: int) -> None:
        if self._open and t_ns > self._gathered:
            self._close()
        if not self._open:
            if self._since is not None:
                self._took.append(t_ns - self._since)
            self._since, self._gathered = t_ns, t_ns + GATHER_NS
        self._open += 1

    def due(self) -> int | None:
        if self._closed:
            return self._closed[0]
        return max(self._gathered, self._last) if self._open else None

    def leave(self) -> None:
        if not self._closed:
            self._close()
        self._closed.popleft()

    def _close(self) -> None:
        step = self._step or (int(median(self._took)) if self._took else 0)
        for place in range(self._open):
            self._last = max(self._last, self._gathered + place * step // self._open)
            self._closed.append(self._last)
        self._open = 0


def _draw(law: Delay, rng: np.random.Generator) -> int:
    return round(float(law.draw(rng, 1)[0]) * 1e6)


@dataclass(frozen=True, slots=True)
class Policy:
    """One way to hide, with its strength. All values are checked.

    Attributes
    ----------
    kind : "none" or one of `KINDS`.
    law : of `delay` and `scatter`; none of its delays may be negative.
    period_ms : of `pace` and `batch`; the step that `split` expects, 0 to learn it.
    pad : every write is filled up to a multiple of so many bytes; 0 leaves it as it is.

    Raises
    ------
    UsageError : a kind that is not known, a law that needs events before they are there, or a value out of range.
    """

    kind: str = NONE
    law: Delay = _NO_DELAY
    period_ms: float = 0.0
    pad: int = 0

    def __post_init__(self) -> None:
        if self.kind not in (NONE, *KINDS):
            raise UsageError(f"no defence is called {self.kind!r}", _HINT)
        if (self.kind in (DELAY, SCATTER)) != self.law.active:
            raise UsageError(f"{self.kind} with the delay {self.law}", _HINT)
        if self.law.law == "gauss":
            raise UsageError("a Gaussian delay may be negative, and nothing leaves before it is there", _HINT)
        needed = self.kind in (PACE, BATCH)
        if not (0.01 if needed else 0.0) <= self.period_ms <= _LONGEST_MS or not 0 <= self.pad <= _MOST_PAD:
            raise UsageError(
                f"the defence {self} is out of range", "periods go from 0.01 ms to a minute, pads up to 1 MiB"
            )

    @classmethod
    def parse(cls, text: str) -> Policy:
        """The policy written as KIND=STRENGTH, with +pad=BYTES where sizes are hidden too.

        >>> str(Policy.parse("delay=exponential:10ms+pad=512"))
        'delay=exponential:10ms+pad=512'
        >>> Policy.parse("batch=0.1s").period_ms, Policy.parse("none") == Policy()
        (100.0, True)

        Raises
        ------
        UsageError : it cannot be read, or a value is refused.
        """
        kind, law, period, pad = NONE, _NO_DELAY, 0.0, 0
        for part in filter(None, text.strip().split("+")):
            name, _, strength = part.strip().partition("=")
            if name == PAD and not pad and strength.isdecimal() and int(strength):
                pad = int(strength)
            elif kind == NONE and name in (DELAY, SCATTER):
                shape, _, scale = strength.partition(":")
                scale, comma, rest = scale.partition(",")
                kind, law = name, Delay.parse(f"{shape}:{_ms(text, scale):.12g}{comma}{rest}")
            elif kind == NONE and name in KINDS and (strength or name == SPLIT):
                kind, period = name, _ms(text, strength) if strength else 0.0
            elif part.strip() != NONE:
                raise UsageError(f"cannot read the defence {text!r}", _HINT)
        return cls(kind, law, period, pad)

    def __str__(self) -> str:
        """The text that `parse` reads back."""
        parts = []
        if self.kind in (DELAY, SCATTER):
            law, _, numbers = str(self.law).partition(":")
            scale, comma, rest = numbers.partition(",")
            parts.append(f"{self.kind}={law}:{scale}ms{comma}{rest}")
        elif self.kind != NONE:
            parts.append(f"{self.kind}={self.period_ms:.12g}ms" if self.period_ms else self.kind)
        if self.pad:
            parts.append(f"{PAD}={self.pad}")
        return "+".join(parts) or NONE

    @property
    def active(self) -> bool:
        """Whether anything is done."""
        return self.kind != NONE or self.pad > 0

    def timing(self, rng: np.random.Generator) -> Timing:
        """A new state machine for one stream."""
        period = round(self.period_ms * 1e6)
        match self.kind:
            case "delay":
                return _Delay(self.law, rng)
            case "scatter":
                return _Scatter(self.law, rng)
            case "pace" | "batch":
                return _Grid(period, alone=self.kind == PACE)
            case "split":
                return _Split(period)
            case _:
                return _AtOnce()


def _ms(text: str, number: str) -> float:
    found = _NUMBER.fullmatch(number.strip())
    if not found:
        raise UsageError(f"cannot read {number!r} in the defence {text!r}", _HINT)
    return float(found[1]) * _UNITS_MS[found[2]]


def padding(size: int, pad: int, least: int = 1) -> int:
    """Bytes that fill a write of `size` bytes up to a multiple of `pad`, none or at least `least`.

    >>> padding(250, 256), padding(255, 256, least=3), padding(512, 256)
    (6, 257, 0)
    """
    missing = -size % pad if pad else 0
    while 0 < missing < least:
        missing += pad
    return missing


def released(policy: Policy, t_ns: IntArray, rng: np.random.Generator) -> IntArray:
    """When the events that come at `t_ns` leave, both of shape (n,), nanoseconds and not decreasing."""
    timing = policy.timing(rng)
    left: list[int] = []

    def let_go(before: int | None) -> None:
        while (due := timing.due()) is not None and (before is None or due < before):
            left.append(due)
            timing.leave()

    for t in t_ns.tolist():
        let_go(t)
        timing.take(t)
    let_go(None)
    return np.array(left, np.int64)


@dataclass(frozen=True, slots=True)
class Cost:
    """What a policy did to one stream, seen by the server.

    Attributes
    ----------
    first_ms, mean_ms, p99_ms, longest_ms, last_ms : how much later the first token, all, the hundredth most, the most
        and the last token left.
    took_ms : time of the answer without the policy, from the request where it is known, else from the first event.
    bytes, padding : bytes of the events as they were, and what was added to them.
    """

    first_ms: float
    mean_ms: float
    p99_ms: float
    longest_ms: float
    last_ms: float
    took_ms: float
    bytes: int
    padding: int

    def to_dict(self) -> dict[str, float]:
        """Plain JSON types."""
        return asdict(self)


@dataclass(frozen=True, slots=True, eq=False)
class Released:
    """When events left, nanoseconds, and their sizes, both of shape (n,); and what that cost."""

    t_ns: IntArray
    size: IntArray
    cost: Cost


def release(
    policy: Policy, t_ns: IntArray, tokens: IntArray, size: IntArray, start_ns: int, rng: np.random.Generator
) -> Released:
    """Send the events of one stream through `policy`.

    Parameters
    ----------
    t_ns, tokens, size : shape (n,), n >= 1; times that do not decrease, tokens (below 1 counts as 1), bytes.
    start_ns : when the answer began.
    """
    left = released(policy, t_ns, rng)
    filled = padded(size, left, policy.pad)
    waited = (left - t_ns) / 1e6
    each = np.repeat(waited, np.maximum(tokens, 1))
    cost = Cost(
        float(waited[0]), float(each.mean()), float(np.percentile(each, 99)), float(each.max()), float(waited[-1]),
        float(t_ns[-1] - start_ns) / 1e6, int(size.sum()), int((filled - size).sum()),
    )  # fmt: skip
    return Released(left, filled, cost)


def padded(size: IntArray, left_ns: IntArray, pad: int) -> IntArray:
    """Sizes of events, shape (n,), with what fills up each write added to its last event."""
    if not pad:
        return size
    last = np.append(left_ns[1:] != left_ns[:-1], True)
    total = np.cumsum(size)[last]
    written = np.diff(total, prepend=0)
    size = size.copy()
    size[last] += -written % pad
    return size
