"""Columns of CSV, TSV, JSON, JSON lines and Parquet, whatever they mean; only the chosen ones are kept."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, Final

from ..arrow import pyarrow
from ..bytefile import ByteFile
from ..errors import FormatError, LimitError
from .jsonparts import Parts
from .values import decoded

MOST_ROWS: Final = 4_000_000

CSV, JSON, PARQUET = "CSV", "JSON", "Parquet"

UNNAMED: Final = ("t", "tokens")
"""Names for the columns of lists, which have none."""

Columns = dict[str, list[Any]]
Choose = Callable[[list[str]], Iterable[str]]

_SEPARATORS: Final = (",", "\t", ";")
_NUMERIC: Final = b"[-0123456789"
_NUMBER: Final = re.compile(r"[-+]?[\d.,]+(?:[eE][-+]?\d+)?")
_DECIMAL_COMMA: Final = re.compile(r"(?<=\d),(?=\d+\s*\Z)")
_TOKEN: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[\[\]{}:]', re.DOTALL)
_MOST_NAMES: Final = 64
_FIRST_RECORD: Final = 1 << 13


def kind(head: bytes) -> str | None:
    """CSV, JSON or Parquet, by the first bytes of a file; None when it is none of them."""
    if head.startswith(b"PAR1"):
        return PARQUET
    if head.lstrip().startswith((b"[", b"{")):
        return JSON
    return CSV if b"\0" not in head and len(first_row(head)[1]) > 1 else None


def names(head: bytes) -> list[str]:
    """Names of the columns, as far as the first bytes tell; those of Parquet stand at its end."""
    match kind(head):
        case "CSV":
            return first_row(head)[1]
        case "JSON":
            return _json_names(head)
    return []


def read(source: ByteFile, choose: Choose) -> Columns:
    """The columns that `choose` picks from their names, each a list with a value for every row.

    Values are as the file writes them: text in CSV, JSON values, and what pyarrow makes of Parquet; None where a row
    has none.

    Raises
    ------
    FormatError : it is no table. LimitError : too many rows. InputError : support for Parquet is not installed.
    """
    match kind(source.head()):
        case "Parquet":
            return _parquet(source, choose)
        case "JSON":
            rows, found = _json_rows(source)
        case "CSV":
            rows, found = _csv_rows(source)
        case _:
            raise FormatError(f"{source.name} is no table", "CSV, TSV, JSON, JSON lines and Parquet are read")
    chosen = list(choose(found))
    places = [found.index(name) for name in chosen]
    columns: Columns = {name: [] for name in chosen}
    for number, row in enumerate(rows):
        if number == MOST_ROWS:
            raise LimitError(f"{source.name} has more than {MOST_ROWS:,} rows", "split the file")
        for name, place in zip(chosen, places, strict=True):
            columns[name].append(row[place] if place < len(row) else None)
    return columns


def first_row(head: bytes) -> tuple[str, list[str]]:
    """The separator of a CSV file, and the cells of its first row; none where nothing separates them."""
    lines = (line.strip() for line in head.lstrip().splitlines())
    first = next((line for line in lines if line and not line.startswith(b"#")), b"").decode(errors="replace")
    separator = max(_SEPARATORS, key=first.count)
    cells = next(csv.reader([first], delimiter=separator), []) if separator in first else []
    return separator, [cell.strip() for cell in cells]


def _csv_rows(source: ByteFile) -> tuple[Iterator[list[str]], list[str]]:
    """All rows, and the names of the columns; without a heading these are 1, 2, 3..."""
    separator, found = first_row(source.head())
    unnamed = all(_NUMBER.fullmatch(cell) for cell in found)
    lines = (line for block in source.blocks() for line in io.StringIO(block.decode(errors="replace"), newline=""))
    kept = (line for line in lines if line.strip() and not line.startswith("#"))
    rows = _csv_parsed(source, kept, separator)
    return (rows, [str(n + 1) for n in range(len(found))]) if unnamed else (islice(rows, 1, None), found)


def _csv_parsed(source: ByteFile, lines: Iterator[str], separator: str) -> Iterator[list[str]]:
    rows = csv.reader(lines, delimiter=separator)
    try:
        if separator == ",":
            yield from rows
        else:  # spreadsheets of many countries write decimal commas
            yield from ([_DECIMAL_COMMA.sub(".", cell) for cell in row] for row in rows)
    except csv.Error as error:
        raise FormatError(f"{source.name} cannot be read as CSV: {error}", "check its quotation marks") from None


def _json_names(head: bytes) -> list[str]:
    """Names of the columns of the first record, also of one that the head cuts; none where it is the only record."""
    text = head[:_FIRST_RECORD].lstrip()
    inner = text[1:].lstrip() if text.startswith(b"[") else text
    if not inner.startswith(b"{"):
        return list(UNNAMED) if inner[:1] in _NUMERIC and inner else []
    single = inner is text and not re.search(rb"}\s*\r?\n\s*{", text)
    found, depth, key = [], 0, b""
    for token in _TOKEN.finditer(inner):
        mark = token.group()
        if depth == 1 and mark == b":":
            is_list = inner[token.end() : token.end() + 9].lstrip().startswith(b"[")
            found += [key[1:-1].decode(errors="replace")] if is_list or not single else []
        elif mark[:1] == b'"':
            key = mark
        else:
            depth += (mark in b"[{") - (mark in b"]}")
        if depth == 0 or len(found) == _MOST_NAMES:
            break
    return found


def _json_rows(source: ByteFile) -> tuple[Iterator[list[Any]], list[str]]:
    is_list = source.head().lstrip().startswith(b"[")
    records = (decoded(raw) for _, _, raw in Parts(source, [()]))
    first = next(records, None)
    if isinstance(first, dict) and not is_list and any(isinstance(v, list) for v in first.values()):
        lists = {name: v for name, v in first.items() if isinstance(v, list)}
        return map(list, zip(*lists.values(), strict=False)), list(lists)
    if isinstance(first, dict):
        found = list(first)
        return ([r.get(name) for name in found] for r in _chain(first, records) if isinstance(r, dict)), found
    if isinstance(first, list):
        return (r for r in _chain(first, records) if isinstance(r, list)), list(UNNAMED[: max(1, len(first))])
    if isinstance(first, (int, float)):
        return ([r] for r in _chain(first, records)), list(UNNAMED[:1])
    raise FormatError(f"{source.name} is JSON without a table in it", "a list of numbers or of objects is needed")


def _chain(first: Any, rest: Iterator[Any]) -> Iterator[Any]:
    yield first
    yield from rest


def _parquet(source: ByteFile, choose: Choose) -> Columns:
    pa = pyarrow()
    with source.on_disk() as path:
        try:
            with pa.parquet.ParquetFile(path) as file:
                if file.metadata.num_rows > MOST_ROWS:
                    raise LimitError(f"{source.name} has more than {MOST_ROWS:,} rows", "split the file")
                chosen = list(choose([str(name) for name in file.schema_arrow.names]))
                table = file.read(columns=chosen)
                return {name: _plain(pa, table.column(name)) for name in chosen}
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            words = str(error).splitlines()[0][:120] if str(error) else type(error).__name__
            raise FormatError(f"{source.name} cannot be read as Parquet: {words}", "copy it again") from None


def _plain(pa: Any, column: Any) -> list[Any]:
    """Python values; points in time become nanoseconds since the epoch, times of day and durations nanoseconds."""
    for is_such, to, made in (
        (pa.types.is_timestamp, pa.timestamp("ns"), Moment),
        (pa.types.is_time, pa.time64("ns"), Nanoseconds),
        (pa.types.is_duration, pa.duration("ns"), Nanoseconds),
    ):
        if is_such(column.type):
            return [None if v is None else made(v) for v in column.cast(to).cast(pa.int64()).to_pylist()]
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    values: list[Any] = column.to_pylist()
    return values


class Nanoseconds(int):
    """A value that knows its unit."""


class Moment(Nanoseconds):
    """A point in time, since the epoch."""
