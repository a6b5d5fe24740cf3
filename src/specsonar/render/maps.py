"""Maps of a sweep: a map for each method where two knobs vary, curves with their intervals where one does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import altair as alt

from .charts import Figure, Palette, Table, data, legend, tip
from .founding import founding_figures

if TYPE_CHECKING:
    from ..sweep import Axis, Row, Score, Sweep, Value

MOST_PANELS: Final = 8
"""Combinations of further knobs that get a map of their own; all are in the table."""

_SHARE: Final = ".0%"


@dataclass(frozen=True, slots=True)
class _Measure:
    """What a map or a curve shows."""

    name: str
    title: str
    about: str
    of: Callable[[Score], Value | None]
    format: str
    good_is_high: bool = True


def _quantity(name: str, part: str) -> Callable[[Score], Value | None]:
    def get(score: Score) -> Value | None:
        found = score.quantities.get(name)
        return None if found is None else getattr(found, part)

    return get


MEASURES: Final = (
    _Measure("exact", "M right", "Share of the repetitions in which M is right.", lambda s: s.exact, _SHARE),
    _Measure("right", "Verdict right", "Share with the right verdict.", lambda s: s.right, _SHARE),
    _Measure(
        "false-alarm", "False alarms", "Share called speculative although it is not.", lambda s: s.false_alarm,
        _SHARE, False,
    ),
    _Measure("alpha-error", "Error of the acceptance rate", "Root mean square error.", _quantity("alpha", "rmse"),
             ".2~g", False),
    _Measure("length-error", "Error of the acceptance length", "Root mean square error, tokens a step.",
             _quantity("length", "rmse"), ".2~g", False),
    _Measure("step-error", "Error of the step time", "Root mean square error, milliseconds.",
             _quantity("step_ms", "rmse"), ".2~g", False),
    _Measure("held", "Intervals of the acceptance rate", "Share of the 95% intervals that hold the truth.",
             _quantity("alpha", "coverage"), _SHARE),
    _Measure("time", "Time of an analysis", "Median, seconds.", lambda s: s.seconds, ".2~g", False),
)  # fmt: skip


def sweep_figures(sweep: Sweep, palette: Palette) -> list[Figure]:
    """Every figure of a sweep: the founding article's own for its presets, else maps or curves."""
    if sweep.preset in ("article", "figure1") and set(sweep.methods) == {"baseline", "likelihood"}:
        return founding_figures(sweep, palette)
    axes = sweep.axes()
    if len(axes) < 2:
        return list(_curves(sweep, axes[0] if axes else None, palette))
    return list(_maps(sweep, axes, palette))


