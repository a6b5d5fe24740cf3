"""Recognise services whose settings are known, over and over, and say how often the answer is right."""

from __future__ import annotations

from .cells import Cell, Published, Task, Truth
from .grid import Grid, parse, read
from .methods import METHODS, Measured, Method
from .presets import PRESETS, article, figure1
from .result import Axis, Row, Sweep, Total, Work
from .running import Plan, carried_out, planned, run
from .score import Quantity, Score, Value

__all__ = [
    "METHODS", "PRESETS", "Axis", "Cell", "Grid", "Measured", "Method", "Plan", "Published", "Quantity", "Row", "Score",
    "Sweep", "Task", "Total", "Truth", "Value", "Work", "article", "carried_out", "figure1", "parse", "planned",
    "read", "run",
]  # fmt: skip
