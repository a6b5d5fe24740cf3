"""A fleet of 100,000 recorded streams of 300 events: time, and memory beside that of a quarter of it.

    python benchmarks/fleet.py [--streams N] [--jobs N]

The streams are made from 2,400 simulated ones (two services, three days; the acceptance of one falls on the third).
Each of the others is one of those with its steps in another order and its begin elsewhere: bursts, gaps and their
law stay, no two streams are alike. They lie in Parquet files of 1,000 streams, as a gateway would write them. The
command is run as a user runs it; its memory is that of all its processes together, looked at twenty times a second.
"""

from __future__ import annotations

import argparse
import datetime
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from specsonar.sources.simulate import simulate
from specsonar.sources.worlds import WORLDS

EVENTS = 300
DAYS = 3
IN_A_FILE = 1_000
SEEDS = 400
DAY_NS = 86_400 * 10**9
FIRST_NS = int(datetime.datetime(2026, 11, 1, tzinfo=datetime.UTC).timestamp()) * 10**9


def services() -> dict[tuple[str, int], object]:
    """By model and day: one on an in-order link with late packets, one with counted events and a fall on day 3."""
    found = {}
    for day in range(DAYS):
        found["link", day] = (WORLDS["D"].service, {}, EVENTS)
        # a counted event is a step: as many tokens as make about 300 of them
        acceptance = 0.65 if day == DAYS - 1 else 0.8
        found["counted", day] = (
            WORLDS["H0"].service,
            {"acceptance": acceptance},
            round(EVENTS * (3.0 if acceptance > 0.7 else 2.4)),
        )
    return found


def shuffled(t: np.ndarray, tokens: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """The same steps in another order: runs of events between gaps above half a step change places, gap and all."""
    gap = np.diff(t)
    begins = np.flatnonzero(gap > 10e6) + 1
    pieces = [np.arange(a, b) for a, b in zip(begins, np.append(begins[1:], t.size), strict=True)]
    order = np.concatenate(
        [np.arange(begins[0] if begins.size else t.size), *(pieces[k] for k in rng.permutation(len(pieces)))]
    )
    gaps = np.concatenate(([0], gap))[order]
    return np.cumsum(gaps), tokens[order]


def make(folder: Path, streams: int) -> int:
    """Write about `streams` streams; the number of events."""
    events = 0
    rng = np.random.default_rng(1)
    kinds = services()
    each = streams // len(kinds)
    for number, ((model, day), (service, knobs, tokens)) in enumerate(kinds.items()):
        seeds = simulate(service, tokens=tokens, streams=min(SEEDS, each), seed=number, **knobs).streams
        for begin in range(0, each, IN_A_FILE):
            count = min(IN_A_FILE, each - begin)
            times, tokens_, sizes, sent = [], [], [], []
            for k in range(begin, begin + count):
                seed = seeds[k % len(seeds)]
                t, n = shuffled(seed.t_ns - seed.t_ns[0], seed.tokens, rng)
                at = FIRST_NS + day * DAY_NS + int(rng.integers(DAY_NS // 2))
                sent.append(at)
                times.append(t + at + int(seed.t_ns[0] - seed.start_ns))
                tokens_.append(n)
                sizes.append(t.size)
            names = pa.array([f"{model}-{day}-{k}" for k in range(begin, begin + count)])
            codes = pa.array(np.repeat(np.arange(count, dtype=np.int32), sizes))
            rows = int(np.sum(sizes))
            one = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array([model]))
            table = pa.table({
                "stream": pa.DictionaryArray.from_arrays(codes, names),
                "t_ns": np.concatenate(times), "tokens": np.concatenate(tokens_),
                "start_ns": np.repeat(sent, sizes), "model": one,
            })  # fmt: skip
            pq.write_table(table, folder / f"{model}-{day}-{begin // IN_A_FILE:03}.parquet", row_group_size=1 << 17)
            events += rows
    return events


class Watch:
    """Memory of a process and its children, the largest sum seen, MB."""

    def __init__(self, pid: int) -> None:
        self.pid, self.peak, self._over = pid, 0.0, threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()

    def _look(self) -> None:
        while not self._over.wait(0.05):
            self.peak = max(self.peak, sum(map(memory, family(self.pid))))

    def end(self) -> float:
        """Stop looking; the peak."""
        self._over.set()
        self._thread.join()
        return self.peak


def family(pid: int) -> list[int]:
    """A process and all below it."""
    found = [pid]
    for one in found:
        try:
            for task in Path(f"/proc/{one}/task").iterdir():
                found += map(int, (task / "children").read_text().split())
        except OSError:
            continue
    return found


def memory(pid: int) -> float:
    """Resident memory without what is shared with others, MB."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def measure(streams: int, arguments: list[str]) -> None:
    """One row of the table."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "in").mkdir()
        events = make(folder / "in", streams)
        command = [sys.executable, "-m", "specsonar", "fleet", str(folder / "in"), "--out", str(folder / "out"), "-q"]
        begin = time.perf_counter()
        with subprocess.Popen([*command, *arguments], stdout=subprocess.PIPE, text=True) as running:
            watch = Watch(running.pid)
            assert running.stdout is not None
            said = running.stdout.read()
            code = running.wait()
        took, peak = time.perf_counter() - begin, watch.end()
        assert code == 0, said
        size = sum(path.stat().st_size for path in (folder / "in").iterdir()) / 1e6
    print(
        f"| {streams:,} | {events:,} | {size:,.0f} | {took:.0f} | {streams / took:,.0f} | {events / took:,.0f} "
        f"| {peak:,.0f} |", flush=True,
    )  # fmt: skip
    print(said.splitlines()[0], file=sys.stderr)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=100_000)
    parser.add_argument("--jobs", type=int, help="processes; one per core without it")
    args = parser.parse_args()
    extra = [] if args.jobs is None else ["--jobs", str(args.jobs)]
    print("| streams | events | MB on disk | s | streams/s | events/s | memory of all processes, MB |")
    print("|---|---|---|---|---|---|---|")
    for streams in (args.streams // 4, args.streams):
        measure(streams, extra)


if __name__ == "__main__":
    main()
