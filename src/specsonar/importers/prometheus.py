"""Prometheus text of an inference server, `/metrics`: counters since the server began, no times of events.

Read together with a recording of the same server, it lends that its report.
"""

from __future__ import annotations

import re
from typing import Final

from ..bytefile import ByteFile
from ..errors import LimitError
from ..trace import Trace
from ..wire import metrics
from .refusals import no_times, refuse_gaps

NAME: Final = "Prometheus text"
LOOKS: Final = "text of a server's /metrics (no arrival times)"

_LARGEST: Final = 32 << 20
_LINE: Final = re.compile(rb"^(?:# (?:HELP|TYPE) )?(?:vllm|sglang|llamacpp|tgi|trtllm)[:_]\w+[ {]", re.MULTILINE)
_ANY: Final = re.compile(rb"^# (?:HELP|TYPE) [A-Za-z_:][\w:]* ", re.MULTILINE)
_TOKENS: Final = ("vllm_generation_tokens", "sglang_generation_tokens", "llamacpp_tokens_predicted")
_GAPS: Final = ("vllm_inter_token_latency_seconds", "sglang_inter_token_latency_seconds")


def sniff(head: bytes) -> float:
    """How much `head` looks like this format, 0 to 1."""
    return 0.9 if _LINE.search(head) else 0.6 if _ANY.match(head.lstrip()) else 0.0


def read(source: ByteFile, *, unit: str | None = None, gaps: bool = False) -> Trace:
    """Say what the server counted since it began.

    Raises
    ------
    UsageError : `gaps` was asked for. LimitError : the file is too large.
    """
    refuse_gaps(gaps)
    pieces, size = [], 0
    for piece in source.pieces():
        pieces.append(piece)
        size += len(piece)
        if size > _LARGEST:
            raise LimitError(f"{source.name} is larger than {_LARGEST >> 20} MiB", "one reading of /metrics is enough")
    text = b"".join(pieces).decode(errors="replace")
    found = metrics.samples(text)
    sums = {name: sum(series.values()) for name, series in found.items()}
    tokens = next((sums[name] for name in _TOKENS if name in sums), None)
    count, total = next(((sums[f"{n}_count"], sums[f"{n}_sum"]) for n in _GAPS if f"{n}_count" in sums), (0, 0))
    return no_times(
        source,
        "holds a server's counters",
        "analyse it together with a recording of the same server: `specsonar analyze RECORDING METRICS`",
        holds={"tokens": tokens, "mean gap between tokens, ms": 1e3 * total / count if count else None},
        report=metrics.report("", text),
    )
