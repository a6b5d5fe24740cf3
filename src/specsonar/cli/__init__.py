"""The command line: stdout is data, stderr is talk, the exit code is one of `errors.Exit`."""

from __future__ import annotations

import gc
from typing import Final, NoReturn

_COLLECT_EVERY: Final = 500_000
"""Objects between two garbage collections. Loading compiled code makes a hundred thousand that stay, and with Python's
700 a tenth of a second of a short command goes into looking at them again and again."""


def main() -> NoReturn:
    """Run the command line with the arguments of the process, and end the process."""
    gc.set_threshold(_COLLECT_EVERY)
    from .app import cli

    cli.main()
    raise AssertionError("unreachable")
