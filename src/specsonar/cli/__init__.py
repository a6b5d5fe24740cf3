"""The command line: stdout is data, stderr is talk, the exit code is one of `errors.Exit`."""

from __future__ import annotations

from typing import NoReturn


def main() -> NoReturn:
    """Run the command line with the arguments of the process, and end the process."""
    from .app import cli

    cli.main()
    raise AssertionError("unreachable")
