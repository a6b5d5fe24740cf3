"""Large files of other tools: MB/s beside `json.loads` on the same file, and the memory that reading takes.

    python benchmarks/readers.py                # files of 64 MB
    python benchmarks/readers.py --megabytes 1000 vLLM  # those whose name begins so

Prints one Markdown table and exits 1 when a reader needs more than 300 MB. Each reading is a process of its own, so
that the peak memory is its own; times are CPU seconds, since machines are shared.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

import numpy as np

MOST_MB = 300

_WORK = """
import resource, sys, time
begin = time.process_time()
{work}
print(time.process_time() - begin, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""
OURS = _WORK.format(work="from specsonar.importers import read; read(sys.argv[1])")
PLAIN = _WORK.format(work="import json; [json.loads(line) for line in open(sys.argv[1], 'rb')]")

CHUNKS = 500


def gaps(rng: np.random.Generator) -> list[float]:
    """One request's gaps, seconds."""
    return (0.02 * rng.lognormal(0, 0.04, CHUNKS)).tolist()


def vllm_bench(file: TextIO, size: int, rng: np.random.Generator) -> None:
    """One object; lists over all requests, so that nothing of a request stands together."""
    rows = [json.dumps(gaps(rng)) for _ in range(20)]
    text = json.dumps(" w1 w22 w333" * CHUNKS)
    n = max(1, size // (len(rows[0]) + len(text)))
    file.write('{"backend": "vllm", "request_throughput": 1.0, "total_token_throughput": 1.0, ')
    for key, value in (("output_lens", 3 * CHUNKS), ("ttfts", 0.06), ("start_times", 1.5)):
        file.write(f'"{key}": {json.dumps([value] * n)}, ')
    for key, pieces in (("itls", rows), ("generated_texts", [text])):
        file.write(f'"{key}": [{pieces[0]}')
        file.writelines(f", {pieces[i % len(pieces)]}" for i in range(1, n))
        file.write("], ")
    file.write(f'"errors": {json.dumps([""] * n)}}}')


def aiperf(file: TextIO, size: int, rng: np.random.Generator) -> None:
    """A record a line."""
    line = ""
    for _ in range(max(1, size // (18 * CHUNKS))):
        if rng.random() < 0.1 or not line:
            metrics = {
                "inter_chunk_latency": {"value": [1e3 * g for g in gaps(rng)], "unit": "ms"},
                "time_to_first_token": {"value": 60.0, "unit": "ms"},
                "usage_completion_tokens": {"value": 3 * CHUNKS, "unit": "tokens"},
            }
            metadata = {"request_start_ns": 1_795_964_422_666_265_328, "request_end_ns": 1_795_964_432_666_265_328}
            line = json.dumps({"metadata": metadata, "metrics": metrics}) + "\n"
        file.write(line)


def aiperf_raw(file: TextIO, size: int, rng: np.random.Generator) -> None:
    """Every payload with its time."""
    chunk = {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": " w1 w22"}}]}
    value = json.dumps(chunk | {"usage": {"completion_tokens": 5}})
    times = np.cumsum(np.array(gaps(rng)) * 1e9).astype(int).tolist()
    answers = [{"perf_ns": t, "packets": [{"name": "data", "value": value}]} for t in times]
    line = json.dumps({"metadata": {}, "start_perf_ns": 0, "status": 200, "responses": answers}) + "\n"
    for _ in range(max(1, size // len(line))):
        file.write(line)


FILES: dict[str, Callable[[TextIO, int, np.random.Generator], None]] = {
    "vLLM bench serve": vllm_bench,
    "aiperf records": aiperf,
    "aiperf raw": aiperf_raw,
}


def measured(program: str, path: Path) -> tuple[float, float]:
    """CPU seconds and peak MB of `program` with the file as its argument; the faster of two runs."""
    runs = []
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True)
        runs.append(tuple(map(float, done.stdout.split())))
    seconds, peak = min(runs)
    return seconds, peak


def shown(value: float, places: int) -> str:
    """A number, or nothing where it was not measured."""
    return "" if np.isnan(value) else f"{value:.{places}f}"


def main() -> int:
    """Write the files, read them, print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=64, help="size of each file")
    parser.add_argument("names", nargs="*", default=[""], help="begin of a file's name")
    asked = parser.parse_args()
    size = asked.megabytes * 1_000_000
    fits = True
    print("| file | MB | read, MB/s | json.loads, MB/s | ratio | peak MB | json.loads, peak MB |")
    print("|---|---|---|---|---|---|---|")
    for name in (n for n in FILES if n.startswith(tuple(asked.names))):
        write = FILES[name]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "file.json"
            with path.open("w") as file:
                write(file, size, np.random.default_rng(0))
            mb = path.stat().st_size / 1e6
            seconds, peak = measured(OURS, path)
            # a gigabyte through json.loads would need some ten of memory
            plain, plain_peak = measured(PLAIN, path) if mb < 300 else (float("nan"), float("nan"))
        fits = fits and peak < MOST_MB
        cells = (mb, mb / seconds, mb / plain, plain / seconds, peak, plain_peak)
        print(f"| {name} | " + " | ".join(shown(v, p) for v, p in zip(cells, (0, 0, 0, 2, 0, 0), strict=True)) + " |")
    return 0 if fits else 1


if __name__ == "__main__":
    sys.exit(main())