def _curves(sweep: Sweep, axis: Axis | None, palette: Palette) -> Iterator[Figure]:
    """Each measure over one knob, a curve for each method."""
    name = axis.name if axis is not None else "service"
    numeric = axis is not None and axis.numeric
    colours = {
        "baseline": palette.fitted, "likelihood": palette.seen, "guidellm": palette.step, "logisi": palette.other,
        "hmm": palette.muted,
    }  # fmt: skip
    who = legend(*((method, colours[method]) for method in sweep.methods))
    for measure in MEASURES:
        told = [
            {"at": row.cell.at[name] if numeric else row.label, "method": method, **_told(value)}
            for row in sweep.rows for method in sweep.methods
            if (value := measure.of(row.scores[method])) is not None and value.value == value.value
        ]  # fmt: skip
        if not told:
            continue
        if numeric:
            assert axis is not None
            x: Any = alt.X("at:Q", title=name, scale=_scale(axis), axis=_ticks(axis))
        else:
            x = alt.X("at:O", title=name, sort=None, axis=alt.Axis(labelAngle=-40))
        y = alt.Y("value:Q", title=measure.title, scale=_height(measure), axis=_format(measure))
        tips = [tip(f"at:{'Q' if numeric else 'O'}", name), tip("method:N", "method"),
                tip("value:Q", measure.title, measure.format), tip("low:Q", "from", measure.format),
                tip("high:Q", "to", measure.format)]  # fmt: skip
        base = alt.Chart(data(told)).encode(x=x, color=alt.Color("method:N", scale=who, title=None), tooltip=tips)
        if not numeric:
            base = base.encode(xOffset=alt.XOffset("method:N", sort=list(sweep.methods)))
        marks: list[Any] = [base.mark_circle(aria=False, size=60, opacity=1).encode(y=y)]
        low = alt.Y("low:Q", title=measure.title)
        if numeric:
            marks.insert(0, base.mark_line(aria=False, strokeWidth=2).encode(y=y))
            marks.insert(0, base.mark_area(aria=False, opacity=0.15).encode(y=low, y2="high:Q"))
        else:
            marks.insert(0, base.mark_rule(aria=False, strokeWidth=2).encode(y=low, y2="high:Q"))
        rows = tuple((_word(r["at"]), str(r["method"]), _words(measure, r)) for r in told)
        yield Figure(
            measure.name, measure.title, f"{measure.about} Bands and lines are 95% intervals, where there are enough "
            f"repetitions ({sweep.reps}).", alt.layer(*marks), 240, Table((name, "method", measure.title), rows),
            wide=not numeric,
        )  # fmt: skip


def _told(value: Value) -> dict[str, Any]:
    return {
        "value": value.value, "low": value.low if value.low == value.low else value.value,
        "high": value.high if value.high == value.high else value.value,
    }  # fmt: skip


def _maps(sweep: Sweep, axes: Sequence[Axis], palette: Palette) -> Iterator[Figure]:
    """Each measure over the first two knobs, a map for each method and for each combination of the other knobs."""
    across, up, *others = axes
    panels: dict[tuple[Any, ...], list[Row]] = {}
    for row in sweep.rows:
        panels.setdefault(tuple(row.cell.at.get(axis.name) for axis in others), []).append(row)
    for measure in MEASURES:
        top = _top(sweep, measure)
        for method in sweep.methods:
            for number, (values, rows) in enumerate(list(panels.items())[:MOST_PANELS], 1):
                where = ", ".join(f"{a.name} = {_word(v)}" for a, v in zip(others, values, strict=True))
                told = list(_cells(rows, method, measure, across, up))
                if not told:
                    continue
                layers = _map(told, measure, top, across, up, palette)
                law = ""
                if sweep.limit and (across.name, up.name) == ("sigma", "tokens") and measure.name == "exact":
                    layers[1:1] = _law(sweep, across, up, palette)
                    law = (
                        " The dashed line is N R^2 = 15 with R = exp(-2 pi^2 sigma^2): right of it, the comb of the "
                        "steps drowns in its noise."
                    )
                yield Figure(
                    "-".join((measure.name, method, *([str(number)] if others else []))),
                    f"{measure.title}, {method}" + (f", {where}" if where else ""),
                    measure.about + law, alt.layer(*layers), 300,
                    Table(
                        (across.name, up.name, measure.title),
                        tuple((_word(r["x"]), _word(r["y"]), _words(measure, r)) for r in told),
                    ),
                )  # fmt: skip


def _cells(rows: Sequence[Row], method: str, measure: _Measure, across: Axis, up: Axis) -> Iterator[dict[str, Any]]:
    for row in rows:
        value = measure.of(row.scores[method])
        if value is None or value.value != value.value:
            continue
        x, y = across.shown(row.cell.at.get(across.name)), up.shown(row.cell.at.get(up.name))
        told = {"x": x, "y": y, **_told(value)}
        for key, axis, at in (("x", across, x), ("y", up, y)):
            if axis.numeric:
                told[f"{key}0"], told[f"{key}1"] = axis.bands[at]
        yield told


