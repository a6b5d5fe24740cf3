"""What every renderer shows, as plain strings: one row per quantity, in reading order."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ..fingerprint import AUTOREGRESSIVE, FAILED, HELD, UNDETERMINED, Check, Estimate, Fingerprint

NONE: Final = "-"
"""Stands for an estimate that the data cannot give."""

_POSITIONS: Final = 12
"""Draft positions listed one by one; the JSON has all of them."""

# Control characters, line separators, lone surrogates, and marks that reorder text on the screen: a file name or a
# message made of them could drive the terminal or look like another one.
_UNFIT: Final = (
    *range(0x20), *range(0x7F, 0xA0), 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A),
    *range(0xD800, 0xE000),
)  # fmt: skip
CONTROL: Final = dict.fromkeys(_UNFIT, "?") | {0x09: " ", 0x0A: " ", 0x0D: " "}


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table of quantities; all fields are for people."""

    quantity: str
    value: str
    interval: str = ""
    method: str = ""


def clean(text: str) -> str:
    """`text` as one line without control characters, which a hostile file could use to drive the terminal."""
    return text.translate(CONTROL)


def decimals(estimate: Estimate) -> int:
    """Decimal places that show one or two digits of the interval's width; four digits of a value without a width.

    >>> decimals(Estimate(0.8, 0.77, 0.83, 0.95, "")), decimals(Estimate(2.84, 2.68, 3.02, 0.95, ""))
    (2, 2)
    >>> decimals(Estimate(147.6, 140.0, 155.0, 0.95, ""))
    0
    """
    high = estimate.value if estimate.high is None else estimate.high
    width = high - estimate.low
    if math.isfinite(width) and width > 0:
        return min(6, max(0, math.ceil(-math.log10(width / 5))))
    if math.isfinite(estimate.value) and estimate.value:
        return min(6, max(0, 3 - math.floor(math.log10(abs(estimate.value)))))
    return 2


def number(value: float | None, places: int) -> str:
    """`value` with `places` decimals; `NONE` where it is missing or not finite."""
    return NONE if value is None or not math.isfinite(value) else f"{value:.{places}f}"


def interval(estimate: Estimate, places: int) -> str:
    """The interval for people; a one-sided one reads "4 or more", and one without width is none unless it is whole."""
    if not math.isfinite(estimate.low) or (estimate.low == estimate.high and places):
        return NONE
    if estimate.low == estimate.high:
        return number(estimate.low, places)
    if estimate.high is None or not math.isfinite(estimate.high):
        return f"{number(estimate.low, places)} or more"
    return f"{number(estimate.low, places)} to {number(estimate.high, places)}"


def percent(level: float) -> str:
    """A confidence level: 0.95 is "95%", 0.995 is "99.5%"."""
    return f"{level * 100:.4g}%"


def _row(quantity: str, estimate: Estimate | None, unit: str = "", places: int | None = None) -> Row:
    if estimate is None:
        return Row(quantity, NONE)
    digits = decimals(estimate) if places is None else places
    value = number(estimate.value, digits)
    if unit and value != NONE:
        value = f"{value} {unit}"
    return Row(quantity, value, interval(estimate, digits), clean(estimate.method))


def _draft_length(fingerprint: Fingerprint) -> Iterator[Row]:
    burst = fingerprint.max_burst
    if burst is not None and burst.value > 1 and fingerprint.verdict != AUTOREGRESSIVE:
        most = int(burst.value)
        yield Row("draft length k", f"{most - 1} or {most}", f"{most - 1} with a bonus token, {most} without")


def _by_position(estimates: tuple[Estimate, ...] | None) -> Iterator[Row]:
    if not estimates:
        return
    for position, estimate in enumerate(estimates[:_POSITIONS], 1):
        yield _row(f"  at position {position}", estimate)
    if len(estimates) > _POSITIONS:
        yield Row(f"  at {_POSITIONS + 1} to {len(estimates)}", "...", "all positions are in the JSON")


def rows(fingerprint: Fingerprint, *, server: bool = True) -> list[Row]:
    """The quantities of `fingerprint` in reading order, the best determined first; `server` adds its own report."""
    f = fingerprint
    single = f.max_burst is not None and f.max_burst.value == 1
    table = [
        _row("acceptance length", f.acceptance_length, "tok/step"),
        _row("max burst M", f.max_burst, "token" if single else "tokens", places=0),
        *_draft_length(f),
        _row("acceptance rate", f.acceptance_rate),
        *_by_position(f.acceptance_by_position),
        _row("step time", f.step_ms, "ms"),
        _row("jitter", f.jitter_ms, "ms"),
        _row("decoding rate", f.tokens_per_s, "tok/s"),
        _row("efficiency E[B]/M", f.efficiency),
        _row("gap to ceiling", f.gap_tokens, "tok/step"),
    ]
    for quantity, value in (
        ("chunk size", None if f.chunk_tokens is None else f"{f.chunk_tokens} tokens"),
        ("flush interval", None if f.flush_ms is None else f"{f.flush_ms:.4g} ms"),
        ("flush size", None if f.flush_bytes is None else f"{f.flush_bytes} bytes"),
        ("tokens needed", None if f.needed_tokens is None else f"about {f.needed_tokens:,}"),
    ):
        if value is not None:
            table.append(Row(quantity, value))
    if server:
        table += [Row(f"server: {key}", said) for key, said in server_report(f)]
    return table


def server_report(fingerprint: Fingerprint) -> list[tuple[str, str]]:
    """What the server says about its own speculation, for people; what it left out is left out."""
    report = fingerprint.server_report or {}
    return [(clean(str(k)).replace("_", " "), clean(_said(v))) for k, v in report.items() if v is not None]


def _said(value: object) -> str:
    """What a server said, to four significant digits."""
    if isinstance(value, list | tuple):
        return " ".join(_said(item) for item in value)
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def level(fingerprint: Fingerprint) -> str:
    """The confidence level that the table's intervals share, for a column heading."""
    f = fingerprint
    for estimate in (f.acceptance_length, f.step_ms, f.max_burst, f.acceptance_rate, f.tokens_per_s):
        if estimate is not None:
            return percent(estimate.level)
    return percent(0.95)


def provenance(fingerprint: Fingerprint) -> str:
    """One line: what the numbers rest on."""
    return " | ".join(basis(fingerprint))


def basis(fingerprint: Fingerprint) -> list[str]:
    """What the numbers rest on, in pieces."""
    f = fingerprint
    parts = [
        f"layer: {f.layer or 'none'}",
        f"counts: {clean(f.count_source)}",
        _count(f.streams, "stream"),
        f"{NONE} tokens" if f.tokens is None else _count(f.tokens, "token"),
        _count(f.events, "event"),
    ]
    if f.steps is not None:
        parts.append(f"about {_count(f.steps, 'step')}")
    return parts


def _count(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def conclusion(checks: tuple[Check, ...]) -> str:
    """Of all checks together: failed, undetermined or held."""
    said = {check.verdict for check in checks}
    return FAILED if FAILED in said else UNDETERMINED if UNDETERMINED in said else HELD
