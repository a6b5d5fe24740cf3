"""Listening to a real service: an HTTP client whose socket reads are stamped by a thread of their own."""

from .capture import Capture
from .lag import Lag

__all__ = ["Capture", "Lag"]
