"""Figures and the page of `defend`: what leaks against what is waited, and how much random delay is enough."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

import altair as alt

from ..defended import BASELINE, HIDDEN, OURS, Defended, Row
from .charts import Figure, Palette, Table, data, legend, tip
from .defences import LEARNT_HEADS, PRICE_HEADS, enough_rows, learnt_cells, lengths, price_cells, truth
from .page import Card, Section, page

_QUANTITIES: Final = (
    (OURS, "speculative", "ours: speculation"), (OURS, "max_burst", "ours: M"), (BASELINE, "max_burst", "baseline: M"),
)  # fmt: skip


def defence_page(found: Defended) -> str:
    """`found` as one HTML file; it fetches nothing."""
    sections = [
        Section("What is learnt, and what it costs", truth(found), figures=defence_figures(found, Palette.css()))
    ]
    for tokens in lengths(found):
        rows = [row for row in found.rows if row.tokens == tokens]
        learnt = tuple((row.policy, *learnt_cells(row)) for row in rows)
        price = tuple((row.policy, *price_cells(row)) for row in rows)
        sections.append(Section(f"Learnt from {tokens:,} tokens", table=Table(_heads(LEARNT_HEADS), learnt)))
        sections.append(Section(f"Cost, {tokens:,} tokens", table=Table(("policy", *_heads(PRICE_HEADS)), price)))
    if found.enough:
        heads, table = enough_rows(found)
        sections.append(Section("How much random delay is enough, in steps", table=Table(heads, tuple(table))))
    sections.append(Section("What it rests on", table=Table(("",), tuple((one,) for one in found.assumptions))))
    return page("specsonar defend", found.sentence, list(_cards(found)), sections)


def _heads(pairs: tuple[tuple[str, str], ...]) -> tuple[str, ...]:
    """Both lines of the heads of a terminal's table in one."""
    made, above = [], ""
    for over, head in pairs:
        above = over or above
        made.append(f"{above} {head}".strip())
    return tuple(made)


def _cards(found: Defended) -> Iterator[Card]:
    best = found.cheapest
    if best is not None:
        yield Card(best.policy, "", "", "cheapest that hides the drafts")
        yield Card(f"{best.price.mean_ms:.1f}", "ms", "", "later on average")
        yield Card(f"{best.price.time_ratio:.2f}", "times", "", "as long an answer")


def defence_figures(found: Defended, palette: Palette) -> list[Figure]:
    """The frontier for each length of answers, then a curve over the delay for each way to delay."""
    made = [figure for tokens in lengths(found) for figure in _frontier(found, tokens, palette)]
    return [*made, *(figure for way in _ways(found) for figure in _curve(found, way, palette))]


def _ways(found: Defended) -> list[str]:
    """Random delays that were tried at three strengths at least."""
    return list(dict.fromkeys(one.way for one in found.enough))


