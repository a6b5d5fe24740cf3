"""`specsonar demo`"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import click

from .output import look, show
from .progress import progress
from .state import state_of, verbosity

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ..demo import Demo


@click.command("demo")
@click.option("--seed", type=click.IntRange(0), metavar="N", help="Which service to hide.  [default: a random one]")
@click.option("--tokens", type=click.IntRange(2), metavar="N", default=1200, show_default=True, help="To listen to.")
@verbosity
@click.pass_context
def command(context: click.Context, seed: int | None, tokens: int) -> None:
    """Hide a random service, listen to it, and compare the answer with the truth.

    The analysis sees arrival times only. Nothing leaves this machine: the service is simulated in virtual time.
    """
    from .. import demo

    chosen = random.SystemRandom().randrange(100_000) if seed is None else seed
    with progress(state_of(context)) as report:
        result = demo.run(chosen, tokens=tokens, progress=report)
    show(_page(result), None)


def _page(result: Demo) -> RenderableType:
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
        Text(),
        Text(result.answer.sentence, style="bold"),
        Text(),
        table,
        Text(),
    ]
    if any(check.right is False for check in result.checks):
        parts.append(Text("A 95% interval misses the truth about one time in twenty.", style="dim"))
    parts.append(Text(f"Again: specsonar demo --seed {result.seed}", style="dim"))
    return Group(*parts)
