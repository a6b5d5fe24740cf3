"""Records in a notebook: a small piece of HTML without script or style sheet, columns of numbers, and plots."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING, Any, Final, cast

from ..defended import Defended
from ..fingerprint import Comparison, Estimate, Fingerprint
from ..planned import DataPlan, SpeedPlan
from ..shown import Shown
from . import comparison
from .bars import Bar, gap_bars, size_bars
from .rows import clean, level, provenance, rows

if TYPE_CHECKING:
    from ..sweep import Sweep

QUANTITIES: Final = (
    "acceptance_length", "max_burst", "acceptance_rate", "step_ms", "jitter_ms", "tokens_per_s", "efficiency",
    "gap_tokens",
)  # fmt: skip
CHANGE: Final = ("base", "candidate", "ratio", "low", "high", "level", "verdict", "method")

_CELL = 'style="text-align:left;padding:1px 12px 1px 0"'
_BAR = "display:inline-block;height:10px;background:#4c78a8"


def render(record: Shown) -> str:
    """A record as an HTML fragment; every text in it is escaped."""
    match record:
        case Fingerprint():
            return "".join(_pieces(record))
        case Comparison():
            return "".join(_changes(record))
    return "".join(_table(*_sweep(record).flat()))


def columns(record: Shown) -> dict[str, list[Any]]:
    """The numbers of a record by column, one row a quantity; None where there is none."""
    names: tuple[str, ...]
    rows_: list[tuple[Any, ...]]
    match record:
        case Fingerprint():
            names = ("quantity", "value", "low", "high", "level", "method")
            rows_ = [(n, e.value, e.low, e.high, e.level, e.method) for n, e in _estimates(record)]
        case Comparison():
            names = ("quantity", *CHANGE)
            rows_ = [(n, *(getattr(c, key) for key in CHANGE)) for n, c in record.changes.items() if c is not None]
        case _:
            head, table = _sweep(record).flat()
            names, rows_ = tuple(head), [tuple(row) for row in table]
    return {name: [row[i] for row in rows_] for i, name in enumerate(names)}


def plot(record: Shown, name: str | None) -> Any:
    """One figure, or all of them below each other.

    Raises
    ------
    KeyError : there is no such figure.
    """
    # imported when somebody plots: altair comes with an extra
    import altair

    from . import charts, defencefigures, images, maps, pairs, planfigures

    match record:
        case Fingerprint():
            drawn = charts.figures(record, images.PALETTE)
        case Comparison():
            drawn = pairs.comparison_figures(record, images.PALETTE)
        case SpeedPlan() | DataPlan():
            drawn = planfigures.figures(record, images.PALETTE)
        case Defended():
            drawn = defencefigures.defence_figures(record, images.PALETTE)
        case _:
            drawn = maps.sweep_figures(_sweep(record), images.PALETTE)
    if name is not None:
        by_name = {figure.name: figure for figure in drawn}
        if name not in by_name:
            raise KeyError(f"no figure {name!r}; there are {', '.join(by_name) or 'none'}")
        return images.alone(by_name[name])
    below = altair.vconcat(*(images.sized(figure) for figure in drawn)).resolve_scale(color="independent")
    return charts.themed(below, images.PALETTE, font="sans-serif", paper=images.PALETTE.paper)


def _sweep(record: Shown) -> Sweep:
    return cast("Sweep", record)


def _estimates(fingerprint: Fingerprint) -> Iterator[tuple[str, Estimate]]:
    for name in QUANTITIES:
        if (estimate := getattr(fingerprint, name)) is not None:
            yield name, estimate
    for k, estimate in enumerate(fingerprint.acceptance_by_position or (), 1):
        yield f"acceptance_at_{k}", estimate


def _changes(found: Comparison) -> Iterator[str]:
    yield f"<div><p><b>{_text(found.sentence)}</b></p>"
    yield from _table(list(comparison.HEADS), [list(row) for row in comparison.rows(found)])
    yield "</div>"


def _table(head: list[str], rows_: list[list[Any]]) -> Iterator[str]:
    yield "<table><thead><tr>" + "".join(f"<th {_CELL}>{_text(cell)}</th>" for cell in head) + "</tr></thead><tbody>"
    for row in rows_:
        cells = ("" if cell is None else f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in row)
        yield "<tr>" + "".join(f"<td {_CELL}>{_text(cell)}</td>" for cell in cells) + "</tr>"
    yield "</tbody></table>"


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
