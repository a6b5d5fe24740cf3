"""`specsonar simulate`: the knobs of `sources.service.Service` become options by themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import Field, fields
from pathlib import Path
from typing import Any, Final

import click
import numpy as np

from ..errors import SpecsonarError, UsageError
from ..sources.service import COUNTS, EVENTS, INTERVAL_MODES, ORDERS, Delay, Service, with_knobs
from ..trace import Trace
from .defence import Defence
from .output import emit, output_file, stdout_bytes
from .share import Numbers, ParamType
from .state import verbosity

GROUPS: Final = {
    "max_burst": "Tokens of a step",
    "ttft_ms": "Time of a step",
    "stream_interval": "What the server writes",
    "paced_ms": "Between server and client",
    "read_block": "The client",
}
"""Headings of the help, each by the knob that it stands above."""

CHOICES: Final = {"order": ORDERS, "events": EVENTS, "counts": COUNTS, "interval_mode": INTERVAL_MODES}


class DelayLaw(ParamType):
    """A delay law as `Delay.parse` reads it."""

    name = "law:ms[,shape]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return Delay.parse(value) if isinstance(value, str) else value
        except SpecsonarError as error:
            self.fail(f"{error.message}; {error.hint}", param, ctx)


class Grouped(click.Command):
    """A command whose help keeps the knobs under the headings of `GROUPS`."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        names = [f.name for f in fields(Service)]
        sections: dict[str, list[tuple[str, str]]] = {title: [] for title in ("Options", *GROUPS.values())}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is None or isinstance(param, click.Argument):
                continue
            title = "Options"
            if param.name in names:
                title = [GROUPS[name] for name in names[: names.index(param.name) + 1] if name in GROUPS][-1]
            sections[title].append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)


def _type(knob: Field[Any]) -> Any:
    """The click type of a knob, from its annotation and its range; None for a switch."""
    kind = str(knob.type).removesuffix(" | None")
    low, high = knob.metadata["low"], knob.metadata["high"]
    match kind:
        case "bool":
            return None
        case "int":
            return click.IntRange(low, high)
        case "float":
            return click.FloatRange(low, high)
        case "str":
            return click.Choice(CHOICES[knob.name])
        case "Delay":
            return DelayLaw()
        case "Policy":
            return Defence()
        case _:
            return Numbers()


def knob_option(knob: Field[Any]) -> Callable[[Any], Any]:
    """The option of one field of `Service`; its default is None, so that a world's value can stay."""
    flag = knob.name.replace("_", "-")
    kind = _type(knob)
    default = knob.default
    if isinstance(default, tuple):
        default = ",".join(f"{part:g}" for part in default)
    elif isinstance(default, float):
        default = f"{default:g}"
    text = knob.metadata["help"]
    text = f"{text[0].upper()}{text[1:]}."
    if kind is None:
        text += f"  [default: {'' if default else 'no-'}{flag}]"
        return click.option(f"--{flag}/--no-{flag}", knob.name, default=None, help=text)
    if default is not None:
        text += f"  [default: {default}]"
    return click.option(f"--{flag}", knob.name, type=kind, metavar=_metavar(knob, kind), default=None, help=text)


def _metavar(knob: Field[Any], kind: Any) -> str | None:
    """The unit where there is one; click spells out choices itself."""
    if isinstance(kind, click.Choice | DelayLaw | Defence):
        return None
    one: str = knob.metadata["unit"].upper() or ("N" if isinstance(kind, click.IntRange) else "X")
    return f"{one}[,{one}...]" if isinstance(kind, Numbers) else one


def knob_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add an option for every field of `Service`, in their order."""
    for knob in reversed(fields(Service)):
        command = knob_option(knob)(command)
    return command


def _worlds(_context: click.Context, _parameter: click.Parameter, start: str) -> list[str]:
    from ..sources.worlds import WORLDS

    return [name for name in WORLDS if name.lower().startswith(start.lower())]


def world_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --world."""
    return click.option(
        "--world", metavar="NAME", shell_complete=_worlds, help="Start from a named world, e.g. D."
    )(command)  # fmt: skip


@click.command("simulate", cls=Grouped)
@world_option
@click.option("--tokens", type=click.IntRange(1), metavar="N", help="Length of each answer; else the world's, or 600.")
@click.option("--streams", type=click.IntRange(1), metavar="N", default=1, show_default=True, help="Number of answers.")
@click.option("--seed", type=click.IntRange(0), metavar="N", default=0, show_default=True, help="Of all chance.")
@click.option("--plain", is_flag=True, help="Plain times, one a line, instead of a trace.")
@click.option("--truth/--no-truth", default=True, show_default=True, help="Keep the hidden settings in the trace.")
@output_file
@verbosity
@knob_options
def command(
    world: str | None,
    tokens: int | None,
    streams: int,
    seed: int,
    plain: bool,
    truth: bool,
    output: Path | None,
    **knobs: Any,
) -> None:
    """Make the token stream of a service with known settings.

    The draft-verify mechanism runs in virtual time, so a long stream takes no longer than its arithmetic. The result
    is a trace in JSON lines; a FILE that ends in .gz or .zst is packed.
    """
    from ..sources.simulate import simulate

    service, length = chosen(world, knobs)
    trace = simulate(service, tokens=tokens or length, streams=streams, seed=seed)
    trace = trace if truth else trace.without_truth()
    if plain:
        emit(plain_times(trace), output)
    else:
        _write(trace, output)


def chosen(world: str | None, knobs: Mapping[str, Any]) -> tuple[Service, int]:
    """The service that the options describe (None = not given), and the length of its answers.

    Raises
    ------
    UsageError : no such world, or knobs that do not go together.
    """
    from difflib import get_close_matches

    from ..sources.worlds import WORLDS

    if world is not None and world not in WORLDS:
        near = get_close_matches(world, WORLDS, n=3, cutoff=0.3)
        raise UsageError(f"no world is called {world!r}", f"worlds: {', '.join(near or WORLDS)}")
    service, length = (Service(), 600) if world is None else (WORLDS[world].service, WORLDS[world].tokens)
    given = {name: value for name, value in knobs.items() if value is not None}
    return with_knobs(service, given) if given else service, length


def plain_times(trace: Trace) -> str:
    """The only stream of `trace` as text: seconds since the first event, and tokens where they are known.

    Raises
    ------
    UsageError : several streams, which a plain file cannot keep apart.
    """
    if len(trace.streams) != 1:
        raise UsageError(f"plain times hold one stream, not {len(trace.streams)}", "leave out --plain or --streams")
    one = trace.streams[0]
    counted = bool(len(one) and (one.tokens >= 0).all())
    lines = ["# seconds  tokens" if counted else "# seconds"]
    nanoseconds = one.t_ns - one.t_ns[0]
    for elapsed, tokens in zip(nanoseconds.tolist(), np.asarray(one.tokens).tolist(), strict=True):
        whole, part = divmod(elapsed, 1_000_000_000)
        lines.append(f"{whole}.{part:09d}" + (f"  {tokens}" if counted else ""))
    return "\n".join(lines) + "\n"


def _write(trace: Trace, output: Path | None) -> None:
    from .. import tracefile

    if output is None or str(output) == "-":
        with stdout_bytes() as file:
            tracefile.write(trace, file)
    else:
        tracefile.write(trace, output)
