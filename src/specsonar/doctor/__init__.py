"""What can be measured here: by this machine, and over the way to a service."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Final

from ..fingerprint import Finding
from .machine import Clock, Local, clock, local, loop_lag_us
from .service import Service, visit

SCHEMA: Final = "specsonar.doctor/1"

JITTER_OVER_STEP: Final = 0.3
"""Up to this ratio a few hundred tokens show the bursts; see finding Q006."""


@dataclass(frozen=True, slots=True)
class Checkup:
    """What was found.

    Attributes
    ----------
    clock : the program's clock.
    local : a capture on loopback beside the true send times.
    loop_lag_us : how late asyncio's timers are.
    service : the way to a service, or None.
    """

    clock: Clock
    local: Local
    loop_lag_us: dict[str, float]
    service: Service | None = None

    @property
    def jitter_ms(self) -> float:
        """Jitter that is made here and on the way; smaller delays of a decoder cannot be told from it.

        Here it is the spread of the stamps, from the median to the 99th percentile.
        """
        error = self.local.error_us
        here = max((error["p99"] - error["p50"]) / 1e3, self.clock.tick_ns / 1e6)
        return max(here, self.service.jitter_ms) if self.service else here

    @property
    def step_ms(self) -> float | None:
        """Smallest step whose bursts can be told: wide beside the jitter, and no shorter than a read is late.

        None where the way hides all steps.
        """
        burst = self.service.burst if self.service else None
        if burst and (burst.whole or burst.block is not None):
            return None
        return max(self.jitter_ms / JITTER_OVER_STEP, self.local.lag["p99_us"] / 1e3)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What stands in the way."""
        return (*self.local.findings, *(self.service.findings if self.service else ()))

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {
            "schema": SCHEMA,
            "clock": asdict(self.clock),
            "stamps": self.local.stamps,
            "stamp_error_us": self.local.error_us,
            "reader_lag": self.local.lag,
            "loop_lag_us": self.loop_lag_us,
            "alone_in_a_read": self.local.alone,
            "smallest_jitter_ms": self.jitter_ms,
            "smallest_step_ms": self.step_ms,
            "service": None if self.service is None else asdict(self.service),
            "findings": [f.to_dict() for f in self.findings],
        }


def examine(
    url: str | None = None,
    *,
    burst: bool = False,
    model: str | None = None,
    key_env: str | None = None,
    timeout: float = 60.0,
    tell: Callable[[str], None] = lambda line: None,
) -> Checkup:
    """Measure this machine, and the way to a service; a few seconds.

    Parameters
    ----------
    url : of a service; it is asked cheap things only.
    burst : ask it for a few short answers, too.
    model, key_env, timeout : as for `probe`.
    tell : called with a line of talk, above all with what is going to be spent.

    Raises
    ------
    UsageError, ConnectionFailed : as `probe`.
    """
    service = visit(url, burst=burst, model=model, key_env=key_env, timeout=timeout, tell=tell) if url else None
    return Checkup(clock(), local(), loop_lag_us(), service)
