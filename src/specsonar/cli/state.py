"""How talkative a run is, and the one way to talk."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(slots=True)
class State:
    """Options that concern the run, not the answer. Shared by the root command and the subcommand."""

    quiet: bool = False
    verbose: bool = False


def say(line: str) -> None:
    """One line of talk on stderr, whatever is in it and whatever stderr can encode."""
    shown = "".join(c if c.isprintable() else " " if c in "\n\t\r" else "?" for c in line)
    encoding = getattr(sys.stderr, "encoding", None) or "utf-8"
    click.echo(shown.encode(encoding, "replace").decode(encoding), err=True)


def state_of(context: click.Context) -> State:
    """The run's state; a fresh one when a command is invoked on its own, as tests do."""
    return context.ensure_object(State)


def _remember(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value and parameter.name is not None:
        setattr(state_of(context), parameter.name, True)


def verbosity(command: Command) -> Command:
    """Add --quiet and --verbose, which act before the command runs."""
    for flag, name, text in (
        ("-v", "verbose", "Tell what is done and how intervals were made; trace defects."),
        ("-q", "quiet", "No progress bar and no remarks; only errors."),
    ):
        command = click.option(
            flag, f"--{name}", is_flag=True, expose_value=False, is_eager=True, callback=_remember, help=text
        )(command)
    return command
