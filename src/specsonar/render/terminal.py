"""A Fingerprint for the terminal: the sentence, the numbers, two histograms, rivals, findings, provenance."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ..fingerprint import FAILED, HELD, UNDETERMINED, Check, Finding, Fingerprint
from .bars import BLOCKS, Bar, draw, gap_bars, size_bars
from .rows import NONE, basis, clean, conclusion, level, rows, server_report

SEVERITY: Final = {"error": "bold red", "warning": "yellow", "info": "cyan"}
_VERDICT: Final = {HELD: "green", FAILED: "bold red", UNDETERMINED: "cyan"}
_METHOD_FROM: Final = 100
"""Columns below which the method of each interval is left out of the table."""
_SPELLED: Final = str.maketrans(
    {"≥": ">=", "≤": "<=", "±": "+-", "∞": "inf", "…": "...", "—": "-", "µ": "u", "✓": "+", "✗": "x",
     "\u00d7": "x", "\u2013": "-", "\u2212": "-", "\u03bc": "u", "\u03c3": "sigma", "\u03b1": "alpha",
     "\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"'}
)  # fmt: skip


def render(
    fingerprint: Fingerprint, *, width: int = 80, colour: bool = False, encoding: str = "utf-8", methods: bool = False
) -> str:
    """`fingerprint` as text that ends with a newline.

    Parameters
    ----------
    width : columns of the terminal.
    colour : with ANSI styles; without them the text holds no escape sequence at all.
    encoding : of the stream the text will go to; what it cannot say is spelled out in ASCII.
    methods : say how each interval was made; on a wide terminal the table does so anyway.
    """
    unicode = encodable(BLOCKS, encoding)
    return paint(Group(*_parts(fingerprint, width, unicode, methods)), width=width, colour=colour, encoding=encoding)


def paint(content: RenderableType, *, width: int = 80, colour: bool = False, encoding: str = "utf-8") -> str:
    """Anything that rich can draw, as text for a stream of that width, colour and encoding."""
    out = io.StringIO()
    Console(
        file=out, width=width, force_terminal=colour, color_system="standard" if colour else None, no_color=not colour,
        markup=False, emoji=False, highlight=False, legacy_windows=False, soft_wrap=False,
    ).print(content)  # fmt: skip
    return speakable(_stripped(out.getvalue()), encoding)


def encodable(text: str, encoding: str) -> bool:
    """Whether a stream of `encoding` can say `text`."""
    try:
        text.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def speakable(text: str, encoding: str) -> str:
    """`text` with every character that `encoding` lacks spelled out, or "?" in its place."""
    if encodable(text, encoding):
        return text
    spelled = text.translate(_SPELLED)
    try:
        return spelled.encode(encoding, "replace").decode(encoding)
    except LookupError:
        return spelled.encode("ascii", "replace").decode("ascii")


def _stripped(text: str) -> str:
    """rich pads every line to the full width; files and diffs are better off without."""
    return "".join(f"{line.rstrip(' ')}\n" for line in text.split("\n")[:-1])


def _parts(fingerprint: Fingerprint, width: int, unicode: bool, methods: bool) -> Iterator[RenderableType]:
    yield Text(clean(fingerprint.sentence), style="bold")
    yield Text()
    if fingerprint.checks:
        yield from check_lines(fingerprint.checks)
        yield Text()
    yield _quantities(fingerprint, with_method=width >= _METHOD_FROM)
    if methods and width < _METHOD_FROM:
        yield Text()
        every = rows(fingerprint, server=False)
        yield from method_lines((row.quantity, row.method) for row in every if not row.quantity.startswith(" "))
    if fingerprint.burst_sizes is not None:
        fitted = fingerprint.burst_sizes.fitted is not None
        yield from _histogram("steps by tokens", size_bars(fingerprint.burst_sizes), fitted, width, unicode)
    if fingerprint.gaps is not None:
        fitted = fingerprint.gaps.fitted is not None
        yield from _histogram("gaps in ms", gap_bars(fingerprint.gaps), fitted, width, unicode)
    if fingerprint.alternatives:
        yield Text()
        shares = [f"{clean(rival.model)} {weight(rival.weight)}" for rival in fingerprint.alternatives]
        yield from _flowed("explanations", shares, ", ", width)
    if said := server_report(fingerprint):
        yield Text()
        yield from _flowed("server says", [f"{key} {value}" for key, value in said], ", ", width)
    if fingerprint.findings:
        yield Text()
        yield from (part for f in fingerprint.findings for part in finding_lines(f))
    yield Text()
    yield from _flowed("", basis(fingerprint), " | ", width)


def _quantities(fingerprint: Fingerprint, *, with_method: bool) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("quantity", no_wrap=True)
    table.add_column("value", no_wrap=True, style="bold")
    table.add_column(f"{level(fingerprint)} interval", overflow="fold")
    if with_method:
        table.add_column("method", style="dim", overflow="fold")
    for row in rows(fingerprint, server=False):
        cells = [row.quantity, row.value, row.interval, row.method]
        table.add_row(*(Text(cell) for cell in (cells if with_method else cells[:3])))
    return table


def method_lines(quantities: Iterable[tuple[str, str]]) -> Iterator[RenderableType]:
    """Each method once, with the quantities that it was used for; `quantities` are names with their methods."""
    used: dict[str, list[str]] = {}
    for name, method in quantities:
        if method:
            used.setdefault(method, []).append(name)
    if used:
        yield Text("methods", style="bold")
    for method, names in used.items():
        yield Text(f"{method}: {', '.join(names)}", style="dim")


def _histogram(title: str, bars: list[Bar], fitted: bool, width: int, unicode: bool) -> Iterator[RenderableType]:
    if not bars:
        return
    mark = "┃" if unicode else "|"
    label = max(len(bar.label) for bar in bars)
    room = max(10, min(48, width - label - 24))
    scale = max(max(bar.observed, bar.fitted or 0.0) for bar in bars)
    yield Text()
    head = Text(title, style="bold")
    head.append(f"   observed, fitted {mark}" if fitted else "   observed", style="dim")
    yield head
    for bar in bars:
        line = Text(bar.label.rjust(label) + "  ", no_wrap=True, overflow="crop")
        line.append(draw(bar, scale, room, unicode), style="cyan")
        line.append(f"  {_amount(bar.observed):>7}")
        if fitted:
            line.append(f"  {_expected(bar.fitted):>8}", style="dim")
        yield line


def _amount(value: float) -> str:
    """Counts are whole, except where steps were counted in expectation."""
    return f"{value:.0f}" if value >= 1000 or abs(value - round(value)) < 0.005 else f"{value:.1f}"


def _expected(value: float | None) -> str:
    if value is None:
        return NONE
    return f"{value:.0f}" if value >= 1000 else f"{value:.1f}"


def _flowed(title: str, pieces: list[str], between: str, width: int) -> Iterator[Text]:
    """`pieces` in as many lines as they need, none broken where it fits, behind a title or dim without one."""
    indent = f"{title}   " if title else ""
    lines = [pieces[0]]
    for piece in pieces[1:]:
        if len(indent) + len(lines[-1]) + len(between) + len(piece) <= width - len(between.rstrip()):
            lines[-1] += between + piece
        else:
            lines[-1] += between.rstrip()
            lines.append(piece)
    for i, line in enumerate(lines):
        text = Text(indent if i == 0 else " " * len(indent), style="dim")
        text.append(line, style="" if title else "dim")
        yield text


def weight(value: float) -> str:
    """A share of the evidence; never "100%" or "0%" where it is not exactly that."""
    if 0 < value < 0.001:
        return "<0.1%"
    if 0.999 < value < 1:
        return ">99.9%"
    return f"{value * 100:.1f}%" if 0 < value < 1 else f"{value * 100:.0f}%"


def finding_lines(finding: Finding) -> Iterator[RenderableType]:
    """A finding, and below it what to do."""
    head = Text(f"{finding.severity} ", style=SEVERITY.get(finding.severity, "bold"))
    head.append(f"{finding.code} ", style="bold")
    head.append(clean(finding.message), style="default")
    yield head
    if finding.hint:
        yield Padding(Text(clean(finding.hint), style="dim"), (0, 0, 0, 4))


def check_lines(checks: tuple[Check, ...]) -> Iterator[RenderableType]:
    """The checks that decide, one line each, and what follows from them all."""
    for check in checks:
        if check.verdict is not None:
            line = Text(f"{check.verdict:<12} ", style=_VERDICT[check.verdict])
            line.append(f"{clean(check.name)}: {clean(check.message)}", style="default")
            yield line
    said = conclusion(checks)
    yield Text(f"gate: {said}", style=_VERDICT[said])
