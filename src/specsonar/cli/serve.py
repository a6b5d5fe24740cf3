"""`specsonar serve`"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from ..errors import UsageError
from ..sources.serve.engines import ENGINES, FIELDS, REPORTS
from .simulate import Grouped, chosen, knob_options, world_option
from .state import say, state_of, verbosity

if TYPE_CHECKING:
    from ..sources.serve import Timing


@click.command("serve", cls=Grouped)
@world_option
@click.option("--tokens", type=click.IntRange(1), metavar="N", help="Where answers end by themselves; else the "
              "request's limit, or 600.")  # fmt: skip
@click.option("--seed", type=click.IntRange(0), metavar="N", default=0, show_default=True, help="Of all chance.")
@click.option("--engine", type=click.Choice(tuple(ENGINES)), default="any", show_default=True,
              help="Which program to pass for: its routes and manners.")  # fmt: skip
@click.option("--model", metavar="NAME", default="simulated", show_default=True, help="Name of the one model.")
@click.option("--count-field", "fields", type=click.Choice((*FIELDS, "none")), multiple=True,
              help="Ways to tell token counts that a request may ask for; several times.  [default: the engine's]",
              )  # fmt: skip
@click.option("--strict/--lenient", default=None, help="Refuse wishes for other ways, or do not hear them.  "
              "[default: as the engine]")  # fmt: skip
@click.option("--report", type=click.Choice(REPORTS), default="true", show_default=True,
              help="What the server says about its own drafts.")  # fmt: skip
@click.option("--api-key-env", metavar="NAME", help="Demand the API key that this environment variable holds.")
@click.option("--expose-truth", is_flag=True, help="Tell the hidden settings at /specsonar/truth.")
@click.option("--host", metavar="ADDRESS", default="127.0.0.1", show_default=True,
              help="Anything but loopback lets other machines in.")  # fmt: skip
@click.option("--port", type=click.IntRange(0, 65535), metavar="N", default=8765, show_default=True,
              help="0 takes a free one.")  # fmt: skip
@verbosity
@knob_options
@click.pass_context
def command(
    context: click.Context,
    /,
    world: str | None,
    tokens: int | None,
    seed: int,
    engine: str,
    model: str,
    fields: tuple[str, ...],
    strict: bool | None,
    report: str,
    api_key_env: str | None,
    expose_truth: bool,
    host: str,
    port: int,
    **knobs: Any,
) -> None:
    """Put a service with known settings behind a real HTTP server.

    It runs until Ctrl-C, and speaks the APIs of OpenAI (chat, completions, responses, realtime), Anthropic, Ollama,
    llama.cpp, TGI and vLLM. Texts are made-up words; request i is answer i of `specsonar simulate` with the same seed.
    Prints its address on stdout, and at the end how late its own events were.

    \b
    Examples:
      specsonar serve --k 4 --acceptance 0.8 --step-ms 20
      specsonar serve --max-burst 1 --step-ms 10 --flush-ms 130 --report none
    """
    from ..sources.listening import is_loopback
    from ..sources.serve.server import run
    from ..sources.serve.simulation import Options

    service, _ = chosen(world, knobs)
    options = Options(
        seed=seed, tokens=tokens, engine=engine, model=model, strict=strict, report=report, expose_truth=expose_truth,
        fields=tuple(f for f in fields if f != "none") if fields else None,
        api_key=_key(api_key_env) if api_key_env else "",
    )  # fmt: skip
    quiet = state_of(context).quiet
    if not is_loopback(host):
        say(f"warning: every machine that reaches {host} can use this server" + ("" if options.api_key else " freely"))
    timing = run(service, options, host, port, click.echo)
    if not quiet:
        say(_summary(timing))


def _key(name: str) -> str:
    key = os.environ.get(name, "")
    if not key:
        raise UsageError(f"the environment variable {name} is empty", "it has to hold the API key")
    return key


def _summary(timing: Timing) -> str:
    if not timing.events:
        return "no events were sent"
    late = ", ".join(f"{us / 1e3:.2f} ms {what}" for us, what in (
        (timing.median_us, "in the median"), (timing.p99_us, "at the 99th percentile"), (timing.max_us, "at most"),
    ))  # fmt: skip
    return f"{timing.events} events sent; late by {late}"
