"""What the commands that record have in common: where to, how it goes, and what came of it."""

from __future__ import annotations

import contextlib
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from .figures import usable
from .output import FORMATS, present
from .progress import progress
from .state import State, say

if TYPE_CHECKING:
    from ..sources.keeper import Keeper

Command = TypeVar("Command", bound=Callable[..., Any])

_EVERY_S: Final = 0.5
_UNITS: Final = {"": 1, "K": 1_000, "M": 1_000_000, "G": 1_000_000_000}


def size(text: str) -> int:
    """A number of bytes: 500kB, 100MB, 2GB; the type of an option."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMG]?)B?", text.strip(), re.IGNORECASE)
    if not found or not (number := int(float(found[1]) * _UNITS[found[2].upper()])):
        raise click.BadParameter(f"{text!r} is no size; for example 100MB")
    return number


def recording_options(default: str) -> Callable[[Command], Command]:
    """Add -o, --fingerprint and --format."""

    def add(command: Command) -> Command:
        for option in (
            click.option(
                "--format", "format_", type=click.Choice(FORMATS), default=FORMATS[0], show_default=True,
                callback=usable, help="Of the fingerprint.",
            ),
            click.option("--fingerprint", is_flag=True, help="At the end, tell how the service decodes."),
            click.option(
                "-o", "--output", type=click.Path(path_type=Path), metavar="FILE", default=".",
                help=f"Trace to write, or a directory for it.  [default: {default}]",
            ),
        ):  # fmt: skip
            command = option(command)
        return command

    return add


@contextlib.contextmanager
def told_to_end() -> Iterator[Callable[[], bool]]:
    """Whether Ctrl-C or a SIGTERM came. The first is only noted, so that no event is left half written."""
    told = []

    def note(number: int, frame: FrameType | None) -> None:
        told.append(number)
        signal.signal(number, signal.default_int_handler)

    before = [(number, signal.signal(number, note)) for number in (signal.SIGINT, signal.SIGTERM)]
    try:
        yield lambda: bool(told)
    finally:
        for number, handler in before:
            signal.signal(number, handler)


class Status:
    """One line on a terminal that says how far the recording is; silent elsewhere."""

    def __init__(self, state: State, keeper: Keeper) -> None:
        self._keeper = keeper
        self._on = sys.stderr.isatty() and not state.quiet
        self._next = 0.0

    def show(self, clients: int | None = None) -> None:
        """Draw it, twice a second at most."""
        if not self._on or (now := time.monotonic()) < self._next:
            return
        self._next = now + _EVERY_S
        counts = [] if clients is None else [(clients, "client")]
        counts += [(self._keeper.streams, "stream"), (self._keeper.events, "event")]
        sys.stderr.write("\r\x1b[2K" + " · ".join(_many(n, word) for n, word in counts))
        sys.stderr.flush()

    def clear(self) -> None:
        """Take it away, before something else is said."""
        if self._on:
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()
            self._next = 0.0


def summary(state: State, keeper: Keeper, paths: list[Path]) -> None:
    """Say what was recorded, and what was noticed."""
    if state.quiet:
        return
    say(f"recorded {_many(keeper.streams, 'stream')}, {_many(keeper.events, 'event')}: {', '.join(map(str, paths))}")
    for found in keeper.findings:
        say(f"{found.code} {found.severity}: {found.message}")


def conclude(state: State, paths: list[Path], format_: str) -> None:
    """Print the fingerprint of what was recorded.

    Raises
    ------
    InputError : nothing was.
    """
    from ..errors import InputError
    from ..fit import fingerprint
    from ..importers import read
    from ..trace import merge

    trace = merge([read(path) for path in paths])
    if not trace.streams:
        raise InputError("no streamed answer was recorded", "stream answers through it, then end it")
    with progress(state) as report:
        answer = fingerprint(trace, progress=report)
    present(answer, format_, None, methods=state.verbose)


def _many(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"
