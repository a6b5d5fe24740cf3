"""llmperf `*_individual_responses.json`: a mean gap for each answer; old forks keep the gaps themselves.

In those the time to the first token is the first element of the list.
"""

from __future__ import annotations

from typing import Any, Final

from ..bytefile import ByteFile
from ..trace import Trace
from .gather import Gathered
from .jsonparts import Parts
from .refusals import no_times, refuse_gaps
from .sniff import has
from .values import count_at, decoded, number_at, row_of

NAME: Final = "llmperf"
LOOKS: Final = "JSON of llmperf, individual_responses.json (arrival times in old forks only)"
KEYS: Final = ("inter_token_latency_s", "ttft_s", "number_output_tokens")


def sniff(head: bytes) -> float:
    """How much `head` looks like this format, 0 to 1."""
    return has(head, KEYS, score=0.9)


def read(source: ByteFile, *, unit: str | None = None, gaps: bool = False) -> Trace:
    """Read each answer with a list of gaps as a stream; without any, say what the file holds.

    Raises
    ------
    UsageError : `gaps` was asked for. LimitError : an answer is too large.
    """
    refuse_gaps(gaps)
    gathered = Gathered(source)
    parts = Parts(source, [()])
    means: list[float] = []
    for number, (_, _, raw) in enumerate(parts, 1):
        answer: Any = decoded(raw)
        each = answer.get("inter_token_latency_s") if isinstance(answer, dict) else None
        if not isinstance(answer, dict) or answer.get("error_code") is not None:
            gathered.failed += 1
        elif (mean := number_at([each], 0)) is not None:
            means.append(mean)
        elif (seconds := row_of(each)) is not None and seconds.size:
            gathered.add_gaps(
                seconds[1:], first_s=float(seconds[0]), total=count_at([answer.get("number_output_tokens")], 0),
                meta={"client": NAME},
            )  # fmt: skip
        else:
            gathered.skip(f"answer {number}")
    if gathered.streams or parts.cut or parts.defect is not None:
        return gathered.trace(parts)
    return no_times(
        source,
        "keeps one mean gap for each answer",
        "llmperf has no flag that keeps them: run it through `specsonar proxy`, or use `vllm bench serve` with"
        " --save-result --save-detailed",
        holds={
            "requests": len(means) or None,
            "mean time per token, ms": 1e3 * sum(means) / len(means) if means else None,
        },
    )
