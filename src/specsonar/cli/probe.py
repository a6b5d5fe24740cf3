"""`specsonar probe URL`"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import Exit, UsageError
from .figures import figures_option, save_figures
from .gate import exit_code, expect_option, needs_checks
from .output import FORMATS, format_options, present
from .share import Share, level_option
from .state import State, say, state_of, verbosity

if TYPE_CHECKING:
    from ..expect import Expectation
    from ..probe import Probe, SoFar


def _names(_context: click.Context, parameter: click.Parameter, start: str) -> list[str]:
    from ..sources.dialing.routes import ROUTES
    from ..sources.dialing.workloads import WORKLOADS

    names = ROUTES if parameter.name == "dialect" else WORKLOADS
    return [name for name in names if name.startswith(start)]


@click.command("probe")
@click.argument("url", metavar="URL")
@click.option("--model", metavar="NAME", help="Model to ask.  [default: the server's only one, or its first]")
@click.option(
    "--dialect", metavar="NAME", shell_complete=_names,
    help="openai, completions, responses, anthropic, ollama, ollama-generate, llama.cpp, tgi or sglang.  "
    "[default: found out]",
)  # fmt: skip
@click.option(
    "--workload", "workloads", metavar="NAME", multiple=True, shell_complete=_names,
    help="prose, code, json or repeat; may be given several times.  [default: all in turns]",
)  # fmt: skip
@click.option(
    "--prompt-file", type=click.Path(path_type=Path), metavar="FILE",
    help="Ask the prompts of FILE instead: one a paragraph, blank lines between them.",
)  # fmt: skip
@click.option(
    "--streams", type=click.IntRange(1, 10_000), metavar="N",
    help="Number of answers.  [default: 8; with --until as many as it takes]",
)  # fmt: skip
@click.option("--tokens", type=click.IntRange(2), metavar="N", default=256, show_default=True, help="Of each answer.")
@click.option(
    "--concurrency", type=click.IntRange(1, 1_000), metavar="N", default=1, show_default=True, help="Answers at once."
)
@click.option(
    "--temperature", type=click.FloatRange(0, 100), metavar="X", default=0.0, show_default=True, help="Of the sampling."
)
@click.option("--seed", type=click.IntRange(0), metavar="N", help="Of the server's sampling.")
@click.option(
    "--until", type=Share(), metavar="P%",
    help="Stop when the intervals of acceptance length and step are within +-P% of their values.",
)  # fmt: skip
@click.option(
    "--budget", type=click.IntRange(2), metavar="N", default=10_000, show_default=True,
    help="Tokens of all answers together.",
)  # fmt: skip
@click.option(
    "--timeout", type=click.FloatRange(0.1, 86_400), metavar="S", default=60.0, show_default=True,
    help="Seconds of silence after which the server is given up.",
)  # fmt: skip
@click.option(
    "--key-env", metavar="NAME",
    help="Environment variable with the API key.  [default: the provider's own; for this machine by dialect]",
)  # fmt: skip
@click.option("--key-over-http", is_flag=True, help="Send the key unencrypted to another machine.")
@click.option("--proxy", metavar="URL", help="HTTP proxy.  [default: that of the environment]")
@level_option
@expect_option
@figures_option
@format_options(*FORMATS, "junit")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), metavar="TRACE",
    help="Write the recording there while it is made; .gz and .zst are packed. The report goes to stdout.",
)  # fmt: skip
@verbosity
@click.pass_context
def command(
    context: click.Context,
    /,
    url: str,
    prompt_file: Path | None,
    expected: tuple[Expectation, ...],
    figures: Path | None,
    format_: str,
    output: Path | None,
    **settings: Any,
) -> int:
    """Ask a real service, listen to when its tokens come, and tell how it decodes.

    URL is that of the service (http://localhost:8000) or of one of its routes (.../v1/chat/completions). A few answers
    are streamed, one after the other, to prompts that a draft finds easy or hard; then the report is printed. Ctrl-C
    ends the recording, and what was received is reported.

    API keys come from environment variables only, are sent to their provider or to this machine only, and are never
    written or shown.

    \b
    Examples:
      specsonar probe http://localhost:8000
      specsonar probe https://api.example.com --model NAME --key-env MY_API_KEY
      specsonar probe http://localhost:8000 --until 5% -o recording.jsonl.zst
    """
    from ..probe import probe

    needs_checks(format_, expected)
    if output is not None and str(output) == "-":
        raise UsageError("the trace cannot go to stdout, where the report goes", "give -o a file")
    if prompt_file is not None:
        from ..sources.dialing.workloads import from_file

        settings["prompts"] = from_file(prompt_file)
    state = state_of(context)
    _quiet_retries()
    with _watching(state) as watch:
        found = probe(url, output=output, watch=watch, tell=None if state.quiet else say, **settings)
    answer = found.fingerprint
    if expected:
        from ..expect import checked

        answer = checked(answer, expected)
    save_figures(answer, figures)
    present(answer, format_, None, methods=state.verbose)
    return _ended(found, state) or exit_code(answer.checks)


def _quiet_retries() -> None:
    """The library that asks busy servers again tells the log of it; here the report does."""
    from stamina.instrumentation import set_on_retry_hooks

    set_on_retry_hooks([])


def _ended(found: Probe, state: State) -> int:
    """Say why the recording ended early; the exit code."""
    from .app import INTERRUPTED

    if found.errors and not state.quiet:
        for text in dict.fromkeys(error.message for error in found.errors[:-1]):
            say(f"note: {text}")
    if found.ended == "failed":
        last = found.errors[-1]
        say(f"error: {last.message}")
        if last.hint:
            say(f"hint: {last.hint}")
        return Exit.INPUT
    if found.errors and not state.quiet:
        say(f"note: {found.errors[-1].message}")
    if found.ended == "interrupted":
        say("interrupted: this is the report of what was received")
        return INTERRUPTED
    if found.ended == "budget" and not state.quiet:
        say("the budget of tokens is spent; --budget sets another")
    return Exit.OK


@contextmanager
def _watching(state: State) -> Iterator[Callable[[SoFar], None] | None]:
    """Somebody who looks on, where there is a terminal; else None."""
    if state.quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(stderr=True), transient=True, auto_refresh=False) as live:
        yield lambda so_far: live.update(_view(so_far), refresh=True)


def _view(so_far: SoFar) -> Any:
    """The state of things in two lines."""
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    from ..render.rows import clean

    head = f"{so_far.tokens:,} tokens in {so_far.answers} answers, {so_far.tokens_per_s:.0f} tokens/s "
    grid = Table.grid(padding=(0, 1))
    grid.add_row(Text(head), ProgressBar(total=1.0, completed=so_far.share, width=24))
    table = Table.grid()
    table.add_row(grid)
    table.add_row(Text(clean(so_far.estimate.sentence) if so_far.estimate else "listening", style="dim"))
    return table
