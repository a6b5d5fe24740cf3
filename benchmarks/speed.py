"""Speed: the run-length model beside a peer, whole commands beside the bare interpreter, cost against tokens.

    python benchmarks/speed.py            # everything; needs the extra `bench` (hmmlearn)
    python benchmarks/speed.py --quick    # without the million tokens

Every figure is a ratio against something measured in the same run, with the seconds beside it: machines differ, and
are noisy. Each time is the smallest of several.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from specsonar.fit import fingerprint
from specsonar.models import direct
from specsonar.sources.simulate import simulate
from specsonar.sources.worlds import WORLDS
from specsonar.stats.gaps import prepare
from specsonar.stats.result import Arrays
from specsonar.stats.runs import forward_backward
from specsonar.trace import Trace


def best(work: Callable[[], object], times: int = 5) -> float:
    """Smallest wall time of several, seconds."""
    found = []
    for _ in range(times):
        begin = time.perf_counter()
        work()
        found.append(time.perf_counter() - begin)
    return min(found)


def world_d(tokens: int, streams: int) -> Trace:
    """World D: in-order link, log-normal delays, stalls."""
    return simulate(WORLDS["D"].service, tokens=tokens, streams=streams, seed=1)


def peer() -> None:
    """One EM iteration of the run-length model and of hmmlearn's categorical HMM, same states, same sequence."""
    from hmmlearn.hmm import CategoricalHMM

    one = world_d(60_000, 1).streams[0]
    gaps = prepare([Arrays((one.t_ns - one.t_ns[0]) * 1e-9)])
    n = len(gaps)
    symbols = (gaps.gap > 0.002).astype(np.int64).reshape(-1, 1)
    whole = np.array([0, n], np.int64)
    seen = np.bincount(symbols[:, 0], minlength=2)
    print("\n| states | ours, ns per token and iteration | hmmlearn | ratio | wanted |\n|---|---|---|---|---|")
    for states in (2, 4, 8):
        hazards = np.append(np.full(states - 1, 0.8), 0.0)
        inside = np.where(symbols[:, 0] == 0, 0.9, 0.1)
        between = 1.0 - inside
        new, went, stopped = np.zeros(n), np.zeros(states), np.zeros(states)

        def ours(inside=inside, between=between, hazards=hazards, new=new, went=went, stopped=stopped) -> None:
            forward_backward(inside, between, whole, hazards, new, went, stopped)
            direct.updated_hazards(hazards, went, stopped, "free")
            starts = np.bincount(symbols[:, 0], weights=new, minlength=2)
            np.stack((starts, seen - starts))  # emission counts: between steps, and inside a burst

        ours()
        mine = best(ours)

        def theirs(iterations: int, states: int = states) -> float:
            model = CategoricalHMM(states, n_iter=iterations, tol=-np.inf, random_state=1)
            begin = time.perf_counter()
            model.fit(symbols)
            return time.perf_counter() - begin

        # the difference of two runs leaves out its start
        hmm = min((theirs(6) - theirs(1)) / 5 for _ in range(3))
        print(f"| {states} | {mine / n * 1e9:.0f} | {hmm / n * 1e9:.0f} | {hmm / mine:.1f} | 20 |", flush=True)


def commands() -> None:
    """Whole commands, beside `python -c pass` and `import numpy` on the same machine."""
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "d.jsonl"
        specsonar = [sys.executable, "-m", "specsonar"]
        subprocess.run([*specsonar, "simulate", "--world", "D", "-o", str(trace), "-q"], check=True)

        def wall(*command: str, fresh: bool = False, times: int = 5) -> float:
            def work() -> None:
                with tempfile.TemporaryDirectory() as cache:
                    env = {**os.environ, "NUMBA_CACHE_DIR": cache} if fresh else None
                    subprocess.run(command, check=True, env=env, stdout=subprocess.DEVNULL)

            return best(work, times)

        bare = wall(sys.executable, "-c", "pass")
        imports = wall(sys.executable, "-c", "import numpy, numba, rich.console")
        rows = (
            ("python -c pass", bare, ""),
            ("import numpy, numba, rich", imports, ""),
            ("specsonar --help", wall(*specsonar, "--help"), ".3 s"),
            ("specsonar analyze, 600 tokens of D", wall(*specsonar, "analyze", str(trace)), "1 s"),
            ("the same, nothing compiled yet", wall(*specsonar, "analyze", str(trace), fresh=True, times=2), "8 s"),
        )
    print("\n| command | s | times the imports alone | wanted under |\n|---|---|---|---|")
    for name, seconds, wanted in rows:
        print(f"| {name} | {seconds:.2f} | {seconds / imports:.1f} | {wanted} |", flush=True)


def curve(largest: int) -> None:
    """Cost against tokens, in streams of 500; seconds per token beside those of the smallest row."""
    fingerprint(world_d(500, 2))
    print("\n| tokens of D | CPU s | us per token | peak memory so far, MB |\n|---|---|---|---|")
    tokens = 10_000
    while tokens <= largest:
        trace = world_d(500, tokens // 500)
        begin = time.process_time()
        fingerprint(trace)
        spent = time.process_time() - begin
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"| {tokens:,} | {spent:.1f} | {spent / tokens * 1e6:.0f} | {peak:.0f} |", flush=True)
        tokens *= 10


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="up to 100,000 tokens")
    args = parser.parse_args()
    peer()
    commands()
    curve(100_000 if args.quick else 1_000_000)


if __name__ == "__main__":
    main()
