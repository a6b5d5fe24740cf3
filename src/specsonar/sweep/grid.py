"""From words to cells: the knobs of a sweep, from flags or a TOML file, and every combination of their values."""

from __future__ import annotations

import difflib
import itertools
import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final

from ..errors import InputError, SpecsonarError, UsageError
from ..sources.laws import Delay
from ..sources.service import IN_ORDER, INDEPENDENT, Service, with_knobs
from ..sources.worlds import WORLDS
from .cells import Cell

MOST_CELLS: Final = 100_000

LAYERS: Final = ("in-order", "independent", "counted")

SHORT: Final = {"M": "max_burst", "alpha": "acceptance", "step": "step_ms", "cv": "step_cv", "ttft": "ttft_ms"}
"""Other names of knobs."""

OWN: Final = {
    "tokens": "length of each answer",
    "streams": "answers in one analysis",
    "world": "a named world to start from (`specsonar simulate --world`)",
    "jitter": "standard deviation of the delay, in ms, or in % of the step (30%)",
    "sigma": "the same as a share of the step (0.3)",
    "law": "of that delay: gauss, lognormal, exponential, pareto, uniform",
    "shape": "of that law: spread of the logarithm (lognormal), tail index (pareto)",
    "layer": "in-order, independent or counted: what reaches the client",
}
"""Knobs of a cell that are not fields of `Service`, or set several of them."""

_KINDS: Final = {f.name: str(f.type).removesuffix(" | None") for f in fields(Service)}
KNOBS: Final = (*OWN, *SHORT, *_KINDS)
"""All that can be set or varied."""

_DELAY: Final = ("jitter", "sigma", "law", "shape")
_TEXT: Final = ("str", "Delay", "Policy")
_WORDS: Final = ("world", "law", "layer")
_WHOLE: Final = ("tokens", "streams")


@dataclass(frozen=True, slots=True)
class Grid:
    """Knobs that are set for all cells, and knobs that vary, each with its values.

    Attributes
    ----------
    methods, reps, seed : as a file may give them; None where it does not.
    """

    fixed: Mapping[str, Any] = field(default_factory=dict)
    varied: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    methods: tuple[str, ...] | None = None
    reps: int | None = None
    seed: int | None = None

    def cells(self) -> tuple[Cell, ...]:
        """Every combination, the last knob fastest.

        Raises
        ------
        UsageError : an unknown knob or world, a value outside its range, knobs that do not go together, or too many
            combinations.
        """
        many = math.prod(len(values) for values in self.varied.values())
        if many > MOST_CELLS:
            raise UsageError(f"{many} combinations are too many", f"at most {MOST_CELLS}: vary fewer knobs at a time")
        made = []
        for values in itertools.product(*self.varied.values()):
            at = dict(zip(self.varied, values, strict=True))
            made.append(cell(at, {**self.fixed, **at}))
        return tuple(made)


def cell(at: Mapping[str, Any], knobs: Mapping[str, Any], *, label: str | None = None) -> Cell:
    """The cell that `knobs` describe; `at` holds those that vary."""
    label = ", ".join(f"{name}={shown(value)}" for name, value in at.items()) if label is None else label
    try:
        given = {SHORT.get(name, name): value for name, value in knobs.items()}
        service, tokens = Service(), 600
        if (world := given.pop("world", None)) is not None:
            service, tokens = _world(world)
        tokens, streams = given.pop("tokens", tokens), given.pop("streams", 1)
        for name, value in (("tokens", tokens), ("streams", streams)):
            if isinstance(value, bool) or value != int(value) or value < 1:
                raise UsageError(f"{name} = {value!r} is out of range", "give a whole number from 1")
        delay: dict[str, Any] = {name: given.pop(name) for name in _DELAY if name in given}
        service = _laid_out(service, given)
        service = with_knobs(service, {name: tuple(v) if isinstance(v, list) else v for name, v in given.items()})
        return Cell(label or "one service", _delayed(service, delay), int(tokens), int(streams), dict(at))
    except SpecsonarError as error:
        where = f"{label}: " if label else ""
        raise UsageError(f"{where}{error.message}", error.hint) from None


def _world(name: str) -> tuple[Service, int]:
    if name not in WORLDS:
        near = difflib.get_close_matches(str(name), WORLDS, 3, 0.3)
        raise UsageError(f"no world is called {name!r}", f"worlds: {', '.join(near or WORLDS)}")
    return WORLDS[name].service, WORLDS[name].tokens


def _laid_out(service: Service, given: dict[str, Any]) -> Service:
    match given.pop("layer", None):
        case None:
            return service
        case "in-order":
            return replace(service, order=IN_ORDER, events="token")
        case "independent":
            return replace(service, order=INDEPENDENT, events="token")
        case "counted":
            return replace(service, order=IN_ORDER, events="step")
        case other:
            raise UsageError(f"layer = {other!r} is not known", f"use one of {', '.join(LAYERS)}")


