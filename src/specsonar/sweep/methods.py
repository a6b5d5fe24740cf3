"""The ways to read a trace that a sweep compares: small functions, from a trace to what it says about the service."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from ..extras import need_peers
from ..fingerprint import AUTOREGRESSIVE, SPECULATIVE, Estimate, Fingerprint
from ..fit import fingerprint
from ..stats.baseline import alpha_from_mean
from ..trace import COUNTED, ONE_EACH, Stream, Trace
from . import peers
from .cells import QUANTITIES


@dataclass(frozen=True, slots=True)
class Measured:
    """One answer of one method; nan where it gives none.

    Attributes
    ----------
    verdict : in the words of `fingerprint.VERDICTS`; None where the method gives none.
    max_burst, alpha, length, step_ms : M, acceptance rate, mean tokens of a step, time of a step.
    intervals : 95% intervals of these, where the method has them; an end is None where it is open.
    sizes : steps of 1, 2... tokens; empty where they are not told.
    refused : why the method said nothing at all.
    seconds : how long it took.
    """

    verdict: str | None = None
    max_burst: float = math.nan
    alpha: float = math.nan
    length: float = math.nan
    step_ms: float = math.nan
    intervals: Mapping[str, tuple[float, float | None]] = field(default_factory=dict)
    sizes: tuple[float, ...] = ()
    refused: str = ""
    seconds: float = math.nan


@dataclass(frozen=True, slots=True)
class Method:
    """A way to read a trace.

    Attributes
    ----------
    title : for legends.
    ask : the function; its second argument is a seed for the chance it uses itself.
    about : what it is, and where it is described.
    verdicts : which verdicts it knows: "all", "yes or no" (speculative or not), or "none".
    burst : whether it gives M; then an answer without one is a wrong one.
    seconds : what an analysis of 600 tokens takes, roughly, to tell the user how long a sweep will.
    """

    title: str
    ask: Callable[[Trace, int], Measured]
    about: str
    verdicts: str
    seconds: float
    burst: bool = True


def likelihood(trace: Trace, seed: int) -> Measured:
    """This package's own answer."""
    answer = fingerprint(trace, seed=seed)
    return _read(answer, {name: (e.low, e.high) for name, e in _estimates(answer).items()})


def baseline(trace: Trace, seed: int) -> Measured:
    """The founding article's analyser, as it is kept in `stats.baseline`."""
    return _read(fingerprint(trace, seed=seed, method="baseline"), {})


def guidellm(trace: Trace, seed: int) -> Measured:
    """Mean tokens of an iteration after the first: (tokens - 1) / (iterations - 1), mean over the requests.

    guidellm takes every chunk for an iteration, and the tokens from the server's usage where there is one.
    """
    del seed
    means = [(_tokens(one) - 1) / (len(one) - 1) for one in trace.streams if len(one) > 1]
    return Measured(length=float(np.mean(means)) if means else math.nan)


def _tokens(one: Stream) -> int:
    if one.total_tokens is not None:
        return one.total_tokens
    return int(one.tokens.sum()) if one.count_source in (COUNTED, ONE_EACH) else len(one)


def logisi(trace: Trace, seed: int) -> Measured:
    """Bursts as neuroscientists find them in spikes, by a threshold from the histogram of log intervals."""
    del seed
    return _from_runs(peers.log_isi(_times(trace)))


def hmm(trace: Trace, seed: int) -> Measured:
    """Runs of short gaps by a plain Gaussian hidden Markov model of hmmlearn on the logarithms of the gaps."""
    return _from_runs(peers.gaussian_hmm(_times(trace), seed % 2**32))


METHODS: Final[dict[str, Method]] = {
    "baseline": Method(
        "article's analyser", baseline,
        "the founding article's analyser: two means of the gaps, runs of short ones, their 95th percentile",
        "yes or no", 0.003,
    ),
    "likelihood": Method("specsonar", likelihood, "this package", "all", 0.25),
    "guidellm": Method(
        "guidellm", guidellm,
        "mean tokens per iteration, (tokens - 1) / (iterations - 1), as guidellm prints it; a length and nothing else",
        "none", 0.001, burst=False,
    ),
    "logisi": Method(
        "logISI bursts", logisi,
        "burst detection by the histogram of log intervals (Pasquale, Martinoia and Chiappalone 2010)",
        "yes or no", 0.002,
    ),
    "hmm": Method(
        "Gaussian HMM", hmm, "hmmlearn's GaussianHMM of two states on log gaps, against one state by BIC",
        "yes or no", 0.1,
    ),
}  # fmt: skip
"""By name, in the order of tables. A further one is a function here and an entry."""


def need(methods: tuple[str, ...]) -> None:
    """Make sure that these methods can run.

    Raises
    ------
    InputError : an extra is not installed.
    """
    if "hmm" in methods:
        need_peers()


def _times(trace: Trace) -> list[peers.FloatArray]:
    return [(one.t_ns - one.t_ns[0]) * 1e-9 for one in trace.streams if len(one) > 2]


def _estimates(answer: Fingerprint) -> dict[str, Estimate]:
    found = (answer.max_burst, answer.acceptance_rate, answer.acceptance_length, answer.step_ms)
    return {name: e for name, e in zip(QUANTITIES, found, strict=True) if e is not None}


def _read(answer: Fingerprint, intervals: dict[str, tuple[float, float | None]]) -> Measured:
    values: dict[str, Any] = {name: e.value for name, e in _estimates(answer).items()}
    sizes = answer.burst_sizes.counts if answer.burst_sizes else ()
    return Measured(answer.verdict, intervals=intervals, sizes=tuple(sizes), **values)


def _from_runs(found: peers.Runs) -> Measured:
    """Estimates from runs of short gaps, read as the founding article reads its own."""
    if not found.bursting:
        return Measured(AUTOREGRESSIVE, max_burst=1.0, length=1.0, step_ms=found.step_s * 1e3)
    largest, mean = int(np.rint(np.percentile(found.lengths, 95.0))), float(found.lengths.mean())
    return Measured(
        SPECULATIVE if largest > 1 else AUTOREGRESSIVE, float(largest), alpha_from_mean(mean, largest), mean,
        found.step_s * 1e3, sizes=tuple(np.bincount(found.lengths)[1:].astype(float).tolist()),
    )  # fmt: skip
