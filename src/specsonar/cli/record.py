"""`specsonar record -- COMMAND...`"""

from __future__ import annotations

from pathlib import Path

import click

from .recording import conclude, recording_options, summary
from .state import say, state_of, verbosity


@click.command("record", context_settings={"allow_interspersed_args": False})
@click.argument("program", nargs=-1, required=True, metavar="COMMAND...", type=click.UNPROCESSED)
@recording_options("specsonar-record-DATE-TIME.jsonl")
@verbosity
@click.pass_context
def command(context: click.Context, program: tuple[str, ...], output: Path, fingerprint: bool, format_: str) -> int:
    """Run a Python program and record the streams that it receives.

    COMMAND is what would be typed without specsonar: `python app.py`, `app.py`, `-m module`, or a script that Python
    runs. The program is not changed: hooks on its sockets see what its HTTP clients (httpx, aiohttp, requests, the
    official SDKs, and others) receive, in child processes too. Its output, signals and exit code are its own.

    \b
    Examples:
      specsonar record -o app.jsonl.zst -- python app.py
      specsonar record -o tests.jsonl -- -m pytest tests
    """
    from ..errors import Exit
    from ..sources.keeper import Keeper
    from ..sources.recorder.recorder import Recorder
    from ..sources.rollover import Rollover

    state = state_of(context)
    files = Rollover(output, "record", meta={"capture": "record"})
    with Keeper(keep=False) as keeper, Recorder(keeper) as recorder:
        keeper.switch(files.open())
        code = recorder.run(program)
        recorder.close()
    summary(state, keeper, files.paths)
    if not recorder.connections and not state.quiet:
        say("hint: no HTTP client was seen; `python -I`, gevent and uvloop without TLS are not, `specsonar proxy` is")
    if recorder.error:
        say(f"error: {recorder.error}")
        code = code or Exit.INPUT
    if fingerprint:
        conclude(state, files.paths, format_)
    return 128 - code if code < 0 else code
