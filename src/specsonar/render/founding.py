"""The founding article's figures: its analyser beside ours, and what was true."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import altair as alt

from .charts import Figure, Palette, Table, data, legend, series, tip
from .rows import number

if TYPE_CHECKING:
    from ..sweep import Sweep

WHO: Final = {
    "baseline": ("article", "the article's analyser", "article's analyser"),
    "likelihood": ("ours", "specsonar", "specsonar"),
}
"""Of each method, how it is called in names of figures, in titles and in legends."""


def founding_figures(sweep: Sweep, palette: Palette) -> list[Figure]:
    """Burst sizes of the first and the roughest service of one kind, by both methods; then every quantity."""
    return [*sizes(sweep, palette), *quantities(sweep, palette)]


def sizes(sweep: Sweep, palette: Palette) -> Iterator[Figure]:
    """The founding article's figure 1, clean beside jitter, its analyser beside ours."""
    alike = [row for row in sweep.rows if row.truth == sweep.rows[0].truth]
    shown = (alike[0], alike[-1]) if len(alike) > 1 else tuple(alike)
    found = [sizes for row in shown for sizes in (row.law, *(score.sizes for score in row.scores.values()))]
    # one pair of axes for all, or they could not be compared
    most, highest = max(map(len, found)), max(max(sizes, default=0.0) for sizes in found)
    for row in shown:
        for method, name, score in (
            (short, name, row.scores[key]) for key, (short, name, _) in WHO.items() if key in row.scores
        ):
            if not score.sizes:
                continue
            chart, table = _sizes(_filled(score.sizes, most), _filled(row.law, most), highest, palette)
            yield Figure(
                f"figure1-{row.label.replace(' ', '')}-{method}", f"{row.label} of jitter, {name}",
                f"Steps by their tokens, mean of {sweep.reps} streams, beside the true law (M = "
                f"{row.truth.max_burst:.0f}).",
                chart, 200, table,
            )  # fmt: skip


def _filled(sizes: tuple[float, ...], most: int) -> tuple[float, ...]:
    return (*sizes, *(0.0,) * (most - len(sizes)))


def _sizes(sizes: tuple[float, ...], law: tuple[float, ...], highest: float, palette: Palette) -> tuple[Any, Table]:
    both = list(enumerate(zip(sizes, law, strict=True), 1))
    told = [{"size": str(k), "seen": a, "law": b or None} for k, (a, b) in both]
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
    table = tuple((str(k), number(a, 1), number(b, 1)) for k, (a, b) in both)
    return chart, Table(("tokens", "found", "truth"), table)


def quantities(sweep: Sweep, palette: Palette) -> Iterator[Figure]:
    """M, acceptance and step in every row: the truth, the article's analyser run again, and ours."""
    sides = {key: name for key, (_, _, name) in WHO.items() if key in sweep.methods}
    who = (("truth", palette.muted), (WHO["baseline"][2], palette.fitted), (WHO["likelihood"][2], palette.seen))
    names = [name for name, _ in who]
    marks = alt.Scale(domain=names, range=["square", "diamond", "circle"])
    for field, title, unit, places in (
        ("max_burst", "Max burst M", "tokens", 1), ("alpha", "Acceptance rate", "", 3),
        ("step_ms", "Step time", "ms", 2),
    ):  # fmt: skip
        told: list[dict[str, Any]] = []
        for row in sweep.rows:
            told.append({"row": row.label, "who": "truth", "value": getattr(row.truth, field)})
            told += [{"row": row.label, "who": n, "value": row.scores[key].mean(field)} for key, n in sides.items()]
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
