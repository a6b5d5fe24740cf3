"""Calibration report: how often the answer is right on the named worlds, beside the oracle.

    python benchmarks/calibration.py                       # every row, 200 streams each (about an hour on two cores)
    python benchmarks/calibration.py --rows A3 D H5 --reps 50
    python benchmarks/calibration.py --coverage            # intervals: 2,000 streams of A2, A4, D, H0, H5, H20

Prints one Markdown table a part, with 95% intervals, and writes it with -o. Seeds are fixed: the same version of the
program prints the same table.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from specsonar.fingerprint import SPECULATIVE, UNDETERMINED, Estimate
from specsonar.fit import fingerprint
from specsonar.sources.service import INDEPENDENT
from specsonar.sources.worlds import NULLS, WORLDS
from specsonar.stats import intervals
from specsonar.stats.bursts import oracle_alpha
from specsonar.stats.fisher import bound

# row: (least share of M exact, most RMSE alpha over oracle, limit of the step, its unit)
TARGETS = {
    **{f"A{sigma}": (0.97, 1.1, 0.05, "ms") for sigma in range(7)},
    "B35": (0.95, 1.2, 0.05, "ms"), "B40": (0.90, 1.2, 0.05, "ms"), "C": (0.95, 1.15, 0.1, "ms"),
    "D": (0.98, 1.15, 1.0, "%"), "E_cv20": (0.95, 1.2, 2.0, "%"), "E_median5": (0.95, 1.2, 2.0, "%"),
    "E_sigma15": (0.95, 1.2, 2.0, "%"), "F": (0.90, 1.5, 2.0, "%"), "G_m2": (0.95, 1.2, 1.0, "%"),
    "G_mtp8": (0.95, 1.2, 1.0, "%"), "G_ngram": (0.95, 1.2, 1.0, "%"), "H0": (0.98, 1.15, 1.0, "%"),
    "H5": (0.98, 1.15, 1.0, "%"), "H20": (0.98, 1.15, 1.0, "%"), "I_1ms": (0.90, 1.3, 2.0, "%"),
    "I_15ms": (0.90, 1.3, 2.0, "%"), "K10": (0.90, np.inf, np.inf, "%"), "K20": (0.90, np.inf, np.inf, "%"),
    "L": (0.95, np.inf, 1.0, "%"),
}  # fmt: skip
COVERED = ("A2", "A4", "D", "H0", "H5", "H20")
UNIDENTIFIABLE = ("J_exact",)
"""A decoder without any noise is a pacer as far as times tell."""

_NOTHING = (float("nan"),) * 3


@dataclass(frozen=True, slots=True)
class Outcome:
    """One simulated recording, analysed."""

    verdict: str
    layer: str | None
    burst: tuple[float, float, float]
    alpha: tuple[float, float, float]
    length: tuple[float, float, float]
    step: tuple[float, float, float]
    truth: tuple[float, float, float, float]
    oracle: float
    seconds: float


def measure(task: tuple[str, int, int, int | None]) -> Outcome:
    """Simulate stream(s) of a world and analyse them without their truth."""
    name, seed, streams, tokens = task
    world = WORLDS.get(name) or NULLS[name]
    if tokens is None:
        trace = world.trace(streams=streams, seed=seed)
    else:
        from specsonar.sources.simulate import simulate

        trace = simulate(world.service, tokens=tokens, streams=streams, seed=seed)
    truth = trace.streams[0].truth
    assert truth is not None
    begin = time.perf_counter()
    found = fingerprint(trace.without_truth())
    spent = time.perf_counter() - begin
    bursts = np.concatenate([np.array(s.truth["bursts"], np.int64) for s in trace.streams if s.truth])
    most = int(truth["max_burst"])
    return Outcome(
        found.verdict, found.layer, _triple(found.max_burst), _triple(found.acceptance_rate),
        _triple(found.acceptance_length), _triple(found.step_ms),
        (most, truth["mean_hazard"] or np.nan, truth["acceptance_length"], truth["step_ms"]),
        oracle_alpha(bursts, most), spent,
    )  # fmt: skip


def _triple(e: Estimate | None) -> tuple[float, float, float]:
    return _NOTHING if e is None else (e.value, e.low, np.inf if e.high is None else e.high)


def share(hits: int, n: int) -> str:
    """A share with its Wilson interval."""
    if n == 0:
        return "-"
    p = hits / n
    low, high = intervals.share(p, max(np.sqrt(p * (1 - p) / n), 1e-9), 0.95) if 0 < hits < n else _exact(hits, n)
    return f"{p:.1%} [{low:.1%}, {high:.1%}]"


def _exact(hits: int, n: int) -> tuple[float, float]:
    """Clopper-Pearson at the ends, where no trial failed or none hit."""
    edge = 0.025 ** (1 / n)
    return (edge, 1.0) if hits else (0.0, 1 - edge)


def rmse(errors: Sequence[float]) -> float:
    """Root mean square of the finite errors."""
    x = np.array(errors)
    x = x[np.isfinite(x)]
    return float(np.sqrt((x**2).mean())) if x.size else float("nan")


def accuracy_row(name: str, outcomes: list[Outcome]) -> tuple[str, bool]:
    """A row of the accuracy table, and whether every target was reached."""
    least, most_ratio, limit, unit = TARGETS[name]
    n = len(outcomes)
    exact = sum(o.burst[0] == o.truth[0] for o in outcomes)
    alpha = rmse([o.alpha[0] - o.truth[1] for o in outcomes])
    oracle = rmse([o.oracle - o.truth[1] for o in outcomes])
    step = np.array([o.step[0] - o.truth[3] for o in outcomes])
    step = step[np.isfinite(step)]
    true_step = outcomes[0].truth[3]
    off = rmse(list(step)) if unit == "ms" else abs(float(step.mean())) / true_step * 100
    reached = exact / n >= least and not alpha / oracle > most_ratio and not off > limit
    what = f"RMSE {rmse(list(step)):.3f} ms" if unit == "ms" else f"bias {step.mean() / true_step:+.2%}"
    cover = [_covered(outcomes, i) for i in range(3)]
    wanted = f"M {least:.0%}, {most_ratio:g}, {limit:g} {unit}"
    mean = np.mean([o.seconds for o in outcomes])
    return (
        f"| {name} | {n} | {share(exact, n)} | {alpha:.4f} | {oracle:.4f} | {alpha / oracle:.2f} | {_least(name)} "
        f"| {what} | {cover[0]} / {cover[1]} / {cover[2]} | {mean:.2f} | {wanted} | {'yes' if reached else '**no**'} |"
    ), reached


def _least(name: str) -> str:
    """The bound of Cramer and Rao on the error of alpha, for independent normal delays on an exact clock."""
    world = WORLDS[name]
    service = world.service
    spread = service.token_delay.scale_ms / service.step_ms
    if service.order != INDEPENDENT or service.step_cv or not spread:
        return "-"
    hazards = service.hazards()
    return f"{bound(hazards[0], len(hazards) + 1, spread, world.tokens, draws=12).alpha:.4f}"


def _covered(outcomes: list[Outcome], which: int) -> str:
    hits = list(_hits(outcomes, which))
    return f"{sum(hits) / len(hits):.1%}" if hits else "-"


def _hits(outcomes: list[Outcome], which: int) -> Iterator[bool]:
    for o in outcomes:
        value, low, high = (o.alpha, o.length, o.step)[which]
        if np.isfinite(value):
            yield bool(low <= o.truth[which + 1] <= high)


def coverage_row(name: str, outcomes: list[Outcome]) -> tuple[str, bool]:
    """A row of the coverage table: 93% to 97% is wanted."""
    cells, good = [], True
    for which in range(3):
        hits = list(_hits(outcomes, which))
        cells.append(share(sum(hits), len(hits)))
        good &= 0.93 <= sum(hits) / max(len(hits), 1) <= 0.97
    return f"| {name} | {len(outcomes)} | " + " | ".join(cells) + f" | {'yes' if good else '**no**'} |", good


def null_rows(run: dict[str, list[Outcome]]) -> tuple[list[str], bool]:
    """The table of null streams: speculation said falsely, and the right class."""
    rows, false, total, good = [], 0, 0, True
    for name, outcomes in run.items():
        n = len(outcomes)
        wrong = sum(o.verdict == SPECULATIVE for o in outcomes)
        right = sum(o.verdict == NULLS[name].verdict for o in outcomes)
        false, total = false + wrong, total + n
        named = name in UNIDENTIFIABLE or right / n >= 0.9
        good &= named
        said = ", ".join(f"{v} {c}" for v, c in Counter(o.verdict for o in outcomes).most_common())
        wanted = NULLS[name].verdict + (" (not identifiable)" if name in UNIDENTIFIABLE else "")
        reached = "yes" if named else "**no**"
        rows.append(f"| {name} | {n} | {wrong} | {share(right, n)} | {wanted} | {said} | {reached} |")
    upper = intervals.share(max(false, 0.5) / total, np.sqrt(max(false, 0.5)) / total, 0.90)[1]
    good &= false / total <= 0.01 and upper <= 0.02
    rows.append(f"| **all** | {total} | {false} ({false / total:.2%}, upper 95% bound {upper:.2%}) | | | | |")
    return rows, good


def run(pool: ProcessPoolExecutor, name: str, reps: int, streams: int = 1, tokens: int | None = None) -> list[Outcome]:
    """All repetitions of one row."""
    tasks = [(name, seed, streams, tokens) for seed in range(reps)]
    return list(pool.map(measure, tasks, chunksize=max(1, reps // 50)))


def main() -> int:
    """Print the report; exit 1 when a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="*", help="only these worlds")
    parser.add_argument("--reps", type=int, default=200, help="streams for each row (default 200)")
    parser.add_argument("--null-reps", type=int, default=26, help="streams for each null (default 26: 1,000 in all)")
    parser.add_argument("--coverage", action="store_true", help="intervals only, --coverage-reps streams each")
    parser.add_argument("--coverage-reps", type=int, default=2000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("-o", "--output", type=Path, help="also write the report here")
    args = parser.parse_args()
    lines: list[str] = []
    good = True

    def say(line: str) -> None:
        lines.append(line)
        print(line, flush=True)
        if args.output:
            args.output.write_text("\n".join(lines) + "\n")

    with ProcessPoolExecutor(args.jobs, mp_context=get_context("spawn")) as pool:
        if args.coverage:
            say("| world | recordings | alpha | acceptance length | step | 93% to 97% |\n|---|---|---|---|---|---|")
            for name in args.rows or COVERED:
                row, reached = coverage_row(name, run(pool, name, args.coverage_reps))
                say(row)
                good &= reached
            pooled = run(pool, "L", max(args.coverage_reps // 5, 1), streams=10)
            row, _ = coverage_row("L, 10 streams", pooled)
            say(row)
            return 0 if good else 1
        worlds = [name for name in (args.rows or TARGETS) if name in TARGETS]
        if worlds:
            say(
                "| world | streams | M exact | RMSE alpha | oracle | ratio | bound | step "
                "| covered: alpha / length / step "
                "| s each | wanted | reached |\n|---|---|---|---|---|---|---|---|---|---|---|---|"
            )
        for name in worlds:
            row, reached = accuracy_row(name, run(pool, name, args.reps))
            say(row)
            good &= reached
        nulls = [name for name in (args.rows or NULLS) if name in NULLS]
        if nulls:
            say("\n| null | streams | speculation said | right class | class | said | reached |")
            say("|---|---|---|---|---|---|---|")
            rows, reached = null_rows({name: run(pool, name, args.null_reps) for name in nulls})
            for row in rows:
                say(row)
            good &= reached
        if not args.rows:
            short = run(pool, "D", args.reps, tokens=150)
            right = sum(o.verdict in (SPECULATIVE, UNDETERMINED) for o in short)
            said = Counter(o.verdict for o in short).most_common()
            decided = share(right, len(short))
            say(f"\n150 tokens of D: decided right or said undetermined {decided} ({dict(said)}), wanted 98%")
            good &= right / len(short) >= 0.98
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
