"""The signal that bytes break the rules of their protocol. It never leaves `wire`: it becomes a finding."""

from __future__ import annotations


class BrokenError(Exception):
    """The rest of these bytes cannot be read; the message says why, without quoting them."""
