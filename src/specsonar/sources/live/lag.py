"""How late a reader was, kept in little memory however long it runs."""

from __future__ import annotations

from typing import Final

_FINE: Final = 16


class Lag:
    """A histogram of delays: sixteen bins in each doubling, so quantiles are good to 6 percent.

    One thread adds; others may read at any time.
    """

    def __init__(self) -> None:
        self._bins = [0] * (64 * _FINE)
        self.count = 0
        self.max_ns = 0

    def add(self, ns: int) -> None:
        """One delay, nanoseconds; clocks may disagree by a little, so below zero is zero."""
        ns = max(ns, 0)
        self._bins[_bin(ns)] += 1
        self.count += 1
        if ns > self.max_ns:
            self.max_ns = ns

    def quantile_ns(self, q: float) -> int:
        """Delay that a share `q` of all does not exceed, nanoseconds; 0 before the first."""
        wanted = q * self.count
        seen = 0
        for place, number in enumerate(self._bins):
            seen += number
            if number and seen >= wanted:
                return min(_top(place), self.max_ns)
        return 0

    def above(self, ns: int) -> float:
        """Share of the delays above `ns`, within the width of a bin."""
        return sum(self._bins[_bin(ns) + 1 :]) / self.count if self.count else 0.0

    def to_dict(self) -> dict[str, float]:
        """Count, and median, 99th percentile and maximum in microseconds."""
        return {
            "reads": self.count,
            "p50_us": self.quantile_ns(0.5) / 1e3,
            "p99_us": self.quantile_ns(0.99) / 1e3,
            "max_us": self.max_ns / 1e3,
        }


def _bin(ns: int) -> int:
    if ns < _FINE:
        return ns
    shift = ns.bit_length() - 5
    return min((shift << 4) + (ns >> shift), 64 * _FINE - 1)


def _top(place: int) -> int:
    """Largest delay of a bin."""
    if place < 2 * _FINE:
        return place
    shift = (place >> 4) - 1
    return ((((place & 15) | 16) + 1) << shift) - 1
