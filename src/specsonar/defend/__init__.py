"""What would it cost to hide? Services and recordings behind policies, in front of observers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from ..defended import (
    ALPHA_WITHIN,
    BASELINE,
    HIDDEN,
    OBSERVERS,
    OURS,
    STEP_WITHIN,
    Defended,
    Enough,
    Learnt,
    Price,
    Row,
    Share,
    Sizes,
)
from ..errors import InputError, UsageError
from ..executors import PROCESSES, Pool, opened, run
from ..fingerprint import SPECULATIVE
from ..fit import fingerprint
from ..sources.defences import DELAY, SCATTER, Policy
from ..sources.service import Service
from ..sources.simulate import law
from ..trace import Trace
from . import grids
from .informed import Guess
from .trials import Outcome, Trial, measure, said

__all__ = ["PRESETS", "defend"]

PRESETS: Final = tuple(grids.PRESETS)
POLICIES: Final = "policies"

Progress = Callable[[float, str], None]

_ASSUMED: Final = (
    "Observers stand at the end of the simulated link. A client sees the events themselves, so no padding hides their "
    "number from it; sizes are what one sees who can read nothing.",
    f"Learnt means: M exact, acceptance within {ALPHA_WITHIN}, the step within {STEP_WITHIN:.0%} of it. The baseline "
    "has no verdict; it is taken to see speculation where it finds M > 1, which is nearly everywhere.",
    "Estimators do not know the policy; the observer called informed does, and is a simple one. One who models the "
    "policy can do better: these figures say what leaks at least.",
    "The token rate is always seen: who knows what the model does without drafts can compare.",
)


def defend(
    service: Service | Trace | None = None,
    *,
    policies: Iterable[Policy | str] = (),
    preset: str = "frontier",
    tokens: Sequence[int] = (),
    reps: int | None = None,
    streams: int = 1,
    seed: int = 0,
    source: str = "recorded",
    executor: str | Pool = PROCESSES,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> Defended:
    """What observers learn behind policies, and what those cost.

    Parameters
    ----------
    service : a simulated service (the default one if None), or recorded streams, which all observers get together.
    policies : what is tried, as `Policy` or as text; those of `preset` if there are none.
    tokens : lengths of simulated answers; by the preset if there are none.
    reps : trials a row; by the preset if None. One of a simulated service is an answer with drafts and one without.
    streams : answers that an observer has in a trial.
    seed : of all chance. Trial r is the same service run in every row, so rows differ by the policy alone.
    source : names of the recordings.
    executor, jobs : see `executors.opened`.
    progress : called with (share done, what was done).

    Raises
    ------
    UsageError : no such preset, a policy that cannot be read, or a service that hides already.
    InputError : recordings in which no step is found; trials that all fail.
    """
    if preset not in grids.PRESETS:
        raise UsageError(f"no preset is called {preset!r}", f"use one of {', '.join(PRESETS)}")
    reps = grids.REPS[preset] if reps is None else reps
    if reps < 1 or streams < 1 or any(n < 2 for n in tokens):
        raise UsageError("a row needs trials, streams and tokens", "give numbers from 1, and 2 tokens at least")
    recorded = service if isinstance(service, Trace) else None
    simulated = None if isinstance(service, Trace) else service or Service()
    if simulated is not None and simulated.defence.active:
        raise UsageError("the service hides already", f"leave out its defence, and try --policy {simulated.defence}")
    truth = _told(simulated) if simulated is not None else _found(recorded or Trace(()), seed)
    chosen = tuple(p if isinstance(p, Policy) else Policy.parse(p) for p in policies)
    named = POLICIES if chosen else preset
    chosen = chosen or grids.PRESETS[preset](truth.step_ms, truth.step_ms / truth.tokens_per_step)
    lengths = tuple(tokens) or grids.lengths(named) if recorded is None else (_length(recorded),)
    cells = [(policy, n) for n in lengths for policy in chosen]
    trials = list(_trials(cells, simulated, recorded, reps, streams, seed))
    outcomes: list[dict[bool, list[Outcome]]] = [{False: [], True: []} for _ in cells]
    errors: list[str] = []
    failed = [0] * len(cells)
    with opened(executor, jobs=jobs) as workers:
        for number, done in enumerate(run(workers, measure, trials), 1):
            if done.value is None:
                errors.append(done.error or "")
                failed[done.task.row] += 1
            else:
                outcomes[done.task.row][done.task.plain].append(done.value)
            if progress is not None:
                progress(number / len(trials), str(done.task.policy))
    if errors and not any(one[False] for one in outcomes):
        raise InputError(f"no trial succeeded: {errors[0]}", "try one policy alone, with --jobs 1 --verbose")
    rows = tuple(
        _row(policy, n, truth, got, bad)
        for (policy, n), got, bad in zip(cells, outcomes, failed, strict=True)
        if got[False]
    )
    made = replace(
        truth, preset=named, source=source if recorded is not None else "simulated", reps=reps, streams=streams,
        seed=seed, rows=rows, enough=tuple(_enough(rows)),
    )  # fmt: skip
    return replace(made, sentence=_sentence(made))


def _told(service: Service) -> Defended:
    known = law(service)
    alpha = known["alpha"] if known["alpha"] is not None else known["mean_hazard"]
    return _truth(service.burst, alpha, known["step_ms"], known["acceptance_length"], service)


def _truth(
    burst: int | None, alpha: float | None, step: float, mean: float, service: Service | None = None
) -> Defended:
    plain = None if service is None else service.to_dict()
    return Defended("", "", "", burst, alpha, step, mean, 0, 0, 0, (), (), _ASSUMED, plain)


def _found(recorded: Trace, seed: int) -> Defended:
    """What there is to be hidden in a recording: what is found in it without any policy."""
    found = fingerprint(recorded.without_truth(), seed=seed)
    if found.step_ms is None or found.acceptance_length is None:
        raise InputError(
            f"nothing is left to hide in this recording: {found.verdict}",
            "specsonar defend needs streams in which `analyze` finds steps",
        )
    known = said(found, OURS)
    burst = int(known.max_burst) if known.max_burst == known.max_burst else None
    alpha = known.alpha if known.alpha == known.alpha else None
    made = _truth(burst, alpha, known.step_ms, found.acceptance_length.value)
    if found.verdict == SPECULATIVE:
        return made
    return replace(made, assumptions=(*_ASSUMED, f"The recording itself is called {found.verdict}."))


def _length(recorded: Trace) -> int:
    return max((int(np.maximum(one.tokens, 1).sum()) for one in recorded.streams), default=0)


def _trials(
    cells: Sequence[tuple[Policy, int]], service: Service | None, recorded: Trace | None, reps: int, streams: int,
    seed: int,
) -> Iterable[Trial]:  # fmt: skip
    starts = np.random.SeedSequence(seed).generate_state(2 * reps).tolist()
    kept = () if recorded is None else tuple(replace(one, meta=dict(one.meta), truth=None) for one in recorded.streams)
    plain = None if service is None else replace(service, max_burst=1, k=None, acceptance=0.8, acceptance_after=None)
    for row, (policy, n) in enumerate(cells):
        for r in range(reps):
            yield Trial(row, policy, service, kept, n, streams, False, starts[r])
            if plain is not None:
                yield Trial(row, policy, plain, (), n, streams, True, starts[reps + r])


def _row(policy: Policy, tokens: int, truth: Defended, got: dict[bool, list[Outcome]], failed: int) -> Row:
    there = [name for name in OBSERVERS if all(name in one.guesses for one in got[False])]
    learnt = tuple(
        _learnt(name, [one.guesses[name] for one in got[False]],
                [one.guesses[name] for one in got[True] if name in one.guesses], truth)
        for name in there
    )  # fmt: skip
    return Row(
        str(policy), grids.way(policy), grids.strength(policy, truth.step_ms), tokens, learnt,
        _mean_sizes([one.sizes for one in got[False]]), _price(got[False]), failed,
    )  # fmt: skip


def _learnt(observer: str, guesses: list[Guess], plain: list[Guess], truth: Defended) -> Learnt:
    n = len(guesses)
    alpha = np.array([abs(g.alpha - truth.alpha) if truth.alpha is not None else math.nan for g in guesses])
    step = np.array([abs(g.step_ms / truth.step_ms - 1) for g in guesses])
    return Learnt(
        observer,
        Share(sum(g.speculative for g in guesses), n),
        Share(sum(g.speculative for g in plain), len(plain)) if plain else None,
        Share(sum(g.max_burst == truth.max_burst for g in guesses), n),
        Share(int((alpha <= ALPHA_WITHIN).sum()), n),
        Share(int((step <= STEP_WITHIN).sum()), n),
        _median(alpha),
        _median(step),
    )


def _median(errors: np.ndarray) -> float | None:
    known = errors[np.isfinite(errors)]
    return float(np.median(known)) if known.size else None


def _mean_sizes(each: list[Sizes]) -> Sizes:
    def mean(values: list[float | None]) -> float | None:
        known = [v for v in values if v is not None]
        return float(np.mean(known)) if known else None

    return Sizes(
        mean([s.correlation for s in each]), mean([s.bytes_per_token for s in each]),
        float(np.mean([s.told for s in each])), float(np.mean([s.guessed for s in each])),
        float(np.mean([s.tokens_per_write for s in each])),
    )  # fmt: skip


def _price(outcomes: list[Outcome]) -> Price:
    costs = [cost for one in outcomes for cost in one.costs]
    if not costs:
        return Price(0.0, 0.0, 0.0, 1.0, 1.0)
    return Price(
        float(np.mean([c.first_ms for c in costs])),
        float(np.mean([c.mean_ms for c in costs])),
        float(np.mean([c.p99_ms for c in costs])),
        float(np.mean([1 + c.last_ms / c.took_ms if c.took_ms else 1.0 for c in costs])),
        float(np.mean([1 + c.padding / c.bytes if c.bytes else 1.0 for c in costs])),
    )


def _enough(rows: Sequence[Row]) -> Iterable[Enough]:
    """Where a random delay was tried at several strengths: the smallest from which on it hides."""
    groups: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        if row.way.split("=")[0] in (DELAY, SCATTER):
            groups.setdefault((row.way, row.tokens), []).append(row)
    for (way, tokens), group in groups.items():
        ordered = sorted(group, key=lambda row: row.strength)
        if len(ordered) < 3:
            continue
        for observer, quantity in ((OURS, "speculative"), (OURS, "max_burst"), (BASELINE, "max_burst")):
            leaky = [i for i, row in enumerate(ordered) if _leaks(row, observer, quantity)]
            first = leaky[-1] + 1 if leaky else 0
            delay = ordered[first].strength if first < len(ordered) else None
            yield Enough(way, observer, tokens, quantity, delay)


def _leaks(row: Row, observer: str, quantity: str) -> bool:
    learnt = row.by(observer)
    assert learnt is not None
    return (learnt.verdict if quantity == "speculative" else learnt.max_burst.value) > HIDDEN


def _sentence(made: Defended) -> str:
    most, best = max(row.tokens for row in made.rows), made.cheapest
    if best is None:
        return (
            f"Nothing that was tried hides the drafts: with {most:,} tokens each policy leaves an observer who learns "
            f"of them in more than {HIDDEN:.0%} of the trials."
        )
    price = best.price
    return (
        f"The cheapest policy tried that hides the drafts from these observers, with {most:,} tokens an answer, is "
        f"{best.policy}: tokens come {price.mean_ms:.1f} ms later on average ({price.mean_ms / made.step_ms:.2f} "
        f"steps), answers take {price.time_ratio:.2f} times as long."
    )
