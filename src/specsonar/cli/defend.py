"""`specsonar defend`"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import UsageError
from .defence import Defence
from .figures import emit_page, figures_option, save
from .output import as_csv, emit, look, output_options
from .progress import progress
from .reading import reading_options
from .simulate import Grouped, chosen, knob_options, world_option
from .state import state_of, verbosity
from .workers import executor_options

if TYPE_CHECKING:
    from ..defended import Defended
    from ..sources.defences import Policy
    from ..trace import Trace


@click.command("defend", cls=Grouped)
@click.argument("files", nargs=-1, metavar="[FILE...]", type=click.Path(allow_dash=True))
@click.option(
    "--policy", "policies", type=Defence(), multiple=True, metavar="POLICY",
    help="What to try, once or more: delay=exponential:10ms, scatter=uniform:20ms, pace=8ms, batch=100ms, split, "
    "pad=512, or one of them with +pad=512; none is the service as it is.",
)  # fmt: skip
@click.option(
    "--preset", type=click.Choice(("frontier", "delay")),
    help="frontier: every kind of policy at several strengths; delay: how much random delay is enough.  "
    "[default: frontier, unless there is a --policy]",
)  # fmt: skip
@click.option(
    "--tokens", type=click.IntRange(2), multiple=True, metavar="N",
    help="Length of an answer, once or more.  [default: 600; 300, 600 and 1200 for the preset delay]",
)  # fmt: skip
@click.option(
    "--reps", type=click.IntRange(1), metavar="N", help="Trials a row.  [default: 8; 6 for the preset delay]"
)  # fmt: skip
@click.option(
    "--streams", type=click.IntRange(1), metavar="N", default=1, show_default=True, help="Answers an observer has."
)  # fmt: skip
@click.option("--seed", type=click.IntRange(0), metavar="N", default=0, show_default=True, help="Of all chance.")
@executor_options
@click.option("--csv", "format_", flag_value="csv", help="Short for --format csv.")
@world_option
@reading_options
@figures_option
@output_options("text", "json", "csv", "html")
@verbosity
@knob_options
@click.pass_context
def command(
    context: click.Context,
    /,
    files: tuple[str, ...],
    policies: tuple[Policy, ...],
    preset: str | None,
    tokens: tuple[int, ...],
    reps: int | None,
    streams: int,
    seed: int,
    jobs: int | None,
    executor: str,
    world: str | None,
    figures: Path | None,
    format_: str,
    output: Path | None,
    unit: str | None,
    gaps: bool,
    columns: Any,
    **knobs: Any,
) -> None:
    """Tell what it would cost a service to hide how it decodes.

    \b
    Every kind of policy, for a simulated service of these settings:
      specsonar defend --max-burst 4 --acceptance 0.8 --step-ms 20
    How much random delay is enough:
      specsonar defend --preset delay
    Two policies, for what was recorded of a real service:
      specsonar defend FILE --policy pace=8ms --policy scatter=uniform:40ms

    Behind each policy three observers look at the same stream: specsonar's estimator, the founding article's, and for
    some policies one who knows the policy. What is set against it is what users wait. `specsonar proxy --defend` does
    it to a real service.
    """
    from .. import defend

    given = {name for name, value in knobs.items() if value is not None} | ({"world"} if world else set())
    if files and (given or tokens or streams > 1):
        raise UsageError("a recording and settings of a simulated service do not go together", "leave out one of them")
    with progress(state_of(context)) as report:
        service: Any
        if files:
            service = _recorded(files, unit=unit, gaps=gaps, columns=columns)
        else:
            service, length = chosen(world, knobs)
            tokens = tokens or ((length,) if world and preset != "delay" else ())
        result = defend.defend(
            service, policies=policies, preset=preset or "frontier", tokens=tokens, reps=reps, streams=streams,
            seed=seed, source=", ".join(files), executor=executor, jobs=jobs, progress=report,
        )  # fmt: skip
    _present(result, format_, output, figures)


def _recorded(files: tuple[str, ...], **reading: Any) -> Trace:
    from ..importers import look as read
    from ..importers import pool

    return pool([read(name, **reading) for name in files])


def _present(result: Defended, format_: str, output: Path | None, figures: Path | None) -> None:
    if figures is not None:
        from ..render.defencefigures import defence_figures
        from ..render.images import PALETTE

        save(defence_figures(result, PALETTE), figures)
    if format_ == "json":
        from ..render import json

        emit(json.dumps(result.to_dict()), output)
    elif format_ == "csv":
        emit(as_csv(*result.flat()), output)
    elif format_ == "html":
        from ..render.defencefigures import defence_page

        emit_page(defence_page(result), output)
    else:
        from ..render import defences

        emit(defences.text(result, **look(output)), output)
