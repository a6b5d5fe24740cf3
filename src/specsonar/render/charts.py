"""Each figure of a fingerprint as a Vega-Lite chart, with the words and the table that say the same.

The colours are names that `Palette` fills in: CSS variables on a page, which follow its light or dark look, and plain
colours in a file. All of them can be told apart by colour-blind readers (Okabe and Ito 2008).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import altair as alt

from ..fingerprint import Fingerprint
from ..pictures import Histogram
from .bars import Bar, gap_bars, size_bars
from .rows import decimals, interval, number, percent

FIRST_STEPS: Final = 30
"""Steps in view before anybody zooms."""

FIRST_EVENTS: Final = 60
"""The same where steps are not known."""

DECADES: Final = (0.001, 0.01, 0.1, 1, 10, 100, 1_000, 10_000, 100_000)
FONT: Final = "system-ui, -apple-system, Segoe UI, Roboto, sans-serif"
TALL: Final = 64
"""Dots drawn for one event, however many tokens it holds."""

PILE: Final = 16
"""Tokens on top of each other beyond which a pile overlaps the stream above."""

NATS: Final = (0, -1, -10, -100, -1_000, -10_000, -100_000)


@dataclass(frozen=True, slots=True)
class Palette:
    """Colours: of data, of the fit, of a second data set, of marks in the background, of text, of lines, of paper."""

    seen: str = "#0072B2"
    fitted: str = "#D55E00"
    other: str = "#CC79A7"
    step: str = "#009E73"
    ink: str = "#1b1f24"
    muted: str = "#57606a"
    line: str = "#e1e5ea"
    paper: str = "#ffffff"

    @classmethod
    def css(cls) -> Palette:
        """Variables of the page's style sheet in place of the colours."""
        return cls(**{name: f"var(--{name})" for name in cls.__dataclass_fields__})


@dataclass(frozen=True, slots=True)
class Table:
    """The same as a figure, for reading: column heads and rows of text."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure.

    Attributes
    ----------
    name : for files and anchors.
    title, caption : what is shown, and how to read it.
    chart : of altair, without a title, size or theme of its own.
    height : in pixels.
    table : the same in text.
    wide : needs the whole width of a page.
    end : of a x axis that can be moved, through the chart's parameter "zoom"; None for one that cannot.
    """

    name: str
    title: str
    caption: str
    chart: Any
    height: int
    table: Table
    wide: bool = False
    end: float | None = None


def figures(fingerprint: Fingerprint, palette: Palette) -> list[Figure]:
    """Every figure that the fingerprint has the data for, in reading order."""
    made = (arrivals, sizes, gaps, phases, positions, profile)
    return [figure for make in made for figure in make(fingerprint, palette)]


def themed(chart: Any, palette: Palette, *, font: str = FONT, paper: str = "transparent") -> Any:
    """`chart` with fonts, lines and colours of the page, on `paper`."""
    text = {"labelColor": palette.muted, "titleColor": palette.ink}
    return (
        chart.configure(font=font, background=paper)
        .configure_view(stroke=None)
        .configure_axis(
            gridColor=palette.line, domainColor=palette.muted, tickColor=palette.muted, labelFontSize=12,
            titleFontSize=12, titleFontWeight="normal", titlePadding=8, labelFlush=False, aria=False, **text,
        )
        .configure_axisX(grid=False, labelOverlap=True)
        .configure_axisY(domain=False, ticks=False, tickCount=5)
        .configure_legend(
            orient="top", title=None, labelFontSize=12, symbolSize=90, symbolOpacity=1, symbolType="circle", offset=4,
            padding=0, aria=False, **text,
        )
        .configure_title(color=palette.ink, fontSize=14, anchor="start", offset=10)
    )  # fmt: skip


def data(rows: list[dict[str, Any]]) -> alt.InlineData:
    """Rows that travel inside the chart."""
    return alt.InlineData(values=rows)


def legend(*pairs: tuple[str, str]) -> alt.Scale:
    """Names with their colours, in that order."""
    return alt.Scale(domain=[name for name, _ in pairs], range=[colour for _, colour in pairs])


def series(chart: alt.Chart, name: str, scale: alt.Scale) -> alt.Chart:
    """`chart` in the colour that the legend gives `name`."""
    return chart.transform_calculate(series=f"'{name}'").encode(color=alt.Color("series:N", scale=scale, title=None))


