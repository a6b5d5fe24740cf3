"""The hidden configuration of a simulated service: every knob, its unit, its default and its allowed range."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, TypeVar, cast

import numpy as np
import numpy.typing as npt

from ..errors import UsageError
from .defences import Policy
from .laws import LONGEST_DELAY_MS, one_of, within
from .laws import Delay as Delay

FloatArray = npt.NDArray[np.float64]
T = TypeVar("T")

INDEPENDENT: Final = "independent"
IN_ORDER: Final = "in-order"
ORDERS: Final = (IN_ORDER, INDEPENDENT)
EVENTS: Final = ("token", "step")
COUNTS: Final = ("auto", "each", "total", "none")
INTERVAL_MODES: Final = ("steps", "exact")

_HOUR_MS: Final = 3_600_000.0
_NO_DELAY: Final = Delay()
_NO_DEFENCE: Final = Policy()
_READ: Final = {"Delay": Delay.parse, "Policy": Policy.parse}
"""Kinds of knobs that may be given as text."""


def _knob(default: T, low: float | None = None, high: float | None = None, *, help: str, unit: str = "") -> T:
    return field(default=default, metadata={"low": low, "high": high, "help": help, "unit": unit})


@dataclass(frozen=True, slots=True)
class Service:
    """A service, the way its output takes and the client that receives it. All values are checked.

    The `metadata` of each field holds `help`, `unit`, `low` and `high`, for a command line to show.
    Delays and the defence may be given as text (`"lognormal:2,1"`, `"pace=8ms"`). Of `max_burst` and `k`, either one
    determines the other.

    Raises
    ------
    UsageError : a knob outside its range, of the wrong kind, or at odds with another one.
    """

    # How many tokens a step gives.
    max_burst: int | None = _knob(None, 1, 512, help="most tokens of one step (M); 4 unless k is given; 1 = no drafts")
    k: int | None = _knob(None, 0, 511, help="drafted tokens per step")
    bonus: bool = _knob(True, help="the target adds a token when all drafts are accepted (M = k+1, else M = k)")
    acceptance: float | tuple[float, ...] = _knob(0.8, 0, 1, help="P(accept), common or for each draft position")
    acceptance_after: float | tuple[float, ...] | None = _knob(None, 0, 1, help="acceptance after `change_at`")
    change_at: float = _knob(0.5, 0, 1, help="share of the tokens after which the acceptance changes")
    correlation: float = _knob(0.0, 0, 0.75, help="lag-1 correlation of the accepted counts (log-odds AR(1))")
    persistence: float = _knob(0.9, 0.5, 0.999, help="lag-1 correlation of the log-odds behind `correlation`")
    draft_probability: float = _knob(1.0, 0, 1, help="probability that a step drafts at all (n-gram style below 1)")
    clip_draft: bool = _knob(False, help="the draft is no longer than the tokens that remain, less one")
    # How long a step takes.
    ttft_ms: float = _knob(150.0, 0, _HOUR_MS, unit="ms", help="request to first token")
    step_ms: float = _knob(20.0, 0.001, _HOUR_MS, unit="ms", help="mean time of a step")
    plain_step_ms: float | None = _knob(None, 0.001, _HOUR_MS, unit="ms", help="the same without a draft")
    step_cv: float = _knob(0.0, 0, 2, help="coefficient of variation of the step time (gamma law, accumulates)")
    slow_probability: float = _knob(0.0, 0, 1, help="probability of a slow step")
    slow_factor: float = _knob(3.0, 0.01, 10_000, help="how many times longer a slow step takes")
    # How the server writes.
    stream_interval: int = _knob(1, 1, 4096, unit="tokens", help="tokens that are held back and written together")
    interval_mode: str = _knob("steps", help="steps: at least that many, on step boundaries; exact: just that many")
    merge_probability: float = _knob(0.0, 0, 1, help="share of writes that hold two steps because the writer lags")
    events: str = _knob("token", help="one event per token or per step")
    counts: str = _knob("auto", help="what the server tells: each event's count, the total, none; auto: by `events`")
    in_burst_us: float = _knob(0.0, 0, 1e6, unit="us", help="spacing of the tokens of one write")
    in_burst_cv: float = _knob(0.0, 0, 2, help="coefficient of variation of that spacing (gamma law)")
    token_bytes: float = _knob(4.0, 1, 1e6, unit="bytes", help="mean text of a token (1 + Poisson)")
    event_bytes: int = _knob(240, 0, 1_000_000, unit="bytes", help="what an event weighs besides its text")
    # What stands between server and client.
    paced_ms: float = _knob(0.0, 0, _HOUR_MS, unit="ms", help="events leave a queue no closer than this")
    flush_ms: float = _knob(0.0, 0, _HOUR_MS, unit="ms", help="a buffer is emptied at multiples of this period")
    flush_bytes: int = _knob(0, 0, 1 << 30, unit="bytes", help="a buffer is emptied when it holds this much")
    defence: Policy = _knob(_NO_DEFENCE, help="what the server does to hide; see `specsonar defend`")
    order: str = _knob(IN_ORDER, help="in-order: nothing overtakes; independent: arrivals are sorted")
    step_delay: Delay = _knob(_NO_DELAY, help="delay shared by all that was written together")
    token_delay: Delay = _knob(_NO_DELAY, help="delay of each event on its own")
    stall_probability: float = _knob(0.0, 0, 1, help="probability that a write is stalled, and all behind it wait")
    stall_ms: tuple[float, float] = _knob((100.0, 300.0), 0, LONGEST_DELAY_MS, unit="ms", help="shortest, longest")
    # What the client does.
    read_block: int = _knob(0, 0, 1 << 30, unit="bytes", help="the client reads in full blocks of this size")
    resolution_ms: float = _knob(0.0, 0, 60_000, unit="ms", help="tick of the client's clock, which rounds down")

    def __post_init__(self) -> None:
        def put(name: str, value: object) -> None:
            object.__setattr__(self, name, value)

        for f in fields(self):
            value = getattr(self, f.name)
            if f.type in _READ and isinstance(value, str):
                put(f.name, _READ[f.type](value))
            elif isinstance(value, np.generic):
                put(f.name, value.item())
            elif isinstance(value, list | tuple | np.ndarray):
                put(f.name, tuple(v.item() if isinstance(v, np.generic) else v for v in value))
        self._check_single_knobs()
        burst, draft = _burst_and_draft(self.max_burst, self.k, self.bonus)
        put("max_burst", burst)
        put("k", draft)
        self._check_knobs_together()

    def _check_single_knobs(self) -> None:
        for f in fields(self):
            value, kind = getattr(self, f.name), str(f.type)
            if value is None and kind.endswith("None"):
                continue
            if kind == "bool" and not isinstance(value, bool):
                raise UsageError(f"{f.name} = {value!r}", "it is true or false")
            if kind == "Delay" and not isinstance(value, Delay):
                raise UsageError(f"{f.name} = {value!r}", "give a Delay, or text like gauss:6 or lognormal:2,1")
            if kind == "Policy" and not isinstance(value, Policy):
                raise UsageError(f"{f.name} = {value!r}", "give a Policy, or text like pace=8ms")
            if kind in ("bool", "Delay", "Policy", "str"):
                continue
            whole, several = kind.startswith("int"), "tuple" in kind and isinstance(value, tuple)
            for part in value if several else (value,):
                within(f.name, part, f.metadata["low"], f.metadata["high"], f.metadata["unit"], whole=whole)
        one_of("order", self.order, ORDERS)
        one_of("events", self.events, EVENTS)
        one_of("counts", self.counts, COUNTS)
        one_of("interval_mode", self.interval_mode, INTERVAL_MODES)
        if not isinstance(self.stall_ms, tuple) or len(self.stall_ms) != 2 or self.stall_ms[0] > self.stall_ms[1]:
            raise UsageError(f"stall_ms = {self.stall_ms}", "give the shortest and the longest stall")

    def _check_knobs_together(self) -> None:
        positions = self.burst - 1
        for name in ("acceptance", "acceptance_after"):
            value = getattr(self, name)
            if isinstance(value, tuple) and len(value) != positions:
                raise UsageError(
                    f"{name} has {len(value)} values for max_burst = {self.max_burst}",
                    f"give one value, or {positions}: one for each draft position that can be seen",
                )
            sure = value is not None and not ((a := np.asarray(value)) * (1 - a)).all()
            if self.correlation and positions and sure:
                raise UsageError(
                    f"correlation = {self.correlation} with {name} = {value}",
                    "an acceptance that drifts lies strictly between 0 and 1",
                )
        if self.stall_probability and self.order == INDEPENDENT:
            raise UsageError("stalls with order = 'independent'", "set order = 'in-order': all wait behind a stall")

    @property
    def burst(self) -> int:
        """M, the most tokens that one step can give."""
        return cast(int, self.max_burst)

    def hazards(self, *, after: bool = False) -> FloatArray:
        """Acceptance at each visible draft position of a step that drafts, shape (M-1,), before any drift."""
        value = self.acceptance_after if after and self.acceptance_after is not None else self.acceptance
        return np.broadcast_to(np.asarray(value, np.float64), (self.burst - 1,)).copy()

    @property
    def plain_ms(self) -> float:
        """Mean time of a step without a draft, milliseconds."""
        return self.step_ms if self.plain_step_ms is None else self.plain_step_ms

    @property
    def told(self) -> str:
        """What the server tells about token counts, `auto` resolved: each, total or none."""
        if self.counts == "auto":
            return "each" if self.events == "step" else "none"
        return self.counts

    def to_dict(self) -> dict[str, Any]:
        """All knobs in plain JSON types; `Service(**service.to_dict())` is the same service."""
        plain: dict[str, Any] = {}
        for f in fields(self):
            value = getattr(self, f.name)
            if isinstance(value, Delay | Policy):
                value = str(value)
            plain[f.name] = list(value) if isinstance(value, tuple) else value
        return plain


def with_knobs(service: Service, knobs: Mapping[str, Any]) -> Service:
    """`service` with some knobs changed; a new `k` drops the old `max_burst` and the other way round.

    Raises
    ------
    UsageError : unknown knob, or a value that `Service` refuses.
    """
    known = {f.name for f in fields(Service)}
    for name in knobs:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]}?" if near else f"the knobs are {', '.join(sorted(known))}"
            raise UsageError(f"unknown knob {name!r}", hint)
    dropped: dict[str, Any] = {}
    if "k" in knobs:
        dropped = {"max_burst": None}
    elif "max_burst" in knobs or "bonus" in knobs:
        dropped = {"k": None}
    return replace(service, **{**dropped, **knobs})


def _burst_and_draft(burst: int | None, draft: int | None, bonus: bool) -> tuple[int, int]:
    if draft is None:
        burst = 4 if burst is None else burst
        return burst, burst - 1 if bonus or burst == 1 else burst
    # A step without a draft is a plain step under either convention.
    implied = draft + 1 if bonus or draft == 0 else draft
    if burst is not None and burst != implied and not (burst == 1 and draft == 0):
        word = "with" if bonus else "without"
        raise UsageError(f"max_burst = {burst}, but k = {draft} {word} bonus gives {implied}", "give one of them")
    return implied, draft
