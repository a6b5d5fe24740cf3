"""Files that hold percentiles, means or first-token times only. They are known, so that the refusal can say what
would have kept the arrival times.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from ..bytefile import ByteFile
from ..trace import Trace
from .jsonparts import Parts, Path
from .refusals import no_times, refuse_gaps
from .sniff import has
from .values import decoded, number_at

_PROXY: Final = "run the client through `specsonar proxy`, which keeps the time of each chunk"


@dataclass(frozen=True, slots=True)
class Aggregate:
    """A format without arrival times.

    Attributes
    ----------
    NAME, LOOKS, KEYS : as every format has them.
    why : what the file keeps instead, as a sentence that follows its name.
    instead : what would keep the times.
    wanted : the values that `holds` needs.
    holds : from those values, by path, what is worth showing.
    """

    NAME: str
    LOOKS: str
    KEYS: tuple[str, ...]
    why: str
    instead: str = _PROXY
    wanted: tuple[Path, ...] = ()
    holds: Callable[[dict[Path, Any]], dict[str, Any]] = lambda found: {}

    def sniff(self, head: bytes) -> float:
        """How much `head` looks like this format, 0 to 1."""
        return has(head, self.KEYS, score=0.7)

    def read(self, source: ByteFile, *, unit: str | None = None, gaps: bool = False) -> Trace:
        """Say what the file holds instead of arrival times.

        Raises
        ------
        UsageError : `gaps` was asked for.
        """
        refuse_gaps(gaps)
        found = {path: decoded(raw) for _, path, raw in Parts(source, self.wanted)} if self.wanted else {}
        return no_times(source, self.why, self.instead, holds=self.holds(found))


def _first_token(found: dict[Path, Any]) -> dict[str, Any]:
    tokens = next((v for path, v in found.items() if path[-1] in ("output", "completion_tokens")), None)
    return {"tokens": number_at([tokens], 0), "time to first token, s": number_at([_ttft(found)], 0)}


def _ttft(found: dict[Path, Any]) -> Any:
    return found.get(("timeToFirstToken",), found.get(("response_time",)))


def _hf(found: dict[Path, Any]) -> dict[str, Any]:
    results = found.get(("results",))
    last = results[-1] if isinstance(results, list) and results and isinstance(results[-1], dict) else {}
    itl = last.get("inter_token_latency_ms")
    return {
        "requests": number_at([last.get("successful_requests")], 0),
        "tokens": number_at([last.get("total_tokens")], 0),
        "mean time per token, ms": number_at([itl.get("avg")], 0) if isinstance(itl, dict) else None,
    }


def _infermark(found: dict[Path, Any]) -> dict[str, Any]:
    results = found.get(("results",))
    last = results[-1] if isinstance(results, list) and results and isinstance(results[-1], dict) else {}
    itl = last.get("itl")
    mean = number_at([itl.get("mean")], 0) if isinstance(itl, dict) else None
    return {
        "requests": number_at([last.get("n_success")], 0),
        "mean gap between chunks, ms": None if mean is None else 1e3 * mean,
    }


AGGREGATES: Final = (
    Aggregate(
        "HF inference-benchmarker", "JSON of Hugging Face's inference-benchmarker (no arrival times)",
        ("results", "executor_type", "inter_token_latency_ms"), "keeps percentiles only",
        wanted=(("results",),), holds=_hf,
    ),
    Aggregate(
        "infermark", "JSON report of infermark (no arrival times)",
        ("results", "tokens_per_second", "itl", "ttft"), "keeps percentiles only",
        wanted=(("results",),), holds=_infermark,
    ),
    Aggregate(
        "aiperf or genai-perf summary", "JSON summary of aiperf or genai-perf (no arrival times)",
        ("inter_token_latency", "time_to_first_token", "request_throughput", "p99"),
        "is the summary, with percentiles only",
        "read profile_export.jsonl or profile_export.json beside it (aiperf: --export-level records or raw)",
    ),
    Aggregate(
        "evalscope timeline", "JSON of evalscope's workload_timeline.json (no arrival times)",
        ("wall_start", "points", "cum_completion"), "keeps the sum of tokens when a request ended",
        "read benchmark_data.db beside it",
    ),
    Aggregate(
        "Langfuse observation", "JSON of a Langfuse observation (no arrival times)",
        ("traceId", "startTime", "completionStartTime", "type"), "keeps the time of the first token only",
        wanted=(("usageDetails", "output"), ("timeToFirstToken",)), holds=_first_token,
    ),
    Aggregate(
        "LiteLLM log", "JSON of LiteLLM's standard logging payload (no arrival times)",
        ("call_type", "startTime", "completionStartTime"), "keeps the time of the first token only",
        wanted=(("completion_tokens",), ("response_time",)), holds=_first_token,
    ),
    Aggregate(
        "OpenTelemetry metrics", "JSON of OTLP metrics (no arrival times)",
        ("resourceMetrics", "scopeMetrics"), "holds histograms, whose buckets are wider than a step",
        "OpenLLMetry's spans keep the time of each chunk; so does `specsonar record`",
    ),
)  # fmt: skip
"""One entry for each format."""
