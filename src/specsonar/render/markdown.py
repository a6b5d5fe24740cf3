"""A Fingerprint as a short piece of Markdown, for issues, pull requests and job summaries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..fingerprint import Check, Finding, Fingerprint
from .rows import clean, level, provenance, rows

_ESCAPED = {ord(c): f"\\{c}" for c in "\\`*_[]<>|#"}


def render(fingerprint: Fingerprint) -> str:
    """`fingerprint` as Markdown that ends with a newline."""
    return "\n".join(_lines(fingerprint)) + "\n"


def _lines(fingerprint: Fingerprint) -> Iterator[str]:
    yield f"**{escape(fingerprint.sentence)}**"
    yield ""
    if fingerprint.checks:
        yield from check_lines(fingerprint.checks)
        yield ""
    yield f"| quantity | value | {level(fingerprint)} interval | method |"
    yield "| --- | ---: | --- | --- |"
    for row in rows(fingerprint):
        cells = (row.quantity.strip(), row.value, row.interval, row.method)
        yield f"| {' | '.join(escape(cell) for cell in cells)} |"
    if fingerprint.findings:
        yield ""
        yield from finding_lines(fingerprint.findings)
    yield ""
    yield escape(provenance(fingerprint))


def check_lines(checks: Sequence[Check]) -> Iterator[str]:
    """The checks that decide, as a list."""
    for check in checks:
        if check.verdict is not None:
            yield f"- **{check.verdict}** {escape(check.name)}: {escape(check.message)}"


def finding_lines(findings: Sequence[Finding]) -> Iterator[str]:
    """Findings with what to do about them, as a list."""
    for f in findings:
        hint = f". {escape(f.hint)}" if f.hint else ""
        yield f"- **{escape(f.code)}** ({escape(f.severity)}): {escape(f.message)}{hint}"


def escape(text: str) -> str:
    """`text` as one line that Markdown shows as it is."""
    return clean(text).translate(_ESCAPED)
