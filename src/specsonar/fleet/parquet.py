"""Streams of a Parquet table, a piece of the file at a time.

Rows of one stream that lie together are complete when the next stream begins. Where streams are mixed, as a gateway
writes them, a first look at the column of streams tells in which piece each of them ends.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from ..arrow import pyarrow
from ..errors import FormatError, InputError, UsageError
from ..importers import table
from ..trace import IntArray
from ..units import guess_unit, ns_per
from . import grouping
from .batch import NOT_KNOWN, Batch, FloatArray, sources_of
from .places import Place, plain
from .result import UNKNOWN

MAGIC: Final = b"PAR1"
PIECE: Final = 1 << 17
"""Rows that are read at a time."""

SPLIT: Final = 1 << 21
"""Rows of a part of a large file, about: what one worker reads."""

_STARTS: Final = ("start", "started", "sent", "requested", "requesttime", "starttime", "startns", "sentns")
_LARGEST: Final = 9.2e18
_LONGEST_WAIT_NS: Final = 86_400 * 10**9
"""A request that was sent longer before its first event belongs to another clock."""


@dataclass(frozen=True, slots=True)
class Part:
    """Row groups `begin` to `end` of a table whose streams lie together."""

    begin: int
    end: int


@dataclass(slots=True)
class _Layout:
    """What the columns of a table are for."""

    time: str
    unit: str
    tokens: str | None
    stream: str | None
    start: str | None
    keys: dict[str, str]
    others: dict[str, str]
    path: dict[str, str] = field(default_factory=dict)

    @property
    def wanted(self) -> list[str]:
        """Columns to read."""
        columns = (self.stream, self.time, self.tokens, self.start, *self.keys.values(), *self.others.values())
        return list(dict.fromkeys(name for name in columns if name))


@contextlib.contextmanager
def _opened(place: Place) -> Iterator[Any]:
    """The table; whatever goes wrong with it while it is open becomes a FormatError."""
    pa = pyarrow()
    source = place.open()
    try:
        with pa.parquet.ParquetFile(source, pre_buffer=False) as file:
            yield file
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise FormatError(f"{place.name} cannot be read as Parquet: {plain(error)[:120]}", "copy it again") from None
    finally:
        if not isinstance(source, str):
            source.close()


def parts(place: Place, reading: Mapping[str, Any]) -> list[Part]:
    """A large table in parts that can be read apart; none where it is small, or its streams are mixed.

    Raises
    ------
    InputError : it cannot be read.
    """
    with _opened(place) as file:
        rows = [file.metadata.row_group(k).num_rows for k in range(file.num_row_groups)]
        if sum(rows) < 2 * SPLIT:
            return []
        layout = _layout(place, file, (), reading)
        if layout.stream is None or _mixed(file, layout.stream):
            return []
    found, begin, held = [], 0, 0
    for k, count in enumerate(rows, 1):
        held += count
        if held >= SPLIT or k == len(rows):
            found.append(Part(begin, k))
            begin, held = k, 0
    return found


def batches(place: Place, part: Part | None, by: tuple[str, ...], reading: Mapping[str, Any]) -> Iterator[Batch]:
    """The streams of a table, or those that begin in one part of it.

    Raises
    ------
    InputError : it cannot be read, or has no column of times. FormatError : it is damaged.
    """
    with _opened(place) as file:
        layout = _layout(place, file, by, reading)
        last = None
        if part is not None:
            pieces = _of_part(file, layout, part)
        else:
            pieces = _read(file, layout.wanted)
            last = _last_pieces(file, layout.stream) if layout.stream else None
        for rows in _complete(pieces, layout.stream, last):
            if (made := _batch(rows, layout, by, place)) is not None:
                yield made


def _read(file: Any, columns: list[str], groups: Sequence[int] | None = None) -> Iterator[Any]:
    """Pieces of some columns; one thread, for the workers share the cores among them."""
    found: Iterator[Any] = file.iter_batches(PIECE, row_groups=groups, columns=columns, use_threads=False)
    return found


def _layout(place: Place, file: Any, by: tuple[str, ...], reading: Mapping[str, Any]) -> _Layout:
    names = [str(name) for name in file.schema_arrow.names]
    asked = table.parse_columns(reading["columns"]) if reading.get("columns") else None
    try:
        roles = table.roles(names, asked)
    except UsageError as error:  # another file may have it
        raise InputError(f"{place.name}: {error.message}", error.hint) from None
    if table.TIME not in roles:
        raise FormatError(
            f"{place.name} has no column that is known to hold times, only {', '.join(names)[:120]}",
            "name it: --columns time=NAME",
        )
    time = roles[table.TIME]
    known = table.heading(time)
    if reading.get("gaps") or (known is not None and known.gaps):
        raise InputError(f"{place.name} holds gaps, not times", "write arrival times, or `specsonar convert` it")
    taken = set(roles.values())
    free = [name for name in names if name not in taken]
    keys = {key: name for key in by if (name := grouping.matching(key, [*free, *taken]))}
    others = {key: name for key in ("model", "temperature", "max_tokens") if (name := grouping.matching(key, free))}
    start = next((name for name in free if grouping.plain(name) in _STARTS), None)
    unit = reading.get("unit") or (known.unit if known else None)
    layout = _Layout(
        time, unit or "ns", roles.get("tokens"), roles.get("stream"), start, keys, others,
        grouping.of_path(by, place.name),
    )  # fmt: skip
    if unit is None:
        layout.unit = _guessed(file, layout, place)
    return layout


def _guessed(file: Any, layout: _Layout, place: Place) -> str:
    """The unit of plain numbers, from the longest stream among the first rows."""
    first = next(_read(file, [c for c in (layout.stream, layout.time) if c]), None)
    if first is None:
        return "ns"
    column, unit = _plain_times(first.column(layout.time), "", place.name)
    if unit:
        return unit
    values = _numbers(column)
    codes = np.zeros(values.size, np.int64) if layout.stream is None else _codes(first.column(layout.stream))[0]
    if not values.size:
        return "ns"
    mine = values[codes == np.argmax(np.bincount(codes))]
    return guess_unit(np.sort(mine - mine[0]))


def _codes(column: Any) -> tuple[IntArray, list[Any]]:
    """For each row the number of its value, and the values."""
    coded = column.combine_chunks() if hasattr(column, "combine_chunks") else column
    if not pyarrow().types.is_dictionary(coded.type):
        coded = coded.dictionary_encode(null_encoding="encode")
    codes = coded.indices.fill_null(len(coded.dictionary)).to_numpy(zero_copy_only=False).astype(np.int64)
    return codes, [*coded.dictionary.to_pylist(), None]


def _numbers(column: Any) -> FloatArray:
    values = column.to_numpy(zero_copy_only=False) if hasattr(column, "to_numpy") else np.asarray(column)
    return np.asarray(values, np.float64)


def _mixed(file: Any, stream: str) -> bool:
    """Whether rows of one stream lie in several places."""
    seen: set[int] = set()
    before: Any = object()
    for piece in _read(file, [stream]):
        codes, values = _codes(piece.column(0))
        runs = codes[np.concatenate(([True], codes[1:] != codes[:-1]))] if codes.size else codes
        ids = [values[code] for code in runs.tolist()]
        fresh = ids[1:] if ids and ids[0] == before else ids
        marks = [hash(one) for one in fresh]  # numbers, not names: there may be millions
        if len(set(marks)) < len(marks) or not seen.isdisjoint(marks):
            return True
        seen.update(marks)
        before = ids[-1] if ids else before
    return False


def _last_pieces(file: Any, stream: str) -> dict[Any, int] | None:
    """In which piece each stream ends; None where streams lie together, and nobody needs to know."""
    if not _mixed(file, stream):
        return None
    last: dict[Any, int] = {}
    for number, piece in enumerate(_read(file, [stream])):
        codes, values = _codes(piece.column(0))
        last.update((values[code], number) for code in np.unique(codes).tolist())
    return last


def _of_part(file: Any, layout: _Layout, part: Part) -> Iterator[Any]:
    """Rows of the streams that begin in the part; the last one may go on behind it."""
    assert layout.stream is not None
    before = object()
    if part.begin:
        ends = file.read_row_group(part.begin - 1, columns=[layout.stream], use_threads=False).column(0)
        before = ends[-1].as_py() if len(ends) else before
    last = before
    for piece in _read(file, layout.wanted, range(part.begin, part.end)):
        mine = _from_first(piece, layout.stream, before) if last == before else piece
        if mine.num_rows:
            yield mine
            last = mine.column(layout.stream)[-1].as_py()
    if last == before:
        return
    for piece in _read(file, layout.wanted, range(part.end, file.num_row_groups)):
        rest = _from_first(piece, layout.stream, last)
        yield piece.slice(0, piece.num_rows - rest.num_rows)
        if rest.num_rows:
            return


def _from_first(piece: Any, stream: str, before: Any) -> Any:
    """The rows from the first on that is not of stream `before`."""
    codes, values = _codes(piece.column(stream))
    other = np.flatnonzero(np.array([value != before for value in values])[codes])
    return piece.slice(int(other[0]) if other.size else piece.num_rows)


def _complete(pieces: Iterator[Any], stream: str | None, last: Mapping[Any, int] | None) -> Iterator[Any]:
    """Tables of complete streams, the rows of each together; `last` tells where streams end that are mixed."""
    pa = pyarrow()
    held = None
    for index, piece in enumerate(pieces):
        rows = pa.Table.from_batches([piece])
        if held is not None:
            rows = pa.concat_tables([held, rows]).unify_dictionaries()
        if stream is None or not rows.num_rows:
            held = rows
            continue
        codes, values = _codes(rows.column(stream))
        if last is None:
            other = np.flatnonzero(codes != codes[-1])
            cut = int(other[-1]) + 1 if other.size else 0
            done, held = rows.slice(0, cut), rows.slice(cut)
        else:
            over = np.array([last.get(value, index) <= index for value in values])[codes]
            order = np.argsort(codes, kind="stable")
            done, held = rows.take(order[over[order]]), rows.filter(pa.array(~over))
        if done.num_rows:
            yield done
    if held is not None and held.num_rows:
        codes = _codes(held.column(stream))[0] if stream else np.zeros(held.num_rows)
        yield held.take(np.argsort(codes, kind="stable"))


def _batch(rows: Any, layout: _Layout, by: tuple[str, ...], place: Place) -> Batch | None:
    """Rows of complete streams, each together, as a batch; None where no row has a time."""
    if rows.column(layout.time).null_count:
        rows = rows.filter(rows.column(layout.time).is_valid())
    if not rows.num_rows:
        return None
    codes, values = _codes(rows.column(layout.stream)) if layout.stream else (np.zeros(rows.num_rows), [place.name])
    begin = np.flatnonzero(np.concatenate(([True], codes[1:] != codes[:-1])))
    events = np.diff(np.append(begin, rows.num_rows))
    t, origin = _times(rows.column(layout.time), layout.unit, begin, events, place.name)
    tokens = _counts(rows.column(layout.tokens), place.name) if layout.tokens else None
    fell = np.diff(t, prepend=0) < 0
    fell[begin] = t[begin] < 0
    if fell.any():
        order = np.lexsort((t, np.repeat(np.arange(begin.size), events)))
        t, tokens = t[order], None if tokens is None else tokens[order]
    earliest = t[begin]
    t, origin = t - np.repeat(earliest, events), origin + earliest
    heads = rows.take(begin)
    sent = origin
    first_ns = np.full(begin.size, NOT_KNOWN)
    if layout.start:
        sent, first_ns = _sent(heads.column(layout.start), layout, origin, place.name)
    unix = np.array([grouping.is_unix_ns(at) for at in sent.tolist()])
    started = np.where(unix, sent * 1e-9, np.nan)
    told = {key: [grouping.value(v) for v in heads.column(name).to_pylist()] for key, name in layout.keys.items()}
    for key in by:
        if key not in told:
            else_ = layout.path.get(key, UNKNOWN)
            told[key] = [grouping.moment(key, at) or else_ for at in started.tolist()]
    offsets = np.append(begin, t.size).astype(np.int64)
    known = {key: heads.column(name).to_pylist() for key, name in layout.others.items()}
    each = zip(*known.values(), strict=True) if known else ((),) * begin.size
    return Batch(
        [str(values[code]) for code in codes[begin].astype(int).tolist()],
        list(zip(*(told[key] for key in by), strict=True)) if by else [()] * begin.size,
        offsets, t, tokens, sources_of(tokens, offsets), np.full(begin.size, NOT_KNOWN), first_ns, started,
        [{k: v for k, v in zip(known, one, strict=True) if isinstance(v, str | int | float)} for one in each],
    )  # fmt: skip


def _times(column: Any, unit: str, begin: IntArray, events: IntArray, name: str) -> tuple[IntArray, IntArray]:
    """Nanoseconds since the first row of each stream, and those of these first rows on the clock of the table."""
    column, unit = _plain_times(column, unit, name)
    values = column.to_numpy(zero_copy_only=False)
    if values.dtype.kind == "f":
        if not np.isfinite(values).all():
            raise InputError(f"{name} holds a time that is not finite", "remove or repair that row")
        first = values[begin]
        relative = (values - np.repeat(first, events)) * ns_per(unit)
        if max(np.abs(relative).max(), np.abs(first).max() * ns_per(unit)) > _LARGEST:
            raise InputError(f"the times of {name} span more than 292 years", "check --unit")
        return np.rint(relative).astype(np.int64), np.rint(first * ns_per(unit)).astype(np.int64)
    values = values.astype(np.int64)
    if max(-int(values.min()), int(values.max())) > _LARGEST / ns_per(unit):
        raise InputError(f"the times of {name} span more than 292 years", "check --unit")
    first = values[begin]
    return (values - np.repeat(first, events)) * ns_per(unit), first * ns_per(unit)


def _plain_times(column: Any, unit: str, name: str) -> tuple[Any, str]:
    """A column of numbers and their unit; dates become nanoseconds since 1970."""
    pa = pyarrow()
    column = column.combine_chunks() if hasattr(column, "combine_chunks") else column
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    try:
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            zone = "UTC" if str(column[0])[-1:] == "Z" or str(column[0])[-6:-5] in ("+", "-") else None
            column = column.cast(pa.timestamp("ns", zone))
        if pa.types.is_timestamp(column.type):
            return column.cast(pa.timestamp("ns", column.type.tz)).cast(pa.int64()), "ns"
        if pa.types.is_decimal(column.type):
            column = column.cast(pa.float64())
    except pa.ArrowException:
        raise InputError(f"{name} has {str(column[0])[:40]!r} for a time", "write numbers or ISO 8601") from None
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        raise InputError(f"{name} has times of type {column.type}", "write numbers or timestamps")
    return column, unit


def _sent(column: Any, layout: _Layout, origin: IntArray, name: str) -> tuple[IntArray, IntArray]:
    """When the requests were sent, and how long their first events took; -1 where that cannot be."""
    assert layout.start is not None
    known = table.heading(layout.start)
    unit = "ns" if grouping.plain(layout.start).endswith("ns") else known.unit if known and known.unit else layout.unit
    missing = column.is_null().to_numpy()
    column = column.fill_null(column.drop_null()[0]) if 0 < missing.sum() < missing.size else column
    if missing.all():
        return origin, np.full(origin.size, NOT_KNOWN)
    each = np.arange(origin.size)
    _, sent = _times(column, unit, each, np.ones(origin.size, np.int64), name)
    wait = origin - sent
    good = ~missing & (wait >= 0) & (wait < _LONGEST_WAIT_NS)
    return np.where(missing, origin, sent), np.where(good, wait, NOT_KNOWN)


def _counts(column: Any, name: str) -> IntArray:
    """Token counts; -1 for what is empty."""
    pa = pyarrow()
    try:
        counts = column.cast(pa.int64()).fill_null(NOT_KNOWN).to_numpy()
    except pa.ArrowException:
        raise InputError(f"{name} has token counts that are no whole numbers", "use whole numbers") from None
    if counts.size and counts.min() < NOT_KNOWN:
        raise InputError(f"{name} has a negative token count", "write -1 where the count is not known")
    return np.asarray(counts, np.int64)
