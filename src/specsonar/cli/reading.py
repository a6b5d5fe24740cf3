"""Options of every command that reads a recording."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])


def reading_options(command: Command) -> Command:
    """Add --unit, --gaps and --columns."""
    command = click.option(
        "--columns", metavar="time=T[,tokens=N,stream=S]", help="Columns of a table, where their names do not tell."
    )(command)
    command = click.option("--gaps", is_flag=True, help="The plain numbers are gaps between tokens, not times.")(
        command
    )
    return click.option(
        "--unit", type=click.Choice(("s", "ms", "us", "ns")), help="Unit of plain times; guessed without it."
    )(command)
