"""The only bridge from a Trace to the statistics and back: arrays in, a Fingerprint out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from . import evidence, report
from .errors import InputError, UsageError
from .findings import finding
from .fingerprint import (
    AUTOREGRESSIVE,
    COUNTED_LAYER,
    FIXED_CHUNKS,
    INDEPENDENT_LAYER,
    SPECULATIVE,
    Finding,
    Fingerprint,
)
from .models import comb_explain, in_order, paced
from .models.check import misfit
from .models.explanation import Explanation
from .stats.gaps import tick_of
from .stats.result import Arrays
from .trace import ASSUMED_ONE, COUNTED, NOT_SAID, ONE_EACH, TOTAL_ONLY, Stream, Trace, stream
from .units import to_ns

Progress = Callable[[float, str], None]

METHODS: Final = ("likelihood", "baseline")

FEWEST: Final = 40
"""Tokens below which no explanation is compared with another."""

ENOUGH: Final = 150
"""Tokens with which speculation on an ordinary path is told from plain decoding."""

FEWEST_STEPS: Final = 8.0
"""Steps below which nothing is said about their law."""

CLEAR: Final = 3.0
"""Lead in nats over the best rival at which an explanation counts as found (odds of 20 to 1)."""

SURE_PERIOD: Final = 7.0
"""Lead in nats of the step over other steps below which it may be the wrong one (no wrong one led by 2)."""

AGREED: Final = 0.95
"""Probability of M over all likely steps at which it is known although the step is not."""

DROWNED: Final = 1 / 15
"""Share of the tokens that a plain scan for the step would need, below which no step is to be relied on."""

FEW_BURSTS: Final = 3.0
"""Bursts of two tokens or more below which a stream is plain decoding with a coincidence."""

RARE = 0.01
"""Share of steps with two tokens or more below which the same is said."""


PAIRS: Final = 0.1
"""Share of steps with two tokens below which, if none has three, times do not tell drafts from coincidences."""


RARELY: Final = 0.01
"""Share of events with several tokens below which an engine that sends tokens one by one is read from the times."""


MANY_SHARED: Final = 0.3
"""Share of neighbouring events in one read from which on it is worth a word."""


COARSE_S: Final = 50e-6
"""Tick of a clock from which on it is worth a word; the fastest steps are a hundred times as long."""


SAME_TICK: Final = 0.1
"""Share of neighbouring steps that may have one time; more, and the tick of the clock is as long as a step."""


FASTEST_S: Final = 50e-6
"""Mean time per event below which no decoder works (20,000 tokens a second in one stream)."""

SLOWEST_S: Final = 60.0
"""Mean time per event above which no decoder works."""


@dataclass(frozen=True, slots=True)
class Observed:
    """Streams ready for the statistics."""

    arrays: list[Arrays]
    streams: list[Stream]
    count_source: str
    findings: list[Finding]

    @property
    def events(self) -> int:
        """Events of all streams."""
        return sum(a.t.size for a in self.arrays)


def fingerprint(
    data: Trace | Stream | npt.ArrayLike | Sequence[npt.ArrayLike],
    *,
    unit: str | None = None,
    level: float = 0.95,
    seed: int = 0,
    method: str = "likelihood",
    progress: Progress | None = None,
) -> Fingerprint:
    """How the service behind these arrival times decodes.

    Parameters
    ----------
    data : a Trace, a Stream, arrival times of one stream, shape (n,), or a list of such arrays (several streams).
    unit : of plain times: s, ms, us or ns. Required with arrays.
    level : probability with which the intervals hold the truth.
    seed : for the simulation behind the goodness-of-fit check; the estimates do not depend on it.
    method : "likelihood", or "baseline" for the founding article's two-means analyser.
    progress : called with (share done, what is being done).

    Raises
    ------
    UsageError : unknown unit or method, or a level outside (0, 1).
    InputError : times that are not finite, or a step that no decoder has (a wrong unit).
    """
    if method not in METHODS:
        raise UsageError(f"unknown method {method!r}", f"use one of {', '.join(METHODS)}")
    if not 0.5 <= level < 1:
        raise UsageError(f"level {level} is not a probability between 0.5 and 1", "0.95 is customary")
    tell = progress or (lambda done, what: None)
    trace = _as_trace(data, unit)
    observed = _observe(trace)
    if method == "baseline":
        return report.baseline(trace, observed.arrays, observed.count_source, level, seed)
    _refuse_unusable(observed)
    answer = report.Report(trace, observed.arrays, observed.count_source, tuple(observed.findings), level, seed)
    tokens = answer.token_count
    if tokens < FEWEST or observed.events < 4:
        few = finding("Q001", f"{tokens} tokens are too few: about {ENOUGH} tell speculation from plain decoding")
        return answer.undetermined(few, needed=ENOUGH)
    tell(0.05, "fitting")
    if observed.count_source in (TOTAL_ONLY, NOT_SAID):
        plain = in_order.explain_plain(observed.arrays)[0]
        return answer.without_counts(plain, _total(observed))
    if observed.count_source == COUNTED:
        found = _explain_counted(observed, tell)
    else:
        found = _explain_times(observed, tell)
    tell(0.9, "checking the fit")
    return _decide(answer, found, observed, seed)


def _as_trace(data: Any, unit: str | None) -> Trace:
    if isinstance(data, Trace):
        return data
    if isinstance(data, Stream):
        return Trace((data,))
    if unit is None:
        raise UsageError("plain times need a unit", "pass unit='s', 'ms', 'us' or 'ns'")
    rows = data if isinstance(data, (list, tuple)) and len(data) and np.ndim(data[0]) == 1 else [data]
    streams = []
    for row in rows:
        try:
            if np.iscomplexobj(row):
                raise TypeError("complex")
            times = np.asarray(row, np.float64)
        except (TypeError, ValueError):
            raise InputError("these are not numbers", "pass arrival times as numbers, one a token") from None
        if times.ndim != 1:
            raise InputError(f"times have {times.ndim} dimensions", "pass one array of shape (n,) for each stream")
        streams.append(stream(to_ns(times, unit)))
    return Trace(tuple(streams))


def _observe(trace: Trace) -> Observed:
    """Sort where needed, turn into arrays, and say what was noticed."""
    noticed: list[Finding] = []
    arrays, kept = [], []
    backwards = 0
    for one in trace.streams:
        if len(one) < 2:
            continue
        order = np.argsort(one.t_ns, kind="stable")
        backwards += int((np.diff(one.t_ns) < 0).sum())
        tokens = one.tokens[order] if one.count_source == COUNTED and (one.tokens >= 0).all() else None
        seconds = (one.t_ns[order] - one.t_ns[order[0]]) * 1e-9
        arrays.append(Arrays(seconds, tokens, (one.resolution_ns or 0) * 1e-9))
        kept.append(one)
    if backwards and not any(f.code == "I003" for f in trace.findings):
        noticed.append(finding("I003", f"{backwards} events carry an earlier time than the event before; sorted"))
    sources = {one.count_source for one in kept}
    source = next((s for s in (NOT_SAID, TOTAL_ONLY, ASSUMED_ONE, COUNTED, ONE_EACH) if s in sources), ASSUMED_ONE)
    if source == COUNTED:
        # among counted streams, one whose events hold a token each is counted too
        each = [one.count_source == ONE_EACH for one in kept]
        arrays = [replace(a, tokens=np.ones_like(a.t, np.int64)) if e else a for a, e in zip(arrays, each, strict=True)]
    else:
        arrays = [replace(a, tokens=None) for a in arrays]
    if source == ASSUMED_ONE and arrays:
        noticed.append(finding("Q002", "the number of tokens in an event is not known: one was assumed"))
    shared = _shared_reads(kept)
    if shared > MANY_SHARED:
        noticed.append(finding("Q003", f"{shared:.0%} of neighbouring events came in one read"))
    tick = tick_of(arrays)
    if tick >= COARSE_S:
        noticed.append(finding("Q004", f"the clock ticks every {tick * 1e3:.3g} ms"))
    return Observed(arrays, kept, source, noticed)


def _shared_reads(streams: Sequence[Stream]) -> float:
    """Share of neighbouring events that one read completed; 0 where reads were not recorded (all differ)."""
    neighbours = sum(len(one) - 1 for one in streams)
    return sum(int((np.diff(one.read) == 0).sum()) for one in streams) / max(neighbours, 1)


def _refuse_unusable(observed: Observed) -> None:
    """Times that say nothing, or that no decoder could have made: a wrong unit is the usual reason."""
    events = sum(a.t.size - 1 for a in observed.arrays)
    if events == 0:
        raise InputError("there are not two tokens in any stream", "record a longer answer")
    span = sum(float(a.t[-1]) for a in observed.arrays)
    if span <= 0:
        raise InputError("all times are equal", "stamp each event when it arrives, with a finer clock")
    each = span / events
    if events >= 20 and each < FASTEST_S:
        raise InputError(f"{each * 1e6:.3g} us per event is faster than any decoder", _UNIT)
    gap = np.concatenate([np.diff(a.t) for a in observed.arrays])
    each = float(np.median(gap[gap > 0]))
    if events >= 4 and each > SLOWEST_S:
        raise InputError(f"{each / 60:.3g} minutes per event is slower than any decoder", _UNIT)
    tick = float(gap[gap > 0].min())
    off = float(np.abs(gap / tick - np.rint(gap / tick)).max())
    if events >= 20 and tick >= COARSE_S and off < 1e-3 and _together(observed.arrays) > SAME_TICK:
        raise InputError(
            f"the clock ticks every {tick * 1e3:.4g} ms, and steps that follow each other share a tick",
            "stamp each event when it arrives, with a finer clock",
        )


def _together(arrays: Sequence[Arrays]) -> float:
    """Share of neighbouring events that have several tokens each, so are steps, and the same time."""
    pairs = [(np.diff(a.t) == 0) & (a.tokens[1:] > 1) & (a.tokens[:-1] > 1) for a in arrays if a.tokens is not None]
    return float(np.concatenate(pairs).mean()) if pairs else 0.0


_UNIT: Final = "the unit is probably wrong: check --unit"


def _total(observed: Observed) -> int | None:
    """Tokens of all streams by the servers' totals; None when one is missing."""
    totals = [s.total_tokens for s in observed.streams]
    return sum(t for t in totals if t is not None) if all(t is not None for t in totals) else None


