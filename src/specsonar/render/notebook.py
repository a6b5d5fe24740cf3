"""A Fingerprint as a small piece of HTML for notebooks: no script, no style sheet, nothing fetched."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from ..fingerprint import Fingerprint
from .bars import Bar, gap_bars, size_bars
from .rows import clean, level, provenance, rows

_CELL = 'style="text-align:left;padding:1px 12px 1px 0"'
_BAR = "display:inline-block;height:10px;background:#4c78a8"


def render(fingerprint: Fingerprint) -> str:
    """`fingerprint` as an HTML fragment; every text in it is escaped."""
    return "".join(_pieces(fingerprint))


def _pieces(fingerprint: Fingerprint) -> Iterator[str]:
    yield f"<div><p><b>{_text(fingerprint.sentence)}</b></p><table><thead><tr>"
    yield from (f"<th {_CELL}>{_text(head)}</th>" for head in ("quantity", "value", f"{level(fingerprint)} interval"))
    yield f"<th {_CELL}>method</th></tr></thead><tbody>"
    for row in rows(fingerprint):
        cells = (row.quantity, row.value, row.interval, row.method)
        yield "<tr>" + "".join(f"<td {_CELL}>{_text(cell)}</td>" for cell in cells) + "</tr>"
    yield "</tbody></table>"
    if fingerprint.burst_sizes is not None:
        yield from _histogram("steps by tokens", size_bars(fingerprint.burst_sizes))
    if fingerprint.gaps is not None:
        yield from _histogram("gaps in ms", gap_bars(fingerprint.gaps))
    if fingerprint.findings:
        yield "<ul>"
        for f in fingerprint.findings:
            hint = f" <i>{_text(f.hint)}</i>" if f.hint else ""
            yield f"<li><b>{_text(f.code)}</b> ({_text(f.severity)}): {_text(f.message)}{hint}</li>"
        yield "</ul>"
    yield f'<p style="opacity:.7"><small>{_text(provenance(fingerprint))}</small></p></div>'


def _histogram(title: str, bars: list[Bar]) -> Iterator[str]:
    """Bars with the observed count, and the fitted one beside it where there is one."""
    if not bars:
        return
    scale = max(bar.observed for bar in bars) or 1.0
    yield f"<details><summary>{_text(title)}</summary><table><tbody>"
    for bar in bars:
        length = round(240 * bar.observed / scale)
        fitted = "" if bar.fitted is None else f" (fitted {bar.fitted:.1f})"
        yield f'<tr><td {_CELL}>{_text(bar.label)}</td><td {_CELL}><span style="{_BAR};width:{length}px"></span>'
        yield f" {bar.observed:.4g}{fitted}</td></tr>"
    yield "</tbody></table></details>"


def _text(text: str) -> str:
    return escape(clean(text))
