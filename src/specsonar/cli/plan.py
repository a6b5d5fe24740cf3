"""`specsonar plan`"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from ..errors import SpecsonarError, UsageError
from ..fingerprint import LAYERS
from ..planned import TARGETS
from .figures import emit_page, figures_option, save
from .output import as_csv, emit, look, output_options
from .progress import progress
from .reading import reading_options
from .share import Numbers, ParamType, Share, level_option
from .state import state_of, verbosity

if TYPE_CHECKING:
    from ..fingerprint import Fingerprint
    from ..plan.service import Known
    from ..planned import DataPlan, SpeedPlan, VerifyCost

SECTIONS: Final = {
    "Forward: which draft would be how fast": (
        "k", "alpha", "per_position", "acceptance_length", "draft_cost", "bonus", "verify_cost", "step", "plain_step",
        "up_to",
    ),
    "Backward: how much has to be recorded (with --k, --alpha and --step)": (
        "precision", "change", "targets", "jitter", "cv", "spread", "layers", "tokens", "sure", "check", "recordings",
        "seed", "jobs",
    ),
}  # fmt: skip
"""Headings of the help and the options below them; all others stand under Options."""

_BACKWARD: Final = SECTIONS[tuple(SECTIONS)[1]]
"""Options of which one is enough to ask how much has to be recorded."""


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
    "--per-position", type=Numbers(), metavar="X[,X...]",
    help="Instead: share of the steps that accept each draft position, as vLLM prints it.",
)  # fmt: skip
@click.option(
    "--acceptance-length", type=click.FloatRange(1), metavar="X",
    help="Instead: mean tokens of a step with --k drafts; all positions are taken to be accepted alike.",
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
    "--precision", type=Share(), metavar="P%", help="Half-width of an interval over its value.  [default: 5%]"
)
@click.option(
    "--change", type=Share(), metavar="P%", help="Change to be found by `compare`.  [default: as --precision]"
)
@click.option(
    "--for", "targets", type=click.Choice(TARGETS), multiple=True, metavar="NAME",
    help=f"What is to be known; several times: {', '.join(TARGETS)}.  [default: all]",
)  # fmt: skip
@click.option("--jitter", type=click.FloatRange(0), metavar="MS", help="Standard deviation of the delay.  [default: 0]")
@click.option(
    "--cv", type=click.FloatRange(0, 2), metavar="X",
    help="Coefficient of variation of the step times.  [default: 0.05; 0 with independent delays]",
)  # fmt: skip
@click.option(
    "--spread", type=Share(), metavar="P%", help="How far streams differ in acceptance length and step.  [default: 0]"
)
@click.option(
    "--layer", "layers", type=click.Choice(LAYERS), multiple=True,
    help="How tokens are observed; several times.  [default: all]",
)  # fmt: skip
@click.option("--tokens", type=click.IntRange(2), metavar="N", default=600, show_default=True, help="Of each answer.")
@click.option(
    "--sure", type=click.FloatRange(0.5, 1, max_open=True), metavar="P", default=0.9, show_default=True,
    help="Probability of a right answer to a question of yes or no.",
)  # fmt: skip
@click.option("--check", is_flag=True, help="Simulate recordings of these sizes and of a quarter of them.")
@click.option(
    "--recordings", type=click.IntRange(2), metavar="N", default=40, show_default=True,
    help="Simulated by --check for each size.",
)  # fmt: skip
@click.option("--seed", type=click.IntRange(0), metavar="N", default=0, show_default=True, help="Of --check.")
@click.option(
    "--jobs", type=click.IntRange(1), metavar="N", help="Processes of --check.  [default: one per usable core]"
)
@level_option
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
    per_position: float | tuple[float, ...] | None,
    acceptance_length: float | None,
    draft_cost: float | tuple[float, ...] | None,
    bonus: bool,
    verify_cost: VerifyCost | None,
    step: float | None,
    plain_step: float | None,
    up_to: int | None,
    level: float,
    precision: float | None,
    change: float | None,
    targets: tuple[str, ...],
    jitter: float | None,
    cv: float | None,
    spread: float | None,
    layers: tuple[str, ...],
    tokens: int,
    sure: float,
    check: bool,
    recordings: int,
    seed: int,
    jobs: int | None,
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

    \b
    Backward, from a jitter and a step, or from a recording that is too short:
      specsonar plan --jitter 6 --step 20 --precision 5%
      specsonar plan --jitter 6 --step 20 --for max_burst --layer counted --check
      specsonar plan recording.jsonl --precision 2%

    FILE is a recording in any format that specsonar knows, or a fingerprint that was saved with `analyze --json`.
    """
    given = {name for name in _BACKWARD if context.get_parameter_source(name) is ParameterSource.COMMANDLINE}
    known = _acceptance(alpha, per_position, acceptance_length, k, bonus, level)
    found = _found(context, files, level, reading)
    if given:
        forward = {
            "--draft-cost": draft_cost, "--verify-cost": verify_cost, "--plain-step": plain_step, "--up-to": up_to,
        }  # fmt: skip
        if mixed := next((flag for flag, value in forward.items() if value is not None), None):
            raise UsageError(f"{mixed} asks about speed, other options about data", "ask one after the other")
        sized = _data(
            found, **_numbers(found, k=k, alpha=_plain(known), step_ms=step, jitter_ms=jitter), bonus=bonus, step_cv=cv,
            spread=spread or 0.0, tokens_per_stream=tokens, precision=precision or 0.05, change=change,
            layers=layers or None, targets=targets or TARGETS, level=level, sure=sure,
        )  # fmt: skip
        if check:
            sized = _checked(context, sized, found, recordings=recordings, seed=seed, jobs=jobs)
        _present(sized, format_, output, figures)
    else:
        fast = _speed(
            found, known, k=k, draft_cost=draft_cost, bonus=bonus, verify_cost=verify_cost, step_ms=step,
            plain_step_ms=plain_step, up_to=up_to, level=level,
        )  # fmt: skip
        _present(fast, format_, output, figures)


