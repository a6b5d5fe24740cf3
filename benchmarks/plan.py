"""Plans for data against the simulator: is what they name enough, and is a quarter of it not?

    python benchmarks/plan.py                 # about five minutes on two cores
    python benchmarks/plan.py --recordings 200 -o benchmarks/results/plan.md

For every service, question and way of observing: recordings of the size that `specsonar plan` names, and of a quarter
of it, simulated and analysed, and how many of them were right. Prints a Markdown table with 95% Wilson intervals, and
writes it with -o; seeds are fixed. Exit code 1 when a size was not enough.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from specsonar import plan_data
from specsonar.fingerprint import COUNTED_LAYER, IN_ORDER_LAYER, INDEPENDENT_LAYER
from specsonar.plan.check import check
from specsonar.planned import ACCEPTANCE_LENGTH, ACCEPTANCE_RATE, MAX_BURST, SPECULATION, STEP, TARGETS, DataPlan, Trial

ONE: Final = (SPECULATION, MAX_BURST, ACCEPTANCE_RATE, ACCEPTANCE_LENGTH, STEP)
"""Questions to one recording; those about changes take two."""

PLANS: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("M = 4, alpha .8, jitter .3 of the step", {"layers": [COUNTED_LAYER], "jitter_ms": 6.0}),
    ("M = 4, alpha .8, jitter .3 of the step", {"layers": [IN_ORDER_LAYER], "jitter_ms": 6.0, "targets": ONE}),
    ("M = 4, alpha .8, jitter .3 of the step", {"layers": [INDEPENDENT_LAYER], "jitter_ms": 6.0, "targets": ONE}),
    ("M = 4, alpha .8, jitter as long as the step", {"layers": [IN_ORDER_LAYER], "jitter_ms": 20.0, "targets": ONE}),
    ("M = 8, alpha .6, jitter .1 of the step",
     {"k": 7, "alpha": 0.6, "step_ms": 35.0, "jitter_ms": 3.5, "layers": [COUNTED_LAYER, IN_ORDER_LAYER],
      "targets": (MAX_BURST, ACCEPTANCE_RATE), "precision": 0.1}),
    ("M = 2, alpha .85, jitter .2 of the step",
     {"k": 1, "alpha": 0.85, "jitter_ms": 4.0, "layers": [COUNTED_LAYER, IN_ORDER_LAYER], "targets": ONE}),
    ("M = 5, hazards .7 .75 .8 .85, step cv 20%",
     {"alpha": (0.7, 0.75, 0.8, 0.85), "step_cv": 0.2, "jitter_ms": 4.0, "layers": [COUNTED_LAYER, IN_ORDER_LAYER],
      "targets": (*ONE[:2], STEP), "precision": 0.02}),
)  # fmt: skip


def share(trial: Trial) -> str:
    """Right answers with their interval."""
    return f"{trial.share:.0%} [{trial.low:.0%}, {trial.high:.0%}]"


def rows(about: str, plan: DataPlan) -> Iterator[str]:
    """A row of the table for each need of a plan."""
    for n in plan.needs:
        assert n.trial is not None
        assert n.quarter is not None
        held = "yes" if n.reached else "NO"
        less = "no" if n.tight else "yes"
        yield (
            f"| {about} | {n.layer} | {n.wanted} | {n.tokens:,} in {n.streams} | {n.limit} | {share(n.trial)} "
            f"| {n.probability:.0%} | {held} | {share(n.quarter)} | {less} |"
        )


def main() -> int:
    """Print the table; 1 when a size was not enough."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--recordings", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int)
    parser.add_argument("-o", "--output", type=Path)
    given = parser.parse_args()
    lines = [
        "# How much to record, checked",
        "",
        f"Printed by `python benchmarks/plan.py --recordings {given.recordings}`: simulated recordings of the size",
        "that `specsonar plan` names, and of a quarter of it.",
        "",
        "| service | layer | to know | tokens in streams | decided by | right | wanted | enough "
        "| at a quarter | enough |",
        "|---|---|---|---:|---|---|---:|---|---|---|",
    ]
    for number, (about, options) in enumerate(PLANS, 1):
        plan = plan_data(**{"targets": TARGETS, **options})
        done = check(plan, recordings=given.recordings, seed=given.seed, jobs=given.jobs)
        lines += rows(about, done)
        print(f"{number} of {len(PLANS)}", file=sys.stderr, end="\r")
    text = "\n".join(lines) + "\n"
    print(text)
    if given.output:
        given.output.write_text(text, encoding="utf-8")
    return int("| NO |" in text)


if __name__ == "__main__":
    sys.exit(main())
