"""A plan for the terminal and as a page: the sentence, one row a draft length or a question, what it rests on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ..fingerprint import Estimate
from ..planned import AtCost, DataPlan, Draft, Need, SpeedPlan, Trial
from .bars import BLOCKS, Bar, draw
from .rows import NONE, clean, percent
from .terminal import encodable, paint

SPARKS: Final = "▁▂▃▄▅▆▇█"
_ROOM: Final = 14


def text(found: SpeedPlan | DataPlan, *, width: int = 80, colour: bool = False, encoding: str = "utf-8") -> str:
    """`found` as text that ends with a newline; see `terminal.render` for the parameters."""
    unicode = encodable(BLOCKS + SPARKS, encoding)
    parts = _needs(found) if isinstance(found, DataPlan) else _parts(found, unicode)
    return paint(Group(*parts), width=width, colour=colour, encoding=encoding)


def _needs(found: DataPlan) -> Iterator[RenderableType]:
    yield Text(clean(found.sentence), style="bold")
    yield Text()
    yield _drawn(*need_rows(found))
    if tried := trial_rows(found):
        yield Text()
        yield Text("simulated recordings of that size, and of a quarter of it: right answers", style="bold")
        yield _drawn(TRIAL_HEADS, tried)
    yield Text()
    yield from listed(found.assumptions)


def _drawn(heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> Table:
    drawn = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for head in heads:
        drawn.add_column(head, justify="right" if head in _NUMBERS else "left", no_wrap=head != "decided by")
    for cells in rows:
        drawn.add_row(*map(Text, cells))
    return drawn


_NUMBERS: Final = ("tokens", "streams", "counted", "in-order", "independent", "right", "wanted", "at 1/4")


def need_rows(found: DataPlan) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Heads and one row a question: tokens by way of observing; of a single way also streams, and what decides."""
    layers = list(dict.fromkeys(n.layer for n in found.needs))
    rows: list[tuple[str, ...]] = []
    if len(layers) == 1:
        rows += [(n.wanted, *size(n), n.limit) for n in found.needs]
        return ("to know", "tokens", "streams", "decided by"), rows
    for target in dict.fromkeys(n.target for n in found.needs):
        mine = {n.layer: n for n in found.needs if n.target == target}
        rows.append((next(iter(mine.values())).wanted, *(" in ".join(size(mine[layer])) for layer in layers)))
    return ("tokens in streams", *layers), rows


def size(need: Need) -> tuple[str, ...]:
    """Tokens and streams of a need."""
    return (f"{need.tokens:,}", f"{need.streams}") if need.tokens is not None else ("never",)


TRIAL_HEADS: Final = ("to know", "layer", "right", "wanted", "at 1/4", "")


def trial_rows(found: DataPlan) -> list[tuple[str, ...]]:
    """One row a need that was tried: the share of right answers, what was wanted, and the share at a quarter."""
    rows: list[tuple[str, ...]] = []
    for n in found.needs:
        if n.trial is not None and n.quarter is not None:
            held = "enough" if n.reached else "NOT ENOUGH"
            if n.reached and not n.tight:
                held = "less would do"
            rows.append((n.wanted, n.layer, _share(n.trial), f"{n.probability:.0%}", f"{n.quarter.share:.0%}", held))
    return rows


def _share(trial: Trial) -> str:
    return f"{trial.share:.0%} [{trial.low * 100:.0f}, {trial.high * 100:.0f}]"


