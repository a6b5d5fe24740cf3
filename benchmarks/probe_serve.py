"""`probe` against `serve`: 20 hidden configurations over real HTTP, and what hides a decoder named as what it is.

    python benchmarks/probe_serve.py             # all; about ten minutes
    python benchmarks/probe_serve.py 3 17 paced  # some
    python benchmarks/probe_serve.py --demo 20   # what `specsonar demo` says with seeds 0 to 19 instead

Prints one Markdown table and exits 1 when an answer is wrong. M is right when the interval holds it, acceptance rate
and step when the interval holds them or the value is within 0.04 and 2 percent: of 40 intervals of 95 percent two may
miss, and none of them by much. The server runs in a process of its own; the probe sees nothing but HTTP. The services
of the demonstration are drawn more widely (six dialects, delays of every kind), and their intervals are held to the
letter: one in twenty misses.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from typing import Any

import numpy as np

from specsonar import demo
from specsonar.fingerprint import AUTOREGRESSIVE, Estimate, Fingerprint
from specsonar.probe import probe
from specsonar.sources.serve import Server
from specsonar.sources.service import Delay, Service

CONFIGURATIONS = 20
SEED = 20_261_129
STREAMS, TOKENS, CONCURRENCY = 8, 200, 4

HIDING = {
    "fixed-chunks": Service(max_burst=1, step_ms=10.0, stream_interval=5, interval_mode="exact", ttft_ms=50.0),
    "buffered": Service(max_burst=1, step_ms=8.0, step_cv=0.05, flush_ms=80.0, ttft_ms=50.0),
    "paced": Service(max_burst=4, acceptance=0.7, step_ms=20.0, paced_ms=12.0, ttft_ms=50.0),
}
"""What stands between the decoder and the client, by the verdict that names it."""


def hidden(number: int) -> Service:
    """Configuration `number`: M 1 to 9, acceptance .3 to .9, steps of 8 to 60 ms; odd ones send an event per step."""
    rng = np.random.default_rng([SEED, number])
    step = round(float(rng.uniform(8.0, 60.0)), 1)
    return Service(
        max_burst=int(rng.integers(1, 10)),
        acceptance=round(float(rng.uniform(0.3, 0.9)), 2),
        step_ms=step,
        step_cv=round(float(rng.uniform(0.01, 0.1)), 3),
        step_delay=Delay("lognormal", round(float(rng.uniform(0.01, 0.08)) * step, 2), 0.8),
        in_burst_us=round(float(rng.uniform(0.0, 250.0)), 1),
        in_burst_cv=0.5,
        ttft_ms=50.0,
        events="step" if number % 2 else "token",
    )


def holds(estimate: Estimate | None, truth: float, slack: float) -> bool:
    """Whether the interval holds `truth`, or the value is within `slack` of it; an interval there has to be."""
    if estimate is None or np.isnan(estimate.low):
        return False
    return estimate.low <= truth <= (estimate.high or np.inf) or abs(estimate.value - truth) <= slack


def judge(truth: dict[str, Any], answer: Fingerprint) -> list[bool]:
    """Verdict, M, acceptance rate and step: right or wrong."""
    verdict = answer.verdict == truth["verdict"]
    if truth["verdict"] in HIDING:
        return [verdict]
    alpha = truth["verdict"] == AUTOREGRESSIVE or holds(answer.acceptance_rate, truth["alpha"], 0.04)
    return [
        verdict,
        holds(answer.max_burst, truth["max_burst"], 0.0),
        alpha,
        holds(answer.step_ms, truth["step_ms"], 0.02 * truth["step_ms"]),
    ]


def shown(estimate: Estimate | None, places: int) -> str:
    """Value and interval."""
    if estimate is None:
        return "-"
    high = "more" if estimate.high is None else f"{estimate.high:.{places}f}"
    return f"{estimate.value:.{places}f} [{estimate.low:.{places}f}, {high}]"


def demonstrate(seeds: int) -> None:
    """Print a line for each service of the demonstration, and how often each quantity was right."""
    right: Counter[str] = Counter()
    asked: Counter[str] = Counter()
    print("| seed | seconds | M | acceptance | step, ms | layout | wrong |\n|---|---|---|---|---|---|---|")
    for seed in range(seeds):
        began = time.monotonic()
        found = demo.served(seed)
        took = time.monotonic() - began
        service = found.service
        layout = "counted" if service["events"] == "step" else service["order"]
        columns = [service["max_burst"], service["acceptance"], service["step_ms"], layout]
        wrong = [f"{c.quantity}: {c.answer} ({c.interval})" for c in found.checks if not c.right]
        print(f"| {seed} | {took:.0f} | {' | '.join(map(str, columns))} | {'; '.join(wrong)} |", flush=True)
        asked.update(c.quantity for c in found.checks)
        right.update(c.quantity for c in found.checks if c.right)
    print("\n" + ", ".join(f"{quantity}: {right[quantity]} of {times}" for quantity, times in asked.items()))


def main() -> int:
    """Run, print, and say whether all was right."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("which", nargs="*", help="numbers from 0 to 19, or names of what hides the decoder")
    parser.add_argument("--demo", type=int, metavar="SEEDS", help="services of the demonstration, this many")
    given = parser.parse_args()
    if given.demo:
        demonstrate(given.demo)
        return 0
    names = given.which or [*map(str, range(CONFIGURATIONS)), *HIDING]
    print("| | hidden | verdict | M | acceptance rate | step, ms | s | right |")
    print("|---|---|---|---|---|---|---|---|")
    wrong = 0
    for name in names:
        service = HIDING.get(name) or hidden(int(name))
        with Server(service, process=True) as server:
            began = time.monotonic()
            found = probe(
                server.url, streams=STREAMS, tokens=TOKENS, concurrency=CONCURRENCY, environment={}
            ).fingerprint
            took = time.monotonic() - began
            truth = server.truth[-1]
        right = judge(truth, found)
        wrong += not all(right)
        what = f"M {service.burst}, {service.acceptance}, {service.step_ms} ms, {service.events}"
        columns = [shown(found.max_burst, 0), shown(found.acceptance_rate, 2), shown(found.step_ms, 2)]
        mark = "yes" if all(right) else "NO"
        print(f"| {name} | {what} | {found.verdict} | {' | '.join(columns)} | {took:.0f} | {mark} |", flush=True)
    print(f"\n{len(names) - wrong} of {len(names)} right")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
