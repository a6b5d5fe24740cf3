"""Python imports this by itself when it starts. It sets up the recording, then lets the real one have its turn.

It runs inside other people's programs, under whatever Python they use: the standard library only, and no error of ours
may reach the program.
"""

from __future__ import annotations

import os
import sys


def _chain(folder: str) -> None:
    """Import the sitecustomize that this one hides, if there is one."""
    hidden = [place for place in sys.path if os.path.realpath(place or ".") == folder]
    sys.path[:] = [place for place in sys.path if place not in hidden]
    mine = sys.modules.pop("sitecustomize", None)
    try:
        __import__("sitecustomize")
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
    finally:
        if mine is not None:
            sys.modules.setdefault("sitecustomize", mine)


def _record() -> None:
    """Put the hooks in, as long as their folder is still where modules are looked for."""
    place = os.environ.get("SPECSONAR_RECORD")
    if not place:
        return
    try:
        __import__("specsonar_hooks").install(place)
    except Exception:
        return


_record()
_FOLDER = os.path.dirname(os.path.realpath(__file__))
_chain(_FOLDER)
