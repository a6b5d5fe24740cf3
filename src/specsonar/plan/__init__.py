"""Before anything is run: what a draft would bring, and how much has to be recorded to know something."""

from __future__ import annotations

from .data import plan_data
from .service import of_length, plain_step, reached
from .speed import plan_speed, speedup

__all__ = ["of_length", "plain_step", "plan_data", "plan_speed", "reached", "speedup"]