def _found(context: click.Context, files: tuple[str, ...], level: float, reading: dict[str, Any]) -> Fingerprint | None:
    """The fingerprint of the files; None without any."""
    if not files:
        return None
    from ..saved import side

    with progress(state_of(context)) as report:
        return side(files, level=level, progress=report, **reading)


def _acceptance(
    alpha: Any, per_position: Any, length: float | None, k: int | None, bonus: bool, level: float
) -> Known | None:
    """What was given of the acceptance, in one of three ways; None where nothing was."""
    if [alpha, per_position, length].count(None) < 2:
        raise UsageError("the acceptance is given twice", "give one of --alpha, --per-position and --acceptance-length")
    if alpha is None and per_position is None and length is None:
        return None
    from ..plan import service

    if length is not None:
        return service.of_length(length, k, bonus, level)
    if per_position is not None:
        return service.reached([per_position] if isinstance(per_position, float) else per_position, level)
    return service.told(alpha, level)


def _plain(known: Known | None) -> float | list[float] | None:
    """The numbers of an acceptance that was given."""
    if known is None:
        return None
    return known.acceptance[0].value if known.common else [a.value for a in known.acceptance]


def _speed(found: Fingerprint | None, alpha: Known | None, *, plain_step_ms: float | None, **options: Any) -> SpeedPlan:
    """Forward: from an acceptance, from a service, or from an acceptance and the step of a service without drafts."""
    from .. import plan

    if alpha is None:
        if found is None:
            raise UsageError("there is no acceptance to plan with", "give --alpha 0.8, or a FILE")
        return plan.plan_speed(found, plain_step_ms=plain_step_ms, **options)
    if found is not None:
        step = plan.plain_step(found)
        if step is None:
            raise UsageError("the acceptance is given twice, by --alpha and by the file", "leave out one of them")
        plain_step_ms = plain_step_ms or step
    return plan.plan_speed(alpha, plain_step_ms=plain_step_ms, **options)


def _numbers(found: Fingerprint | None, **numbers: Any) -> dict[str, Any]:
    """The numbers that were given; none beside a file, which has them."""
    told = {name: value for name, value in numbers.items() if value is not None}
    if found is not None and told:
        flag = next(iter(told)).removesuffix("_ms")
        raise UsageError(f"--{flag} is given twice, by itself and by the file", "leave out one of them")
    return told


def _data(found: Fingerprint | None, **options: Any) -> DataPlan:
    """Backward: from numbers or from a service."""
    from .. import plan

    return plan.plan_data(found, **options)


def _checked(context: click.Context, plan: DataPlan, found: Fingerprint | None, **options: Any) -> DataPlan:
    """The plan with simulated recordings of its sizes."""
    from ..plan.check import check

    if found is not None:
        raise UsageError(
            "a recording cannot be checked against the simulator", "give --k, --alpha, --step and --jitter instead"
        )
    with progress(state_of(context)) as report:
        return check(plan, progress=report, **options)


def _present(result: SpeedPlan | DataPlan, format_: str, output: Path | None, figures: Path | None) -> None:
    if figures is not None:
        from ..render import planfigures
        from ..render.images import PALETTE

        save(planfigures.figures(result, PALETTE), figures)
    if format_ == "json":
        from ..render import json

        emit(json.dumps(result.to_dict()), output)
    elif format_ == "csv":
        emit(as_csv(*result.flat()), output)
    elif format_ == "html":
        from ..render import planfigures

        emit_page(planfigures.as_page(result), output)
    else:
        from ..render import plans

        emit(plans.text(result, **look(output)), output)
