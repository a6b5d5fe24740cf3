"""What hiding brings and costs, for the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ..defended import BASELINE, HIDDEN, INFORMED, OURS, Defended, Enough, Learnt, Row, Share
from .plans import listed
from .rows import NONE, clean
from .terminal import paint

NAMES: Final = {OURS: "ours", BASELINE: "base", INFORMED: "informed"}
"""Observers as the heads of columns name them."""

LEARNT_HEADS: Final = (
    ("", "policy"), ("seen", "ours"), ("", "false"), ("", "inf."), ("M", "ours"), ("", "base"), ("", "inf."),
    ("alpha", "off"), ("", "base"), ("step", "off"), ("", "base"),
)  # fmt: skip
"""Speculation seen where it is, falsely where it is not, and by one who knows the policy; M exact; median errors."""

PRICE_HEADS: Final = (
    ("ms later", "first"), ("", "mean"), ("", "p99"), ("answer", "time"), ("", "bytes"), ("sizes", "r"), ("", "told"),
)  # fmt: skip


def text(found: Defended, *, width: int = 80, colour: bool = False, encoding: str = "utf-8") -> str:
    """`found` as text that ends with a newline; see `terminal.render` for the parameters."""
    return paint(Group(*_parts(found)), width=width, colour=colour, encoding=encoding)


def _parts(found: Defended) -> Iterator[RenderableType]:
    yield Text(clean(found.sentence), style="bold")
    yield Text(truth(found), style="dim")
    for tokens in lengths(found):
        rows = [row for row in found.rows if row.tokens == tokens]
        yield Text()
        yield Text(f"What an observer learns from {tokens:,} tokens", style="bold")
        yield _table(LEARNT_HEADS, [(row.policy, *learnt_cells(row)) for row in rows])
        yield Text()
        yield Text(f"What it costs, {tokens:,} tokens", style="bold")
        yield _table((("", "policy"), *PRICE_HEADS), [(row.policy, *price_cells(row)) for row in rows])
    yield from _legend()
    if found.enough:
        yield Text()
        yield Text(
            f"How much random delay is enough, in steps (learnt in {HIDDEN:.0%} of the trials at most)", style="bold"
        )
        heads, table = enough_rows(found)
        yield _table(tuple(("", head) for head in heads), table)
    yield Text()
    yield from listed(found.assumptions)


def _legend() -> Iterator[Text]:
    yield Text()
    yield Text(
        "seen: speculation is told; false: it is told of plain decoding; M: exact; off: median error. ours: specsonar; "
        "base: the founding article's analyser; inf.: one who knows the policy. r: bytes of a write against its "
        "tokens; told: writes whose tokens the bytes tell.",
        style="dim",
    )


def truth(found: Defended) -> str:
    """What there is to be learnt, and from how many trials the shares are."""
    burst = "" if found.max_burst is None else f"M={found.max_burst} "
    alpha = "" if found.alpha is None else f"alpha={found.alpha:.2g} "
    return f"To be learnt: {burst}{alpha}step={found.step_ms:.4g} ms. Trials a row: {found.reps}; shares are of these."


def lengths(found: Defended) -> list[int]:
    """Lengths of answers, rising."""
    return sorted({row.tokens for row in found.rows})


def learnt_cells(row: Row) -> tuple[str, ...]:
    """What each observer learns behind one policy, in the order of `LEARNT_HEADS` after the policy."""
    nobody = Learnt("", Share(0, 0), None, Share(0, 0), Share(0, 0), Share(0, 0), None, None)
    ours, base, informed = (row.by(name) or nobody for name in (OURS, BASELINE, INFORMED))
    says_burst = informed.max_burst.count or informed.step_error is not None
    return (
        _share(ours.speculative), _share(ours.falsely), _share(informed.speculative),
        _share(ours.max_burst), _share(base.max_burst), _share(informed.max_burst if says_burst else None),
        _off(ours.alpha_error), _off(base.alpha_error), _percent(ours.step_error), _percent(base.step_error),
    )  # fmt: skip


def price_cells(row: Row) -> tuple[str, ...]:
    """What one policy costs, and what sizes tell behind it, in the order of `PRICE_HEADS`."""
    p, s = row.price, row.sizes
    return (
        f"{p.first_ms:.1f}", f"{p.mean_ms:.1f}", f"{p.p99_ms:.1f}", f"x{p.time_ratio:.2f}", f"x{p.bytes_ratio:.2f}",
        NONE if s.correlation is None else f"{s.correlation:.3f}", f"{s.told:.0%}",
    )  # fmt: skip


def enough_rows(found: Defended) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Heads, and one row for each way, observer and quantity, with a column a length."""
    each = lengths(found)
    by: dict[tuple[str, str, str], dict[int, Enough]] = {}
    for one in found.enough:
        by.setdefault((one.way, one.quantity, one.observer), {})[one.tokens] = one
    rows = [
        (way, {"speculative": "speculation", "max_burst": "M"}[quantity], NAMES[observer],
         *(NONE if n not in cells else "more" if cells[n].delay is None else f"{cells[n].delay:.2g}" for n in each))
        for (way, quantity, observer), cells in by.items()
    ]  # fmt: skip
    return ("delay", "hides", "from", *(f"{n:,} tokens" for n in each)), rows


def _share(share: Share | None) -> str:
    return NONE if share is None or not share.of else f"{share.value:.0%}"


def _off(error: float | None) -> str:
    return NONE if error is None else f"{error:.2f}"


def _percent(error: float | None) -> str:
    return NONE if error is None else f"{error:.1%}" if error < 0.1 else f"{error:.0%}"


def _table(heads: Sequence[tuple[str, str]], rows: Sequence[tuple[str, ...]]) -> Table:
    drawn = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
    named = any(above for above, _ in heads)
    for i, (above, head) in enumerate(heads):
        left = all(not row[i][:1].isdigit() and row[i][:1] not in ("x", "-", "m") for row in rows) or i == 0
        drawn.add_column(f"{above}\n{head}" if named else head, justify="left" if left else "right", no_wrap=True)
    for row in rows:
        drawn.add_row(*row)
    return drawn
