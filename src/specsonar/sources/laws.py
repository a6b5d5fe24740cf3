"""Random delays: the laws that may be named, and their draws."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, cast

import numpy as np
import numpy.typing as npt

from ..errors import UsageError

FloatArray = npt.NDArray[np.float64]

LAWS: Final = ("none", "gauss", "lognormal", "exponential", "pareto", "uniform")

LONGEST_DELAY_MS: Final = 600_000.0
"""Heavy tails are cut here: a connection that is silent for ten minutes is closed, not late."""

_SHAPED: Final = ("lognormal", "pareto")


def within(name: str, value: object, low: float | None, high: float | None, unit: str, *, whole: bool = False) -> None:
    """Check that `value` is a number from `low` to `high`.

    Raises
    ------
    UsageError : it is not.
    """
    low, high = -math.inf if low is None else low, math.inf if high is None else high
    span = f"allowed are {'whole numbers' if whole else 'values'} from {low:g} to {high:g}{' ' if unit else ''}{unit}"
    number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not number or not low <= cast(float, value) <= high or (whole and int(cast(float, value)) != value):
        raise UsageError(f"{name} = {value!r} is out of range", span)


def one_of(name: str, value: object, allowed: tuple[str, ...]) -> None:
    """Check that `value` is one of `allowed`.

    Raises
    ------
    UsageError : it is not.
    """
    if value not in allowed:
        raise UsageError(f"{name} = {value!r} is not known", f"use one of {', '.join(allowed)}")


@dataclass(frozen=True, slots=True)
class Delay:
    """A random delay law, all lengths in milliseconds.

    Attributes
    ----------
    law : none | gauss | lognormal | exponential | pareto | uniform.
    scale_ms : gauss: standard deviation (mean 0, so a delay may be negative: the constant part of a delay is not
        observable); lognormal: median; exponential: mean; pareto: smallest value; uniform: width, from 0.
    shape : lognormal: standard deviation of the logarithm; pareto: tail index. Ignored by the other laws.
    """

    law: str = "none"
    scale_ms: float = 0.0
    shape: float = 1.0

    def __post_init__(self) -> None:
        one_of("delay law", self.law, LAWS)
        within("delay scale", self.scale_ms, 0.0, 60_000.0, "ms")
        within("delay shape", self.shape, 0.01, 100.0, "")
        # What a law does not use is put at rest, so that equal laws are equal records.
        if self.law == "none":
            object.__setattr__(self, "scale_ms", 0.0)
        if self.law not in _SHAPED:
            object.__setattr__(self, "shape", 1.0)

    @classmethod
    def parse(cls, text: str) -> Delay:
        """The law written as `law`, `law:scale` or `law:scale,shape`.

        >>> Delay.parse("lognormal:2,1")
        Delay(law='lognormal', scale_ms=2.0, shape=1.0)
        >>> Delay.parse("none") == Delay()
        True

        Raises
        ------
        UsageError : unknown law, a number that is none, or a value outside its range.
        """
        law, _, numbers = text.strip().partition(":")
        one_of("delay law", law, LAWS)
        parts = [part for part in numbers.split(",") if part.strip()]
        try:
            values = [float(part) for part in parts]
        except ValueError:
            raise UsageError(f"cannot read the delay {text!r}", "write it as gauss:6 or lognormal:2,1") from None
        if law == "none" and not values:
            return cls()
        if law == "none" or not 1 <= len(values) <= (2 if law in _SHAPED else 1):
            raise UsageError(f"the delay {text!r} has {len(values)} numbers", "write it as gauss:6 or lognormal:2,1")
        return cls(law, *values)

    @classmethod
    def with_spread(cls, law: str, spread_ms: float, shape: float | None = None) -> Delay:
        """The law whose standard deviation is `spread_ms`, so that laws can be compared at equal jitter.

        >>> Delay.with_spread("exponential", 6.0)
        Delay(law='exponential', scale_ms=6.0, shape=1.0)
        >>> round(Delay.with_spread("uniform", 6.0).scale_ms, 2)
        20.78

        Parameters
        ----------
        shape : as in `Delay`; by default 1 for lognormal and 3 for pareto, whose spread is infinite up to 2.

        Raises
        ------
        UsageError : unknown law, a value outside its range, or a pareto law without a finite spread.
        """
        one_of("delay law", law, LAWS)
        if law == "none" or spread_ms == 0:
            return cls()
        shape = (3.0 if law == "pareto" else 1.0) if shape is None else shape
        within("delay shape", shape, 0.01, 100.0, "")
        unit = 1.0
        match law:
            case "lognormal":
                unit = math.exp(shape**2 / 2) * math.sqrt(math.expm1(shape**2)) if shape < 18 else math.inf
            case "pareto":
                if shape <= 2:
                    raise UsageError(f"a pareto law of shape {shape:g} has no spread", "give a shape above 2")
                unit = math.sqrt(shape / (shape - 2)) / (shape - 1)
            case "uniform":
                unit = 1 / math.sqrt(12)
        return cls(law, spread_ms / unit, shape)

    def __str__(self) -> str:
        """The text that `parse` reads back."""
        if self.law == "none":
            return self.law
        numbers = (self.scale_ms, self.shape) if self.law in _SHAPED else (self.scale_ms,)
        return f"{self.law}:{','.join(_short(x) for x in numbers)}"

    @property
    def active(self) -> bool:
        """Whether the delay is anything but zero."""
        return self.law != "none" and self.scale_ms > 0

    def draw(self, rng: np.random.Generator, n: int) -> FloatArray:
        """`n` independent delays in milliseconds, shape (n,), none above `LONGEST_DELAY_MS`."""
        s = self.scale_ms
        match self.law:
            case "gauss":
                x = s * rng.standard_normal(n)
            case "lognormal":
                x = s * np.exp(np.minimum(self.shape * rng.standard_normal(n), 600.0))
            case "exponential":
                x = s * rng.standard_exponential(n)
            case "pareto":
                x = s * np.exp(np.minimum(rng.standard_exponential(n) / self.shape, 600.0))
            case "uniform":
                x = s * rng.random(n)
            case _:
                x = np.zeros(n)
        return np.clip(x, -LONGEST_DELAY_MS, LONGEST_DELAY_MS)


def _short(x: float) -> str:
    return short if float(short := f"{x:g}") == x else repr(float(x))
