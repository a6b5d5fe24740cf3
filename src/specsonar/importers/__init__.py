"""Readers of recordings: one small file per format, each with `NAME`, `LOOKS`, `sniff(head)` and `read(source)`.

A JSON format also has `KEYS`, the keys that it cannot do without; they say why an unknown file is none of it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, BinaryIO

from ..bytefile import ByteFile, check_text
from ..errors import FormatError
from ..findings import finding
from ..trace import Trace, merge
from ..units import ns_per
from . import own
from .refusals import refuse_without_times

if TYPE_CHECKING:
    from .formats import Format


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
    with ByteFile(path) as source:
        head = source.head()
        if columns is not None:
            from . import table

            best: Format = table
            trace: Trace = table.read(source, unit=unit, gaps=gaps, columns=table.parse_columns(columns))
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
    if own.sniff(head) == 1:
        return own
    from . import plaintext, unknown
    from .formats import FORMATS

    score, best = max(((f.sniff(head), f) for f in FORMATS), key=lambda pair: pair[0])
    if best is plaintext or score <= 0:  # a trace that a crash left with a tail of zeros is still a trace
        try:
            check_text(head, name)
        except FormatError as error:
            raise unknown.binary_refusal(error, head, FORMATS) from None
    if score <= 0:
        raise unknown.refusal(head, name, FORMATS)
    return best
