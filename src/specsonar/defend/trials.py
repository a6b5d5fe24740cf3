"""One trial: a service or a recording behind a policy, and what every observer makes of it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from ..defended import BASELINE, INFORMED, OURS, Sizes
from ..errors import SpecsonarError
from ..fingerprint import SPECULATIVE, Estimate, Fingerprint
from ..fit import fingerprint
from ..sources.defences import NONE, Cost, Policy, release
from ..sources.service import Service
from ..sources.simulate import simulate
from ..trace import Stream, Trace
from .informed import Guess, observe


@dataclass(frozen=True, slots=True)
class Trial:
    """What is to be tried.

    Attributes
    ----------
    row : index of its row.
    policy : of the defence.
    service : a simulated service, or None where `recorded` is given.
    recorded : streams that are sent through the policy.
    tokens, streams : of simulated answers.
    plain : the service has no drafts: whoever sees speculation is wrong.
    seed : of all chance.
    """

    row: int
    policy: Policy
    service: Service | None
    recorded: tuple[Stream, ...]
    tokens: int
    streams: int
    plain: bool
    seed: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of it: a guess by observer, what it cost (None for a plain trial), and the sizes of writes."""

    guesses: dict[str, Guess]
    costs: tuple[Cost, ...]
    sizes: Sizes


def measure(trial: Trial) -> Outcome:
    """Make the streams of a trial, and ask every observer."""
    trace, costs = _hidden(trial)
    guesses = {OURS: _guess(trace, OURS, trial.seed), BASELINE: _guess(trace, BASELINE, trial.seed)}
    times = [(one.t_ns - one.t_ns[0]) / 1e6 for one in trace.streams if len(one) > 3]
    if times and (informed := observe(trial.policy, times)):
        guesses[INFORMED] = informed
    return Outcome(guesses, costs, sizes(trace))


def _hidden(trial: Trial) -> tuple[Trace, tuple[Cost, ...]]:
    if trial.service is not None:
        service = replace(trial.service, defence=trial.policy)
        trace = simulate(service, tokens=trial.tokens, streams=trial.streams, seed=trial.seed)
        told = [one.truth["defence"] for one in trace.streams if one.truth and "defence" in one.truth]
        return trace.without_truth(), tuple(Cost(**one) for one in told)
    rng = np.random.default_rng(trial.seed)
    made = [hidden(one, trial.policy, rng) for one in trial.recorded if len(one)]
    return Trace(tuple(one for one, _ in made)), tuple(cost for _, cost in made)


def hidden(one: Stream, policy: Policy, rng: np.random.Generator) -> tuple[Stream, Cost]:
    """A recorded stream as one behind `policy` would have recorded it, and what that costs."""
    t = np.maximum.accumulate(one.t_ns)
    start = int(t[0]) if one.start_ns is None else one.start_ns
    left = release(policy, t, one.tokens, one.size, start, rng)
    read = one.read
    if policy.kind != NONE:
        read = np.concatenate(([0], np.cumsum(left.t_ns[1:] != left.t_ns[:-1])))
    return replace(one, t_ns=left.t_ns, size=left.size, read=read), left.cost


def _guess(trace: Trace, method: str, seed: int) -> Guess:
    try:
        found = fingerprint(trace, method=method, seed=seed)
    except SpecsonarError:  # times that no decoder makes; the observer is as wise as before
        return Guess(False)
    return said(found, method)


def said(found: Fingerprint, method: str) -> Guess:
    """What an estimator says. The baseline has no verdict: it sees speculation where it finds more than one token."""
    burst = _value(found.max_burst)
    seen = burst > 1 if method == BASELINE else found.verdict == SPECULATIVE
    return Guess(seen, burst, _value(found.acceptance_rate), _value(found.step_ms))


def _value(estimate: Estimate | None) -> float:
    return math.nan if estimate is None else estimate.value


def sizes(trace: Trace) -> Sizes:
    """What the bytes of writes tell about their tokens; events of unknown count hold one."""
    told, written = [], []
    for one in trace.streams:
        if len(one):
            place = np.cumsum(np.concatenate(([0], np.diff(one.read) != 0)))
            told.append(np.bincount(place, np.maximum(one.tokens, 1)))
            written.append(np.bincount(place, one.size))
    tokens, size = np.concatenate(told), np.concatenate(written)
    _, often = np.unique(tokens, return_counts=True)
    guessed, mean = float(often.max() / tokens.size), float(tokens.mean())
    if np.ptp(tokens) == 0:
        return Sizes(None, None, 1.0, 1.0, mean)
    if np.ptp(size) == 0:
        return Sizes(0.0, 0.0, float((tokens == np.rint(mean)).mean()), guessed, mean)
    correlation = float(np.corrcoef(size, tokens)[0, 1])
    slope = float(np.polyfit(tokens, size, 1)[0])
    back, origin = np.polyfit(size, tokens, 1)
    return Sizes(correlation, slope, float((np.rint(back * size + origin) == tokens).mean()), guessed, mean)
