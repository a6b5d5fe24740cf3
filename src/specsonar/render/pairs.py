"""Figures that set two things side by side: base and candidate, the article's analyser and ours."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import altair as alt

from ..fingerprint import Comparison, Fingerprint
from .bars import size_bars
from .charts import Figure, Palette, Table, data, legend, series, tip
from .comparison import HEADS, SHOWN, rows
from .rows import decimals, interval, number

if TYPE_CHECKING:
    from ..sweep import Sweep


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


def sweep_figures(sweep: Sweep, palette: Palette) -> list[Figure]:
    """Burst sizes of the first and the roughest service of one kind, by both methods; then every quantity."""
    return [*founding(sweep, palette), *quantities(sweep, palette)]


def founding(sweep: Sweep, palette: Palette) -> Iterator[Figure]:
    """The founding article's figure 1, clean beside jitter, its analyser beside ours."""
    truth = (sweep.rows[0].max_burst, sweep.rows[0].alpha, sweep.rows[0].step_ms)
    alike = [row for row in sweep.rows if (row.max_burst, row.alpha, row.step_ms) == truth]
    shown = (alike[0], alike[-1]) if len(alike) > 1 else tuple(alike)
    found = [sizes for row in shown for sizes in (row.law, row.baseline.sizes, row.likelihood.sizes)]
    # one pair of axes for all, or they could not be compared
    most, highest = max(map(len, found)), max(max(sizes, default=0.0) for sizes in found)
    for row in shown:
        for method, name, summary in (
            ("article", "the article's analyser", row.baseline), ("ours", "specsonar", row.likelihood),
        ):  # fmt: skip
            if not summary.sizes:
                continue
            chart, table = _sizes(_filled(summary.sizes, most), _filled(row.law, most), highest, palette)
            yield Figure(
                f"figure1-{row.label.replace(' ', '')}-{method}", f"{row.label} of jitter, {name}",
                f"Steps by their tokens, mean of {sweep.reps} streams, beside the true law (M = {row.max_burst}).",
                chart, 200, table,
            )  # fmt: skip


def _filled(sizes: tuple[float, ...], most: int) -> tuple[float, ...]:
    return (*sizes, *(0.0,) * (most - len(sizes)))


def _sizes(sizes: tuple[float, ...], law: tuple[float, ...], highest: float, palette: Palette) -> tuple[Any, Table]:
    told = [{"size": str(k), "seen": a, "law": b or None} for k, (a, b) in enumerate(zip(sizes, law, strict=True), 1)]
    y = alt.Y("seen:Q", title="steps", scale=alt.Scale(domain=[0, highest]))
    colours = legend(("found", palette.seen), ("truth", palette.fitted))
    base = alt.Chart(data(told)).encode(
        x=alt.X("size:O", title="tokens in a step", sort=None, axis=alt.Axis(labelAngle=0)),
        tooltip=[tip("size:O", "tokens"), tip("seen:Q", "found", ".1f"), tip("law:Q", "truth", ".1f")],
    )  # fmt: skip
    point = base.mark_point(
        aria=False, filled=True, shape="diamond", size=110, opacity=1, stroke=palette.paper, strokeWidth=1
    )
    chart = alt.layer(
        series(base.mark_bar(aria=False, cornerRadiusEnd=2).encode(y=y), "found", colours),
        series(point.encode(y="law:Q"), "truth", colours),
    )
    table = tuple((str(r["size"]), _one(r["seen"]), _one(r["law"] or 0.0)) for r in told)
    return chart, Table(("tokens", "found", "truth"), table)


def quantities(sweep: Sweep, palette: Palette) -> Iterator[Figure]:
    """M, acceptance and step in every row: the truth, the article's analyser run again, and ours."""
    who = (("truth", palette.muted), ("article's analyser", palette.fitted), ("specsonar", palette.seen))
    names = [name for name, _ in who]
    marks = alt.Scale(domain=names, range=["square", "diamond", "circle"])
    for field, title, unit, places in (
        ("max_burst", "Max burst M", "tokens", 1), ("alpha", "Acceptance rate", "", 3),
        ("step_ms", "Step time", "ms", 2),
    ):  # fmt: skip
        told: list[dict[str, Any]] = []
        for row in sweep.rows:
            sides = zip(names, (row, row.baseline, row.likelihood), strict=True)
            told += [{"row": row.label, "who": name, "value": getattr(side, field)} for name, side in sides]
        base = alt.Chart(data([r for r in told if r["value"] == r["value"]])).encode(
            x=alt.X("row:O", title="jitter", sort=None, axis=alt.Axis(labelAngle=0)),
            y=alt.Y("value:Q", title=unit or title.lower(), scale=alt.Scale(zero=False, padding=14)),
            xOffset=alt.XOffset("who:N", sort=names),
            color=alt.Color("who:N", scale=legend(*who), title=None),
            shape=alt.Shape("who:N", scale=marks, title=None),
            tooltip=[tip("row:O", "row"), tip("who:N", "who"), tip("value:Q", title, f".{places}f")],
        )
        yield Figure(
            field.replace("_", "-"), title, f"Mean of {sweep.reps} streams a row.",
            base.mark_point(aria=False, filled=True, size=110, opacity=1, strokeWidth=2), 220,
            Table(("jitter", "who", "value"), tuple((r["row"], r["who"], number(r["value"], places)) for r in told)),
        )  # fmt: skip
