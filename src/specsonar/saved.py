"""One side of a comparison: recordings, pooled and analysed, or a fingerprint that was saved as JSON."""

from __future__ import annotations

import io
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, BinaryIO, Final

import msgspec

from .bytefile import ByteFile
from .errors import FormatError, LimitError, UsageError
from .fingerprint import SCHEMA, VERDICTS, Estimate, Fingerprint
from .importers import look, pool

_SAID_BY: Final = 256
"""Bytes within which a saved fingerprint names its schema: it is the first key."""

_LARGEST: Final = 64 << 20
_SAVE: Final = "save it with `specsonar analyze ... --json -o FILE`"

Source = str | BinaryIO


def side(
    files: Sequence[str], *, level: float = 0.95, progress: Callable[[float, str], None] | None = None, **reading: Any
) -> Fingerprint:
    """The fingerprint of one side of a comparison.

    Parameters
    ----------
    files : recordings of one service, in any format that is known, or one saved fingerprint; "-" is standard input.
    level : of the intervals of what is analysed here.
    progress : called with (share done, what is being done).
    reading : unit, gaps, columns, as of `importers.look`.

    Raises
    ------
    UsageError : several saved fingerprints, which cannot be pooled.
    InputError : a file cannot be used.
    """
    sources = [_reopened(name) for name in files]
    saved = [is_saved(source) for source in sources]
    if any(saved):
        if len(files) > 1:
            raise UsageError(
                "a saved fingerprint cannot be pooled with other files", "give one a side, or the recordings themselves"
            )
        return load(sources[0])
    trace = pool([look(source, **reading) for source in sources])
    from .fit import fingerprint  # slow to import, so a bad file is reported before it

    return fingerprint(trace, level=level, progress=progress)


def is_saved(source: Source) -> bool:
    """Whether a file looks like a saved fingerprint; of an open file nothing is used up.

    Raises
    ------
    InputError : the file cannot be read.
    """
    if isinstance(source, io.BufferedReader):
        head = source.peek(_SAID_BY)[:_SAID_BY]
    else:
        with ByteFile(source) as file:
            head = file.head(_SAID_BY)
    return b'"schema"' in head and b'"specsonar.' in head and head.lstrip().startswith(b"{")


def load(source: Source) -> Fingerprint:
    """A Fingerprint from the JSON that `analyze --json` and `Fingerprint.to_dict` make.

    Raises
    ------
    FormatError : it is none, or its values cannot be. LimitError : it is far too large for one.
    """
    with ByteFile(source) as file:
        parts, size = [], 0
        for piece in file.pieces():
            size += len(piece)
            if size > _LARGEST:
                raise LimitError(f"{file.name} is larger than any fingerprint", _SAVE)
            parts.append(piece)
        name = file.name
    try:
        plain = msgspec.json.decode(b"".join(parts))
        if _of_another_version(plain):
            raise FormatError(
                f"{name} was saved by a newer specsonar: its schema is {plain['schema']!r}, this one reads {SCHEMA!r}",
                "update specsonar, or analyze the recording itself",
            )
        found = _converted(plain)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise FormatError(f"{name} is no saved fingerprint: {error}", _SAVE) from None
    for fault in _faults(found):
        raise FormatError(f"{name} is damaged: {fault}", _SAVE)
    return found


def _of_another_version(plain: Any) -> bool:
    said = plain.get("schema") if isinstance(plain, dict) else None
    return isinstance(said, str) and said != SCHEMA and said.startswith(f"{SCHEMA.rpartition('/')[0]}/")


def _reopened(name: str) -> Source:
    """Standard input as a file that can be looked into before it is read."""
    return io.BufferedReader(sys.stdin.buffer) if name == "-" else name  # type: ignore[type-var]


def _converted(plain: Any) -> Fingerprint:
    if not isinstance(plain, dict) or plain.get("schema") != SCHEMA:
        said = plain.get("schema") if isinstance(plain, dict) else None
        raise msgspec.ValidationError(f"its schema is {said!r}, not {SCHEMA!r}")
    ceiling = plain.get("ceiling") or {}
    if not isinstance(ceiling, dict):
        raise msgspec.ValidationError("Expected `object | null` - at `$.ceiling`")
    named = {"efficiency": ceiling.get("efficiency_interval"), "gap_tokens": ceiling.get("gap_tokens_interval")}
    return msgspec.convert({**plain, **named}, Fingerprint)


def _faults(found: Fingerprint) -> Iterator[str]:
    """What no analysis could have written."""
    if found.verdict not in VERDICTS:
        yield f"no verdict is called {found.verdict!r}"
    if found.streams < 0 or found.events < 0:
        yield "counts below zero"
    for name, estimate in _estimates(found):
        high = estimate.value if estimate.high is None else estimate.high
        if not all(map(math.isfinite, (estimate.low, estimate.value, high))):
            yield f"{name} is not finite"
        if not estimate.low <= estimate.value <= high or not 0 < estimate.level < 1:
            yield f"the interval of {name} does not hold its value, or its level is none"
    for one in found.by_stream or ():
        numbers = (one.tokens, one.steps, one.step_ms or 0.0, one.spread_ms or 0.0, one.first_token_ms or 0.0)
        if not all(math.isfinite(n) and n >= 0 for n in numbers):
            yield "by_stream holds numbers below zero, or none"
    if found.by_stream and not any(one.steps > 0 for one in found.by_stream):
        yield "by_stream holds no step"


def _estimates(found: Fingerprint) -> Iterator[tuple[str, Estimate]]:
    for name in (
        "max_burst", "acceptance_rate", "acceptance_length", "step_ms", "jitter_ms", "tokens_per_s", "efficiency",
        "gap_tokens",
    ):  # fmt: skip
        if (estimate := getattr(found, name)) is not None:
            yield name, estimate
    for position, estimate in enumerate(found.acceptance_by_position or (), 1):
        yield f"acceptance at position {position}", estimate
