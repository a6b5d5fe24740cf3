"""llama-benchy's result file, saved with `--save-all-throughput-timeseries`: one point for each token.

The tool spreads the tokens of a chunk evenly over the chunk's gap. A run of equal gaps gives chunk and count back;
where one run is the whole answer, all times but two were made up.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ..bytefile import ByteFile
from ..trace import IntArray, Trace
from .evenness import SAME_S, spread_evenly
from .gather import Gathered
from .jsonparts import EACH, Parts
from .refusals import HOLDS, no_times, refuse_gaps
from .sniff import has
from .values import Floats, decoded, row_of

NAME: Final = "llama-benchy"
LOOKS: Final = "JSON of llama-benchy with --save-all-throughput-timeseries"
KEYS: Final = ("latency_mode", "benchmarks", "pp_throughput", "requests_throughput_over_time")

_SERIES: Final = ("benchmarks", EACH, "requests_throughput_over_time", EACH, EACH)
_MEANS: Final = ("benchmarks", EACH, "tg_throughput")


def sniff(head: bytes) -> float:
    """How much `head` looks like this format, 0 to 1."""
    return has(head, ("latency_mode", "benchmarks", "pp_throughput"), score=0.95)


def read(source: ByteFile, *, unit: str | None = None, gaps: bool = False) -> Trace:
    """Read each request as a stream.

    Raises
    ------
    UsageError : `gaps` was asked for. LimitError : a request is too large.
    """
    refuse_gaps(gaps)
    gathered = Gathered(source)
    parts = Parts(source, [_SERIES, _MEANS])
    series, rate = 0, None
    for _, path, raw in parts:
        if path == _MEANS:
            mean = decoded(raw)
            rate = mean.get("mean") if isinstance(mean, dict) and isinstance(mean.get("mean"), float) else rate
            continue
        series += 1
        times = _times(decoded(raw))
        if times is None:
            gathered.skip(f"request {series}")
            continue
        if spread_evenly(times):
            gathered.made_up += 1
            continue
        first, gap, counts = chunks(times)
        after = np.concatenate(([0.0], np.cumsum(gap)))
        gathered.add_times(
            after, sent=False, total=times.size, counts=np.concatenate(([first], counts)), meta={"client": NAME}
        )
    if not series and not parts.cut and parts.defect is None:
        return no_times(
            source, "keeps mean rates only", "run llama-benchy with --save-all-throughput-timeseries",
            holds={"tokens per second": rate},
        )  # fmt: skip
    return gathered.trace(parts, **({} if gathered.streams or rate is None else {HOLDS: {"tokens per second": rate}}))


def _times(points: Any) -> Floats | None:
    """Seconds of the points of one request, each a pair of time and tokens so far."""
    if not isinstance(points, list) or not all(isinstance(p, list) and p for p in points):
        return None
    return row_of([p[0] for p in points]) if points else None


def chunks(times: Floats) -> tuple[int, Floats, IntArray]:
    """Tokens at the first time, then gap and tokens of each later chunk.

    >>> chunks(np.array([0.0, 0.0, 0.01, 0.02, 0.05]))[::2]
    (2, array([2, 1]))
    """
    gaps = np.diff(times)
    first = 1 + int(np.argmax(np.append(gaps, 1.0) > SAME_S))
    gaps = gaps[first - 1 :]
    if not gaps.size:
        return first, gaps, np.empty(0, np.int64)
    begins = np.flatnonzero(np.concatenate(([True], np.abs(np.diff(gaps)) > SAME_S)))
    return first, np.add.reduceat(gaps, begins), np.diff(np.append(begins, gaps.size))
