"""A simulated service: the draft-verify mechanism, its delivery, and the truth beside what is observed.

Nothing here comes from the statistics: where both agree, that is evidence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ..errors import UsageError
from ..fingerprint import AUTOREGRESSIVE, BUFFERED, FIXED_CHUNKS, PACED, SPECULATIVE, UNDETERMINED
from ..trace import ASSUMED_ONE, COUNTED, NOT_SAID, ONE_EACH, TOTAL_ONLY, UNKNOWN, Stream, Trace, stream
from . import drift
from .decoder import Decoded, Dice, decode
from .defences import BATCH, PACE, Cost
from .link import Events, deliver, tick
from .service import IN_ORDER, INDEPENDENT, Delay, Service, with_knobs

__all__ = ["Delay", "Service", "expected_verdict", "random_service", "simulate"]

_MOST_TOKENS: Final = 100_000_000
_LONGEST_MS: Final = 1e12
_SECOND: Final = 1_000_000_000


def simulate(
    service: Service | None = None, *, tokens: int = 600, streams: int = 1, seed: int = 0, **knobs: Any
) -> Trace:
    """Answers of `tokens` tokens from a simulated service, as a client records them.

    Parameters
    ----------
    service : the configuration; the default one if None (M = 4, acceptance 0.8, 20 ms steps, no jitter).
    tokens : length of each answer, the prefill's token included; at least 1.
    streams : number of answers. They share the service, not the phase; answer i depends on `seed` and i alone.
    seed : any whole number from 0.
    knobs : fields of `Service` that replace those of `service`.

    Returns
    -------
    Trace, times in whole nanoseconds of a clock with a random origin; each stream keeps its `truth`.

    Raises
    ------
    UsageError : an unknown knob, or a value outside its range.

    >>> trace = simulate(tokens=9, acceptance=1.0)
    >>> ((trace.streams[0].t_ns - trace.streams[0].start_ns) / 1e6).tolist()
    [150.0, 170.0, 170.0, 170.0, 170.0, 190.0, 190.0, 190.0, 190.0]
    """
    _check_whole("tokens", tokens, 1, _MOST_TOKENS)
    _check_whole("streams", streams, 1, _MOST_TOKENS)
    _check_whole("seed", seed, 0, None)
    chosen = with_knobs(service or Service(), knobs) if knobs else service or Service()
    _check_length(chosen, tokens)
    truth = law(chosen)
    made = tuple(_answer(chosen, tokens, Dice(seed, i), i, truth) for i in range(streams))
    return Trace(made, meta={"format": "simulated", "clock": "virtual", "seed": int(seed)})


def expected_verdict(service: Service) -> str:
    """The verdict that is right for such a service, given what its stream lets through.

    A buffer hides the steps when it holds more than one of them, unless the server counts the tokens of each step.
    """
    speculative = service.burst > 1 and service.draft_probability > 0 and drift.long_run_reach(service).sum() > 0
    counted = service.events == "step" and service.told == "each"
    step = _mean_step_ms(service)
    if service.stream_interval > 1 and (service.interval_mode == "exact" or not speculative):
        return FIXED_CHUNKS
    if not (speculative and counted):
        if service.paced_ms or service.defence.kind == PACE:
            return PACED
        if service.defence.kind == BATCH and service.defence.period_ms > step:
            return BUFFERED
        per_step = (1.0 + drift.long_run_reach(service).sum()) * (service.event_bytes + service.token_bytes)
        if service.flush_ms > step or max(service.flush_bytes, service.read_block) > per_step:
            return BUFFERED
    if not speculative:
        return AUTOREGRESSIVE
    if service.events == "step" and service.told == "none":
        return UNDETERMINED
    return SPECULATIVE


def random_service(rng: np.random.Generator) -> Service:
    """A configuration for a blind demonstration: M 1..9, acceptance .3 to .9, steps of 8 to 60 ms, moderate jitter."""
    step = round(float(rng.uniform(8.0, 60.0)), 1)
    common: dict[str, Any] = {
        "max_burst": int(rng.integers(1, 10)),
        "acceptance": round(float(rng.uniform(0.3, 0.9)), 2),
        "bonus": bool(rng.integers(2)),
        "step_ms": step,
        "ttft_ms": round(float(rng.uniform(80.0, 600.0)), 1),
    }
    layout = rng.choice(("independent", "in-order", "in-order", "counted"))
    if layout == "independent":
        jitter = round(float(rng.uniform(0.0, 0.25)) * step, 2)
        return Service(**common, order=INDEPENDENT, token_delay=Delay("gauss", jitter))
    common["order"] = IN_ORDER
    common["step_cv"] = round(float(rng.uniform(0.01, 0.12)), 3)
    common["step_delay"] = Delay("lognormal", round(float(rng.uniform(0.02, 0.12)) * step, 2), 0.8)
    common["stall_probability"] = round(float(rng.uniform(0.0, 0.01)), 4)
    if layout == "counted":
        return Service(**common, events="step", merge_probability=round(float(rng.uniform(0.0, 0.1)), 3))
    return Service(**common, in_burst_us=round(float(rng.uniform(0.0, 250.0)), 1), in_burst_cv=0.5)


def _check_whole(name: str, value: object, low: int, high: int | None) -> None:
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or value < low or (high is not None and value > high):  # type: ignore[operator]
        raise UsageError(f"{name} = {value!r} is out of range", f"give a whole number from {low}")


def _check_length(service: Service, tokens: int) -> None:
    """Times are 64-bit nanoseconds; refuse what could not be told in them, with a wide margin."""
    each = max(
        _mean_step_ms(service), service.paced_ms, service.in_burst_us / 1e3, service.defence.period_ms,
        service.defence.law.scale_ms,
    )  # fmt: skip
    if each * tokens > _LONGEST_MS:
        raise UsageError(f"{tokens} tokens of {each:g} ms take {each * tokens / 3.15e10:.0f} years", "ask for less")


def _answer(service: Service, tokens: int, dice: Dice, number: int, truth: dict[str, Any]) -> Stream:
    start = _SECOND + int(dice["origin"].integers(_SECOND))
    played = play(service, tokens, dice, start)
    events = played.events
    read = np.concatenate(([0], np.cumsum(events.t[1:] != events.t[:-1])))
    counts, source, total = _told(service, events.tokens, tokens)
    return stream(
        tick(events.t, service.resolution_ms),
        counts,
        read=read,
        size=events.size,
        name=f"simulated {number + 1}",
        count_source=source,
        total_tokens=total,
        start_ns=int(tick(np.array([start]), service.resolution_ms)[0]),
        truth={**truth, **what_happened(played.run, tokens), **_hidden(events.cost)},
    )


@dataclass(frozen=True, slots=True, eq=False)
class Played:
    """One answer: its steps, when each was done (entry 0 is the prefill; nanoseconds), and what is received."""

    run: Decoded
    done_ns: npt.NDArray[np.int64]
    events: Events


def play(service: Service, tokens: int, dice: Dice, start_ns: int = 0) -> Played:
    """Decode `tokens` tokens for a request sent at `start_ns` and carry them to the client."""
    run = decode(service, tokens, dice)
    done = start_ns + round(service.ttft_ms * 1e6) + np.concatenate(([0], np.cumsum(run.took_ns)))
    return Played(run, done, deliver(service, done, np.concatenate(([1], run.sizes)), dice, start_ns))


def _hidden(cost: Cost | None) -> dict[str, Any]:
    return {} if cost is None else {"defence": cost.to_dict()}


def _told(service: Service, counts: npt.NDArray[np.int64], tokens: int) -> tuple[Any, str, int | None]:
    """Token column, count source and total, as far as the server tells them."""
    each_token = service.events == "token"
    if service.told == "each":
        return counts, ONE_EACH if each_token else COUNTED, None
    unknown = np.full(counts.size, UNKNOWN)
    if service.told == "total":
        return unknown, TOTAL_ONLY, tokens
    return unknown, ASSUMED_ONE if each_token else NOT_SAID, None


def _mean_step_ms(service: Service) -> float:
    drafting = service.draft_probability if service.burst > 1 else 1.0
    mean = drafting * service.step_ms + (1 - drafting) * service.plain_ms
    return mean * (1 + service.slow_probability * (service.slow_factor - 1))


def law(service: Service) -> dict[str, Any]:
    """What holds in the long run, in plain JSON types."""
    further = drift.long_run_reach(service)
    hazards = drift.hazards_of(further)
    one = hazards.size > 0 and bool(np.ptp(hazards) < 1e-12)
    expected = expected_verdict(service)
    return {
        "service": service.to_dict(),
        "speculative": bool(service.burst > 1 and further.sum() > 0),
        "verdict": expected,
        "max_burst": service.burst,
        "hazards": hazards.tolist(),
        "alpha": float(hazards[0]) if one else None,
        "mean_hazard": drift.pooled(further) if hazards.size else None,
        "acceptance_length": float(1.0 + further.sum()),
        "step_ms": _mean_step_ms(service),
    }


def what_happened(run: Decoded, tokens: int) -> dict[str, Any]:
    """What this one answer did, in plain JSON types."""
    return {
        "tokens": tokens,
        "steps": int(run.sizes.size),
        "bursts": run.sizes[: run.complete].tolist(),
        "tail": run.sizes[run.complete :].tolist(),
        "last_truncated": run.last_truncated,
        "drafted_steps": int(run.drafted.sum()),
        "realised_step_ms": float(run.took_ns.mean() / 1e6) if run.took_ns.size else None,
    }
