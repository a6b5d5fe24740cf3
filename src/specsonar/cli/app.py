"""The root command: it knows its subcommands by name only, and turns every way to fail into a line and a code."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Any, Final, NoReturn

import click

from .. import __version__
from ..errors import Exit, SpecsonarError
from .state import State, say, verbosity

COMMANDS: Final = {
    "demo": "Hide a random service, listen to it, and compare the answer with the truth.",
    "probe": "Ask a real service, listen to when its tokens come, and tell how it decodes.",
    "record": "Run a Python program and record the streams that it receives.",
    "proxy": "Record what clients and a service say to each other, from in between.",
    "analyze": "Tell from recorded arrival times how a service decodes.",
    "compare": "Tell what changed between two recordings: acceptance, the step, or neither.",
    "show": "Say what is in a recording, before anything is inferred from it.",
    "convert": "Write a recording of another tool as a trace, as CSV or as Parquet.",
    "simulate": "Make the token stream of a service with known settings.",
    "serve": "Put a service with known settings behind a real HTTP server.",
    "sweep": "Measure how well services can be recognised, setting by setting.",
    "fleet": "Fingerprint many recorded streams by model, endpoint and day, and tell what drifted.",
    "plan": "Tell what a draft would bring, or how much must be recorded to know it.",
    "defend": "Tell what it would cost a service to hide how it decodes.",
    "doctor": "Measure what this machine, and the way to a service, let you see.",
    "explain": "Say what a finding means and what to do about it.",
    "completion": "Print the completion script of a shell.",
}
"""Subcommands in the order of the help; each lives in the module of its name and is imported when it is used."""

INTERRUPTED: Final = 128 + signal.SIGINT
BROKEN_PIPE: Final = 141
"""What a shell reports for a program that SIGPIPE ended, as `head` ends it."""


class _PipeClosed(Exception):
    """Whoever read stdout has gone. click would end the process itself, with the code of a failed gate."""


class Cli(click.Group):
    """A group whose subcommands are imported when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = getattr(import_module(f"{__package__}.{cmd_name}"), "command")  # noqa: B009 - typed below
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            near = get_close_matches(args[0], COMMANDS, n=1)
            ctx.fail(f"no such command {args[0]!r}." + (f" Did you mean {near[0]!r}?" if near else ""))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        try:
            return super().make_context(*args, **extra)
        except BrokenPipeError as error:
            raise _PipeClosed from error

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise _PipeClosed from error

    def main(  # always ends the process, as click's own does in standalone mode
        self, args: Sequence[str] | None = None, prog_name: str | None = None, *_: Any, **extra: Any
    ) -> NoReturn:
        """Run and end the process; what goes wrong becomes one line on stderr and an exit code."""
        state = State()
        extra.pop("standalone_mode", None)
        try:
            code = super().main(args, "specsonar", standalone_mode=False, obj=state, **extra)
            sys.stdout.flush()
            code = code if isinstance(code, int) else Exit.OK
        except SystemExit:  # shell completion has answered
            raise
        except BaseException as error:
            code = _report(error, state)
        if code == BROKEN_PIPE:
            _let_go_of_stdout()
        sys.exit(code)


def _report(error: BaseException, state: State) -> int:
    """Tell the user about `error`; the exit code that goes with it."""
    match error:
        case SpecsonarError():
            say(f"error: {error.message}")
            if error.hint:
                say(f"hint: {error.hint}")
            return error.exit_code
        case click.ClickException():
            return _usage(error)
        case click.Abort() | KeyboardInterrupt():
            say("interrupted")
            return INTERRUPTED
        case _PipeClosed() | BrokenPipeError():
            return BROKEN_PIPE
        case MemoryError():
            _show_traceback(error, state)
            say("error: out of memory")
            say("hint: analyse fewer streams at a time")
            return Exit.INPUT
        case OSError():
            _show_traceback(error, state)
            where = f" {error.filename!r}:" if error.filename is not None else ""
            say(f"error:{where} {error.strerror or error}")
            return Exit.INPUT
        case Exception():
            _show_traceback(error, state)
            say(f"error: this is a defect of specsonar {__version__}: {type(error).__name__}: {error}")
            if not state.verbose:
                say("hint: run it again with --verbose and report what it prints")
            return Exit.INPUT
        case _:
            raise error


def _usage(error: click.ClickException) -> int:
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return Exit.USAGE
    say(f"error: {error.format_message()}")
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is not None:
        say(f"hint: see `{context.command_path} --help`")
    return error.exit_code


def _show_traceback(error: BaseException, state: State) -> None:
    if state.verbose:
        traceback.print_exception(error, file=sys.stderr)


def _let_go_of_stdout() -> None:
    """Send what is still buffered nowhere, so that the interpreter's last flush does not complain."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        return


@click.group(cls=Cli, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, message="%(prog)s %(version)s")
@verbosity
def cli() -> None:
    """Tell how an LLM service decodes, from outside, from nothing but when its tokens arrive.

    Start with `specsonar demo`. Results go to stdout, everything else to stderr. Exit codes: 0 done, whatever the
    verdict; 1 a gate failed; 2 wrong usage; 3 an input or a connection could not be used; 4 a gate was asked for and
    the answer is "undetermined".
    """
