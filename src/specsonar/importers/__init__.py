"""Readers of recordings: one small file per format, each with `NAME`, `LOOKS`, `sniff(head)` and `read(source)`.

A JSON format also has `KEYS`, the keys that it cannot do without; they say why an unknown file is none of it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import BinaryIO, Final, Protocol

from ..bytefile import ByteFile, check_text
from ..errors import FormatError
from ..findings import finding
from ..trace import Trace, merge
from ..units import ns_per
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
    unknown,
    veeksha,
    vllm_bench,
)
from .aggregates import AGGREGATES
from .refusals import refuse_without_times


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


def read(
    path: str | os.PathLike[str] | BinaryIO, *, unit: str | None = None, gaps: bool = False, columns: str | None = None
) -> Trace:
    """Read a recording of any known format, plain or packed with gzip or zstd.

    Parameters
    ----------
    path : a file, "-" for standard input, or an open binary file.
    unit : s, ms, us or ns for plain text and tables; guessed (finding I002) when None. Other formats know their unit.
    gaps : plain text or a table holds the times between events, not arrival times.
    columns : of a table: "time=NAME,tokens=NAME,stream=NAME", where the names do not tell.

    Returns
    -------
    Trace whose `meta` has "format" and "inputs": [{"name", "sha256"}], the hash of the file as stored.

    Raises
    ------
    InputError : the file cannot be used, or it holds no arrival times. FormatError : nobody knows its format.
    LimitError : it is too large. UsageError : unknown unit, or `gaps` for a format that has its own times.
    """
    trace = look(path, unit=unit, gaps=gaps, columns=columns)
    refuse_without_times(trace)
    return trace


def pool(traces: Sequence[Trace]) -> Trace:
    """One Trace of what `look` gave for several files of one service.

    A file without arrival times lends its server report to the others.

    Raises
    ------
    InputError : a file has neither arrival times nor a report, or none of them has times.
    """
    timed = [trace for trace in traces if trace.streams]
    lent = [trace.meta.get("server_report") for trace in traces if not trace.streams]
    for trace in traces:
        if not timed or not trace.meta.get("server_report"):
            refuse_without_times(trace)
    useful = [replace(t, findings=tuple(f for f in t.findings if f.code != "I010")) for t in traces]
    whole = traces[0] if len(traces) == 1 else merge(useful)
    report = next((one for one in lent if one), None)
    if report is None or any(one.server_report for one in whole.streams):
        return whole
    first, *rest = whole.streams
    return replace(whole, streams=(replace(first, server_report=report), *rest))


def look(
    path: str | os.PathLike[str] | BinaryIO, *, unit: str | None = None, gaps: bool = False, columns: str | None = None
) -> Trace:
    """As `read`, but a file that holds no arrival times gives a Trace without streams.

    What it holds instead is in its `meta`: "holds", a table, and "server_report" where there is one.
    """
    if unit is not None:
        ns_per(unit)
    asked = None if columns is None else table.parse_columns(columns)
    with ByteFile(path) as source:
        head = source.head()
        if asked is not None:
            best: Format = table
            trace: Trace = table.read(source, unit=unit, gaps=gaps, columns=asked)
        else:
            best = _recognised(head, source.name)
            trace = best.read(source, unit=unit, gaps=gaps)
        findings = list(trace.findings)
        digest = source.sha256()
        if source.broken and all(f.code != "I001" for f in findings):
            findings.append(finding("I001", f"{source.name} is {source.broken}"))
        meta = {**trace.meta, "format": best.NAME, "inputs": [{"name": source.name, "sha256": digest}]}
    return replace(trace, meta=meta, findings=tuple(findings))


def _recognised(head: bytes, name: str) -> Format:
    """The format of a file that begins with `head`."""
    score, best = max(((f.sniff(head), f) for f in FORMATS), key=lambda pair: pair[0])
    if best is plaintext or score <= 0:  # a trace that a crash left with a tail of zeros is still a trace
        try:
            check_text(head, name)
        except FormatError as error:
            raise unknown.binary_refusal(error, head, FORMATS) from None
    if score <= 0:
        raise unknown.refusal(head, name, FORMATS)
    return best
