"""From finished steps to received events: writes, buffers, the link, the reader and its clock."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from .decoder import Dice
from .defences import NONE, Cost, Policy, release
from .service import IN_ORDER, Service

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Events:
    """Columns of shape (n,): time in nanoseconds, tokens, bytes, and the packet each event travels in.

    `cost` is what hiding did to them, where the service hides.
    """

    t: IntArray
    tokens: IntArray
    size: IntArray
    packet: IntArray
    cost: Cost | None = None


def deliver(service: Service, done_ns: IntArray, sizes: IntArray, dice: Dice, start_ns: int = 0) -> Events:
    """Carry the tokens of every step, `sizes` done at `done_ns`, shapes (r,), to the client; sorted by time.

    The request was sent at `start_ns`. Entry 0 is the prefill's single token. Each stage is left out when its knob is
    at rest.
    """
    events = _write(service, *_groups(service, done_ns, sizes, dice), dice)
    if service.paced_ms:
        events = pace(events, _ns(service.paced_ms))
    if service.flush_ms:
        period = _ns(service.flush_ms)
        events = flush(events, period, int(dice["timer"].integers(period)))
    if service.flush_bytes:
        events = fill(events, service.flush_bytes)
    if service.defence.active:
        events = hide(service.defence, events, start_ns, dice["defence"])
    events = _cross(service, events, dice)
    if service.read_block:
        events = fill(events, service.read_block)
    return events


def tick(t: IntArray, resolution_ms: float) -> IntArray:
    """Times as a clock with that tick tells them: rounded down to a multiple of it; nanoseconds, shape (n,)."""
    period = _ns(resolution_ms)
    return t // period * period if period else t


def _ns(ms: float) -> int:
    return round(ms * 1e6)


def _groups(service: Service, t: IntArray, sizes: IntArray, dice: Dice) -> tuple[IntArray, IntArray]:
    """Times and tokens of each write, shapes (g,). The first token is always written alone, at once."""
    n = service.stream_interval
    if n > 1:
        total = np.cumsum(sizes)
        ends = _exact_ends(total, n) if service.interval_mode == "exact" else _step_ends(total, n)
        # A write leaves when the step that gives its last token is done.
        t, sizes = t[np.searchsorted(total, ends)], np.diff(ends, prepend=0)
    if service.merge_probability and t.size > 1:
        holds = 1 + (dice["merge"].random(t.size - 1) < service.merge_probability)
        last = np.minimum(np.cumsum(np.concatenate(([0], holds))), t.size - 1)
        last = last[: int(np.searchsorted(last, t.size - 1)) + 1]
        total = np.cumsum(sizes)[last]
        t, sizes = t[last], np.diff(total, prepend=0)
    return t, sizes


def _exact_ends(total: IntArray, n: int) -> IntArray:
    ends = np.arange(1, total[-1], n, dtype=np.int64)
    return np.append(ends, total[-1])


def _step_ends(total: IntArray, n: int) -> IntArray:
    """Running totals at which a write ends: as soon as at least `n` tokens wait, on a step boundary."""
    ends, reached = [int(total[0])], int(total[0])
    while reached < total[-1]:
        place = min(int(np.searchsorted(total, reached + n)), total.size - 1)
        reached = int(total[place])
        ends.append(reached)
    return np.array(ends, np.int64)


def _write(service: Service, t: IntArray, tokens: IntArray, dice: Dice) -> Events:
    packet = np.arange(t.size)
    if service.events == "token":
        packet = np.repeat(packet, tokens)
        t = t[packet] + _offsets(service, packet, dice)
        tokens = np.ones(packet.size, np.int64)
    text = tokens + dice["bytes"].poisson((service.token_bytes - 1.0) * tokens)
    # One writer writes: what is slow to write holds up what comes after it.
    return Events(np.maximum.accumulate(t), tokens, text + service.event_bytes, packet)


def _offsets(service: Service, packet: IntArray, dice: Dice) -> IntArray:
    """Nanoseconds from the start of its write to each token, shape (n,)."""
    if not service.in_burst_us:
        return np.zeros(packet.size, np.int64)
    gap = np.full(packet.size, service.in_burst_us * 1e3)
    if service.in_burst_cv:
        shape = service.in_burst_cv**-2
        gap *= dice["spacing"].standard_gamma(shape, gap.size) / shape
    whole = np.rint(gap).astype(np.int64)
    first = np.concatenate(([True], packet[1:] != packet[:-1]))
    whole[first] = 0
    run = np.cumsum(whole)
    offsets: IntArray = run - run[np.flatnonzero(first)][packet]
    return offsets


def pace(events: Events, period: int) -> Events:
    """Events leave a queue in order, at least `period` nanoseconds apart, each in a packet of its own."""
    even = np.arange(events.t.size) * period
    return replace(events, t=even + np.maximum.accumulate(events.t - even), packet=np.arange(events.t.size))


def flush(events: Events, period: int, phase: int) -> Events:
    """Events wait for the next multiple of `period` (after `phase`), nanoseconds; one packet per flush."""
    t = -((phase - events.t) // period) * period + phase
    return replace(events, t=t, packet=_runs(t))


def fill(events: Events, block: int) -> Events:
    """Bytes are passed on in full blocks of `block` bytes; an event arrives with the block that holds its last byte.

    What is left when the stream ends is passed on then.
    """
    total = np.cumsum(events.size)
    number = (total - 1) // block
    full = np.minimum(np.searchsorted(total, (number + 1) * block), total.size - 1)
    return replace(events, t=events.t[full], packet=_runs(number))


def hide(policy: Policy, events: Events, start_ns: int, rng: np.random.Generator) -> Events:
    """Events leave when `policy` lets them, one packet for all that leave at one time."""
    left = release(policy, events.t, events.tokens, events.size, start_ns, rng)
    packet = events.packet if policy.kind == NONE else _runs(left.t_ns)
    return Events(left.t_ns, events.tokens, left.size, packet, left.cost)


def _runs(values: IntArray) -> IntArray:
    """0, 1, 2... counting up wherever neighbouring `values` differ, shape (n,)."""
    return np.concatenate(([0], np.cumsum(values[1:] != values[:-1])))


def _cross(service: Service, events: Events, dice: Dice) -> Events:
    t, packets = events.t, int(events.packet[-1]) + 1
    if service.step_delay.active:
        t = t + _whole(service.step_delay.draw(dice["step-delay"], packets))[events.packet]
    if service.token_delay.active:
        t = t + _whole(service.token_delay.draw(dice["token-delay"], t.size))
    if service.stall_probability:
        low, high = service.stall_ms
        hit = dice["stall"].random(packets) < service.stall_probability
        late = np.where(hit, low + (high - low) * dice["stall-length"].random(packets), 0.0)
        t = t + _whole(late)[events.packet]
    if service.order == IN_ORDER:
        return replace(events, t=np.maximum.accumulate(t))
    place = np.argsort(t, kind="stable")
    return Events(t[place], events.tokens[place], events.size[place], events.packet[place], events.cost)


def _whole(ms: npt.NDArray[np.float64]) -> IntArray:
    return np.rint(ms * 1e6).astype(np.int64)