def _top(sweep: Sweep, measure: _Measure) -> float:
    """End of the colours, the same for all methods, so that their maps can be compared."""
    values = [v.value for row in sweep.rows for s in row.scores.values() if (v := measure.of(s)) is not None]
    return 1.0 if measure.format == _SHARE else max((v for v in values if v == v), default=0.0) or 1.0


def _map(
    told: list[dict[str, Any]], measure: _Measure, top: float, across: Axis, up: Axis, palette: Palette
) -> list[Any]:
    """The cells, and what they say."""
    # seen well by colour-blind readers, on light and on dark paper; bright is good
    colours = alt.Scale(scheme="cividis", domain=[0, top], reverse=not measure.good_is_high)
    tips = [tip(f"x:{_kind(across)}", across.name), tip(f"y:{_kind(up)}", up.name),
            tip("value:Q", measure.title, measure.format), tip("low:Q", "from", measure.format),
            tip("high:Q", "to", measure.format)]  # fmt: skip
    base = alt.Chart(data(told)).encode(tooltip=tips)
    cells = base.mark_rect(aria=False, clip=True, stroke=palette.paper, strokeWidth=1).encode(
        color=alt.Color("value:Q", scale=colours, legend=None), **_span(alt.X, "x", across), **_span(alt.Y, "y", up),
    )  # fmt: skip
    dark = f"datum.value {'<' if measure.good_is_high else '>'} {top} * 0.55"
    words = base.mark_text(aria=False, fontSize=11).encode(
        x=_middle(alt.X, "x", across), y=_middle(alt.Y, "y", up),
        text=alt.Text("value:Q", format=measure.format),
        color=alt.condition(dark, alt.value("#fff"), alt.value("#111")),
    )  # fmt: skip
    return [cells, words]


def _kind(axis: Axis) -> str:
    return "Q" if axis.numeric else "O"


def _span(channel: Any, key: str, axis: Axis) -> dict[str, Any]:
    if not axis.numeric:
        return {key: _middle(channel, key, axis)}
    return {
        key: channel(f"{key}0:Q", title=axis.name, scale=_scale(axis), axis=_ticks(axis)), f"{key}2": f"{key}1:Q",
    }  # fmt: skip


def _middle(channel: Any, key: str, axis: Axis) -> Any:
    if not axis.numeric:
        return channel(f"{key}:O", title=axis.name, sort=None)
    return channel(f"{key}:Q", title=axis.name, scale=_scale(axis), axis=_ticks(axis))


def _scale(axis: Axis) -> alt.Scale:
    return alt.Scale(type="log" if axis.log else "linear", domain=[axis.low, axis.high], nice=False)


def _ticks(axis: Axis) -> alt.Axis:
    return alt.Axis(values=list(axis.bands), format="~g", grid=False)


def _law(sweep: Sweep, across: Axis, up: Axis, palette: Palette) -> list[Any]:
    points = data([{"x": sigma, "y": tokens} for sigma, tokens in sweep.limit])
    line = alt.Chart(points).encode(x=_middle(alt.X, "x", across), y=_middle(alt.Y, "y", up))
    return [
        line.mark_line(aria=False, clip=True, color=palette.paper, strokeWidth=5),
        line.mark_line(aria=False, clip=True, color=palette.fitted, strokeWidth=2.5, strokeDash=[6, 4]),
    ]


def _height(measure: _Measure) -> alt.Scale:
    return alt.Scale(domain=[0, 1]) if measure.format == _SHARE else alt.Scale(zero=True)


def _format(measure: _Measure) -> alt.Axis:
    return alt.Axis(format="%") if measure.format == _SHARE else alt.Axis()


def _word(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _words(measure: _Measure, told: dict[str, Any]) -> str:
    if measure.format == _SHARE:
        return f"{told['value']:.0%} ({told['low']:.0%} to {told['high']:.0%})"
    return f"{told['value']:.3g} ({told['low']:.3g} to {told['high']:.3g})"
