"""How far it can see: independent delays to the limit, and the open questions about them, in figures.

    python benchmarks/limits.py                            # every table, 20 recordings a row (about ten minutes)
    python benchmarks/limits.py --rows must --reps 60      # one table: must, tokens, period, pooled, law, drift, bound
    python benchmarks/limits.py -o benchmarks/results/limits.md --page docs/concepts/limits.md

M = 4, alpha = .8, a step of 20 ms unless a row says otherwise; `spread` is the standard deviation of the delay over the
step. Seeds are fixed: the same version of the program prints the same tables.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from specsonar.fingerprint import SPECULATIVE, UNDETERMINED
from specsonar.fit import fingerprint
from specsonar.models import comb_delays, comb_search
from specsonar.models.comb_periods import choose_at
from specsonar.sources.service import INDEPENDENT, Delay, Service
from specsonar.sources.simulate import simulate
from specsonar.stats import baseline, period
from specsonar.stats.combfit import Problem
from specsonar.stats.delays import EXPONENTIAL_KIND, LOGNORMAL_KIND, NORMAL, DelayLaw
from specsonar.stats.fisher import bound

STEP_MS = 20.0
NEAR = 0.01
"""Share of the step within which a period is the right one."""

WANTED = 0.9


@dataclass(frozen=True, slots=True)
class Cell:
    """One row: a service, `streams` answers of `tokens` tokens."""

    label: str
    delay: Delay
    tokens: int = 600
    streams: int = 1
    knobs: dict[str, Any] = field(default_factory=dict)
    normal_only: bool = False

    @property
    def service(self) -> Service:
        """The simulated service."""
        usual: dict[str, Any] = {"max_burst": 4, "acceptance": 0.8, "step_ms": STEP_MS, "order": INDEPENDENT}
        return Service(**(usual | {"token_delay": self.delay} | self.knobs))


def gauss(spread: float) -> Delay:
    """A normal delay, `spread` of a step."""
    return Delay("gauss", spread * STEP_MS)


def exponential(spread: float) -> Delay:
    """An exponential delay with that standard deviation."""
    return Delay("exponential", spread * STEP_MS)


def lognormal(spread: float, shape: float) -> Delay:
    """A log-normal delay with that standard deviation."""
    return Delay("lognormal", spread * STEP_MS / math.sqrt(math.exp(shape**2) * math.expm1(shape**2)), shape)


SKEWED = (
    ("exponential", exponential(0.3)),
    ("log-normal, shape 0.5", lognormal(0.3, 0.5)),
    ("log-normal, shape 1", lognormal(0.3, 1.0)),
)
MUST = (
    Cell("spread 0.35, 600 tokens", gauss(0.35)),
    Cell("spread 0.40, 10 streams of 600 tokens", gauss(0.40), streams=10),
    *(Cell(f"{name}, spread 0.30, 600 tokens", delay) for name, delay in SKEWED),
    Cell("step cv 3%, spread 0.20, 600 tokens", gauss(0.20), knobs={"step_cv": 0.03}),
)
TOKENS = tuple(
    Cell(f"spread {spread:.2f}, {tokens} tokens", gauss(spread), tokens)
    for spread, tokens in ((0.2, 100), (0.2, 200), (0.3, 150), (0.3, 300), (0.35, 400), (0.35, 900), (0.4, 600),
                           (0.4, 1200), (0.4, 2400), (0.4, 4000))
)  # fmt: skip
POOLED = tuple(
    Cell(f"spread 0.40, {streams} x {tokens} tokens", gauss(0.4), tokens, streams)
    for streams, tokens in ((2, 600), (5, 600), (10, 300), (20, 150))
)
UNIFORM = Delay("uniform", 0.3 * STEP_MS * math.sqrt(12))
LAW = (
    *(Cell(f"{name}, spread 0.30", delay) for name, delay in (*SKEWED, ("uniform", UNIFORM))),
    *(Cell(f"{name}, spread 0.30, normal law only", delay, normal_only=True) for name, delay in SKEWED),
    Cell("0.20 for each token and 0.05 for each step", gauss(0.2), knobs={"step_delay": gauss(0.05)}),
    Cell("0.20 for each token and 0.10 for each step", gauss(0.2), knobs={"step_delay": gauss(0.10)}),
    Cell("0.20 for each token and 0.20 for each step", gauss(0.2), knobs={"step_delay": gauss(0.20)}),
)
DRIFT = tuple(
    Cell(f"step cv {cv:.0%}, spread {spread:.2f}", gauss(spread), knobs={"step_cv": cv})
    for spread, cv in ((0.1, 0.1), (0.2, 0.03), (0.2, 0.05), (0.2, 0.1), (0.25, 0.03), (0.3, 0.03))
)
TABLES: dict[str, tuple[str, Sequence[Cell]]] = {
    "must": ("What must be reached", MUST),
    "tokens": ("Tokens for M", TOKENS),
    "pooled": ("Streams pooled, each with a phase of its own", POOLED),
    "law": ("Delays that are not normal, or shared by a step", LAW),
    "drift": ("Steps that drift", DRIFT),
}


@dataclass(frozen=True, slots=True)
class Seen:
    """One recording, analysed."""

    verdict: str
    burst: float
    step: float
    article: float


def measure(task: tuple[Cell, int]) -> Seen:
    """Simulate and analyse without the truth."""
    cell, seed = task
    trace = simulate(cell.service, tokens=cell.tokens, streams=cell.streams, seed=seed).without_truth()
    with patch.object(comb_delays, "PATHS", comb_delays.PATHS[: 1 if cell.normal_only else None]):
        found = fingerprint(trace)
    naive = [baseline.analyse((s.t_ns - s.t_ns[0]) * 1e-9).max_burst for s in trace.streams]
    return Seen(
        found.verdict,
        found.max_burst.value if found.max_burst else math.nan,
        found.step_ms.value if found.step_ms else math.nan,
        float(np.median(naive)),
    )


def row(cell: Cell, seen: Sequence[Seen]) -> str:
    """A row of figures."""
    n = len(seen)
    power = cell.tokens * cell.streams * math.exp(-4 * math.pi**2 * (cell.delay.scale_ms / STEP_MS) ** 2)
    right = sum(s.verdict == SPECULATIVE and s.burst == 4 for s in seen)
    silent = sum(s.verdict == UNDETERMINED for s in seen)
    step = [abs(s.step / STEP_MS - 1) < NEAR for s in seen if s.verdict == SPECULATIVE]
    shown = f"{power:.1f}" if cell.delay.law == "gauss" else "-"
    naive = sum(s.article == 4 for s in seen)
    return (
        f"| {cell.label} | {shown} | {n} | {right / n:.0%} | {n - right - silent} | {silent} "
        f"| {sum(step)}/{len(step)} | {naive / n:.0%} |"
    )


HEAD = (
    "| world | n R^2 | recordings | M exact | M or verdict wrong | undetermined | step within 1%, of those said "
    "| M exact, two-means |\n|---|---|---|---|---|---|---|---|"
)


@dataclass(frozen=True, slots=True)
class Search:
    """Whether scan and likelihood found the period; where not, whether the data hide it; half or double of it."""

    scan: bool
    found: bool
    hidden: bool
    harmonic: bool


def look(task: tuple[Cell, int]) -> Search:
    """Search for the period, and compare with a climb from the true one."""
    cell, seed = task
    trace = simulate(cell.service, tokens=cell.tokens, streams=cell.streams, seed=seed)
    times = [(s.t_ns[1:] - s.t_ns[0]) * 1e-9 for s in trace.streams]
    rate = period.token_rate(times)
    true = STEP_MS * 1e-3
    f, power = period.periodogram(times, rate / 24, 1.1 * rate)
    top = period.peaks(f, power, 1)[0][0]
    best = comb_search.search(times, 2e-5, 64)[0][1]
    found = abs(best.step / true - 1) < NEAR
    hidden = False
    if not found:
        rough = Problem(times, 2e-5, rough=True)
        scores = []
        for at in (best, comb_search.start_at(times, true, 0.35, 4)):
            laws = choose_at(rough, at, 64)
            scores.append(laws.score(laws.max_burst))
        hidden = scores[1] <= scores[0] + 0.5
    harmonic = any(abs(best.step / true / k - 1) < NEAR for k in (0.5, 2.0))
    return Search(abs(1 / top / true - 1) < NEAR, found, hidden, harmonic)


def period_table(pool: ProcessPoolExecutor, reps: int) -> list[str]:
    """The scan of Rayleigh against the search by likelihood."""
    lines = [
        "| spread | tokens | recordings | scan | likelihood | missed by the search | true step is not the likeliest "
        "| half or double |\n|---|---|---|---|---|---|---|---|"
    ]
    for spread, tokens in ((0.3, 300), (0.3, 600), (0.35, 600), (0.35, 1200), (0.4, 600), (0.4, 2400)):
        cell = Cell("", gauss(spread), tokens)
        seen = list(pool.map(look, [(cell, seed) for seed in range(reps)]))
        missed = sum(not s.found and not s.hidden for s in seen)
        lines.append(
            f"| {spread:.2f} | {tokens} | {reps} | {sum(s.scan for s in seen)} | {sum(s.found for s in seen)} "
            f"| {missed} | {sum(s.hidden for s in seen)} | {sum(s.harmonic for s in seen)} |"
        )
    return lines


def bound_table() -> list[str]:
    """The bound of Cramer and Rao beside the oracle."""
    lines = ["| delay | spread | alpha, of the oracle's error | length | spread | step |\n|---|---|---|---|---|---|"]
    laws = [(spread, NORMAL) for spread in (0.1, 0.2, 0.3, 0.35, 0.4, 0.45)]
    laws += [(0.3, DelayLaw(EXPONENTIAL_KIND, 0.1)), (0.3, DelayLaw(LOGNORMAL_KIND, 0.5))]
    laws += [(0.3, DelayLaw(LOGNORMAL_KIND, 1.0))]
    for spread, law in laws:
        least = bound(0.8, 4, spread, 600, law=law)
        name = law.name + (f" {law.shape:g}" if law.skewed else "")
        lines.append(
            f"| {name} | {spread:.2f} | {least.alpha:.4f}, {least.alpha / least.oracle:.3f} | {least.length:.3f} "
            f"| {least.spread:.1%} | {least.step:.3%} |"
        )
    return lines


def main() -> int:
    """Print the tables; exit 1 when a row that must be reached is not."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="*", choices=[*TABLES, "period", "bound"], help="only these tables")
    parser.add_argument("--reps", type=int, default=20, help="recordings for each row (default 20)")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("-o", "--output", type=Path, help="also write the tables here")
    parser.add_argument("--page", type=Path, help="also put the tables below the same titles of this page")
    args = parser.parse_args()
    if args.page and args.rows:
        parser.error("--page wants every table")
    lines: list[str] = []

    def say(line: str) -> None:
        lines.append(line)
        print(line, flush=True)
        if args.output:
            args.output.write_text("\n".join(lines) + "\n")

    wanted: Callable[[str], bool] = lambda name: not args.rows or name in args.rows  # noqa: E731
    say("# How far it can see\n")
    say("Printed by `python benchmarks/limits.py`; each row says how many recordings it is from.")
    good = True
    with ProcessPoolExecutor(args.jobs, mp_context=get_context("spawn")) as pool:
        for name, (title, cells) in TABLES.items():
            if not wanted(name):
                continue
            say(f"\n## {title}\n\n{HEAD}")
            for cell in cells:
                seen = list(pool.map(measure, [(cell, seed) for seed in range(args.reps)]))
                say(row(cell, seen))
                if name == "must":
                    good &= sum(s.verdict == SPECULATIVE and s.burst == 4 for s in seen) >= WANTED * args.reps
        if wanted("period"):
            say("\n## The period: scan and likelihood\n")
            for line in period_table(pool, args.reps):
                say(line)
    if wanted("bound"):
        say("\n## The bound of Cramer and Rao, one stream of 600 tokens\n")
        for line in bound_table():
            say(line)
    if args.page:
        args.page.write_text(refreshed(args.page.read_text(), "\n".join(lines)))
    return 0 if good else 1


def refreshed(page: str, printed: str) -> str:
    """The page with the first table below each title replaced by the printed one below the same title."""
    for title, table in re.findall(r"^## (.+)\n\n((?:\|.*\n?)+)", printed, re.MULTILINE):
        pattern = rf"(^## {re.escape(title)}\n(?:(?!## |\|).*\n)*)(?:\|.*\n)+"
        page = re.sub(
            pattern, lambda found, table=table: found[1] + table.rstrip("\n") + "\n", page, flags=re.MULTILINE
        )
    return page


if __name__ == "__main__":
    sys.exit(main())
