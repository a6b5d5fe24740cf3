"""What gates have in common: the exit code that follows from their checks, and JUnit reports of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ..errors import Exit, UsageError
from ..fingerprint import FAILED, UNDETERMINED, Check, Comparison, Fingerprint

if TYPE_CHECKING:
    from ..expect import Expectation

Command = TypeVar("Command", bound=Callable[..., Any])


def exit_code(checks: Iterable[Check]) -> Exit:
    """One failed check fails; else one that stayed undetermined leaves the gate undetermined."""
    said = {check.verdict for check in checks}
    return Exit.GATE_FAILED if FAILED in said else Exit.UNDETERMINED if UNDETERMINED in said else Exit.OK


def junit(answer: Fingerprint | Comparison) -> str:
    """The checks as a JUnit report of this second."""
    from ..render import junit as report

    return report.render(answer, at=datetime.now().isoformat(timespec="seconds"))


def needs_checks(format_: str, expected: Sequence[Expectation]) -> None:
    """Refuse a JUnit report of nothing.

    Raises
    ------
    UsageError : it is asked for without an expectation.
    """
    if format_ == "junit" and not expected:
        raise UsageError("a JUnit report without an expectation has no test", 'add one: --expect "acceptance>=0.7"')


def _parsed(
    _context: click.Context, _parameter: click.Parameter, texts: tuple[str, ...]
) -> tuple[Expectation, ...]:  # fmt: skip
    if not texts:
        return ()
    from ..expect import parse

    return tuple(map(parse, texts))


def expect_option(command: Command) -> Command:
    """Add --expect."""
    return click.option(
        "--expect", "expected", multiple=True, callback=_parsed, metavar='"Q>=X"',
        help='What should be true: k=8, "acceptance>=0.7", "step_ms<=25"; several times. Exit code 1 when one is not, '
        "4 when it cannot be told.",
    )(command)  # fmt: skip
