"""Figures as files: SVG for papers, PNG for everything else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import altair
import vl_convert

from .charts import Figure, Palette, themed

WIDTH: Final = 460
WIDE: Final = 900
SHARP: Final = 2.0
"""Pixels of a PNG for each unit of the figure."""

PALETTE: Final = Palette()


def images(drawn: Iterable[Figure]) -> Iterator[tuple[str, bytes]]:
    """Name and content of each file, in light colours on white."""
    version = vega_lite()
    for figure in drawn:
        spec = alone(figure).to_dict()
        yield f"{figure.name}.png", vl_convert.vegalite_to_png(spec, version, scale=SHARP)
        yield f"{figure.name}.svg", vl_convert.vegalite_to_svg(spec, version).encode()


def alone(figure: Figure) -> Any:
    """The chart with its title and a size of its own."""
    return themed(sized(figure), PALETTE, font="sans-serif", paper=PALETTE.paper)


def sized(figure: Figure) -> Any:
    """The same without a theme, to be put beside others."""
    return figure.chart.properties(width=WIDE if figure.wide else WIDTH, height=figure.height, title=figure.title)


def vega_lite() -> str:
    """The version that the charts are written for, as vl-convert names it."""
    return ".".join(altair.SCHEMA_VERSION.lstrip("v").split(".")[:2])
