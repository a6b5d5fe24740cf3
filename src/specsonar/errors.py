"""Everything that can go wrong for a reason the user can act on.

Each error is one line that says what is wrong, and a hint that says what to do. The command line turns
them into an exit code; nothing else in the package decides how a program ends.
"""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """Exit codes of every command."""

    OK = 0
    """Done, whatever the verdict."""
    GATE_FAILED = 1
    """A gate was asked for and failed."""
    USAGE = 2
    """The command line was wrong."""
    INPUT = 3
    """An input or a connection could not be used."""
    UNDETERMINED = 4
    """A gate was asked for and the answer is "undetermined"."""


class SpecsonarError(Exception):
    """Base of all errors raised on purpose.

    Parameters
    ----------
    message : what is wrong, in one line.
    hint : what to do about it, in one line; may be empty.
    """

    exit_code: Exit = Exit.INPUT

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(SpecsonarError):
    """An argument that no input could make right."""

    exit_code = Exit.USAGE


class InputError(SpecsonarError):
    """A file or an array that cannot be used as arrival times."""


class FormatError(InputError):
    """A file whose format is not known, or not what it claims to be."""


class LimitError(InputError):
    """An input larger than the limits that protect the reader's memory."""


class ConnectionFailed(SpecsonarError):
    """A service that cannot be reached, refuses, or does not speak a known dialect."""
