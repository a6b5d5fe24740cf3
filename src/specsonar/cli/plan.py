"""`specsonar plan`"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from ..errors import SpecsonarError, UsageError
from .figures import emit_page, figures_option, save
from .output import emit, look, output_options
from .progress import progress
from .reading import reading_options
from .share import Numbers
from .state import state_of, verbosity

if TYPE_CHECKING:
    from ..planned import SpeedPlan, VerifyCost

    ParamType = click.ParamType[Any]
else:
    ParamType = click.ParamType

SECTIONS: Final = {
    "Forward: which draft would be how fast": (
        "k", "alpha", "draft_cost", "bonus", "verify_cost", "step", "plain_step", "up_to",
    ),
}  # fmt: skip
"""Headings of the help and the options below them; all others stand under Options."""


class Sectioned(click.Command):
    """A command whose help keeps its options under the headings of `SECTIONS`."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {title: [] for title in (*SECTIONS, "Options")}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None:
                title = next((t for t, names in SECTIONS.items() if param.name in names), "Options")
                sections[title].append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)


class Verification(ParamType):
    """A verification cost, as `plan.costs.parse` reads it."""

    name = "cost"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from ..plan.costs import parse

        try:
            return parse(value) if isinstance(value, str) else value
        except SpecsonarError as error:
            self.fail(f"{error.message}; {error.hint}", param, ctx)


def _presets(_context: click.Context, _parameter: click.Parameter, start: str) -> list[str]:
    from ..plan.costs import PRESETS

    return [name for name in PRESETS if name.startswith(start.lower())]


_POSITIVE: Final = click.FloatRange(0, min_open=True)


@click.command("plan", cls=Sectioned)
@click.argument("files", nargs=-1, metavar="[FILE...]", type=click.Path(allow_dash=True))
@click.option("--k", type=click.IntRange(1, 511), metavar="N", help="Drafted tokens of a step to speak about.")
@click.option(
    "--alpha", type=Numbers(), metavar="X[,X...]",
    help="Acceptance of a drafted token: one for all, or one for each draft position.",
)  # fmt: skip
@click.option(
    "--draft-cost", type=Numbers(), metavar="C[,C...]",
    help="Time to draft one token over that of a plain step of the target; several are shown side by side.",
)  # fmt: skip
@click.option(
    "--bonus/--no-bonus", default=True, show_default=True,
    help="A step in which all drafts are accepted gives one token more.",
)  # fmt: skip
@click.option(
    "--verify-cost", type=Verification(), metavar="N=COST,...", shell_complete=_presets,
    help="Time to verify N tokens in one pass, in plain steps (1=1,2=1.03,5=1.1) or in milliseconds (1=8.5ms,5=21ms), "
    "or the name of a published measurement.  [default: as one token]",
)  # fmt: skip
@click.option("--step", type=_POSITIVE, metavar="MS", help="Time of a step of the present service.")
@click.option("--plain-step", type=_POSITIVE, metavar="MS", help="Time of a step of the target without drafts.")
@click.option("--up-to", type=click.IntRange(1, 511), metavar="N", help="The last draft length of the table.")
@click.option(
    "--level", type=click.FloatRange(0.5, 1, max_open=True), metavar="P", default=0.95, show_default=True,
    help="Confidence level of the intervals.",
)  # fmt: skip
@reading_options
@figures_option
@output_options("text", "json", "csv", "html")
@verbosity
@click.pass_context
def command(
    context: click.Context,
    /,
    files: tuple[str, ...],
    k: int | None,
    alpha: float | tuple[float, ...] | None,
    draft_cost: float | tuple[float, ...] | None,
    bonus: bool,
    verify_cost: VerifyCost | None,
    step: float | None,
    plain_step: float | None,
    up_to: int | None,
    level: float,
    figures: Path | None,
    format_: str,
    output: Path | None,
    **reading: Any,
) -> None:
    """Tell what a draft would bring, or how much must be recorded to know it.

    \b
    Forward, from numbers or from a service that was measured:
      specsonar plan --k 4 --alpha 0.8 --draft-cost 0.05
      specsonar plan --alpha .76,.81,.83 --verify-cost 1=8.5ms,2=13.5ms,5=20.7ms
      specsonar plan recording.jsonl --k 2

    FILE is a recording in any format that specsonar knows, or a fingerprint that was saved with `analyze --json`.
    """
    from .. import plan

    found = _found(context, files, level, reading)
    if found is None and alpha is None:
        raise UsageError("there is no acceptance to plan with", "give --alpha 0.8, or a FILE")
    if found is not None and alpha is not None and plan.plain_step(found) is None:
        raise UsageError("the acceptance is given twice, by --alpha and by the file", "leave out one of them")
    if found is not None and alpha is not None and plain_step is None:
        plain_step = plan.plain_step(found)
    result = plan.plan_speed(
        found if alpha is None else alpha, k=k, draft_cost=draft_cost, bonus=bonus, verify_cost=verify_cost,
        step_ms=step, plain_step_ms=plain_step, up_to=up_to, level=level,
    )  # fmt: skip
    _present(result, format_, output, figures)


def _found(context: click.Context, files: tuple[str, ...], level: float, reading: dict[str, Any]) -> Any:
    """The fingerprint of the files; None without any."""
    if not files:
        return None
    from ..saved import side

    with progress(state_of(context)) as report:
        return side(files, level=level, progress=report, **reading)


def _present(result: SpeedPlan, format_: str, output: Path | None, figures: Path | None) -> None:
    if figures is not None:
        from ..render.images import PALETTE
        from ..render.planfigures import speed_figures

        save(speed_figures(result, PALETTE), figures)
    if format_ == "json":
        from ..render import json

        emit(json.dumps(result.to_dict()), output)
    elif format_ == "csv":
        from .output import as_csv

        emit(as_csv(*result.flat()), output)
    elif format_ == "html":
        from ..render.planfigures import speed_page

        emit_page(speed_page(result), output)
    else:
        from ..render import plans

        emit(plans.text(result, **look(output)), output)
