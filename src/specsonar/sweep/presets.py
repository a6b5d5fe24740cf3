"""Sweeps that have a name: the founding article's experiment, and the questions that it left open."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ..sources.service import INDEPENDENT, Delay, Service
from ..sources.worlds import NULLS
from .cells import Cell, Published
from .grid import Grid, cell

OURS: Final = ("baseline", "likelihood")


@dataclass(frozen=True, slots=True)
class Preset:
    """Cells with the methods and repetitions that suit them.

    `about` is for people who choose among them.
    """

    about: str
    cells: Callable[[], tuple[Cell, ...]]
    methods: tuple[str, ...] = OURS
    reps: int = 10


def article() -> tuple[Cell, ...]:
    """The founding article's experiment: jitter from 0 to 6 ms, then its cross-check with another service."""
    said = {0: Published("4", ".81", "20")}
    said |= {jitter: Published("rises", ".76-.81", "15-17") for jitter in (3, 4, 5)}
    said[6] = Published("8", ".76-.81", "30% low")
    made = []
    for jitter in range(7):
        delay = Delay("gauss", float(jitter)) if jitter else Delay()
        service = Service(k=4, bonus=False, acceptance=0.8, step_ms=20.0, order=INDEPENDENT, token_delay=delay)
        made.append(_founding(f"{jitter} ms", service, jitter, said.get(jitter, Published())))
    other = Service(k=8, bonus=False, acceptance=0.6, step_ms=35.0, order=INDEPENDENT, token_delay=Delay("gauss", 1.0))
    return (*made, _founding("1 ms, k=8", other, 1, Published("6", ".61")))


def _founding(label: str, service: Service, jitter: int, published: Published) -> Cell:
    return Cell(label, service, 600, at={"jitter": jitter, "k": service.k}, prefill=False, published=published)


def figure1() -> tuple[Cell, ...]:
    """The founding article's first figure: burst sizes, clean beside 6 ms of jitter."""
    rows = article()
    return rows[0], rows[6]


_SIGMAS: Final = (0.0, 0.1, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45)
_TOKENS: Final = (150, 300, 600, 1200)


def jitter_law() -> tuple[Cell, ...]:
    """Accuracy over jitter / step and tokens, independent delays."""
    return Grid({"layer": "independent"}, {"sigma": _SIGMAS, "tokens": _TOKENS}).cells()


NEEDED: Final = 15.0
"""N R^2 from which on the comb of the steps stands out of its noise, as measured for the Rayleigh scan."""


def limit_law(sigmas: Sequence[float], needed: float = NEEDED) -> tuple[tuple[float, float], ...]:
    """Tokens at which N R^2 reaches `needed`, for each jitter / step.

    With R = exp(-2 pi^2 (sigma/s)^2), the share of the step's frequency that survives a Gaussian delay, the Rayleigh
    statistic of N tokens has the mean 1 + N R^2.

    >>> [round(tokens) for _, tokens in limit_law([0.0, 0.3, 0.4])]
    [15, 524, 8305]
    """
    return tuple((s, needed * math.exp(4 * math.pi**2 * s * s)) for s in sigmas)


def long_tail() -> tuple[Cell, ...]:
    """Heavier and heavier tails on an in-order link, with and without stalls of 100 to 300 ms."""
    delays = (
        "none", "gauss:2", "exponential:2", "lognormal:2,0.5", "lognormal:2,1", "lognormal:2,1.5", "pareto:1,3",
        "pareto:1,1.5", "pareto:1,1.1",
    )  # fmt: skip
    fixed = {"layer": "in-order", "cv": 0.05}
    return Grid(fixed, {"step_delay": delays, "stall_probability": (0.0, 0.01, 0.05)}).cells()


def sample_size() -> tuple[Cell, ...]:
    """How many tokens it takes: a link that keeps the order, and independent delays of two sizes."""
    tokens = (60, 100, 150, 300, 600, 1200, 2400)
    link = {"layer": "in-order", "cv": 0.05, "sigma": 0.1, "law": "lognormal"}
    return tuple(
        cell({"delays": name, "tokens": n}, {**knobs, "tokens": n})
        for name, knobs in (
            ("in-order", link), ("independent .1", _independent(0.1)), ("independent .25", _independent(0.25)),
        )
        for n in tokens
    )  # fmt: skip


def _independent(sigma: float) -> dict[str, Any]:
    return {"layer": "independent", "sigma": sigma}


def nulls() -> tuple[Cell, ...]:
    """Every world in which no verdict but its own is right, "speculative" least of all."""
    return tuple(cell({"world": name}, {"world": name}, label=name) for name in NULLS)


PRESETS: Final[dict[str, Preset]] = {
    "article": Preset("the founding experiment beside its published figures", article),
    "figure1": Preset("its first figure: clean beside 6 ms of jitter", figure1),
    "jitter-law": Preset(
        "accuracy over jitter/step and tokens, with the N R^2 law", jitter_law, reps=10,
    ),
    "long-tail": Preset("heavy-tailed delays and stalls", long_tail, (*OURS, "logisi"), 20),
    "sample-size": Preset("accuracy over the number of tokens", sample_size, (*OURS, "logisi"), 20),
    "nulls": Preset("false alarms in worlds without speculation", nulls, (*OURS, "logisi"), 20),
}  # fmt: skip