def _parts(found: SpeedPlan, unicode: bool) -> Iterator[RenderableType]:
    yield Text(clean(found.sentence), style="bold")
    yield Text()
    names, table = speed_rows(found)
    # bars where there is one speed a row, and no interval that takes their place
    bars = len(found.draft_costs) == 1 and found.service is None
    drawn = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name in (*names, *([""] if bars else [])):
        drawn.add_column(name, justify="left" if name == "" else "right", no_wrap=name != "")
    scale = max(d.at[0].speedup.value for d in found.drafts)
    for draft, cells in zip(found.drafts, table, strict=True):
        style = "bold" if found.cost_known and draft.k in found.best else ""
        bar = Text(draw(Bar("", draft.at[0].speedup.value, None), scale, _ROOM, unicode), style="cyan", no_wrap=True)
        drawn.add_row(*(Text(cell, style=style) for cell in cells), *([bar] if bars else []))
    yield drawn
    if len(found.draft_costs) > 1 and unicode:
        yield Text()
        yield from _sparks(found)
    if any(d.acceptance_length.low != d.acceptance_length.high for d in found.drafts):
        yield Text()
        yield Text(f"Brackets hold {percent(found.level)} intervals.", style="dim")
    yield Text()
    yield from listed(found.assumptions)


def listed(assumptions: tuple[str, ...]) -> Iterator[RenderableType]:
    """What an answer rests on, one point a paragraph."""
    yield Text("assumed", style="bold")
    lines = Table.grid(padding=(0, 1, 0, 0))
    for one in assumptions:
        lines.add_row(Text("-", style="dim"), Text(clean(one), style="dim"))
    yield lines


def _sparks(found: SpeedPlan) -> Iterator[Text]:
    """The speed-up over k as a line of blocks for each draft cost, all to one scale."""
    top = max(a.speedup.value for d in found.drafts for a in d.at)
    for i, cost in enumerate(found.draft_costs):
        line = Text(f"speed-up over k, draft cost {cost:<5.3g} ", style="dim")
        for d in found.drafts:
            line.append(SPARKS[min(int(8 * d.at[i].speedup.value / top), 7)], style="cyan")
        yield line


def speed_rows(found: SpeedPlan) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Heads and one row of strings a draft length."""
    single = len(found.draft_costs) == 1
    timed = single and any(d.at[0].tokens_per_s is not None for d in found.drafts)
    against = single and found.service is not None
    heads = ["k", "M", "tokens/step", "of M", "gap"]
    if single:
        heads += ["speedup", *(["tok/s"] if timed else []), *(["to now"] if against else []), "pays at"]
    else:
        heads += [f"c={cost:.3g}" for cost in found.draft_costs] + ["pays at"]
    return (*heads, ""), [(*_cells(found, d, single, timed, against), _mark(found, d)) for d in found.drafts]


def _cells(found: SpeedPlan, draft: Draft, single: bool, timed: bool, against: bool) -> Iterator[str]:
    yield f"{draft.k}{'*' if draft.assumed else ''}"
    yield str(draft.max_burst)
    yield between(draft.acceptance_length)
    yield f"{draft.efficiency.value:.0%}"
    yield f"{draft.gap_tokens.value:.2f}"
    if single:
        yield from _at(draft.at[0], timed, against)
        return
    yield from (f"{a.speedup.value:.2f}" for a in draft.at)
    yield "never" if draft.break_even_cost is None else f"c<{draft.break_even_cost:.2f}"


def _at(at: AtCost, timed: bool, against: bool) -> Iterator[str]:
    yield f"{at.speedup.value:.2f}"
    if timed:
        yield NONE if at.tokens_per_s is None else f"{at.tokens_per_s.value:.4g}"
    if against:
        yield NONE if at.against_now is None else f"{at.against_now.value:.2f}"
    yield "never" if at.break_even_alpha is None else f"a>{at.break_even_alpha:.2f}"


def _mark(found: SpeedPlan, draft: Draft) -> str:
    said = []
    if draft.k == found.now and found.service is not None:
        said.append("now")
    if draft.k == found.asked:
        said.append("asked")
    if found.cost_known and draft.k in found.best:
        said.append("best")
    return ", ".join(said)


def between(estimate: Estimate) -> str:
    """A value with its interval, where it has one."""
    if estimate.low == estimate.high:
        return f"{estimate.value:.2f}"
    high = "open" if estimate.high is None else f"{estimate.high:.2f}"
    return f"{estimate.value:.2f} [{estimate.low:.2f}, {high}]"