def _frontier(found: Defended, tokens: int, palette: Palette) -> Iterator[Figure]:
    rows = [row for row in found.rows if row.tokens == tokens]
    told: list[dict[str, Any]] = [
        {"policy": row.policy, "kind": _kind(row), "ms": row.price.mean_ms, "leak": row.leak, "p99": row.price.p99_ms,
         "time": row.price.time_ratio}
        for row in rows
    ]  # fmt: skip
    shades = (palette.seen, palette.fitted, palette.step, palette.other, palette.muted, palette.ink)
    kinds = list(dict.fromkeys(r["kind"] for r in told))
    colours = legend(*((kind, shades[i % len(shades)]) for i, kind in enumerate(kinds)))
    marks = alt.Scale(domain=kinds, range=["circle", "square", "diamond", "triangle-up", "cross", "triangle-down"])
    tips = [tip("policy:N", "policy"), tip("ms:Q", "ms later", ".1f"), tip("p99:Q", "p99, ms", ".1f"),
            tip("leak:Q", "learnt", ".0%"), tip("time:Q", "answer's time, ratio", ".2f")]  # fmt: skip
    base = alt.Chart(data(told)).encode(
        x=alt.X("ms:Q", title="mean ms that a token comes later", scale=alt.Scale(type="symlog", constant=5)),
        y=alt.Y("leak:Q", title="learnt of the drafts", axis=alt.Axis(format="%"), scale=alt.Scale(domain=[0, 1])),
        color=alt.Color("kind:N", scale=colours, title=None, sort=None),
        shape=alt.Shape("kind:N", scale=marks, title=None, sort=None),
        tooltip=tips,
    )
    chart = alt.layer(_line(palette), base.mark_point(aria=False, filled=True, size=110, opacity=0.9))
    table = tuple((r["policy"], f"{r['ms']:.1f}", f"{r['leak']:.0%}") for r in told)
    yield Figure(
        f"frontier-{tokens}", f"What leaks against what is waited, {tokens:,} tokens",
        "Share of trials in which the best informed observer tells speculation (better than chance) or M. Below the "
        "dashed line it counts as hidden; further left costs less.",
        chart, 280, Table(("policy", "ms later", "learnt"), table), wide=True,
    )  # fmt: skip


def _kind(row: Row) -> str:
    return row.way.partition("+")[0].partition("=")[0]


def _line(palette: Palette) -> alt.Chart:
    """Below this a thing counts as hidden."""
    rule: alt.Chart = alt.Chart(data([{"line": HIDDEN}])).mark_rule(aria=False, color=palette.muted, strokeDash=[5, 4])
    line: alt.Chart = rule.encode(y="line:Q")
    return line


def _curve(found: Defended, way: str, palette: Palette) -> Iterator[Figure]:
    told: list[dict[str, Any]] = []
    table = []
    for row in found.rows:
        if row.way != way or math.isnan(row.strength):
            continue
        cells = []
        for observer, quantity, name in _QUANTITIES:
            learnt = row.by(observer)
            if learnt is None:
                continue
            value = learnt.verdict if quantity == "speculative" else learnt.max_burst.value
            told.append({"steps": row.strength, "who": name, "tokens": f"{row.tokens:,} tokens", "value": value})
            cells.append(f"{value:.0%}")
        table.append((f"{row.strength:.2g}", f"{row.tokens:,}", *cells))
    names = [f"{tokens:,} tokens" for tokens in lengths(found)]
    dashes = alt.Scale(domain=names, range=[[2, 3], [7, 4], [1, 0], [9, 2, 2, 2], [4, 1]][-len(names) :])
    shades = (palette.seen, palette.step, palette.fitted)
    colours = legend(*((name, shade) for (_, _, name), shade in zip(_QUANTITIES, shades, strict=True)))
    base = alt.Chart(data(told)).encode(
        x=alt.X("steps:Q", title="mean delay over the step"),
        y=alt.Y("value:Q", title="trials in which it is learnt", axis=alt.Axis(format="%"),
                scale=alt.Scale(domain=[0, 1])),
        color=alt.Color("who:N", scale=colours, title=None, sort=None),
        tooltip=[tip("who:N", "who learns what"), tip("tokens:N", "answer"), tip("steps:Q", "delay, steps", ".2f"),
                 tip("value:Q", "learnt", ".0%")],
    )  # fmt: skip
    dash = alt.StrokeDash("tokens:N", scale=dashes, title=None, sort=None)
    chart = alt.layer(
        _line(palette),
        base.mark_line(aria=False, strokeWidth=2).encode(strokeDash=dash, detail="tokens:N"),
        base.mark_circle(aria=False, size=50, opacity=1),
    )
    yield Figure(
        f"enough-{way.replace('=', '-')}", f"How much delay is enough: {way}",
        f"Share of {found.reps} trials in which speculation (better than chance) or M is told, over the mean delay.",
        chart, 260, Table(("delay, steps", "tokens", *(name for _, _, name in _QUANTITIES)), tuple(table)),
    )  # fmt: skip
