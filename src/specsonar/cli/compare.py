"""`specsonar compare BASE CANDIDATE`"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ..errors import Exit, UsageError
from .figures import emit_page, figures_option, save
from .gate import exit_code, junit
from .output import emit, look, output_options
from .progress import Report, progress
from .reading import reading_options
from .share import Share, level_option
from .state import state_of, verbosity

_FILE = click.Path(allow_dash=True)


@click.command("compare")
@click.argument("files", nargs=-1, metavar="[BASE CANDIDATE]", type=_FILE)
@click.option("--base", "bases", multiple=True, metavar="FILE", type=_FILE, help="File of the base; several times.")
@click.option(
    "--candidate", "candidates", multiple=True, metavar="FILE", type=_FILE,
    help="File of the candidate; several times.",
)  # fmt: skip
@click.option(
    "--margin", type=Share(), metavar="P%", default="3%", show_default=True,
    help="Relative difference within which a quantity is equivalent.",
)  # fmt: skip
@level_option
@click.option("--allow-mismatch", is_flag=True, help="Compare recordings made under different conditions all the same.")
@click.option(
    "--gate", is_flag=True,
    help="Exit code 1 for a change for the worse beyond the margin, 4 when that cannot be told.",
)  # fmt: skip
@reading_options
@figures_option
@output_options("text", "json", "markdown", "html", "junit")
@verbosity
@click.pass_context
def command(
    context: click.Context,
    /,
    files: tuple[str, ...],
    bases: tuple[str, ...],
    candidates: tuple[str, ...],
    margin: float,
    level: float,
    allow_mismatch: bool,
    gate: bool,
    figures: Path | None,
    format_: str,
    output: Path | None,
    **reading: Any,
) -> int:
    """Tell what changed between two recordings: acceptance, the step, or neither.

    BASE and CANDIDATE are recordings in any format that specsonar knows, or fingerprints that were saved with
    `analyze --json`. With several files a side name each with --base or --candidate. Each quantity is changed,
    equivalent within the margin, or undetermined, and then it is said how many streams would settle it. Streams are
    what is compared: record some twenty answers a side, both alike.

    \b
    Examples:
      specsonar compare before.jsonl.zst after.jsonl.zst
      specsonar compare good.json today.jsonl.zst --gate --margin 5%
      specsonar compare --base a1.jsonl --base a2.jsonl --candidate b.jsonl
    """
    from ..saved import side

    pair = _pair(files, bases, candidates)
    with progress(state_of(context)) as report:
        sides = [
            side(names, level=level, progress=_half(report, number), **reading) for number, names in enumerate(pair)
        ]
    from ..compare import compare  # brings numpy, so files are looked at before it

    found = compare(*sides, margin=margin, level=level, allow_mismatch=allow_mismatch)
    if figures is not None:
        from ..render.images import PALETTE
        from ..render.pairs import comparison_figures

        save(comparison_figures(found, PALETTE), figures)
    if format_ == "json":
        from ..render import json

        emit(json.dumps(found.to_dict()), output)
    elif format_ == "junit":
        emit(junit(found), output)
    elif format_ == "html":
        from ..render import html

        emit_page(html.comparison(found), output)
    else:
        from ..render import comparison

        if format_ == "markdown":
            emit(comparison.as_markdown(found, gate=gate), output)
        else:
            emit(comparison.text(found, gate=gate, methods=state_of(context).verbose, **look(output)), output)
    return exit_code(found.checks) if gate else Exit.OK


def _pair(
    files: tuple[str, ...], bases: tuple[str, ...], candidates: tuple[str, ...]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The files of both sides.

    Raises
    ------
    UsageError : one side has none, or it cannot be told which file is whose.
    """
    if files and (bases or candidates):
        raise UsageError("files both with and without --base and --candidate", "name every file one way")
    if len(files) == 2:
        bases, candidates = files[:1], files[1:]
    if not bases or not candidates or len(files) not in (0, 2):
        raise UsageError(
            f"a comparison needs two sides, not {len(files)} files" if files else "a comparison needs two sides",
            "give BASE CANDIDATE, or several files a side: --base A1 --base A2 --candidate B1",
        )
    if [*bases, *candidates].count("-") > 1:
        raise UsageError("standard input can be one file only", "save the other one first")
    return bases, candidates


def _half(report: Report | None, number: int) -> Report | None:
    """Progress of side `number`, as half of the whole."""
    if report is None:
        return None
    return lambda done, message: report((number + done) / 2, f"{('base', 'candidate')[number]}: {message}")
