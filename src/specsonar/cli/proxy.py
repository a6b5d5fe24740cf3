"""`specsonar proxy UPSTREAM`"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from .defence import Defence
from .recording import Status, conclude, recording_options, size, summary, told_to_end
from .state import say, state_of, verbosity

if TYPE_CHECKING:
    from ..sources.defences import Policy
    from ..sources.keeper import Keeper
    from ..sources.proxy.proxy import Proxy
    from ..sources.rollover import Rollover

_WAIT_S: Final = 0.25


@click.command("proxy")
@click.argument("upstream", metavar="UPSTREAM")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    metavar="PORT",
    help="Port to listen on.  [default: any free one, which is said]",
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    metavar="ADDRESS",
    help="Address to listen on. Other machines can use the proxy when it is not a loopback address.",
)
@click.option("--rotate", type=size, metavar="SIZE", help="Begin a new file when one is this large, e.g. 100MB.")
@click.option(
    "--defend",
    type=Defence(),
    metavar="POLICY",
    help="Hide how the service decodes: delay=exponential:10ms, scatter=uniform:20ms, pace=8ms, batch=100ms, split, "
    "pad=512, or one of them with +pad=512. What each costs: `specsonar defend`.",
)
@recording_options("specsonar-proxy-DATE-TIME.jsonl")
@verbosity
@click.pass_context
def command(
    context: click.Context,
    upstream: str,
    port: int,
    host: str,
    rotate: int | None,
    defend: Policy | None,
    output: Path,
    fingerprint: bool,
    format_: str,
) -> None:
    """Record what clients and a service say to each other, from in between.

    UPSTREAM is the address of the service, for example http://127.0.0.1:8000 or https://api.openai.com. Clients use
    the address that is printed in its place. Bytes pass unchanged and at once, except that the Host header names the
    upstream; keys pass and are stored nowhere. HTTP and WebSocket, any client. End it with Ctrl-C.

    With --defend, streams (server-sent events, JSON lines) leave as the policy lets them: in order, complete, and
    otherwise unchanged. What cannot be followed is refused: WebSocket, HTTP/2, compressed streams. The recording holds
    what came from the service, and a note of the policy.

    \b
    Examples:
      specsonar proxy http://127.0.0.1:8000 --port 8765 -o clients.jsonl
      specsonar proxy https://api.openai.com -o clients.jsonl --rotate 100MB
      specsonar proxy http://127.0.0.1:8000 --defend scatter=uniform:40ms
    """
    from ..sources.keeper import Keeper
    from ..sources.listening import is_loopback
    from ..sources.proxy.proxy import Proxy
    from ..sources.proxy.upstream import Upstream
    from ..sources.rollover import Rollover

    state = state_of(context)
    if not is_loopback(host):
        say(f"warning: every machine that reaches {host} can use this proxy, unencrypted and without a password")
    files = Rollover(
        output, "proxy", rotate=rotate, meta={"capture": "proxy", "service": str(Upstream.parse(upstream))}
    )
    with told_to_end() as ended, Keeper(keep=False) as keeper:
        status = Status(state, keeper)
        with Proxy(
            upstream, keeper, host=host, port=port, defence=defend, tell=lambda line: _say(status, line)
        ) as proxy:
            keeper.switch(files.open())  # only now, so that a port that is taken leaves no empty file
            hidden = f" behind {defend}" if defend and defend.active else ""
            say(f"{proxy.url} is {proxy.upstream} now{hidden}; recording to {files.paths[0]}; Ctrl-C ends it")
            _serve(proxy, keeper, files, status, ended)
    status.clear()
    summary(state, keeper, files.paths)
    if proxy.error:
        raise proxy.error
    if fingerprint:
        conclude(state, files.paths, format_)


def _serve(proxy: Proxy, keeper: Keeper, files: Rollover, status: Status, ended: Callable[[], bool]) -> None:
    from ..errors import SpecsonarError

    told = False
    while not ended():
        if not proxy.poll(_WAIT_S):
            raise SpecsonarError("the forwarding process has ended unexpectedly", "what was recorded so far is kept")
        status.show(proxy.clients)
        if proxy.error is None:
            files.turn(keeper)
        elif not told:
            told = True
            _say(status, f"error: {proxy.error}; clients are served on, but nothing more is recorded")


def _say(status: Status, line: str) -> None:
    status.clear()
    say(line)
