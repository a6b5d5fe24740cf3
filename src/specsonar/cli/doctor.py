"""`specsonar doctor [URL]`"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .output import emit, output_options, show
from .state import say, state_of, verbosity

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ..doctor import Checkup
    from ..doctor.service import Service

Row = tuple[str, str, str]
"""What was measured, the figure, and what it means."""


@click.command("doctor")
@click.argument("url", required=False)
@click.option("--burst", is_flag=True, help="Ask the service for ten short answers, too.")
@click.option("--model", metavar="NAME", help="Which one to ask.  [default: the first of the server's list]")
@click.option("--key-env", metavar="NAME", help="Environment variable with the API key.  [default: the provider's]")
@click.option("--timeout", type=click.FloatRange(0.1, 86_400), metavar="S", default=60.0, show_default=True,
              help="Silence after which the service is given up.")  # fmt: skip
@output_options("text", "json")
@verbosity
@click.pass_context
def command(
    context: click.Context,
    url: str | None,
    burst: bool,
    model: str | None,
    key_env: str | None,
    timeout: float,
    format_: str,
    output: Path | None,
) -> None:
    """Measure what this machine, and the way to a service, let you see.

    Clock, kernel stamps, how late the reader is, beside the true send times of a server on this machine; and from
    that the smallest step and jitter that can be told. URL is asked for cheap things only, unless with --burst, which
    looks for buffers, compression and delayed acknowledgements on the way.
    """
    if burst and url is None:
        raise click.UsageError("--burst needs the URL of a service", context)
    from ..doctor import examine

    quiet = state_of(context).quiet
    found = examine(
        url, burst=burst, model=model, key_env=key_env, timeout=timeout, tell=(lambda line: None) if quiet else say
    )
    if format_ == "json":
        from ..render import json

        emit(json.dumps(found.to_dict()), output)
    else:
        from rich.console import Group

        show(Group(*_parts(found)), output)


def _parts(found: Checkup) -> Iterator[RenderableType]:
    from rich.text import Text

    from ..render.rows import clean
    from ..render.terminal import finding_lines

    yield _table("this machine", _machine(found))
    if found.service is not None:
        yield Text()
        yield _table(clean(found.service.origin), _service(found.service))
    yield Text()
    yield Text(_sentence(found), style="bold")
    if found.findings:
        yield Text()
    for one in found.findings:
        yield from finding_lines(one)


def _sentence(found: Checkup) -> str:
    jitter = f"Jitter below {_ms(found.jitter_ms)} cannot be told from what is made here"
    jitter += " or on the way" if found.service else ""
    if found.step_ms is None:
        return f"The way hides the steps. {jitter}."
    return f"Steps down to {_ms(found.step_ms)} can be seen. {jitter}."


def _ms(value: float) -> str:
    """Milliseconds, or microseconds where those are handier."""
    return f"{value:.3g} ms" if value >= 1.0 else f"{value * 1e3:.3g} us"


def _spread(ms: dict[str, float]) -> str:
    return " / ".join(_ms(ms[key]) for key in ("p50", "p99", "max")) if ms else "not known"


def _us(values: dict[str, float]) -> dict[str, float]:
    return {key: value / 1e3 for key, value in values.items()}


def _machine(found: Checkup) -> Iterator[Row]:
    local, lag = found.local, found.local.lag
    yield "clock", f"{found.clock.tick_ns} ns", f"smallest step seen; a reading takes {found.clock.reading_ns:.0f} ns"
    yield "stamps", local.stamps, (
        "of the kernel: a busy program does not shift them" if local.stamps == "kernel" else
        "of the program, after each read: they hold its own delays"
    )  # fmt: skip
    yield "send to stamp", _spread(_us(local.error_us)), "median / 99% / most, of a server on this machine"
    late = {key: lag[f"{key}_us"] for key in ("p50", "p99", "max")} if lag["reads"] else {}
    yield "reader late by", _spread(_us(late)), "what comes meanwhile shares a read"
    yield "event loop late by", _spread(_us(found.loop_lag_us)), "what asyncio's timers add in programs that use it"
    yield "alone in a read", f"{local.alone:.0%}", "of the events, one every 5 ms in 8 streams at once"


def _service(found: Service) -> Iterator[Row]:
    from ..render.rows import clean

    model = f", model {clean(found.model)}" if found.model else ""
    yield "speaks", f"{found.dialect}", f"{found.http}, {found.tls or 'without TLS'}{model}"
    for name, value in found.told.items():
        yield name, clean(value), "as it says"
    yield "round trip", _spread(found.round_trip_ms), f"of a small request; it varies by {_ms(found.jitter_ms)}"
    if (burst := found.burst) is None:
        return
    yield "alone in a read", f"{burst.alone:.0%}", f"of {burst.events} events in {burst.answers} answers"
    yield "events in a read", f"{burst.per_read:.1f}", "on average; several tokens of a step count as several"
    yield "buffer", "whole answers" if burst.whole else f"{burst.block} bytes" if burst.block else "none seen", (
        "passed on when full"
    )  # fmt: skip
    yield "waits for ACKs", "yes" if burst.nagle else "no", "Nagle's algorithm and acknowledgements after 40 ms"
    if burst.encoding is None:
        yield "packing", "none", "also when the client takes packed bodies"
    else:
        yield "packing", burst.encoding, f"{burst.packed_per_read:.1f} events in a read then"


def _table(title: str, rows: Iterator[Row]) -> RenderableType:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column(title, no_wrap=True)
    table.add_column("", overflow="fold")
    table.add_column("", overflow="fold", style="dim")
    for row in rows:
        table.add_row(*row)
    return table
