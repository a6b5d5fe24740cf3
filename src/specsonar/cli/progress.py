"""A progress bar on stderr, for work that turns out to take longer than a second."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from .state import State

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

Report = Callable[[float, str], None]
"""`report(done, message)`, done between 0 and 1."""

PATIENCE_S: Final = 1.0


class Bar:
    """Silent until `PATIENCE_S` have passed."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._start = clock()
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def __call__(self, done: float, message: str) -> None:
        if self._bar is None:
            if self._clock() - self._start < PATIENCE_S:
                return
            self._open()
        assert self._bar is not None
        assert self._task is not None
        self._bar.update(self._task, completed=min(max(done, 0.0), 1.0), description=message)

    def _open(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn(),
                   TimeRemainingColumn())  # fmt: skip
        self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
        self._bar.start()
        self._task = self._bar.add_task("", total=1.0)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.stop()


@contextmanager
def progress(state: State) -> Iterator[Report | None]:
    """A callable to report progress with; None when nobody would see it."""
    if state.quiet or not sys.stderr.isatty():
        yield None
        return
    bar = Bar()
    try:
        yield bar
    finally:
        bar.close()
