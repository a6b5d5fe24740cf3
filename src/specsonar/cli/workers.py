"""`--executor` and `--jobs`: where work runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])


def executor_options(command: Command) -> Command:
    """Add --executor and --jobs, for `executors.opened`."""
    command = click.option(
        "--jobs", type=click.IntRange(1), metavar="N", help="Processes.  [default: one per usable core]"
    )(command)
    return click.option(
        "--executor", metavar="WHERE", default="processes", show_default=True,
        help="processes, serial, or dask://HOST:PORT for the workers of a Dask cluster.",
    )(command)  # fmt: skip
