"""How often a comparison is right: false alarms, changes found, and changes blamed on the wrong half.

    python benchmarks/compare.py                      # 500 pairs of the counted world H0: minutes
    python benchmarks/compare.py --worlds D --pairs 60  # times only: a pair takes half a minute

Each pair is four recordings of 20 streams of 300 tokens, made from seeds of their own: a base, another one like it,
one whose acceptance length is 10% smaller, and one whose step is 10% longer. No recording is used for two pairs: pairs
are independent. Prints a Markdown table with 95% Wilson intervals, and writes it with -o; seeds are fixed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from math import sqrt
from multiprocessing import get_context
from pathlib import Path

from scipy.optimize import brentq

from specsonar.compare import compare
from specsonar.fingerprint import CHANGED, EQUIVALENT, Comparison, Fingerprint
from specsonar.fit import fingerprint
from specsonar.sources.service import Service
from specsonar.sources.simulate import simulate
from specsonar.sources.worlds import WORLDS
from specsonar.stats import intervals

STREAMS, TOKENS = 20, 300
SIZE = 0.10
"""Of the changes to be found."""


def acceptance_for(length: float, max_burst: int) -> float:
    """The common acceptance at which a step gives `length` tokens on average."""
    return float(brentq(lambda a: (1 - a**max_burst) / (1 - a) - length, 1e-6, 1 - 1e-6))


def with_length(service: Service, factor: float) -> Service:
    """`service` with its acceptance length times `factor`."""
    a, m = float(service.acceptance), service.max_burst  # type: ignore[arg-type]
    return replace(service, acceptance=acceptance_for(factor * (1 - a**m) / (1 - a), m))


@dataclass(frozen=True, slots=True)
class Pair:
    """The verdicts of one base against three candidates: overall, acceptance length, step."""

    same: tuple[str, str, str]
    length: tuple[str, str, str]
    step: tuple[str, str, str]


def listen(service: Service, seed: int) -> Fingerprint:
    """What is inferred from times and counts alone."""
    return fingerprint(simulate(service, tokens=TOKENS, streams=STREAMS, seed=seed).without_truth())


def verdicts(found: Comparison) -> tuple[str, str, str]:
    """Overall and of the two halves."""
    return (
        found.verdict,
        found.acceptance_length.verdict if found.acceptance_length else "hidden",
        found.step_ms.verdict if found.step_ms else "hidden",
    )


def pair(task: tuple[str, int]) -> Pair:
    """Pair number `task[1]` of the world `task[0]`."""
    world, number = task
    service = WORLDS[world].service
    slower = replace(service, step_ms=service.step_ms * (1 + SIZE))
    made = [
        listen(one, 4 * number + k)
        for k, one in enumerate((service, service, with_length(service, 1 - SIZE), slower), start=1_000_000)
    ]
    return Pair(*(verdicts(compare(made[0], other)) for other in made[1:]))


@dataclass(frozen=True, slots=True)
class Row:
    """One question about the pairs, and the share that is asked for: at most, or at least."""

    text: str
    of: Callable[[Pair], bool]
    most: float | None = None
    least: float | None = None


ROWS = (
    Row('A/A: "changed" said of acceptance or step', lambda p: CHANGED in p.same, most=0.05),
    Row("A/A: equivalent within 3%", lambda p: p.same[0] == EQUIVALENT),
    Row("acceptance length -10%: found", lambda p: p.length[1] == CHANGED, least=0.90),
    Row("acceptance length -10%: blamed on the step", lambda p: p.length[2] == CHANGED, most=0.02),
    Row("acceptance length -10%: verdict is acceptance", lambda p: p.length[0] == "acceptance"),
    Row("step +10%: found", lambda p: p.step[2] == CHANGED, least=0.90),
    Row("step +10%: blamed on the acceptance", lambda p: p.step[1] == CHANGED, most=0.02),
    Row("step +10%: verdict is step", lambda p: p.step[0] == "step"),
)


def table(world: str, pairs: Sequence[Pair]) -> Iterator[str]:
    """Markdown lines; a share is said to be as asked when its point estimate is."""
    yield f"### {world} ({WORLDS[world].about}): {len(pairs)} pairs of {STREAMS} streams of {TOKENS} tokens"
    yield ""
    yield "| question | yes | share | 95% interval | asked | holds |"
    yield "|---|---:|---:|---|---|---|"
    n = len(pairs)
    for row in ROWS:
        yes = sum(map(row.of, pairs))
        share = yes / n
        p = min(max(share, 1e-9), 1 - 1e-9)
        low, high = intervals.share(p, sqrt(p * (1 - p) / n), 0.95)
        asked = f"<= {row.most:.0%}" if row.most is not None else f">= {row.least:.0%}" if row.least else ""
        right = (row.most is None or share <= row.most) and (row.least is None or share >= row.least)
        holds = ("yes" if right else "NO") if asked else ""
        yield f"| {row.text} | {yes}/{n} | {share:.1%} | {low:.1%} to {high:.1%} | {asked} | {holds} |"
    yield ""


def main() -> int:
    """Print the tables; 1 when a share is not as asked."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--worlds", nargs="+", default=["H0"], choices=[w for w in WORLDS if not w.startswith("J")])
    parser.add_argument("--pairs", type=int, default=500)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("-o", "--output", type=Path)
    given = parser.parse_args()
    lines: list[str] = []
    with ProcessPoolExecutor(given.jobs, mp_context=get_context("spawn")) as pool:
        for world in given.worlds:
            tasks = [(world, number) for number in range(given.pairs)]
            found = []
            for one in pool.map(pair, tasks, chunksize=1):
                found.append(one)
                print(f"{world}: {len(found)} of {given.pairs}", file=sys.stderr, end="\r")
            lines += table(world, found)
    text = "\n".join(lines)
    print(text)
    if given.output:
        given.output.write_text(text, encoding="utf-8")
    return int("| NO |" in text)


if __name__ == "__main__":
    sys.exit(main())
