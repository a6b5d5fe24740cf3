"""SGLang `bench_serving --output-details`: one JSON object a run.

With the engine's own route the client divides the gap of a chunk by its new tokens and repeats the quotient once for
each of them. Those times are made up, but a run of identical floats gives both back exactly: its length is the
chunk's tokens, its sum the chunk's gap. With the other routes there is one gap per chunk and no count.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from ..bytefile import ByteFile
from ..trace import Trace
from ..wire.dialects.report import made
from .gather import Gathered
from .jsonparts import EACH, Parts
from .refusals import no_times, refuse_gaps
from .runs import Run
from .sniff import has
from .values import Floats, count_at, decoded, floats, number_at

NAME: Final = "SGLang bench_serving"
LOOKS: Final = "JSON lines of `python -m sglang.bench_serving --output-details`"
KEYS: Final = ("server_info", "accept_length", "itls", "ttfts")

_SAID: Final = ("backend", "server_info", "accept_length", "completed", "total_output_tokens", "mean_itl_ms")
_WANTED: Final = (("itls", EACH), *((key,) for key in ("ttfts", "output_lens", "errors", *_SAID)))
_NATIVE: Final = ("sglang", "sglang-native")


def sniff(head: bytes) -> float:
    """How much `head` looks like this format, 0 to 1; long lists may push `itls` out of it."""
    return has(head, ("server_info", "backend", "request_throughput"), score=0.95)


def read(source: ByteFile, *, unit: str | None = None, gaps: bool = False) -> Trace:
    """Read all runs, each request as a stream; without details only the acceptance length.

    Raises
    ------
    UsageError : `gaps` was asked for. LimitError : a value is too large.
    """
    refuse_gaps(gaps)
    gathered = Gathered(source)
    parts = Parts(source, _WANTED)
    number, run, details = 0, Run(), False
    for document, path, raw in parts:
        if document != number:
            _finish(run, gathered)
            number, run = document, Run()
        if path[0] == "itls":
            run.take(floats(raw), gathered.room)
            details = True
        else:
            run.values[path[0]] = decoded(raw)
    if not details and not parts.cut and parts.defect is None:
        return no_times(
            source,
            "keeps sums only, since it was saved without details",
            "run sglang.bench_serving with --output-details",
            holds={
                "requests": number_at([run.values.get("completed")], 0),
                "tokens": number_at([run.values.get("total_output_tokens")], 0),
            },
            report=_report(run.values),
        )
    _finish(run, gathered)
    return gathered.trace(parts)


def _finish(run: Run, gathered: Gathered) -> None:
    """Make the streams of one run."""
    values = run.values
    backend = values.get("backend")
    unsaid = _report(values)  # it is that of the run, and goes with its first stream
    totals = values.get("output_lens")
    meta = {"client": NAME, "backend": backend if isinstance(backend, str) else None}
    meta = {k: v for k, v in meta.items() if v is not None}
    for index, row in enumerate(run.gaps):
        total = count_at(totals, index)
        counts = None
        if run.failed(index):
            gathered.failed += 1
            continue
        if row is None:
            gathered.skip(f"request {index + 1}")
            continue
        if backend in _NATIVE and total is not None:
            first = total - row.size
            row, counts = chunks(row)
            counts = np.concatenate(([first if first > 0 else -1], counts))
        gathered.add_gaps(
            row, first_s=number_at(values.get("ttfts"), index), total=total, counts=counts, meta=meta, report=unsaid
        )
        unsaid = None
    gathered.pass_over(run.passed_over)


def chunks(each: Floats) -> tuple[Floats, Any]:
    """Gaps of the chunks and their token counts from a quotient for every token, shape (n,).

    >>> chunks(np.array([0.005, 0.005, 0.02]))[1].tolist()
    [2, 1]
    """
    begins = np.flatnonzero(np.concatenate(([True], np.diff(each) != 0))) if each.size else np.empty(0, np.int64)
    length = np.diff(np.append(begins, each.size))
    return each[begins] * length, length


def _report(values: Mapping[str, Any]) -> dict[str, Any] | None:
    """What the server says about its speculation, in the words of `wire.dialects.report`."""
    info = values.get("server_info")
    info = info if isinstance(info, dict) else {}
    length = number_at([values.get("accept_length")], 0)
    if length is None and not info.get("speculative_algorithm"):
        return None
    # with a chain of drafts every step drafts one token; with a tree the steps are its depth
    drafts = count_at([info.get("speculative_num_steps")], 0)
    return made("SGLang bench accept_length", None, None, draft_length=drafts) | {"acceptance_length": length}
