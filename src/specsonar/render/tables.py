"""A sweep as text: the founding article's table beside its figures, or a line for each service and method."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from .rows import NONE, number

if TYPE_CHECKING:
    from ..sweep import Row, Score, Sweep, Value

TOTALS: Final = ("method", "M right", "verdict right", "false alarms", "truth in interval")
_QUANTITIES: Final = (("max_burst", "M", 2), ("alpha", "alpha", 3), ("length", "length", 3), ("step_ms", "step ms", 2))


def sweep(found: Sweep, *, details: bool = False) -> RenderableType:
    """The table; `details` adds the bias, error and coverage of every quantity with their intervals."""
    if found.preset in ("article", "figure1") and set(found.methods) == {"baseline", "likelihood"}:
        parts: list[RenderableType] = list(_founding(found))
    else:
        parts = list(_grid(found))
    if details:
        parts += [Text(), *_details(found)]
    return Group(*parts)


def _table(heads: list[str], folded: int, left: int) -> Table:
    """A table whose first columns may be folded where the line is short, and whose first columns stand left."""
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
    for i, head in enumerate(heads):
        table.add_column(head, justify="left" if i < left else "right", no_wrap=i >= folded, overflow="fold")
    return table


def _grid(found: Sweep) -> Iterator[RenderableType]:
    columns: list[tuple[str, Callable[[Score], str]]] = [
        ("M\nright", lambda s: share(s.exact)),
        ("verdict\nright", lambda s: share(s.right)),
        ("false\nalarm", lambda s: share(s.false_alarm)),
        ("length\nbias", lambda s: _bias(s, "length", 2)),
        ("step\nbias, ms", lambda s: _bias(s, "step_ms", 2)),
        ("time\ns", lambda s: number(s.seconds.value, 3)),
    ]
    scores = [score for row in found.rows for score in row.scores.values()]
    if all(score.false_alarm is not None for score in scores):  # no speculation anywhere: no draft to be wrong about
        del columns[3:5]
    shown = [(head, cell) for head, cell in columns if any(cell(score) != NONE for score in scores)]
    names = list(found.varied) or ["service"]
    heads = [name.replace("_", "\n", 1) if "_" in name else f"\n{name}" for name in names]
    table = _table([*heads, "\nmethod", *(head for head, _ in shown)], len(names), len(names) + 1)
    for row in found.rows:
        where = _at(row, names)
        for method, score in row.scores.items():
            table.add_row(*where, method, *[cell(score) for _, cell in shown])
            where = [""] * len(names)
    yield Text(f"Services: {len(found.rows)}. Repetitions of each: {found.reps}. Behind shares stand 95% intervals.")
    yield Text()
    yield table
    yield Text()
    yield from _together(found)


def _at(row: Row, names: list[str]) -> list[str]:
    known = row.to_dict()["at"]
    return [_word(known[n]) if n in known else "" for n in names] if known else [row.label]


def _word(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _together(found: Sweep) -> Iterator[RenderableType]:
    table = _table([*TOTALS[:-1], f"{TOTALS[-1]}:"], 0, 1)
    for line in totals(found):
        *shares, held = line
        first, *rest = held.split(", ")
        table.add_row(*shares, first)
        for more in rest:
            table.add_row(*[""] * len(shares), more)
    yield Text("All services together", style="dim")
    yield table


def totals(found: Sweep) -> Iterator[tuple[str, ...]]:
    """A line for each method over all services, under the heads `TOTALS`."""
    for method, total in found.totals().items():
        held = ", ".join(
            f"{name} {share(total.coverage[key])}" for key, name, _ in _QUANTITIES if key in total.coverage
        )
        yield method, share(total.exact), share(total.right), share(total.false_alarm), held or NONE


def share(value: Value | None) -> str:
    """A share with its interval, in percent."""
    if value is None:
        return NONE
    return f"{value.value:.0%} {value.low * 100:.0f}-{value.high * 100:.0f}"


def _bias(score: Score, name: str, places: int) -> str:
    found = score.quantities.get(name)
    return NONE if found is None else f"{found.bias.value:+.{places}f}"


def _details(found: Sweep) -> Iterator[RenderableType]:
    yield Text("Bias, root mean square error, and share of the intervals that hold the truth", style="dim")
    for row in found.rows:
        table = _table(["method", "", "bias", "interval", "error", "interval", "truth held"], 0, 2)
        for method, score in row.scores.items():
            for key, name, places in _QUANTITIES:
                if (q := score.quantities.get(key)) is not None:
                    table.add_row(
                        method, name, f"{q.bias.value:+.{places}f}", _between(q.bias, places),
                        number(q.rmse.value, places), _between(q.rmse, places), share(q.coverage),
                    )  # fmt: skip
        yield from (Text(), Text(row.label), table)


def _between(value: Value, places: int) -> str:
    if value.low != value.low:
        return NONE
    return f"{value.low:.{places}f} to {value.high:.{places}f}"


def _founding(found: Sweep) -> Iterator[RenderableType]:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
    table.add_column("\njitter", no_wrap=True)
    for quantity in ("M", "alpha", "step ms"):
        for source in ("article", "again", "ours"):
            head = f"{quantity}\n{source}" if source == "article" else f"\n{source}"
            table.add_column(head, justify="right", no_wrap=True, style="bold" if source == "ours" else "")
    table.add_column("M right\nagain", justify="right", no_wrap=True)
    table.add_column("\nours", justify="right", no_wrap=True, style="bold")
    for row in found.rows:
        table.add_row(*_published(row))
    truth = ", ".join(dict.fromkeys(_truth(row) for row in found.rows))
    yield Text(f"Truth: {truth}; {found.rows[0].cell.tokens} tokens a stream.")
    yield Text(f"again: the article's analyser, run again. Streams a row: {found.reps}, means shown.", style="dim")
    yield Text()
    yield table


def _truth(row: Row) -> str:
    return f"M={row.truth.max_burst:.0f} alpha={row.truth.alpha:g} step={row.truth.step_ms:g} ms"


def _published(row: Row) -> list[str]:
    said, again, ours = row.published, row.scores["baseline"], row.scores["likelihood"]
    return [
        row.label,
        said.max_burst or "", number(again.mean("max_burst"), 1), number(ours.mean("max_burst"), 1),
        said.alpha or "", _short(again.mean("alpha")), _short(ours.mean("alpha")),
        said.step_ms or "", number(again.mean("step_ms"), 1), number(ours.mean("step_ms"), 2),
        _whole(again.exact), _whole(ours.exact),
    ]  # fmt: skip


def _short(value: float) -> str:
    text = number(value, 2)
    return text.removeprefix("0") if text.startswith("0.") else text


def _whole(value: Value | None) -> str:
    return NONE if value is None else f"{value.value:.0%}"
