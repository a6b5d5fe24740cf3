"""Every known format. Loading them all takes a fifth of a second, so nobody does it for a trace of our own."""

from __future__ import annotations

from typing import Final, Protocol

from ..bytefile import ByteFile
from ..trace import Trace
from . import (
    aiperf,
    aiperf_raw,
    cdp,
    curl,
    evalscope,
    genai_perf,
    guidellm,
    har,
    inference_perf,
    langchain_run,
    llama_benchy,
    llama_benchy_progress,
    llmperf,
    mitmaddon,
    mitmproxy,
    mlflow_trace,
    netlog,
    openllmetry,
    own,
    pcap,
    plaintext,
    prometheus,
    rawbody,
    rawtimed,
    recording,
    servebench,
    sglang_bench,
    table,
    trtllm_perf,
    ts,
    veeksha,
    vllm_bench,
)
from .aggregates import AGGREGATES


class Format(Protocol):
    """What a reader offers: a module, or an object with the same attributes."""

    @property
    def NAME(self) -> str:  # noqa: N802 - modules have it as a constant
        """What the format is called."""

    @property
    def LOOKS(self) -> str:  # noqa: N802
        """How a file looks, for the refusal of others."""

    def sniff(self, head: bytes) -> float:
        """How much `head` looks like this format, 0 to 1."""

    def read(self, source: ByteFile, *, unit: str | None = None, gaps: bool = False) -> Trace:
        """Read a file."""


FORMATS: Final[tuple[Format, ...]] = (
    own,
    recording,
    vllm_bench,
    sglang_bench,
    aiperf,
    aiperf_raw,
    genai_perf,
    servebench,
    inference_perf,
    evalscope,
    llama_benchy,
    llama_benchy_progress,
    veeksha,
    trtllm_perf,
    openllmetry,
    mlflow_trace,
    langchain_run,
    guidellm,
    llmperf,
    *AGGREGATES,
    pcap,
    mitmproxy,
    mitmaddon,
    har,
    cdp,
    netlog,
    curl,
    ts,
    rawtimed,
    rawbody,
    prometheus,
    table,
    plaintext,
)
"""Of equal scores the first wins."""
