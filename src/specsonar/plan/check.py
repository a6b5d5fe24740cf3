"""A plan for data against the simulator: recordings of the size that it names, and of a quarter of it.

Where the size is enough, the share of right answers is what was wanted; where a quarter of it were enough too, the
plan would ask for too much. The simulator knows nothing of the laws behind a plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import e, sqrt
from typing import Any, Final

import numpy as np

from .. import executors
from ..compare import compare
from ..errors import InputError
from ..fingerprint import (
    CHANGED,
    COUNTED_LAYER,
    INDEPENDENT_LAYER,
    SPECULATIVE,
    UNDETERMINED,
    Estimate,
    Fingerprint,
)
from ..planned import (
    CHANGE_OF_LENGTH,
    CHANGE_OF_STEP,
    MAX_BURST,
    SPECULATION,
    DataPlan,
    Need,
    Setting,
    Trial,
)
from ..stats import intervals, needed
from .data import cv_of

Progress = Callable[[float, str], None]

RECORDINGS: Final = 40
"""Simulated for each size: enough to tell 95% from 80%."""

_SHAPE: Final = 1.0
"""Of the log-normal delays of the in-order layer; their standard deviation is 2.16 times their median."""


@dataclass(frozen=True, slots=True)
class Size:
    """One kind of recording: everything that a worker needs to make and judge it."""

    layer: str
    streams: int
    tokens: int
    questions: tuple[str, ...]
    setting: Setting
    precision: float
    change: float
    level: float


def check(
    plan: DataPlan, *, recordings: int = RECORDINGS, seed: int = 0, jobs: int | None = None,
    progress: Progress | None = None,
) -> DataPlan:  # fmt: skip
    """`plan` with a trial of each of its needs, at its size and at a quarter of it.

    Parameters
    ----------
    recordings : simulated for each size.
    seed : recording r of a size depends on `seed`, the size and r alone.
    jobs : processes; one per usable core when not given.
    progress : called with (share done, what is being done).
    """
    sizes = list(_sizes(plan))
    tasks = [(size, seed, r) for size in sizes for r in range(recordings)]
    # what takes long first, so that no process is left alone with it in the end
    tasks.sort(key=lambda task: -task[0].tokens)
    heavy = float(sum(task[0].tokens for task in tasks)) or 1.0
    right: dict[tuple[Any, ...], int] = {}
    done = 0.0
    with executors.opened(executors.PROCESSES, jobs=jobs) as workers:
        for result in executors.run(workers, judge, tasks):
            if result.value is None:
                raise InputError(f"a recording could not be checked: {result.error}")
            size = result.task[0]
            done += size.tokens
            for question, correct in zip(size.questions, result.value, strict=True):
                key = (size.layer, size.streams, size.tokens, question)
                right[key] = right.get(key, 0) + correct
            if progress is not None:
                progress(done / heavy, f"{size.layer}, {size.tokens:,} tokens")

    def trial(need: Need, streams: int, tokens: int) -> Trial:
        return _trial(streams, tokens, recordings, right[need.layer, streams, tokens, need.target])

    tried = []
    for need in plan.needs:
        if need.tokens is None or need.streams is None:
            tried.append(need)
            continue
        less = _quarter(need.streams, need.tokens)
        tried.append(replace(need, trial=trial(need, need.streams, need.tokens), quarter=trial(need, *less)))
    return replace(plan, needs=tuple(tried))


def _quarter(streams: int, tokens: int) -> tuple[int, int]:
    """A quarter of a recording: of its streams, or of a single one."""
    fewer = max(streams // 4, 1)
    return fewer, max(fewer * (tokens // streams) if streams >= 4 else tokens // 4, 2 * fewer)


def _sizes(plan: DataPlan) -> Iterator[Size]:
    """Every size once, with all the questions that are put to it."""
    asked: dict[tuple[str, int, int], list[str]] = {}
    for need in plan.needs:
        if need.tokens is not None and need.streams is not None:
            for streams, tokens in ((need.streams, need.tokens), _quarter(need.streams, need.tokens)):
                asked.setdefault((need.layer, streams, tokens), []).append(need.target)
    for (layer, streams, tokens), questions in asked.items():
        each = tuple(dict.fromkeys(questions))
        yield Size(layer, streams, tokens, each, plan.setting, plan.precision, plan.change, plan.level)


def _trial(streams: int, tokens: int, recordings: int, right: int) -> Trial:
    share = right / recordings
    p = min(max(share, 1e-9), 1 - 1e-9)
    low, high = intervals.share(p, sqrt(p * (1 - p) / recordings), 0.95)
    return Trial(streams, tokens, recordings, right, share, low, high)


def judge(task: tuple[Size, int, int]) -> tuple[bool, ...]:
    """Simulate one recording and answer the questions that are put to its size: right or not."""
    size, seed, number = task
    numbers = np.random.SeedSequence((seed, size.streams, size.tokens, number)).generate_state(3).tolist()
    heard = _heard(size, numbers[0])
    return tuple(_right(question, heard, size, numbers[1], number) for question in size.questions)


def _heard(size: Size, seed: int, **knobs: Any) -> Fingerprint:
    from ..fit import fingerprint
    from ..sources.simulate import simulate

    service = {**service_of(size.setting, size.layer), **knobs}
    trace = simulate(tokens=size.tokens // size.streams, streams=size.streams, seed=seed, **service)
    return fingerprint(trace.without_truth(), level=size.level, seed=seed)


def service_of(setting: Setting, layer: str) -> dict[str, Any]:
    """Knobs of the simulated service whose tokens are observed in one way."""
    knobs: dict[str, Any] = {
        "max_burst": setting.max_burst, "acceptance": setting.acceptance, "step_ms": setting.step_ms,
        "step_cv": cv_of(layer, setting),
    }  # fmt: skip
    if layer == INDEPENDENT_LAYER:
        return {**knobs, "order": "independent", "token_delay": f"gauss:{setting.jitter_ms:.6g}"}
    median = setting.jitter_ms / sqrt((e - 1) * e)
    knobs["step_delay"] = f"lognormal:{median:.6g},{_SHAPE:g}"
    return {**knobs, "events": "step"} if layer == COUNTED_LAYER else knobs


def _right(question: str, heard: Fingerprint, size: Size, seed: int, number: int) -> bool:
    setting = size.setting
    if question == SPECULATION:
        if number % 2 == 0:
            return heard.verdict == SPECULATIVE
        # every other recording is of the same service without drafts
        plain = _heard(size, seed, max_burst=1, acceptance=0.5)
        return plain.verdict not in (SPECULATIVE, UNDETERMINED)
    if question in (CHANGE_OF_LENGTH, CHANGE_OF_STEP):
        return _change_found(question, heard, size, seed)
    if question == MAX_BURST:
        burst = heard.max_burst
        return burst is not None and burst.low == burst.value == burst.high == setting.max_burst
    estimate: Estimate | None = getattr(heard, question)
    hazards = setting.acceptance
    truth = {
        "acceptance_rate": needed.pooled(hazards),
        "acceptance_length": float(np.sum(np.cumprod((1.0, *hazards)))),
        "step_ms": setting.step_ms,
    }[question]
    return estimate is not None and abs(estimate.value - truth) <= size.precision * truth


def _change_found(question: str, base: Fingerprint, size: Size, seed: int) -> bool:
    """Whether `compare` calls a change of that size one."""
    setting = size.setting
    if question == CHANGE_OF_STEP:
        other = _heard(size, seed, step_ms=setting.step_ms * (1 + size.change))
        found = compare(base, other).step_ms
    else:
        other = _heard(size, seed, acceptance=_shorter(setting.acceptance, 1 / (1 + size.change)))
        found = compare(base, other).acceptance_length
    return found is not None and found.verdict == CHANGED


def _shorter(hazards: tuple[float, ...], factor: float) -> tuple[float, ...]:
    """Acceptances in the same proportions that make the acceptance length `factor` of what it was."""
    wanted = max(float(np.sum(np.cumprod((1.0, *hazards)))) * factor, 1.0)
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if float(np.sum(np.cumprod((1.0, *(a * middle for a in hazards))))) < wanted:
            low = middle
        else:
            high = middle
    return tuple(a * high for a in hazards)