def _delayed(service: Service, delay: dict[str, Any]) -> Service:
    """The spread on each token where tokens take their own ways, else on each write."""
    if not delay:
        return service
    if "jitter" in delay and "sigma" in delay:
        raise UsageError("jitter and sigma are two names for one thing", "give one of them")
    if "jitter" not in delay and "sigma" not in delay:
        raise UsageError(f"{next(iter(delay))} without a jitter", "give jitter in ms, or sigma as a share of the step")
    spread = delay["sigma"] * service.step_ms if "sigma" in delay else delay["jitter"]
    if isinstance(spread, str):  # a percentage; everything else has become a number
        spread = float(spread.rstrip("%")) / 100 * service.step_ms
    law = Delay.with_spread(delay.get("law", "gauss"), spread, delay.get("shape"))
    return with_knobs(service, {"token_delay" if service.order == INDEPENDENT else "step_delay": law})


def shown(value: Any) -> str:
    """A value as it would be written in a flag."""
    if isinstance(value, tuple | list):
        return ",".join(map(shown, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def parse(vary: Sequence[str], fixed: Sequence[str]) -> Grid:
    """The grid of `--vary NAME=VALUES` and `--set NAME=VALUE`.

    VALUES are numbers or words with commas between them (semicolons where values have commas themselves), or a range
    from:to:step that includes its ends; a step of x2 doubles.

    >>> parse(["sigma=0:0.2:0.1", "tokens=150:600:x2"], ["k=4"]).varied
    {'sigma': (0.0, 0.1, 0.2), 'tokens': (150, 300, 600)}

    Raises
    ------
    UsageError : an unknown knob, or a value that cannot be read.
    """
    varied: dict[str, Any] = {}
    for name, text in map(_pair, vary):
        if name in varied:
            raise UsageError(f"{name} is varied twice", "give all its values at once")
        varied[name] = _values(name, text)
    settings = {}
    for name, text in map(_pair, fixed):
        settings[name] = _value(name, text)
    return _checked(Grid(settings, varied))


def _pair(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name.strip() or not value.strip():
        raise UsageError(f"cannot read {text!r}", "write NAME=VALUE, such as sigma=0:0.5:0.05 or tokens=150,600")
    known(name.strip())
    return name.strip(), value.strip()


def known(name: str) -> None:
    """Refuse a knob that does not exist.

    Raises
    ------
    UsageError : with the nearest names.
    """
    if name not in KNOBS:
        near = difflib.get_close_matches(name, KNOBS, 3)
        hint = f"did you mean {' or '.join(near)}?" if near else f"the knobs are {', '.join(sorted(KNOBS))}"
        raise UsageError(f"unknown knob {name!r}", hint)


def _values(name: str, text: str) -> tuple[Any, ...]:
    if ";" not in text and _kind(name) not in (*_TEXT, "bool") and text.count(":") == 2:
        return _range(name, text)
    several = ";" if ";" in text or _kind(name) in ("Delay", "Policy", "pair") else ","
    found = tuple(_value(name, part) for part in text.split(several) if part.strip())
    if not found:
        raise UsageError(f"{name} has no values", "write NAME=VALUE,VALUE")
    return found


def _kind(name: str) -> str:
    """How the values of a knob are written: int, float, several numbers, a pair, bool, str or Delay."""
    if name in _WORDS or name in _WHOLE:
        return "str" if name in _WORDS else "int"
    kind = _KINDS.get(SHORT.get(name, name), "float")
    return "pair" if kind == "tuple[float, float]" else "several" if "tuple" in kind else kind


def _value(name: str, text: str) -> Any:
    kind, text = _kind(name), text.strip()
    try:
        match kind:
            case "str" | "Delay" | "Policy":
                return text  # a service reads these itself
            case "bool":
                return {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}[text.lower()]
            case "int":
                return int(text)
            case "pair" | "several":
                numbers = tuple(float(part) for part in text.split(","))
                return numbers[0] if len(numbers) == 1 and kind == "several" else numbers
        if name == "jitter" and text.endswith("%"):
            float(text.rstrip("%"))
            return text
        return float(text)
    except (ValueError, KeyError):
        what = {"int": "a whole number", "bool": "yes or no"}.get(kind, "a number")
        raise UsageError(f"{name} = {text!r} is not {what}", "ranges are written from:to:step") from None


def _range(name: str, text: str) -> tuple[Any, ...]:
    first, last, step = text.split(":")
    geometric = step.startswith(("x", "*"))
    low, high = float(_value(name, first)), float(_value(name, last))
    by = float(_value("sigma", step[1:] if geometric else step))
    if not all(map(math.isfinite, (low, high, by))) or by <= (1 if geometric else 0) or high < low:
        raise UsageError(f"the range {text!r} of {name} does not grow", "write from:to:step or from:to:x2")
    if geometric and low <= 0:
        raise UsageError(f"the range {text!r} of {name} cannot grow by a factor", "begin above zero")
    steps = math.log(high / low, by) if geometric else (high - low) / by
    many = int(steps + 1e-9) + 1
    if many > MOST_CELLS:
        raise UsageError(f"the range {text!r} of {name} has {many} values", f"at most {MOST_CELLS}")
    # twelve digits: 3 * 0.1 is 0.3 to a reader
    values = [float(f"{low * by**i if geometric else low + i * by:.12g}") for i in range(many)]
    return tuple(dict.fromkeys(round(v) for v in values)) if _kind(name) == "int" else tuple(values)


def read(path: Path) -> Grid:
    """The grid of a TOML file: tables `set` and `vary`, and `methods`, `reps`, `seed` beside them.

    Raises
    ------
    InputError : the file cannot be read, or is no TOML. UsageError : what it says makes no grid.
    """
    try:
        with path.open("rb") as file:
            told = tomllib.load(file)
    except OSError as error:
        raise InputError(f"cannot read {str(path)!r}: {error.strerror or error}", "check the path") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{str(path)!r} is no TOML: {error}", "see docs/guides/how-far-can-it-see.md") from None
    names = ("set", "vary", "methods", "reps", "seed")
    for name in told:
        if name not in names:
            near = difflib.get_close_matches(name, names, 1)
            hint = f"did you mean {near[0]}?" if near else f"it may have {', '.join(names)}"
            raise UsageError(f"{path}: unknown key {name!r}", hint)
    fixed, vary, methods = told.get("set", {}), told.get("vary", {}), told.get("methods")
    for table, title in ((fixed, "set"), (vary, "vary")):
        if not isinstance(table, dict):
            raise UsageError(f"{path}: {title} is no table", f"begin it with [{title}]")
    if methods is not None and not (isinstance(methods, list) and all(isinstance(m, str) for m in methods)):
        raise UsageError(f"{path}: methods is no list of names", 'write methods = ["likelihood", "baseline"]')
    for name, low in (("reps", 1), ("seed", 0)):
        if (number := told.get(name)) is not None and (type(number) is not int or number < low):
            raise UsageError(f"{path}: {name} = {number!r}", f"give a whole number from {low}")
    try:
        varied = {name: _listed(name, values) for name, values in vary.items()}
        settings = {name: _typed(name, value) for name, value in fixed.items()}
        grid = Grid(settings, varied, None if methods is None else tuple(methods), told.get("reps"), told.get("seed"))
        return _checked(grid)
    except UsageError as error:
        raise UsageError(f"{path}: {error.message}", error.hint) from None


def _listed(name: str, values: Any) -> tuple[Any, ...]:
    known(name)
    if isinstance(values, str):
        return _values(name, values)
    if not isinstance(values, list) or not values:
        raise UsageError(f"{name} = {values!r} in [vary]", 'give a list, or a range such as "0:0.5:0.05"')
    return tuple(_typed(name, value) for value in values)


def _typed(name: str, value: Any) -> Any:
    known(name)
    if isinstance(value, str):
        return _value(name, value)
    if isinstance(value, list):
        return tuple(value)
    kind = _kind(name)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if (
        kind in ("str", "Delay", "pair")
        or (kind == "bool") != isinstance(value, bool)
        or not (number or kind == "bool")
    ):
        raise UsageError(f"{name} = {value!r} is of the wrong kind", "write it as in `specsonar simulate --help`")
    return value


def merged(base: Grid, other: Grid) -> Grid:
    """`base` with what `other` says added or put in its place."""
    both = Grid(
        {**base.fixed, **other.fixed}, {**base.varied, **other.varied}, other.methods or base.methods,
        base.reps if other.reps is None else other.reps, base.seed if other.seed is None else other.seed,
    )  # fmt: skip
    fixed = {name: value for name, value in both.fixed.items() if name not in other.varied}
    varied = {name: values for name, values in both.varied.items() if name not in other.fixed}
    return _checked(replace(both, fixed=fixed, varied=varied))


def _checked(grid: Grid) -> Grid:
    seen: dict[str, str] = {}
    for name in (*grid.fixed, *grid.varied):
        one = SHORT.get(name, name)
        if one in seen:
            raise UsageError(f"{name} and {seen[one]} set the same knob", "give it once")
        seen[one] = name
    return grid
