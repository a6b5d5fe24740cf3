"""Figures that set the base and the candidate of a comparison side by side."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import altair as alt

from ..fingerprint import Comparison, Fingerprint
from .bars import size_bars
from .charts import Figure, Palette, Table, data, legend, series, tip
from .comparison import HEADS, SHOWN, rows
from .rows import decimals, interval, number


def comparison_figures(comparison: Comparison, palette: Palette) -> list[Figure]:
    """What changed, the laws of both sides, and their acceptance."""
    made = (changes, both_sizes, both_positions)
    return [figure for make in made for figure in make(comparison, palette)]


def changes(comparison: Comparison, palette: Palette) -> Iterator[Figure]:
    """The change of every quantity in percent, with its interval, beside the margin."""
    seen = []
    for name, change in comparison.changes.items():
        if change is not None:
            value, low, high = change.percent
            seen.append({"name": SHOWN[name][0], "value": value, "low": low, "high": high, "verdict": change.verdict})
    if not seen:
        return
    margin = comparison.margin * 100
    colours = legend(("change with its interval", palette.seen), ("margin", palette.step))
    base = alt.Chart(data(seen))
    y = alt.Y("name:N", title=None, sort=None)
    x = alt.X("low:Q", title="change from base to candidate, %", axis=alt.Axis(grid=True))
    tips = [tip("name:N", "quantity"), tip("value:Q", "change, %", "+.1f"), tip("low:Q", "from, %", "+.1f"),
            tip("high:Q", "to, %", "+.1f"), tip("verdict:N", "verdict")]  # fmt: skip
    room = alt.Chart(data([{"low": -margin, "high": margin, "zero": 0}]))
    lines = base.mark_rule(aria=False, strokeWidth=3).encode(x=x, x2="high:Q", y=y, tooltip=tips)
    points = base.mark_circle(aria=False, size=90, opacity=1).encode(x="value:Q", y=y, tooltip=tips)
    chart = alt.layer(
        series(room.mark_rect(aria=False, opacity=0.18).encode(x=x, x2="high:Q"), "margin", colours),
        room.mark_rule(aria=False, color=palette.muted).encode(x="zero:Q"),
        series(lines, "change with its interval", colours),
        series(points, "change with its interval", colours),
    )
    yield Figure(
        "changes", "What changed",
        f"Inside the margin of {margin:.3g}% a quantity counts as equivalent; clear of zero it changed.",
        chart, 60 + 36 * len(seen), Table(HEADS, tuple(rows(comparison))), wide=True,
    )  # fmt: skip


def both_sizes(comparison: Comparison, palette: Palette) -> Iterator[Figure]:
    """Steps by tokens on both sides, each as a share of its steps."""
    sides = [("base", comparison.base.burst_sizes), ("candidate", comparison.candidate.burst_sizes)]
    known = [(name, histogram) for name, histogram in sides if histogram is not None]
    if not known:
        return
    told = [{"side": name, "size": b.label, "steps": b.observed} for name, h in known for b in size_bars(h, most=40)]
    chart = (
        alt.Chart(data(told)).transform_joinaggregate(all="sum(steps)", groupby=["side"])
        .transform_calculate(share="datum.all > 0 ? datum.steps / datum.all : 0")
        .mark_bar(aria=False, cornerRadiusEnd=2)
        .encode(
            x=alt.X("size:O", title="tokens in a step", sort=None, axis=alt.Axis(labelAngle=0)),
            xOffset=alt.XOffset("side:N", sort=None),
            y=alt.Y("share:Q", title="share of the steps", axis=alt.Axis(format="%")),
            color=alt.Color("side:N", scale=_sides(palette), title=None),
            tooltip=[tip("side:N", "side"), tip("size:O", "tokens"), tip("steps:Q", "steps", ".1f"),
                     tip("share:Q", "share", ".1%")],
        )
    )  # fmt: skip
    yield Figure(
        "burst-sizes", "Tokens in a step", "How many tokens the steps gave on each side.", chart, 220,
        Table(("tokens", "side", "steps"), tuple((str(r["size"]), str(r["side"]), _one(r["steps"])) for r in told)),
    )  # fmt: skip


def both_positions(comparison: Comparison, palette: Palette) -> Iterator[Figure]:
    """Acceptance by draft position on both sides."""
    sides: list[tuple[str, Fingerprint]] = [("base", comparison.base), ("candidate", comparison.candidate)]
    told: list[dict[str, Any]] = []
    table = []
    for name, side in sides:
        for k, e in enumerate(side.acceptance_by_position or (), 1):
            high = 1.0 if e.high is None else e.high
            told.append({"side": name, "position": str(k), "value": e.value, "low": e.low, "high": high})
            table.append((f"position {k}", name, number(e.value, decimals(e)), interval(e, decimals(e))))
    if not told:
        return
    base = alt.Chart(data(told)).encode(
        x=alt.X("position:O", title="draft position", sort=None, axis=alt.Axis(labelAngle=0)),
        xOffset=alt.XOffset("side:N", sort=None),
        color=alt.Color("side:N", scale=_sides(palette), title=None),
        tooltip=[tip("side:N", "side"), tip("position:O", "position"), tip("value:Q", "acceptance", ".3f"),
                 tip("low:Q", "from", ".3f"), tip("high:Q", "to", ".3f")],
    )  # fmt: skip
    y = alt.Y("low:Q", title="acceptance", scale=alt.Scale(domain=[0, 1]))
    chart = alt.layer(
        base.mark_rule(aria=False, strokeWidth=2).encode(y=y, y2="high:Q"),
        base.mark_circle(aria=False, size=70, opacity=1).encode(y="value:Q"),
    )
    yield Figure(
        "acceptance", "Acceptance by draft position", "Share of drafts accepted where all before were, with intervals.",
        chart, 220, Table(("", "side", "acceptance", "interval"), tuple(table)),
    )  # fmt: skip


def _sides(palette: Palette) -> alt.Scale:
    return legend(("base", palette.seen), ("candidate", palette.fitted))


def _one(value: Any) -> str:
    return number(float(value), 1)