def _explain_counted(observed: Observed, tell: Progress) -> list[Explanation]:
    """Counts decide: constant ones are chunks, varying ones are bursts, or text that was held back."""
    kinds = {s.meta.get("event_is") for s in observed.streams}
    by_token = None if len(kinds) > 1 else {"token": True, "step": False}.get(str(kinds.pop()))
    more = np.concatenate([a.tokens > 1 for a in observed.arrays if a.tokens is not None])
    if by_token and more.mean() < RARELY:
        return _explain_times(replace(observed, arrays=[replace(a, tokens=None) for a in observed.arrays]), tell)
    # imported where it is used: it brings scipy, which recordings without counts never need
    from .models import counted

    fit = counted.fit(observed.arrays, by_token=by_token)
    kind = counted.kind(observed.arrays, fit)
    if kind.name == counted.FIXED:
        return [
            Explanation(FIXED_CHUNKS, COUNTED_LAYER, fit.loglik, 1.0, fit, {"chunk": float(kind.chunk), "kind": 0.0}),
            Explanation(SPECULATIVE, COUNTED_LAYER, fit.loglik - 10 * CLEAR, float(fit.parameters), fit),
        ]
    many = float(fit.burst_counts[1:].sum()) >= FEW_BURSTS
    model = SPECULATIVE if fit.max_burst > 1 and many else AUTOREGRESSIVE
    rival = AUTOREGRESSIVE if model == SPECULATIVE else SPECULATIVE
    # a count above one is proof, not evidence; the rival is listed with no weight
    return [
        Explanation(model, COUNTED_LAYER, fit.loglik, float(fit.parameters), fit),
        Explanation(rival, COUNTED_LAYER, fit.loglik - 100 * CLEAR, float(fit.parameters)),
    ]


