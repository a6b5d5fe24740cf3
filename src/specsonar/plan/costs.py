"""What verification costs: published measurements, and those of a user."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Final

from ..errors import UsageError
from ..planned import VerifyCost

Measured = tuple[tuple[int, ...], tuple[float, ...], str]

PRESETS: Final[dict[str, Measured]] = {
    "nemotron-30b-a3b-m5max": (
        (1, 2, 3, 5, 8), (8.47, 13.49, 15.64, 20.67, 28.13),
        "Nemotron 30B-A3B, 6 bit, on an M5 Max: https://github.com/waybarrios/vllm-mlx/pull/763",
    ),
    "qwen3.8-27b-4bit": (
        (1, 2, 3), (30.77, 34.01, 41.28),
        "Qwen3.8-27B, 4 bit: https://github.com/Pushkinist/rMLX/issues/516",
    ),
    "gemma-4-e4b": (
        (1, 2, 6), (11.90, 13.74, 25.27),
        "gemma-4-e4b, mxfp8: https://github.com/Pushkinist/rMLX/issues/516",
    ),
}  # fmt: skip
"""Published times of a pass that verifies so many tokens: numbers of tokens, milliseconds, source."""

_WRITTEN: Final = "write it as 1=1,2=1.03,5=1.1, or in milliseconds: 1=8.47ms,2=13.49ms"


def parse(text: str) -> VerifyCost:
    """A cost from what a user wrote: the name of a preset, or N=COST,N=COST... in passes of one token or with "ms".

    >>> parse("1=10ms,5=15ms").costs, parse("1=10ms,5=15ms").plain_ms, parse("2=1.1").widths
    ((1.0, 1.5), 10.0, (1, 2))

    Raises
    ------
    UsageError : it is neither.
    """
    name = text.strip().lower()
    if name in PRESETS:
        widths, ms, source = PRESETS[name]
        return of_times(dict(zip(widths, ms, strict=True)), source=source)
    if "=" not in text:
        raise UsageError(
            f"no published verification cost is called {text!r}", f"known: {', '.join(PRESETS)}; or {_WRITTEN}"
        )
    points: dict[int, float] = {}
    in_ms = "ms" in name
    for part in filter(None, (p.strip() for p in name.split(","))):
        width, _, cost = part.partition("=")
        try:
            if cost.endswith("ms") != in_ms:
                raise ValueError
            n, value = int(width), float(cost.removesuffix("ms"))
        except ValueError:
            raise UsageError(f"cannot read the verification cost {part!r}", _WRITTEN) from None
        if n in points:
            raise UsageError(f"the cost of verifying {n} tokens stands there twice", _WRITTEN)
        points[n] = value
    return of_times(points) if in_ms else of_ratios(points)


def of_times(ms: Mapping[int, float], *, source: str = "times that were given") -> VerifyCost:
    """A cost from milliseconds of a pass by the number of tokens in it.

    Raises
    ------
    UsageError : numbers that cannot be, or none for one token.
    """
    if 1 not in ms:
        raise UsageError(
            "the time of a pass of one token is missing", "give 1=8.47ms too: all is set in proportion to it"
        )
    found = of_ratios(ms, source=source)
    return VerifyCost(found.widths, found.costs, float(ms[1]), source)


def of_ratios(costs: Mapping[int, float], *, source: str = "ratios that were given") -> VerifyCost:
    """A cost from times in proportion to a pass of one token, by the number of tokens.

    Raises
    ------
    UsageError : numbers that cannot be.
    """
    points = {1: 1.0, **costs}
    for n, value in points.items():
        if n != int(n) or not 1 <= n <= 4096:
            raise UsageError(f"{n} tokens cannot be verified in one pass", "from 1 to 4096 can")
        if not isfinite(value) or value <= 0:
            raise UsageError(f"verifying {n} tokens cannot cost {value:g}", "a cost is above zero")
    widths = tuple(sorted(int(n) for n in points))
    return VerifyCost(widths, tuple(float(points[n] / points[1]) for n in widths), None, source)
