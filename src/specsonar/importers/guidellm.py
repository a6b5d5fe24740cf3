"""guidellm `benchmarks.json`: first and last time of each answer only, and how many chunks lay between."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ..bytefile import ByteFile
from ..trace import Trace
from ..wire.dialects import report
from .jsonparts import EACH, Parts
from .refusals import no_times, refuse_gaps
from .sniff import has
from .values import count_at, decoded, number_at

NAME: Final = "guidellm"
LOOKS: Final = "JSON of guidellm, benchmarks.json (no arrival times)"
KEYS: Final = ("benchmarks", "guidellm_version", "generative_benchmark")

_REQUEST: Final = ("benchmarks", EACH, "requests", "successful", EACH)


def sniff(head: bytes) -> float:
    """How much `head` looks like this format, 0 to 1; its YAML has the same words."""
    named = b"guidellm" in head or b"generative_benchmark" in head
    is_yaml = head.startswith((b"metadata:", b"benchmarks:")) and b"type_:" in head
    return 0.9 if named and (has(head, ("benchmarks",)) or has(head, ("metadata", "config")) or is_yaml) else 0.0


def read(source: ByteFile, *, unit: str | None = None, gaps: bool = False) -> Trace:
    """Say what the file holds instead of arrival times.

    Raises
    ------
    UsageError : `gaps` was asked for. LimitError : a request is too large.
    """
    refuse_gaps(gaps)
    told: list[Mapping[str, Any]] = []
    requests, chunks, tokens, seconds = 0, 0, 0, 0.0
    for _, _, raw in Parts(source, [_REQUEST]):
        request = decoded(raw)
        info = _table(request, "info", "timings")
        n = count_at([info.get("token_iterations")], 0)
        first = number_at([info.get("first_token_iteration")], 0)
        last = number_at([info.get("last_token_iteration")], 0)
        total = count_at([_table(request, "output_metrics").get("total_tokens")], 0)
        said = report.vllm(_table(request, "response_metrics"), total)
        told += [said] if said else []
        if n is not None and n > 1 and first is not None and last is not None and total is not None:
            requests, chunks, tokens, seconds = requests + 1, chunks + n - 1, tokens + total - 1, seconds + last - first
    return no_times(
        source,
        "keeps the first and the last time of an answer and none between",
        "guidellm has no flag that keeps them: run it through `specsonar proxy`, or use `vllm bench serve` with"
        " --save-result --save-detailed",
        holds={
            "requests": requests or None,
            "tokens per chunk": tokens / chunks if chunks else None,
            "mean gap between chunks, ms": 1e3 * seconds / chunks if chunks else None,
        },
        report=report.pooled(told),
    )


def _table(value: Any, *path: str) -> Mapping[str, Any]:
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}