def _explain_times(observed: Observed, tell: Progress) -> list[Explanation]:
    # one token in every event of a step, and drafts accepted all the same: then events are no steps
    steps_are_events = all(
        s.meta.get("event_is") == "step" and not (s.server_report or {}).get("accepted") for s in observed.streams
    )
    comb = comb_explain.explain(observed.arrays)
    tell(0.4, "fitting")
    beat = max((e.loglik for e in comb), default=-np.inf)
    found = [*in_order.explain(observed.arrays, beat=beat), *comb]
    even = paced.explain(observed.arrays, found)
    found += [even] if even is not None else []
    if observed.count_source != ONE_EACH or not steps_are_events:
        return found
    # the engine sends a step in one event, and every event holds one token: groups in time come from the way,
    # unless they look like bursts all the same, which plain decoding then fails to explain
    best = max(found, key=lambda e: e.score(observed.events), default=None)
    if best is None or best.model == SPECULATIVE:
        return in_order.explain_plain(observed.arrays)
    return [e for e in found if e.model != SPECULATIVE]


def _decide(answer: report.Report, found: list[Explanation], observed: Observed, seed: int) -> Fingerprint:
    """Best explanation, unless a rival is close or the best one does not fit either."""
    found = [_sober(e) for e in found]
    n = observed.events
    shares = evidence.rivals(found, n)
    ranked = sorted((e for e in found if np.isfinite(e.score(n))), key=lambda e: -e.score(n))
    if not ranked:
        return answer.undetermined(finding("V004", "no explanation could have produced these times"))
    best = ranked[0]
    if _steps(best, observed) < FEWEST_STEPS:
        few = finding("Q001", f"hardly {FEWEST_STEPS:.0f} steps in {n} events: at least {ENOUGH} tokens are needed")
        return answer.undetermined(few, needed=max(ENOUGH, 4 * n))
    rival = next((e for e in ranked if e.model != best.model), None)
    lead = best.score(n) - rival.score(n) if rival is not None else np.inf
    if _many_steps(best, observed):
        return answer.ridge(best, shares)
    if lead < CLEAR:
        tokens = n
        needed = int(tokens * min(2 * CLEAR / max(lead, 0.2), 20.0))
        assert rival is not None
        close = finding(
            "V005", f"{best.model} leads {rival.model} by {lead:.1f} nats; about {needed} tokens are needed"
        )
        return answer.undetermined(close, needed=needed, shares=shares, best=best)
    if best.layer != COUNTED_LAYER:
        if (pairs := _only_pairs(best)) is not None:
            why = "a loop that polls, or packets that merge, do that"
            text = f"{pairs:.1%} of the steps bring two tokens, none three: {why}"
            return answer.undetermined(finding("V007", text), shares=shares, best=best)
        distance, allowed = misfit(best, observed.arrays, seed)
        if distance > allowed:
            text = (
                f"{best.model} explains the gaps best, but differs from them by {distance:.2f} (at most {allowed:.2f})"
            )
            return answer.undetermined(finding("V004", text), shares=shares, best=best)
    return answer.determined(best, shares)


