"""`specsonar analyze FILE...`"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .figures import figures_option, save_figures
from .gate import exit_code, expect_option, needs_checks
from .output import FORMATS, output_options, present
from .progress import progress
from .quick import load_numba
from .reading import reading_options
from .share import level_option
from .state import say, state_of, verbosity

if TYPE_CHECKING:
    from ..expect import Expectation


@click.command("analyze")
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path(allow_dash=True))
@reading_options
@level_option
@click.option("--seed", type=click.IntRange(0), metavar="N", default=0, show_default=True, help="Of simulated checks.")
@click.option(
    "--method", type=click.Choice(("likelihood", "baseline")), default="likelihood", show_default=True,
    help="baseline: the founding article's analyser, for comparison.",
)  # fmt: skip
@expect_option
@figures_option
@output_options(*FORMATS, "junit")
@verbosity
@click.pass_context
def command(
    context: click.Context,
    /,
    files: tuple[str, ...],
    level: float,
    seed: int,
    method: str,
    expected: tuple[Expectation, ...],
    figures: Path | None,
    format_: str,
    output: Path | None,
    **options: Any,
) -> int:
    """Tell from recorded arrival times how a service decodes.

    FILE is a recording in any format that specsonar knows, or plain text with one arrival time a line (a second
    column holds token counts); "-" reads stdin. Several files are pooled: one service, several streams; the text of
    its /metrics may be among them.

    \b
    Examples:
      specsonar analyze recording.jsonl.zst
      specsonar analyze a.pcap b.pcap --expect k=4 --expect "acceptance>=0.7"
      specsonar analyze times.txt --unit ms --format html -o report.html
    """
    from ..importers import look, pool

    needs_checks(format_, expected)
    state = state_of(context)
    with progress(state) as report:
        traces = []
        for name in files:
            traces.append(look(name, **options))
            if state.verbose:
                count = len(traces[-1].streams)
                say(f"{name}: {count} stream{'' if count == 1 else 's'}, {traces[-1].events} events")
        trace = pool(traces)
        load_numba()
        from ..fit import fingerprint  # slow to import, so a bad file is reported before it

        answer = fingerprint(trace, level=level, seed=seed, method=method, progress=report)
    if expected:
        from ..expect import checked

        answer = checked(answer, expected)
    save_figures(answer, figures)
    present(answer, format_, output, methods=state.verbose)
    return exit_code(answer.checks)
