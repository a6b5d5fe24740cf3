"""Hidden services over real HTTP: how often the demonstration is right.

    python benchmarks/hidden.py [FIRST [COUNT]]    # 20 seeds from 0

Each service is drawn at random (M 1 to 9, acceptance .3 to .9, steps of 8 to 60 ms, events per token or per step, six
dialects), runs in a process of its own, and is probed for 1,200 tokens. A 95% interval misses about one time in twenty.
"""

from __future__ import annotations

import sys
import time
from collections import Counter

from specsonar import demo


def main(first: int, count: int) -> None:
    """Print a line for each service and a count for each quantity."""
    right: Counter[str] = Counter()
    asked: Counter[str] = Counter()
    print("| seed | seconds | M | acceptance | step, ms | layout | wrong |\n|---|---|---|---|---|---|---|")
    for seed in range(first, first + count):
        begin = time.monotonic()
        found = demo.served(seed)
        service = found.service
        layout = "counted" if service["events"] == "step" else service["order"]
        wrong = [f"{c.quantity}: {c.answer} ({c.interval})" for c in found.checks if not c.right]
        print(
            f"| {seed} | {time.monotonic() - begin:.0f} | {service['max_burst']} | {service['acceptance']} "
            f"| {service['step_ms']} | {layout} | {'; '.join(wrong)} |",
            flush=True,
        )
        asked.update(c.quantity for c in found.checks)
        right.update(c.quantity for c in found.checks if c.right)
    for quantity, times in asked.items():
        print(f"{quantity}: {right[quantity]} of {times}")


if __name__ == "__main__":
    given = [int(word) for word in sys.argv[1:3]]
    main(*(given + [0, 20][len(given) :]))
