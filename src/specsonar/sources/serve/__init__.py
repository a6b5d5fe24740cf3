"""A simulated service behind a real HTTP server, for clients that know nothing of simulations."""

from .engines import ENGINES, FIELDS, REPORTS
from .ledger import Sent, Timing
from .server import Server

__all__ = ["ENGINES", "FIELDS", "REPORTS", "Sent", "Server", "Timing"]
