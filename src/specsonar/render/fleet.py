"""A Fleet for the terminal, and as figures and a page: its groups, what changed along them, what was left out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from rich.console import Group as Lines
from rich.console import RenderableType
from rich.table import Table as Grid
from rich.text import Text

from ..fingerprint import EQUIVALENT, UNDETERMINED, Change, Estimate, Fingerprint
from .comparison import SHOWN
from .rows import NONE, clean, decimals, interval, number, percent
from .terminal import finding_lines, paint

if TYPE_CHECKING:
    from ..fleet import Drift, Fleet, Group
    from .charts import Figure, Palette, Table
    from .page import Card, Section

HEADS: Final = ("streams", "verdict", "M", "length", "interval", "step ms", "tokens/s", "drift")
_LEFT_OUT: Final = 10
"""Files named in the text; the JSON names all."""

_FIGURES: Final = 12
"""Series that are drawn, those that changed first; the tables have all."""

_LABEL: Final = 40
_UNKNOWN: Final = "?"


def text(found: Fleet, *, width: int = 80, colour: bool = False, encoding: str = "utf-8") -> str:
    """`found` as text that ends with a newline; see `terminal.render` for the rest."""
    return paint(Lines(*_parts(found)), width=width, colour=colour, encoding=encoding)


def _parts(found: Fleet) -> Iterator[RenderableType]:
    yield Text(clean(found.sentence), style="bold")
    yield Text()
    same = _same(found)
    for name, value in same.items():
        if value != _UNKNOWN:
            yield Text(f"{clean(name)}: {clean(value)}", style="dim")
    grid = Grid(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
    for name in found.by:
        if name not in same:
            grid.add_column(clean(name), overflow="fold")
    for head in HEADS:
        if head != "interval":
            left = head in ("verdict", "drift")
            grid.add_column(head, justify="left" if left else "right", no_wrap=not left, overflow="fold")
    for group in found.groups:
        streams, verdict, burst, length, _, step, rate, mark = row(found, group)
        before = found.before(group)
        style = "" if before is None else _STYLE.get(before.verdict, "yellow")
        keys = [_short(value) for name, value in zip(found.by, group.key, strict=True) if name not in same]
        grid.add_row(*map(Text, (*keys, streams, verdict, burst, length, step, rate)), Text(mark, style=style))
    yield grid
    told = [d for d in found.drift if d.changed]
    if told:
        yield Text()
        yield from (Text(f"{where(found, d, same)}: {clean(d.sentence)}") for d in told)
    if found.skipped:
        yield Text()
        yield Text("left out:")
        yield from (Text(f"  {clean(s.name)}: {clean(s.reason)}") for s in found.skipped[:_LEFT_OUT])
        if len(found.skipped) > _LEFT_OUT:
            yield Text(f"  and {len(found.skipped) - _LEFT_OUT} more")
    if found.findings:
        yield Text()
        yield from (part for f in found.findings for part in finding_lines(f))
    yield Text()
    yield Text(basis(found), style="dim")


_STYLE: Final = {EQUIVALENT: "green", UNDETERMINED: "cyan"}


def basis(found: Fleet) -> str:
    """What the numbers rest on."""
    return (
        f"{found.files:,} files | {found.streams:,} streams | {found.events:,} events | fingerprints from at most "
        f"{found.sample:,} streams a group | drift from all, margin {percent(found.margin)}"
    )


def _same(found: Fleet) -> dict[str, str]:
    """What all groups share, except what they are compared along."""
    values = list(zip(*(group.key for group in found.groups), strict=True))
    return {name: told[0] for name, told in zip(found.by[:-1], values, strict=False) if len(set(told)) == 1}


def label(found: Fleet, key: tuple[str, ...], same: dict[str, str]) -> str:
    """What tells a group, or a series, from the others."""
    parts = [_short(value) for name, value in zip(found.by, key, strict=False) if name not in same]
    return " ".join(parts)


def _short(value: str) -> str:
    shown = clean(value)
    return shown if len(shown) <= _LABEL else f"{shown[: _LABEL - 1]}…"


def where(found: Fleet, drift: Drift, same: dict[str, str]) -> str:
    """Between which groups."""
    return f"{label(found, drift.series, same)} {clean(drift.base)} to {clean(drift.candidate)}".strip()


def row(found: Fleet, group: Group) -> tuple[str, ...]:
    """A group as strings in the order of `HEADS`."""
    f = group.fingerprint
    if f is None:
        return (f"{group.streams:,}", clean(group.problem), *(NONE,) * 5, "")
    length, step, rate = f.acceptance_length, f.step_ms, f.tokens_per_s
    spread = "" if length is None else interval(length, decimals(length))
    cells = (_cell(length), spread, _cell(step), _cell(rate))
    return (f"{group.streams:,}", f.verdict, _burst(f), *cells, mark(found.before(group)))


def _burst(found: Fingerprint) -> str:
    if found.max_burst is None:
        return NONE
    return f"{'' if found.max_burst.high is not None else '>='}{found.max_burst.value:.0f}"


def _cell(estimate: Estimate | None) -> str:
    return NONE if estimate is None else number(estimate.value, min(decimals(estimate), 3))


def mark(drift: Drift | None) -> str:
    """What changed from the group before, in a few words; "" for the first of a series."""
    if drift is None:
        return ""
    if drift.verdict in (EQUIVALENT, UNDETERMINED, "explanation"):
        return {EQUIVALENT: "=", UNDETERMINED: "?"}.get(drift.verdict, "seen otherwise")
    parts = [(name, drift.of(name)) for name in ("acceptance_length", "step_ms")]
    return ", ".join(f"{_WORD[name]} {change.percent[0]:+.1f}%" for name, change in parts if change is not None)


_WORD: Final = {"acceptance_length": "accept", "step_ms": "step"}


def page(found: Fleet) -> str:
    """`found` as one HTML file."""
    from .charts import Palette
    from .page import page as whole

    return whole("specsonar fleet", found.sentence, list(_cards(found)), list(_sections(found, Palette.css())))


def _cards(found: Fleet) -> Iterator[Card]:
    from .page import Card

    for value, name in (
        (found.streams, "streams"), (found.events, "events"), (len(found.groups), "groups"),
        (len(found.changed), "changes"), (len(found.skipped), "files left out"),
    ):  # fmt: skip
        yield Card(f"{value:,}", "", "", name)


def _sections(found: Fleet, palette: Palette) -> Iterator[Section]:
    from .charts import Table
    from .page import Section, notes

    if drawn := figures(found, palette):
        yield Section(f"Along {found.by[-1]}", "Fingerprints of the groups with their intervals.", figures=drawn)
    heads = (*found.by, *HEADS)
    yield Section(
        "Groups", basis(found), table=Table(heads, tuple((*map(clean, g.key), *row(found, g)) for g in found.groups))
    )
    if found.drift:
        yield Section("Drift", "From all streams of both groups.", table=_drift(found))
    if found.skipped:
        table = Table(("file", "reason"), tuple((clean(s.name), clean(s.reason)) for s in found.skipped))
        yield Section("Files left out", table=table)
    if found.findings:
        yield Section("Findings", notes=notes(found.findings))


def _drift(found: Fleet) -> Table:
    from .charts import Table

    names = ("acceptance_length", "step_ms", "tokens_per_s", "first_token_ms")
    heads = (*found.by[:-1], "from", "to", "verdict", *(SHOWN[name][0] for name in names))
    return Table(
        heads,
        tuple(
            (
                *map(clean, d.series),
                clean(d.base),
                clean(d.candidate),
                d.verdict,
                *(_change(d.changes[n]) for n in names),
            )
            for d in found.drift
        ),
    )


def _change(change: Change | None) -> str:
    if change is None:
        return NONE
    value, low, high = (round(x, 1) + 0.0 for x in change.percent)
    return f"{value:+.1f}% [{low:+.1f}, {high:+.1f}]"


def figures(found: Fleet, palette: Palette) -> list[Figure]:
    """Acceptance length, step and rate along each series, with intervals; a change is marked where it begins."""
    series: dict[tuple[str, ...], list[Group]] = {}
    for group in found.groups:
        series.setdefault(group.key[:-1], []).append(group)
    moved = {d.series for d in found.changed}
    order = sorted((name for name in series if len(series[name]) > 1), key=lambda name: (name not in moved, name))
    return [
        figure
        for place, name in enumerate(order[:_FIGURES], 1)
        for quantity in ("acceptance_length", "step_ms", "tokens_per_s")
        for figure in _figure(found, series[name], quantity, place, palette)
    ]


def _figure(found: Fleet, groups: list[Group], quantity: str, place: int, palette: Palette) -> Iterator[Figure]:
    import altair as alt

    from .charts import Figure, Table, data, legend, tip

    told: list[dict[str, Any]] = []
    cells = []
    for group in groups:
        estimate = getattr(group.fingerprint, quantity, None)
        if estimate is None:
            continue
        before = found.before(group)
        fresh = before is not None and before.of(quantity) is not None
        high = estimate.value if estimate.high is None else estimate.high
        told.append({"at": clean(group.key[-1]), "value": estimate.value, "low": estimate.low, "high": high,
                     "kind": "changed" if fresh else "as before", "streams": group.streams})  # fmt: skip
        cells.append((clean(group.key[-1]), number(estimate.value, decimals(estimate)),
                      interval(estimate, decimals(estimate)), told[-1]["kind"]))  # fmt: skip
    if len(told) < 2:
        return
    name, unit, places = SHOWN[quantity]
    along = found.by[-1]
    base = alt.Chart(data(told)).encode(
        x=alt.X("at:O", title=None, sort=None),
        color=alt.Color("kind:N", scale=legend(("as before", palette.seen), ("changed", palette.fitted)), title=None),
        tooltip=[tip("at:O", along), tip("value:Q", name, f".{places}f"), tip("low:Q", "from", f".{places}f"),
                 tip("high:Q", "to", f".{places}f"), tip("streams:Q", "streams", ",")],
    )  # fmt: skip
    y = alt.Y("low:Q", title=f"{name}{f',{unit}' if unit else ''}", scale=alt.Scale(zero=False, padding=12))
    chart = alt.layer(
        base.mark_rule(aria=False, strokeWidth=2).encode(y=y, y2="high:Q"),
        base.mark_circle(aria=False, size=36, opacity=1).encode(y="value:Q"),
    )
    title = label(found, groups[0].key[:-1], _same(found))
    yield Figure(
        f"{quantity.replace('_', '-')}-{place}", f"{name[0].upper()}{name[1:]}{f': {title}' if title else ''}",
        f"Along {along}, with intervals; marked where it changed.", chart, 180,
        Table((along, name, "interval", "against the one before"), tuple(cells)),
    )  # fmt: skip
