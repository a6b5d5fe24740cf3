"""A simulated service behind a real HTTP server, for clients that know nothing of simulations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .ledger import Sent, Timing
    from .server import Server

__all__ = ["Sent", "Server", "Timing"]


def __getattr__(name: str) -> Any:
    """What is heavy to import is imported when it is used: a command line's help needs `engines` only."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import ledger, server

    return getattr(server if name == "Server" else ledger, name)
