"""Figures and the page of a plan."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import altair as alt

from ..planned import DataPlan, SpeedPlan
from .charts import Figure, Palette, Table, data, legend, series, tip
from .page import Card, Section, page
from .plans import TRIAL_HEADS, between, need_rows, size, speed_rows, trial_rows


def speed_page(found: SpeedPlan) -> str:
    """`found` as one HTML file; it fetches nothing."""
    heads, rows = speed_rows(found)
    sections = [
        Section("Draft lengths", "", figures=speed_figures(found, Palette.css())),
        Section("All draft lengths", table=Table(heads, tuple(rows))),
        Section("What it rests on", table=Table(("",), tuple((one,) for one in found.assumptions))),
    ]
    return page("specsonar plan", found.sentence, list(_cards(found)), sections)


def data_page(found: DataPlan) -> str:
    """`found` as one HTML file; it fetches nothing."""
    heads, rows = need_rows(found)
    sections = [
        Section("What has to be recorded", "", figures=data_figures(found, Palette.css())),
        Section("Every question", table=Table(heads, tuple(rows))),
        Section("What it rests on", table=Table(("",), tuple((one,) for one in found.assumptions))),
    ]
    return page("specsonar plan", found.sentence, [], sections)


def as_page(found: SpeedPlan | DataPlan) -> str:
    """The page of either kind of plan."""
    return data_page(found) if isinstance(found, DataPlan) else speed_page(found)


def figures(found: SpeedPlan | DataPlan, palette: Palette) -> list[Figure]:
    """Those of either kind of plan."""
    return data_figures(found, palette) if isinstance(found, DataPlan) else speed_figures(found, palette)


def data_figures(found: DataPlan, palette: Palette) -> list[Figure]:
    """Tokens by question and way of observing; and, where recordings were simulated, how many were right."""
    return [*_tokens(found, palette), *_trials(found, palette)]


def _tokens(found: DataPlan, palette: Palette) -> Iterator[Figure]:
    known = [n for n in found.needs if n.tokens is not None]
    if not known:
        return
    layers = list(dict.fromkeys(n.layer for n in found.needs))
    colours = legend(*zip(layers, (palette.step, palette.seen, palette.fitted), strict=False))
    told = [
        {"question": n.wanted, "layer": n.layer, "tokens": n.tokens, "streams": n.streams,
         "limit": n.limit}
        for n in known
    ]  # fmt: skip
    tips = [tip("question:N", "to know"), tip("layer:N", "layer"), tip("tokens:Q", "tokens", ","),
            tip("streams:Q", "streams"), tip("limit:N", "decided by")]  # fmt: skip
    chart = (
        alt.Chart(data(told)).mark_circle(aria=False, size=90, opacity=1)
        .encode(
            x=alt.X("tokens:Q", title="tokens (logarithmic)", scale=alt.Scale(type="log"), axis=alt.Axis(grid=True)),
            y=alt.Y("question:N", title=None, sort=None, axis=alt.Axis(labelLimit=320)),
            yOffset=alt.YOffset("layer:N", sort=None), color=alt.Color("layer:N", scale=colours, title=None),
            tooltip=tips,
        )
    )  # fmt: skip
    table = tuple((n.wanted, n.layer, *size(n), n.limit) for n in found.needs)
    yield Figure(
        "tokens", "Tokens that it takes", "By what is to be known, and by how tokens are observed.",
        chart, 80 + 44 * len({r["question"] for r in told}),
        Table(("to know", "layer", "tokens", "streams", "decided by"), table), wide=True,
    )  # fmt: skip


def _trials(found: DataPlan, palette: Palette) -> Iterator[Figure]:
    told = [
        {"question": f"{n.wanted}, {n.layer}", "size": name, "share": t.share, "low": t.low,
         "high": t.high, "wanted": n.probability}
        for n in found.needs for name, t in (("as planned", n.trial), ("a quarter of it", n.quarter)) if t is not None
    ]  # fmt: skip
    if not told:
        return
    colours = legend(("as planned", palette.seen), ("a quarter of it", palette.fitted), ("wanted", palette.muted))
    base = alt.Chart(data(told)).encode(
        y=alt.Y("question:N", title=None, sort=None, axis=alt.Axis(labelLimit=380)),
        tooltip=[tip("question:N", "to know"), tip("size:N", "recording"), tip("share:Q", "right", ".0%"),
                 tip("low:Q", "from", ".0%"), tip("high:Q", "to", ".0%"), tip("wanted:Q", "wanted", ".0%")],
    )  # fmt: skip
    x = alt.X("low:Q", title="right answers", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format="%", grid=True))
    colour = alt.Color("size:N", scale=colours, title=None)
    chart = alt.layer(
        series(base.mark_tick(aria=False, thickness=3).encode(x="wanted:Q"), "wanted", colours),
        base.mark_rule(aria=False, strokeWidth=2).encode(x=x, x2="high:Q", color=colour),
        base.mark_circle(aria=False, size=80, opacity=1).encode(x="share:Q", color=colour),
    )
    yield Figure(
        "trials", "Simulated recordings of these sizes",
        "Share of right answers with its 95% interval: as planned it is what was wanted, at a quarter it is not.",
        chart, 80 + 30 * len({r["question"] for r in told}), Table(TRIAL_HEADS, tuple(trial_rows(found))), wide=True,
    )  # fmt: skip


def _cards(found: SpeedPlan) -> Iterator[Card]:
    shown = found.asked or found.now
    for k, name in ((shown, "asked about" if found.asked else "now"), (found.best[0] or None, "fastest")):
        if k is None or (name == "fastest" and not found.cost_known):
            continue
        draft = found.draft(k)
        yield Card(f"{draft.acceptance_length.value:.2f}", "tokens a step", f"of {draft.max_burst}", f"k = {k}, {name}")
        if found.cost_known:
            yield Card(f"{draft.at[0].speedup.value:.2f}", "times plain decoding", "", f"k = {k}, {name}")


def speed_figures(found: SpeedPlan, palette: Palette) -> list[Figure]:
    """Speed-up, tokens against the ceiling, and the acceptance from which on a draft pays, over k."""
    return [*_speed(found, palette), *_ceiling(found, palette), *_pays(found, palette)]


def _colours(found: SpeedPlan, palette: Palette) -> alt.Scale:
    shades = (palette.seen, palette.fitted, palette.step, palette.other, palette.muted)
    return legend(*((f"{cost:.3g}", shade) for cost, shade in zip(found.draft_costs, shades, strict=False)))


def _x() -> alt.X:
    return alt.X("k:O", title="draft length k", sort=None, axis=alt.Axis(labelAngle=0))


def _by_cost(found: SpeedPlan, palette: Palette) -> alt.Color:
    return alt.Color("cost:N", scale=_colours(found, palette), title=None, sort=None)


def _speed(found: SpeedPlan, palette: Palette) -> Iterator[Figure]:
    told: list[dict[str, Any]] = [
        {"k": str(d.k), "cost": f"{a.draft_cost:.3g}", "value": a.speedup.value, "low": a.speedup.low,
         "high": a.speedup.value if a.speedup.high is None else a.speedup.high}
        for d in found.drafts for a in d.at
    ]  # fmt: skip
    tips = [tip("k:O", "k"), tip("cost:N", "draft cost"), tip("value:Q", "speed-up", ".2f"),
            tip("low:Q", "from", ".2f"), tip("high:Q", "to", ".2f")]  # fmt: skip
    base = alt.Chart(data(told)).encode(x=_x(), color=_by_cost(found, palette), tooltip=tips)
    y = alt.Y("value:Q", title="times plain decoding", scale=alt.Scale(zero=True))
    one = alt.Chart(data([{"one": 1}])).mark_rule(aria=False, color=palette.muted, strokeDash=[5, 4]).encode(y="one:Q")
    chart = alt.layer(
        one,
        base.mark_rule(aria=False, strokeWidth=2).encode(y=alt.Y("low:Q"), y2="high:Q"),
        base.mark_line(aria=False, strokeWidth=2).encode(y=y),
        base.mark_circle(aria=False, size=60, opacity=1).encode(y=y),
    )
    table = tuple((str(d.k), f"{a.draft_cost:.3g}", between(a.speedup)) for d in found.drafts for a in d.at)
    yield Figure(
        "speedup", "Speed-up over plain decoding",
        "By the cost of drafting one token, in plain steps of the target. Below the dashed line a draft does not pay.",
        chart, 260, Table(("k", "draft cost", "speed-up"), table),
    )  # fmt: skip


def _ceiling(found: SpeedPlan, palette: Palette) -> Iterator[Figure]:
    told = [
        {"k": str(d.k), "tokens": d.acceptance_length.value, "most": d.max_burst, "gap": d.gap_tokens.value,
         "share": d.efficiency.value}
        for d in found.drafts
    ]  # fmt: skip
    colours = legend(("tokens a step", palette.seen), ("the most there could be", palette.fitted))
    tips = [tip("k:O", "k"), tip("tokens:Q", "tokens a step", ".2f"), tip("most:Q", "at most"),
            tip("gap:Q", "gap", ".2f"), tip("share:Q", "efficiency", ".0%")]  # fmt: skip
    base = alt.Chart(data(told)).encode(x=_x(), tooltip=tips)
    chart = alt.layer(
        series(base.mark_bar(aria=False, cornerRadiusEnd=2).encode(y=alt.Y("tokens:Q", title="tokens")),
               "tokens a step", colours),
        series(base.mark_tick(aria=False, thickness=3).encode(y="most:Q"), "the most there could be", colours),
    )  # fmt: skip
    table = tuple(
        (
            str(d.k),
            between(d.acceptance_length),
            str(d.max_burst),
            f"{d.efficiency.value:.0%}",
            f"{d.gap_tokens.value:.2f}",
        )
        for d in found.drafts
    )
    yield Figure(
        "ceiling", "Tokens of a step against the ceiling",
        "What lies between bar and mark is drafted in vain: the gap M - E[B].",
        chart, 260, Table(("k", "tokens a step", "M", "efficiency", "gap"), table),
    )  # fmt: skip


def _pays(found: SpeedPlan, palette: Palette) -> Iterator[Figure]:
    told = [
        {"k": str(d.k), "cost": f"{a.draft_cost:.3g}", "alpha": a.break_even_alpha}
        for d in found.drafts for a in d.at if a.break_even_alpha is not None
    ]  # fmt: skip
    if not told:
        return
    tips = [tip("k:O", "k"), tip("cost:N", "draft cost"), tip("alpha:Q", "pays from", ".3f")]
    base = alt.Chart(data(told)).encode(
        x=_x(), color=_by_cost(found, palette), tooltip=tips,
        y=alt.Y("alpha:Q", title="acceptance", scale=alt.Scale(domain=[0, 1])),
    )  # fmt: skip
    chart = alt.layer(
        base.mark_line(aria=False, strokeWidth=2), base.mark_circle(aria=False, size=60, opacity=1)
    )  # fmt: skip
    table = tuple(
        (str(d.k), f"{a.draft_cost:.3g}", "never" if a.break_even_alpha is None else f"{a.break_even_alpha:.3f}")
        for d in found.drafts for a in d.at
    )  # fmt: skip
    yield Figure(
        "break-even", "From which acceptance on a draft pays",
        "With one acceptance for all positions: above the line speculation is faster than plain decoding.",
        chart, 260, Table(("k", "draft cost", "pays from"), table),
    )  # fmt: skip
