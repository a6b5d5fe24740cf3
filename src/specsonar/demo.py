"""A blind test on oneself: hide a random service, listen to it, compare the answer with the truth."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

from .fingerprint import AUTOREGRESSIVE, SPECULATIVE, Estimate, Fingerprint
from .fit import fingerprint
from .sources.simulate import random_service, simulate

TOKENS: Final = 1_200

STREAMS: Final = 8
"""Answers at once, over HTTP: so many tokens of a slow service would take more than a minute one after the other."""

Progress = Callable[[float, str], None]

REAL_TOKENS: Final = 600
"""A real engine on a processor is slow."""

ENGINES: Final = {
    "vllm": "vLLM", "llama.cpp": "llama.cpp", "ollama": "Ollama", "tgi": "TGI", "openai": "OpenAI",
    "anthropic": "Anthropic",
}  # fmt: skip
"""Programs that the service may pass for. The first writes an event for each step and counts, the others for each
token."""


@dataclass(frozen=True, slots=True)
class Check:
    """One quantity, hidden and inferred.

    Attributes
    ----------
    quantity, truth, answer, interval : for people.
    right : whether the truth lies in the interval (or is the verdict); None when no answer was given.
    """

    quantity: str
    truth: str
    answer: str
    interval: str
    right: bool | None


@dataclass(frozen=True, slots=True)
class Demo:
    """A hidden service and what was found out about it.

    Attributes
    ----------
    seed, tokens : what decided it, and how much was listened to.
    service : its settings.
    answer : what the analysis says.
    checks : truth beside inference.
    where : how it was heard, for people.
    """

    seed: int
    tokens: int
    service: Mapping[str, Any]
    answer: Fingerprint
    checks: tuple[Check, ...]
    where: str


def virtual(seed: int, *, tokens: int = TOKENS, progress: Progress | None = None) -> Demo:
    """Draw a service from `seed`, simulate `tokens` tokens of it, analyse them without the truth, and compare."""
    service = random_service(np.random.default_rng(seed))
    trace = simulate(service, tokens=tokens, seed=seed)
    truth = trace.streams[0].truth
    assert truth is not None
    answer = fingerprint(trace.without_truth(), seed=seed, progress=progress)
    return Demo(seed, tokens, service.to_dict(), answer, tuple(compare(truth, answer)), "simulated in virtual time")


def served(seed: int, *, tokens: int = TOKENS, progress: Progress | None = None) -> Demo:
    """The same over HTTP: the service runs in a process of its own behind a real server, and is probed.

    `tokens` are those of all answers together. The truth is asked for after the analysis.
    """
    from .sources.serve import Server

    rng = np.random.default_rng(seed)
    service = random_service(rng)
    engine = "vllm" if service.events == "step" else str(rng.choice(list(ENGINES)[1:]))
    with Server(service, process=True, seed=seed, engine=engine, report="none") as server:
        heard, answer = _listen(server.url, tokens, STREAMS, progress)
        (truth, *_), timing = server.truth, server.timing()
    where = (
        f"served over HTTP the way {ENGINES[engine]} does, {STREAMS} answers at once; the server was late by "
        f"{timing.median_us / 1e3:.2f} ms in the median, {timing.p99_us / 1e3:.1f} ms at the 99th percentile"
    )
    return Demo(seed, heard, service.to_dict(), answer, tuple(compare(truth, answer)), where)


def real(seed: int, *, tokens: int = REAL_TOKENS, progress: Progress | None = None) -> Demo:
    """The same with a real engine: llama.cpp with a small model, its draft length and acceptance drawn from `seed`.

    Raises
    ------
    InputError : its packages are not installed; the hint says how to get them.
    """
    from .sources.llamacpp import LlamaCpp, Settings

    rng = np.random.default_rng(seed)
    k, alpha = int(rng.integers(0, 6)), round(float(rng.uniform(0.3, 0.9)), 2)
    # The engine is told how often each draft position is reached and accepted.
    settings = Settings(draft=k, acceptance=tuple(alpha**j for j in range(1, k + 1)))
    with LlamaCpp(settings) as engine:
        heard, answer = _listen(engine.url, tokens, 1, progress)
        accepted = [step.accepted for step in engine.steps() if step.drafted == k]
    truth = {
        "verdict": SPECULATIVE if k else AUTOREGRESSIVE, "max_burst": k + 1, "alpha": alpha if k else None,
        "acceptance_length": 1.0 + float(np.mean(accepted)) if accepted else 1.0, "step_ms": None,
    }  # fmt: skip
    where = "llama.cpp itself, with SmolLM2-135M on this machine; the acceptance length is that of its log"
    return Demo(seed, heard, asdict(settings), answer, tuple(compare(truth, answer)), where)


def _listen(url: str, tokens: int, at_once: int, progress: Progress | None) -> tuple[int, Fingerprint]:
    """Tokens heard from the service at `url`, and what the analysis says. No key is looked for."""
    from .probe import SoFar, probe

    def watch(so_far: SoFar) -> None:
        assert progress is not None
        shown = "" if so_far.estimate is None else f": {so_far.estimate.verdict} so far"
        progress(so_far.share, f"{so_far.tokens} tokens heard{shown}")

    found = probe(
        url, streams=STREAMS, concurrency=at_once, tokens=max(2, tokens // STREAMS), environment={},
        watch=None if progress is None else watch,
    )  # fmt: skip
    if found.ended == "failed":
        raise found.errors[-1]
    if found.ended == "interrupted":
        raise KeyboardInterrupt
    return sum(s.known_tokens or len(s) for s in found.trace.streams), found.fingerprint


def compare(truth: Mapping[str, Any], answer: Fingerprint) -> list[Check]:
    """Row by row, what `truth` says and what `answer` says."""
    verdict = truth["verdict"]
    checks = [Check("verdict", verdict, answer.verdict, "", _same(answer.verdict, verdict))]
    for quantity, true, found, places in (
        ("max burst M", truth["max_burst"], answer.max_burst, 0),
        ("acceptance length", truth["acceptance_length"], answer.acceptance_length, 2),
        ("acceptance rate", truth["alpha"], answer.acceptance_rate, 2),
        ("step time, ms", truth["step_ms"], answer.step_ms, 2),
    ):
        if true is not None:
            checks.append(_check(quantity, float(true), found, places))
    return checks


def _same(answer: str, truth: str) -> bool | None:
    return None if answer == "undetermined" != truth else answer == truth


def _check(quantity: str, truth: float, found: Estimate | None, places: int) -> Check:
    shown = f"{truth:.{places}f}"
    if found is None:
        return Check(quantity, shown, "-", "", None)
    low = f"{found.low:.{places}f}"
    shown_high = "or more" if found.high is None else f"to {found.high:.{places}f}"
    interval = low if shown_high == f"to {low}" else f"{low} {shown_high}"
    # What is told to so many places cannot be wrong by less than half of the last one.
    slack = 0.5 * 10.0**-places if found.high == found.low else 0.0
    right = found.low - slack <= truth and (found.high is None or truth <= found.high + slack)
    return Check(quantity, shown, f"{found.value:.{places}f}", interval, right)