def _only_pairs(best: Explanation) -> float | None:
    """Share of the steps with two tokens, where it is all that speaks for drafts and may have other reasons."""
    if best.model != SPECULATIVE or best.fit is None or best.fit.max_burst != 2:
        return None
    pairs = float(best.fit.burst_counts[1:].sum() / best.fit.burst_counts.sum())
    return pairs if pairs < PAIRS else None


def _many_steps(best: Explanation, observed: Observed) -> bool:
    """Whether several periods are about as likely, and say different things about the bursts."""
    if best.layer != INDEPENDENT_LAYER or best.fit is None:
        return False
    extra = best.fit.extra
    if extra["period_margin"] >= SURE_PERIOD:
        return False
    drowned = sum(a.t.size for a in observed.arrays) < DROWNED * extra["needed_tokens"]
    return drowned or extra.get("burst_share", 0.0) < AGREED


def _steps(best: Explanation, observed: Observed) -> float:
    """About how many steps, chunks or flushes there are."""
    if best.fit is not None:
        return float(best.fit.burst_counts.sum())
    gap = np.concatenate([np.diff(a.t) for a in observed.arrays])
    return float((gap > 0.1 * gap.max()).sum())


def _sober(e: Explanation) -> Explanation:
    """Speculation with hardly a burst in it is plain decoding with a coincidence."""
    if e.model == SPECULATIVE and e.fit is not None and e.fit.max_burst > 1:
        bursts = float(e.fit.burst_counts[1:].sum())
        steps = float(e.fit.burst_counts.sum())
        if bursts < max(FEW_BURSTS, RARE * steps):
            return replace(e, model=AUTOREGRESSIVE)
    return e
