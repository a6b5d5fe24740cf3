"""Shares, lists of numbers and the level of intervals on the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

# Generic in newer versions of click only; older ones cannot subscript it.
if TYPE_CHECKING:
    ParamType = click.ParamType[Any]
else:
    ParamType = click.ParamType


class Share(ParamType):
    """A share, as a percentage ("5%") or a fraction ("0.05")."""

    name = "share"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        number, percent, rest = value.strip().partition("%")
        try:
            share = float(number) / (100 if percent else 1)
        except ValueError:
            share = 0.0
        if rest or not 0.001 <= share <= 1:
            self.fail(f"{value!r} is no share between 0.1% and 100%; write it as 5%", param, ctx)
        return share


class Numbers(ParamType):
    """One number, or several with commas between them."""

    name = "numbers"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        try:
            numbers = tuple(float(part) for part in value.split(","))
        except ValueError:
            self.fail(f"{value!r} is not a number, or numbers with commas between them", param, ctx)
        return numbers[0] if len(numbers) == 1 else numbers


level_option = click.option(
    "--level", type=click.FloatRange(0.5, 1, max_open=True), metavar="P", default=0.95, show_default=True,
    help="Confidence level of the intervals.",
)  # fmt: skip
