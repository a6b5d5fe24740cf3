"""vLLM `bench serve --save-result --save-detailed`, and the many benchmark scripts that descend from it.

One object a run, several when runs were appended. `itls` holds the gaps between chunks of each request, seconds; the
first chunk is not among them. How many tokens a chunk held is nowhere, only the total of each answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from ..bytefile import ByteFile
from ..findings import finding
from ..trace import Trace
from ..wire.dialects.report import made
from .gather import Gathered
from .jsonparts import EACH, Parts
from .refusals import no_times, refuse_gaps
from .runs import Run
from .sniff import has, missing
from .values import count_at, decoded, floats, nanoseconds, number_at

NAME: Final = "vLLM bench serve"
LOOKS: Final = "JSON of `vllm bench serve --save-result --save-detailed`"
KEYS: Final = ("total_token_throughput", "request_throughput", "itls", "ttfts")

_COLUMNS: Final = ("ttfts", "output_lens", "start_times")
_SAID: Final = (
    "backend", "endpoint_type", "model_id", "errors", "completed", "failed", "total_output_tokens",
    "spec_decode_acceptance_length", "spec_decode_num_drafts", "spec_decode_draft_tokens",
    "spec_decode_accepted_tokens", "spec_decode_per_position_acceptance_rates", "mean_itl_ms", "mean_tpot_ms",
)  # fmt: skip
_WANTED: Final = (("itls", EACH), *((key,) for key in (*_COLUMNS, *_SAID)))

# A role chunk leaves the server together with the first token; the next step is a whole step later. Clients that
# counted it show a first gap far below the others in nearly every request.
_FIRST_GAP: Final = 0.25
_NEARLY_ALL: Final = 0.9


def sniff(head: bytes) -> float:
    """How much `head` looks like this format, 0 to 1; long lists may push `itls` out of it."""
    some = (("request_throughput", "total_token_throughput"), ("backend", "endpoint_type"))
    if any(len(missing(head, keys)) == 2 for keys in some) or not has(head, ()) or not missing(head, ("server_info",)):
        return 0.0
    if not missing(head, ("request_throughput", "total_token_throughput")):
        return 0.95
    return 0.0 if missing(head, ("itls", "ttfts")) else 0.9


def read(source: ByteFile, *, unit: str | None = None, gaps: bool = False) -> Trace:
    """Read all runs, each request as a stream; without details only what the server said of its speculation.

    Raises
    ------
    UsageError : `gaps` was asked for. LimitError : a value is too large.
    """
    refuse_gaps(gaps)
    gathered = Gathered(source)
    parts = Parts(source, _WANTED)
    run, kept, said = 0, Run(), []
    for document, path, raw in parts:
        if document != run:
            said.append(_finish(kept, gathered, source))
            run, kept = document, Run()
        if path[0] == "itls":
            kept.take(floats(raw), gathered.room)
        else:
            kept.values[path[0]] = decoded(raw)
    said.append(_finish(kept, gathered, source))
    if not any(s["details"] for s in said) and not (parts.cut or parts.defect):
        last = said[-1]
        return no_times(
            source,
            "keeps sums only, since it was saved without details",
            "run `vllm bench serve` with --save-result --save-detailed",
            holds=last["holds"],
            report=last["report"],
        )
    return gathered.trace(parts)


def _finish(run: Run, gathered: Gathered, source: ByteFile) -> dict[str, Any]:
    """Make the streams of one run; what it says besides."""
    values = run.values
    report = _report(values)
    meta = {"client": NAME, "backend": values.get("backend") or values.get("endpoint_type"), "model": _model(values)}
    meta = {k: v for k, v in meta.items() if isinstance(v, str)}
    unsaid = report  # it is that of the run, and goes with its first stream
    role = _role_chunks(run, values.get("output_lens"))
    for index, gaps in enumerate(run.gaps):
        first = number_at(values.get("ttfts"), index)
        if run.failed(index):
            gathered.failed += 1
        elif gaps is None:
            gathered.skip(f"request {index + 1}")
        else:
            if role and gaps.size:
                first, gaps = None if first is None else first + float(gaps[0]), gaps[1:]
            gathered.add_gaps(
                gaps, first_s=first, start_ns=nanoseconds(number_at(values.get("start_times"), index)),
                total=count_at(values.get("output_lens"), index), meta=meta, report=unsaid,
            )  # fmt: skip
            unsaid = None
    gathered.pass_over(run.passed_over)
    if role:
        gathered.findings.append(
            finding("I011", f"{source.name}: the first chunk of {len(run.gaps)} requests was left out")
        )
    return {"details": run.details, "report": report, "holds": _holds(values)}


def _role_chunks(run: Run, totals: object) -> bool:
    """Whether the client counted a chunk without a token as the first one."""
    good = [g for g in run.gaps if g is not None and g.size > 2]
    tiny = sum(bool(g[0] < _FIRST_GAP * np.median(g[1:])) for g in good)
    chunks_are_tokens = [count_at(totals, i) == g.size + 1 for i, g in enumerate(run.gaps) if g is not None and g.size]
    return bool(good) and tiny >= _NEARLY_ALL * len(good) and not any(chunks_are_tokens)


def _model(values: Mapping[str, Any]) -> str | None:
    model = values.get("model_id")
    return model.rstrip("/").rsplit("/", 1)[-1] if isinstance(model, str) and model.startswith("/") else model


def _report(values: Mapping[str, Any]) -> dict[str, Any] | None:
    """The engine's counters during the run."""
    steps, drafted, total, answers = (
        count_at([values.get(key)], 0)
        for key in ("spec_decode_num_drafts", "spec_decode_draft_tokens", "total_output_tokens", "completed")
    )
    accepted = number_at([values.get("spec_decode_accepted_tokens")], 0)
    if steps is None or drafted is None or accepted is None or not 0 <= accepted <= drafted:
        return None
    shares = values.get("spec_decode_per_position_acceptance_rates")
    reached = [number_at(shares, i) for i in range(len(shares))] if isinstance(shares, list) else []
    passed = [round(share * steps) for share in reached if share is not None and 0 <= share <= 1]
    return made(
        "vLLM bench spec_decode_*", drafted, int(accepted), total=total, steps=steps,
        tried=list(zip([steps, *passed], passed, strict=False)), answers=answers or 1,
    )  # fmt: skip


def _holds(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "requests": number_at([values.get("completed")], 0),
        "tokens": number_at([values.get("total_output_tokens")], 0),
        "mean gap between chunks, ms": number_at([values.get("mean_itl_ms")], 0),
        "tokens per chunk": _per_chunk(values),
    }


def _per_chunk(values: Mapping[str, Any]) -> float | None:
    itl, tpot = (number_at([values.get(key)], 0) for key in ("mean_itl_ms", "mean_tpot_ms"))
    return itl / tpot if itl and tpot else None
