"""Tasks for workers in other processes, which import them by name."""

import os
import signal
from pathlib import Path

from specsonar.errors import InputError


def square(x):
    """`x` squared, and who computed it."""
    return x * x, os.getpid()


def picky(x):
    """Fails for a reason that is told, for one that nobody foresaw, or not at all."""
    if x == 1:
        raise InputError("one is too few", "take two")
    if x == 2:
        raise ValueError("two\nlines")
    return x


def deadly(task):
    """Kill this worker whenever it meets 7 and, if a file is named, the first time that it meets 3."""
    x, once = task
    if x == 7:
        os.kill(os.getpid(), signal.SIGKILL)
    if x == 3 and once is not None and not Path(once).exists():
        Path(once).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return x * x


def mark(task):
    """Note in a folder that a task has begun, and go on for a long time."""
    folder, number = task
    (Path(folder) / f"{number}-{os.getpid()}").touch()
    signal.pause()
