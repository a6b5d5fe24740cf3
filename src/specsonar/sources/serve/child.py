"""The process of a server: settings and questions come as JSON lines on stdin, answers go to stdout."""

from __future__ import annotations

import gc
import sys
import threading
from typing import Any

import msgspec

from ...errors import SpecsonarError
from ..listening import listen, url_of
from ..service import Service
from .server import Host, tell
from .simulation import Options, Simulation


def main() -> None:
    """Serve until stdin ends."""
    first = msgspec.json.decode(sys.stdin.buffer.readline())
    try:
        options = msgspec.convert(first["options"], Options)
        simulation = Simulation(Service(**first["service"]), options)
        listener = listen(*first["where"])
    except SpecsonarError as error:
        _say({"error": (error.message, error.hint)})
        return
    host = Host(simulation)
    url = url_of(listener)

    def converse() -> None:
        host.ready.wait()
        _say({"value": url})
        for line in sys.stdin.buffer:
            _say({"value": tell(simulation, msgspec.json.decode(line))})
        host.should_exit = True

    threading.Thread(target=converse, daemon=True).start()
    # What was imported stays for ever; a collector that looks through it again and again holds up events.
    gc.freeze()
    host.serve_on(listener)


def _say(message: Any) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(message) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