def arrivals(fingerprint: Fingerprint, palette: Palette) -> Iterator[Figure]:
    """When the first tokens came: a dot for each, stacked where a step brought several, and a line for each step."""
    shown = fingerprint.arrivals
    if not shown:
        return
    highest = min(max(max(row or (1,)) for a in shown for row in (a.places, a.tokens)), PILE)
    lane = highest + 1
    tokens, steps, table, names = [], [], [], {}
    for n, a in enumerate(shown, 1):
        floor = (len(shown) - n) * lane
        names[floor + lane / 2] = stream = f"stream {n}"
        starts = set(a.steps_ms or ())
        for i, t in enumerate(a.t_ms):
            many = 1 if a.tokens is None else a.tokens[i]
            first = 1 if a.places is None else a.places[i]
            # short names: there is one of these for every token
            tokens += [
                {"s": n, "ms": t, "y": floor + first + k, "p": first + k, "n": many} for k in range(min(many, TALL))
            ]
            table.append((stream, f"{t:.3f}", str(many), "yes" if t in starts else ""))
        steps += [{"ms": t, "low": floor, "high": floor + highest + 0.6} for t in a.steps_ms or ()]
    head = shown[0]
    end = next(
        (row[n] for row, n in ((head.steps_ms, FIRST_STEPS), (head.t_ms, FIRST_EVENTS)) if row and len(row) > n),
        head.t_ms[-1],
    )
    colours = legend(("token", palette.seen), ("step begins", palette.step))
    zoom = alt.selection_interval(
        name="zoom", encodings=["x"], bind="scales", zoom="wheel![event.shiftKey]",
        translate="[pointerdown, window:pointerup] > window:pointermove!",
    )  # fmt: skip
    x = alt.X(
        "ms:Q", title="milliseconds after the first token", scale=alt.Scale(domain=[0, end], nice=False),
        axis=alt.Axis(tickCount=10),
    )  # fmt: skip
    label = " ".join(f"datum.value == {at} ? '{name}' :" for at, name in names.items()) + " ''"
    lanes = alt.Axis(values=list(names), labelExpr=label, grid=False, labels=len(shown) > 1)
    y = alt.Y("low:Q", title=None, axis=lanes, scale=alt.Scale(domain=[0, len(shown) * lane], nice=False))
    rule = series(
        alt.Chart(data(steps)).mark_rule(clip=True, strokeWidth=1, opacity=0.6, aria=False)
        .encode(x=x, y=y, y2="high:Q", tooltip=[tip("ms:Q", "step, ms")]),
        "step begins", colours,
    )  # fmt: skip
    dots = series(
        alt.Chart(data(tokens)).mark_circle(clip=True, size=30, opacity=0.9, aria=False)
        .encode(
            x=x, y=alt.Y("y:Q", title=None, axis=lanes),
            tooltip=[tip("ms:Q", "ms"), tip("s:Q", "stream"), tip("p:Q", "token of its step"),
                     tip("n:Q", "tokens in the event")],
        ),
        "token", colours,
    )  # fmt: skip
    layers = [rule, dots.add_params(zoom)] if steps else [dots.add_params(zoom)]
    told = "one line where each step begins" if steps else "the data do not tell where steps begin"
    yield Figure(
        "arrivals", "Arrivals", f"The beginning of {_streams(len(shown))}: a dot is a token, {told}. "
        "Drag to move; hold Shift and turn the wheel, or use the buttons, to zoom.",
        alt.layer(*layers), max(150, 70 * len(shown)),
        Table(("stream", "ms", "tokens", "step begins"), tuple(table)), wide=True,
        end=max(a.t_ms[-1] for a in shown),
    )  # fmt: skip


def _streams(n: int) -> str:
    return "the stream" if n == 1 else f"{n} streams"


def tip(field: str, title: str, spec: str | None = None) -> alt.Tooltip:
    """What is told of a field when the pointer is on its mark."""
    return alt.Tooltip(field, title=title, format=spec) if spec else alt.Tooltip(field, title=title)


def sizes(fingerprint: Fingerprint, palette: Palette) -> Iterator[Figure]:
    """Steps by the tokens they gave, against the fitted law."""
    if fingerprint.burst_sizes is not None:
        chart, table = size_chart(fingerprint.burst_sizes, palette)
        yield Figure(
            "burst-sizes", "Tokens in a step",
            "How many tokens the steps gave." + _against(fingerprint.burst_sizes, "the fitted law of acceptance"),
            chart, 220, table,
        )  # fmt: skip


