"""Speed-up of a sweep on two workers against one, processes and a Dask cluster on this machine.

    python benchmarks/sweep_speedup.py -o benchmarks/results/sweep_speedup.md   # two minutes; extra `cluster`
    python benchmarks/sweep_speedup.py --quick                                  # seconds, for a look

Both sides of a ratio are measured one after the other in the same run, again and again, with workers that have loaded
everything before; seconds stand beside it. Two cores that nothing else uses are needed for the figure to mean much.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import statistics
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

# before numpy is loaded, here and in the workers: threads of a library would use the second core on either side
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from specsonar import sweep
from specsonar.executors import Workers, cores, opened

WANTED = 1.7


def plan(reps: int) -> sweep.Plan:
    """Independent delays and links that keep the order: the cost of a piece differs by a factor of ten."""
    cells = sweep.parse(["sigma=0.05,0.1,0.2", "tokens=300,600"], ["layer=independent"]).cells()
    cells += sweep.parse(["step_delay=exponential:2;lognormal:2,1"], ["layer=in-order", "cv=0.05"]).cells()
    return sweep.planned(cells=cells, methods=("baseline", "likelihood"), reps=reps)


@contextlib.contextmanager
def processes(many: int) -> Iterator[Workers]:
    """As many processes, as `--jobs` opens them; a single one is a process, too."""
    if many > 1:
        with opened("processes", jobs=many) as workers:
            yield workers
        return
    with ProcessPoolExecutor(1, get_context("spawn")) as pool, opened(pool) as workers:
        yield workers


@contextlib.contextmanager
def dask(many: int) -> Iterator[Workers]:
    """A scheduler and as many worker processes over TCP."""
    from distributed import LocalCluster

    with (
        LocalCluster(
            n_workers=many,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            silence_logs=logging.CRITICAL,
        ) as cluster,
        opened(cluster.scheduler_address.replace("tcp://", "dask://")) as workers,
    ):
        yield workers


def seconds(workers: Workers, work: sweep.Plan) -> float:
    """Wall time of the sweep."""
    begin = time.perf_counter()
    sweep.carried_out(work, workers)
    return time.perf_counter() - begin


def measured(repeats: int, work: sweep.Plan) -> Iterator[str]:
    """A line for each executor."""
    yield "| executor | one worker, s | two workers, s | ratio of medians | ratios | wanted |"
    yield "|---|---|---|---|---|---|"
    for name, open_ in (("processes", processes), ("dask", dask)):
        one, two = [], []
        with open_(1) as single, open_(2) as pair:
            for workers in (single, pair):
                seconds(workers, sweep.planned(cells=work.cells, methods=work.methods, reps=1))
            for _ in range(repeats):
                one.append(seconds(single, work))
                two.append(seconds(pair, work))
        ratio = statistics.median(one) / statistics.median(two)
        each = ", ".join(f"{a / b:.2f}" for a, b in zip(one, two, strict=True))
        yield (
            f"| {name} | {statistics.median(one):.1f} | {statistics.median(two):.1f} | {ratio:.2f} | {each} | "
            f"at least {WANTED} |"
        )


def main() -> None:
    """Print the table, and write it where -o says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, metavar="FILE")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    work = plan(5 if options.quick else 10)
    lines = [f"Usable cores: {cores()}. Pieces of work: {len(work.tasks)}.", ""]
    lines += measured(1 if options.quick else 3, work)
    print("\n".join(lines))
    if options.output:
        head = "# Speed-up of a sweep\n\nMade by `python benchmarks/sweep_speedup.py -o FILE` on one machine.\n\n"
        options.output.write_text(head + "\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
