"""Files that hold no arrival times: what they hold instead, what would have kept the times, and their refusal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from ..bytefile import ByteFile
from ..errors import InputError, UsageError
from ..findings import finding
from ..fingerprint import Finding
from ..trace import Trace

_REASONS: Final = ("I010", "I012", "I007", "I004", "I001")
"""Findings that say why a file has no stream, the surest first."""

HOLDS: Final = "holds"
"""Key of a Trace's `meta` for what a file without arrival times holds instead."""


def no_times(
    source: ByteFile,
    why: str,
    instead: str,
    *,
    holds: Mapping[str, Any] | None = None,
    report: Mapping[str, Any] | None = None,
    notes: Iterable[Finding] = (),
) -> Trace:
    """A Trace without streams, for a file that has no arrival times of events.

    Parameters
    ----------
    why : what the file keeps instead of times, as a sentence that follows its name.
    instead : which flag or tool would have kept them.
    holds : numbers that it does hold, by their name in words.
    report : the server's own account of its speculation, in the words of `wire.dialects.report`.
    """
    held = {k: v for k, v in (holds or {}).items() if v is not None}
    meta: dict[str, Any] = {HOLDS: held} | ({"server_report": report} if report else {})
    return Trace((), meta, (finding("I010", f"{source.name} {why}", instead), *notes))


def refuse_without_times(trace: Trace) -> None:
    """Refuse a Trace that cannot be analysed since its file had no times.

    Raises
    ------
    InputError : it has no streams.
    """
    if trace.streams or HOLDS not in trace.meta:
        return
    reason = next((f for code in _REASONS for f in trace.findings if f.code == code), None)
    if reason is None:
        return
    held = "; ".join(f"{key} {_shown(value)}" for key, value in (trace.meta[HOLDS] | _said(trace)).items())
    raise InputError(f"{reason.message}" + (f" (it holds: {held})" if held else ""), reason.hint)


def _said(trace: Trace) -> dict[str, Any]:
    report = trace.meta.get("server_report") or {}
    words = {
        "acceptance_length": "acceptance length by the server",
        "draft_length": "draft length by the server",
        "acceptance_by_position": "acceptance by position by the server",
    }
    return {text: report[key] for key, text in words.items() if report.get(key) is not None}


def _shown(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(_shown, value))
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def refuse_gaps(gaps: bool) -> None:
    """Refuse `--gaps` for a file that has its own times.

    Raises
    ------
    UsageError : it was asked for.
    """
    if gaps:
        raise UsageError("--gaps is for plain columns of numbers; this file has its own times")