def size_chart(histogram: Histogram, palette: Palette) -> tuple[Any, Table]:
    """Bars over whole numbers with marks where the law expects them."""
    bars = size_bars(histogram, most=40)
    rows = [{"size": b.label, "seen": b.observed, "law": b.fitted} for b in bars]
    colours = _seen_and_fitted(histogram, palette)
    base = alt.Chart(data(rows))
    x = alt.X("size:O", title="tokens in a step", sort=None, axis=alt.Axis(labelAngle=0))
    tips = [tip("size:O", "tokens"), tip("seen:Q", "steps", ".1f"), tip("law:Q", "fitted", ".1f")]
    layers = [
        series(
            base.mark_bar(aria=False, cornerRadiusEnd=2).encode(x=x, y=alt.Y("seen:Q", title="steps"), tooltip=tips),
            "observed", colours,
        )
    ]  # fmt: skip
    if histogram.fitted is not None:
        layers.append(
            series(
                base.mark_point(
                    aria=False, filled=True, shape="diamond", size=110, opacity=1, stroke=palette.paper, strokeWidth=1
                ).encode(x=x, y="law:Q", tooltip=tips),
                "fitted law", colours,
            )
        )  # fmt: skip
    return alt.layer(*layers), _bar_table(("tokens", "steps"), bars, places=1)


def _bar_table(head: tuple[str, str], bars: Sequence[Bar], places: int = 0) -> Table:
    """What was observed, and beside it what the law expects where there is one."""
    if all(bar.fitted is None for bar in bars):
        return Table(head, tuple((bar.label, number(bar.observed, places)) for bar in bars))
    return Table(
        (*head, "fitted"),
        tuple((b.label, number(b.observed, places), "" if b.fitted is None else number(b.fitted, 1)) for b in bars),
    )


def _seen_and_fitted(histogram: Histogram, palette: Palette) -> alt.Scale:
    seen, fitted = ("observed", palette.seen), ("fitted law", palette.fitted)
    return legend(seen) if histogram.fitted is None else legend(seen, fitted)


def _against(histogram: Histogram, what: str) -> str:
    return "" if histogram.fitted is None else f" The marks are what {what} expects."


def gaps(fingerprint: Fingerprint, palette: Palette) -> Iterator[Figure]:
    """Gaps between events on a logarithmic axis that begins at zero."""
    histogram = fingerprint.gaps
    if histogram is None:
        return
    edges = histogram.edges
    axis = alt.X(
        "low:Q", title="gap between events, ms (logarithmic)",
        scale=alt.Scale(type="symlog", constant=edges[1], domain=[0, edges[-1]], nice=False),
        axis=alt.Axis(values=[0, *(d for d in DECADES if edges[1] <= d <= edges[-1])], format=",~r"),
    )  # fmt: skip
    bars = gap_bars(histogram, most=len(histogram.counts))
    yield Figure(
        "gaps", "Gaps between events",
        "Two humps are bursts and the steps between them; one hump is plain decoding."
        + _against(histogram, "the fitted explanation"),
        _bar_chart(histogram, axis, "gaps", palette), 220,
        _bar_table(("gap, ms", "gaps"), bars),
    )  # fmt: skip


def phases(fingerprint: Fingerprint, palette: Palette) -> Iterator[Figure]:
    """Events folded at the step."""
    histogram = fingerprint.phases
    if histogram is None:
        return
    axis = alt.X(
        "low:Q",
        title="time from the nearest tick of a clock of one step, ms",
        scale=alt.Scale(domain=[histogram.edges[0], histogram.edges[-1]], nice=False),
    )
    laws: Sequence[float | None] = histogram.fitted or (None,) * len(histogram.counts)
    rows = zip(histogram.edges, histogram.edges[1:], histogram.counts, laws, strict=False)
    yield Figure(
        "phases", "Arrivals folded at the step",
        "A hump means that steps keep time like a clock; flat, that their times vary and drift apart."
        + _against(histogram, "delays of the fitted spread"),
        _bar_chart(histogram, axis, "events", palette), 220,
        _bar_table(("from the tick, ms", "events"), [Bar(f"{a:.2f} to {b:.2f}", c, law) for a, b, c, law in rows]),
    )  # fmt: skip


def _bar_chart(histogram: Histogram, x: alt.X, what: str, palette: Palette) -> Any:
    fitted: Sequence[float | None] = histogram.fitted or (None,) * len(histogram.counts)
    rows = [
        # a law of nothing would only underline the axis
        {"low": low, "high": high, "seen": seen, "law": law if law is not None and law >= 0.5 else None}
        for low, high, seen, law in zip(histogram.edges, histogram.edges[1:], histogram.counts, fitted, strict=False)
    ]
    colours = _seen_and_fitted(histogram, palette)
    base = alt.Chart(data(rows))
    tips = [tip("low:Q", "from, ms", ".3~g"), tip("high:Q", "to, ms", ".3~g"), tip("seen:Q", what)]
    if histogram.fitted is not None:
        tips.append(tip("law:Q", "fitted", ".1f"))
    y = alt.Y("seen:Q", title=what, scale=alt.Scale(zero=True))
    layers: list[Any] = [
        series(
            base.mark_rect(aria=False, clip=True, stroke=palette.paper, strokeWidth=1)
            .encode(x=x, x2="high:Q", y=y, y2=alt.Y2Datum(0), tooltip=tips),
            "observed", colours,
        )
    ]  # fmt: skip
    if histogram.fitted is not None:
        layers.append(
            series(
                base.mark_rule(aria=False, strokeWidth=2.5).encode(x=x, x2="high:Q", y="law:Q"), "fitted law", colours
            )
        )  # fmt: skip
    return alt.layer(*layers)


