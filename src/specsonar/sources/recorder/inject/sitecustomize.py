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


def _record(folder: str) -> None:
    """Put the hooks in. They are read like this so that the program finds no further module of ours."""
    place = os.environ.get("SPECSONAR_RECORD")
    if not place:
        return
    try:
        with open(os.path.join(folder, "hooks.py"), encoding="utf-8") as file:
            names = {"__name__": "specsonar_hooks"}
            exec(compile(file.read(), file.name, "exec"), names)
        names["install"](place)  # type: ignore[operator]
    except Exception:
        return


_FOLDER = os.path.dirname(os.path.realpath(__file__))
_record(_FOLDER)
_chain(_FOLDER)
