"""Histograms as text: one bar a line, the observation filled, the fitted law as a mark across it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ..pictures import Histogram

MAX_BARS: Final = 16
"""Neighbouring bins are joined until no more than this many remain."""

_EIGHTHS: Final = " ▏▎▍▌▋▊▉"
BLOCKS: Final = "█" + _EIGHTHS + "┃"
"""Every character that the Unicode bars use."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One bin for a renderer: what it is called, what was observed, what the fit expects (None without one)."""

    label: str
    observed: float
    fitted: float | None


def _trimmed(histogram: Histogram, low: int = 0) -> tuple[int, int]:
    """First and one past the last bin in which anything was observed or expected."""
    fitted = histogram.fitted or (0.0,) * len(histogram.counts)
    filled = [i for i, (seen, fit) in enumerate(zip(histogram.counts, fitted, strict=True)) if seen > 0 or fit >= 0.5]
    return (filled[0], filled[-1] + 1) if filled else (low, low)


def _grouped(histogram: Histogram, most: int) -> Iterator[tuple[float, float, float, float | None]]:
    first, last = _trimmed(histogram)
    width = max(1, -(-(last - first) // most))
    for i in range(first, last, width):
        j = min(i + width, last)
        fitted = None if histogram.fitted is None else sum(histogram.fitted[i:j])
        yield histogram.edges[i], histogram.edges[j], sum(histogram.counts[i:j]), fitted


def size_bars(histogram: Histogram, most: int = MAX_BARS) -> list[Bar]:
    """Bars of a histogram over whole numbers (edges k..k+1), labelled "4" or, where bins were joined, "4-5"."""
    bars = []
    for low, high, seen, fitted in _grouped(histogram, most):
        first, last = round(low), round(high) - 1
        bars.append(Bar(f"{first}" if last <= first else f"{first}-{last}", seen, fitted))
    return bars


def gap_bars(histogram: Histogram, most: int = MAX_BARS) -> list[Bar]:
    """Bars of a histogram of gaps, labelled with both edges in milliseconds, all to as many digits."""
    bins = list(_grouped(histogram, most))
    digits = max((_digits(low, high) for low, high, _, _ in bins), default=3)
    return [Bar(f"{_ms(low, digits)} - {_ms(high, digits)}", seen, fit) for low, high, seen, fit in bins]


def _digits(low: float, high: float) -> int:
    """Significant digits, from three on, that tell the ends apart: 12.6 - 15.8, 19.999 - 20.001."""
    return next((digits for digits in range(3, 9) if _ms(low, digits) != _ms(high, digits)), 9)


def _ms(value: float, digits: int) -> str:
    """Significant digits without an exponent: "0", "0.05", "12.6", "1260"."""
    if value <= 0 or not math.isfinite(value):
        return "0" if value <= 0 else f"{value}"
    places = max(0, digits - 1 - math.floor(math.log10(value)))
    text = f"{value:.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def draw(bar: Bar, scale: float, width: int, unicode: bool) -> str:
    """`bar` as `width` characters, `scale` observations being the full width.

    >>> draw(Bar("1", 5, None), 10, 8, unicode=False), draw(Bar("1", 5, 7.5), 10, 8, unicode=False)
    ('####    ', '####  | ')
    """
    eighths = round(8 * width * bar.observed / scale) if scale > 0 else 0
    if bar.observed > 0:
        eighths = max(1, eighths)
    if unicode:
        line = "█" * (eighths // 8) + (_EIGHTHS[eighths % 8] if eighths % 8 else "")
    else:
        line = "#" * max(round(eighths / 8), 1 if bar.observed > 0 else 0)
    line = line[:width].ljust(width)
    if bar.fitted is not None and scale > 0:
        at = min(width - 1, round(width * bar.fitted / scale))
        line = line[:at] + ("┃" if unicode else "|") + line[at + 1 :]
    return line