def positions(fingerprint: Fingerprint, palette: Palette) -> Iterator[Figure]:
    """Acceptance at each draft position with its interval, and the common rate as a band."""
    each = fingerprint.acceptance_by_position
    if not each:
        return
    rows = [
        {"position": str(k), "value": e.value, "low": e.low, "high": 1 if e.high is None else e.high}
        for k, e in enumerate(each, 1)
    ]
    one = [(f"at position {k}", number(e.value, decimals(e)), interval(e, decimals(e))) for k, e in enumerate(each, 1)]
    x = alt.X("position:O", title="draft position", sort=None, axis=alt.Axis(labelAngle=0))
    y = alt.Y("value:Q", title="acceptance", scale=alt.Scale(domain=[0, 1]))
    base = alt.Chart(data(rows))
    pairs = [("each position", palette.seen)]
    rate = fingerprint.acceptance_rate
    if rate is not None and rate.high is not None:
        pairs.append(("one rate for all", palette.fitted))
    colours = legend(*pairs)
    layers: list[Any] = []
    if rate is not None and rate.high is not None:
        common = alt.Chart(data([{"value": rate.value, "low": rate.low, "high": rate.high}]))
        band = alt.Y("low:Q", scale=alt.Scale(domain=[0, 1]))
        layers += [
            series(common.mark_rect(aria=False, opacity=0.18).encode(y=band, y2="high:Q"), "one rate for all", colours),
            series(common.mark_rule(aria=False, strokeDash=[5, 4]).encode(y=y), "one rate for all", colours),
        ]
        one.append(("one rate for all", number(rate.value, decimals(rate)), interval(rate, decimals(rate))))
    tips = [tip("position:O", "position"), tip("value:Q", "acceptance", ".3f"), tip("low:Q", "from", ".3f"),
            tip("high:Q", "to", ".3f")]  # fmt: skip
    lines = base.mark_rule(aria=False, strokeWidth=2).encode(x=x, y="low:Q", y2="high:Q", tooltip=tips)
    points = base.mark_circle(aria=False, size=70, opacity=1).encode(x=x, y=y, tooltip=tips)
    layers += [series(lines, "each position", colours), series(points, "each position", colours)]
    yield Figure(
        "acceptance", "Acceptance by draft position",
        "Share of drafts accepted where all before were. "
        f"Lines are {percent(each[0].level)} intervals. Where they leave the band, one rate for all is too simple.",
        alt.layer(*layers), 220, Table(("", "acceptance", "interval"), tuple(one)),
    )  # fmt: skip


def profile(fingerprint: Fingerprint, palette: Palette) -> Iterator[Figure]:
    """Log-likelihood over M."""
    seen = fingerprint.burst_profile
    if seen is None:
        return
    rows: list[dict[str, Any]] = [{"M": str(m), "nats": x} for m, x in zip(seen.max_burst, seen.nats, strict=True)]
    low = min(*seen.nats, -10.0)
    axis = alt.Y(
        "nats:Q", title="nats behind the best (logarithmic)",
        scale=alt.Scale(type="symlog", constant=1, domain=[low, 0], nice=False, padding=8),
        axis=alt.Axis(values=[v for v in NATS if v >= low], format=",~r"),
    )  # fmt: skip
    x = alt.X("M:O", title="most tokens of a step, M", sort=None, axis=alt.Axis(labelAngle=0))
    base = alt.Chart(data(rows)).encode(x=x, y=axis, tooltip=[tip("M:O", "M"), tip("nats:Q", "nats", ".1f")])
    yield Figure(
        "likelihood", "Likelihood over M",
        "How much worse the data fit each other M. A smaller M within two nats of the best cannot be told from it; "
        "a larger one is ruled out by full bursts, which all stop.",
        alt.layer(
            base.mark_line(aria=False, color=palette.muted, strokeWidth=1.5),
            base.mark_circle(aria=False, color=palette.seen, size=80, opacity=1),
        ),
        220, Table(("M", "nats behind the best"), tuple((r["M"], number(r["nats"], 1)) for r in rows)),
    )  # fmt: skip
