"""How often a comparison is right: false alarms, changes found, and changes blamed on the wrong half.

    python benchmarks/compare.py --jobs 2 -o benchmarks/results/compare.md  # as published: about 20 minutes
    python benchmarks/compare.py --worlds D --pairs 20 --changed 20         # a look

A pair is two recordings of 20 streams of 300 tokens of one service. A changed pair adds one of the service with an
acceptance length that is 10% smaller, and one with a step that is 10% longer; both are compared with the pair's base.
Every recording has a seed of its own and serves one pair: pairs are independent. By default every pair of a counted
world is a changed pair; where times are all there is, a fit takes seconds, and a quarter of them are. Prints Markdown
tables with 95% Wilson intervals, and writes them with -o; seeds are fixed.
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
    """The verdicts of one base against its candidates: overall, acceptance length, step; None where not asked."""

    same: tuple[str, str, str]
    length: tuple[str, str, str] | None = None
    step: tuple[str, str, str] | None = None


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


def pair(task: tuple[str, int, bool]) -> Pair:
    """A pair of a world, by its number; a changed one where the last is true."""
    world, number, changed = task
    service = WORLDS[world].service
    services = [service, service]
    if changed:
        slower = replace(service, step_ms=service.step_ms * (1 + SIZE))
        services += [with_length(service, 1 - SIZE), slower]
    made = [listen(one, 4 * number + k) for k, one in enumerate(services, start=1_000_000)]
    return Pair(*(verdicts(compare(made[0], other)) for other in made[1:]))


@dataclass(frozen=True, slots=True)
class Row:
    """A question about the verdicts on one candidate, and the share that is asked for: at most, or at least."""

    text: str
    candidate: str
    of: Callable[[tuple[str, str, str]], bool]
    most: float | None = None
    least: float | None = None

    def asked(self, share: float) -> tuple[str, bool]:
        """What is asked for, "" where nothing is, and whether `share` is so."""
        if self.most is not None:
            return f"<= {self.most:.0%}", share <= self.most
        if self.least is not None:
            return f">= {self.least:.0%}", share >= self.least
        return "", True


ROWS = (
    Row('A/A: "changed" said of acceptance or step', "same", lambda v: CHANGED in v, most=0.05),
    Row("A/A: equivalent within 3%", "same", lambda v: v[0] == EQUIVALENT),
    Row("A/A: step equivalent within 3%", "same", lambda v: v[2] == EQUIVALENT),
    Row("acceptance length -10%: found", "length", lambda v: v[1] == CHANGED, least=0.90),
    Row("acceptance length -10%: blamed on the step", "length", lambda v: v[2] == CHANGED, most=0.02),
    Row("acceptance length -10%: verdict is acceptance", "length", lambda v: v[0] == "acceptance"),
    Row("step +10%: found", "step", lambda v: v[2] == CHANGED, least=0.90),
    Row("step +10%: blamed on the acceptance", "step", lambda v: v[1] == CHANGED, most=0.02),
    Row("step +10%: verdict is step", "step", lambda v: v[0] == "step"),
)


def table(world: str, pairs: Sequence[Pair]) -> Iterator[str]:
    """Markdown lines; a share is said to be as asked when its point estimate is."""
    changed = sum(p.length is not None for p in pairs)
    yield f"## {world}: {WORLDS[world].about}"
    yield ""
    yield f"{len(pairs)} pairs of {STREAMS} streams of {TOKENS} tokens, {changed} of them with changed candidates."
    yield ""
    yield "| question | yes | share | 95% interval | asked | holds |"
    yield "|---|---:|---:|---|---|---|"
    for row in ROWS:
        seen = [v for p in pairs if (v := getattr(p, row.candidate)) is not None]
        if not seen:
            continue
        n, yes = len(seen), sum(map(row.of, seen))
        share = yes / n
        p = min(max(share, 1e-9), 1 - 1e-9)
        low, high = intervals.share(p, sqrt(p * (1 - p) / n), 0.95)
        asked, right = row.asked(share)
        holds = ("yes" if right else "NO") if asked else ""
        cells = (row.text, f"{yes}/{n}", f"{share:.1%}", f"{low:.1%} to {high:.1%}", asked, holds)
        yield f"| {' | '.join(cells)} |"
    yield ""


HEAD = """# How often `compare` is right

`python benchmarks/compare.py --jobs 2 -o benchmarks/results/compare.md`. Pairs are independent: every recording serves
one of them. H0 is the service of D with counted events; in D only times are seen.
"""


def main() -> int:
    """Print the tables; 1 when a share is not as asked."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--worlds", nargs="+", default=["H0", "D"], choices=[w for w in WORLDS if not w.startswith("J")]
    )
    parser.add_argument("--pairs", type=int, default=500)
    parser.add_argument("--changed", type=int, help="pairs with changed candidates: all of counted worlds, else 1 in 4")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("-o", "--output", type=Path)
    given = parser.parse_args()
    lines = [HEAD]
    with ProcessPoolExecutor(given.jobs, mp_context=get_context("spawn")) as pool:
        for world in given.worlds:
            counted = WORLDS[world].service.events == "step"
            changed = given.changed if given.changed is not None else given.pairs // (1 if counted else 4)
            tasks = [(world, number, number < changed) for number in range(given.pairs)]
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
