"""A fleet as tables: groups, streams and drift as Parquet, and questions to them in SQL."""

from __future__ import annotations

import contextlib
import datetime
import os
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final

import msgspec

from ..arrow import pyarrow
from ..errors import InputError, UsageError
from ..extras import need_fleet
from ..fingerprint import COMPARED
from .batch import NOT_KNOWN
from .result import UNKNOWN, Fleet
from .work import COLUMNS, EACH

TABLES: Final = ("groups", "streams", "drift")

_ESTIMATES: Final = ("max_burst", "acceptance_rate", "acceptance_length", "step_ms", "jitter_ms", "tokens_per_s")
_ROWS: Final = 10_000
_STREAMS: Final = tuple(name for name in COLUMNS if name != "mark")


def write(found: Fleet, rows: Iterable[tuple[Any, ...]], folder: Path) -> None:
    """groups.parquet, streams.parquet, drift.parquet and fleet.json.

    Parameters
    ----------
    rows : of all streams, as `State.rows` gives them.

    Raises
    ------
    InputError : a file cannot be written, or pyarrow is missing.
    """
    try:
        _write(folder / "groups.parquet", _groups(found))
        _write(folder / "drift.parquet", _drift(found))
        _write(folder / "streams.parquet", _streams(found, rows))
        with _replacing(folder / "fleet.json") as path:
            path.write_bytes(msgspec.json.format(msgspec.json.encode(found.to_dict()), indent=2) + b"\n")
    except OSError as error:
        raise InputError(f"cannot write to {folder}: {error.strerror or error}", "choose another DIR") from error


def write_groups(found: Fleet, path: Path) -> None:
    """The groups alone.

    Raises
    ------
    InputError : it cannot be written, or pyarrow is missing.
    """
    try:
        _write(path, _groups(found))
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}", "choose another -o FILE") from error


def ask(folder: Path, question: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    """The names and the rows that a question in SQL gives; groups, streams and drift are tables.

    Raises
    ------
    InputError : duckdb is missing. UsageError : it refuses the question.
    """
    need_fleet("duckdb", "questions in SQL need")
    import duckdb

    with duckdb.connect() as connection:
        for name in TABLES:
            path = str(folder / f"{name}.parquet").replace("'", "''")
            connection.execute(f"CREATE VIEW {name} AS SELECT * FROM read_parquet('{path}')")
        try:
            answer = connection.execute(question)
            return [column[0] for column in answer.description or ()], answer.fetchall()
        except duckdb.Error as error:
            raise UsageError(
                f"DuckDB: {' '.join(str(error).split())[:300]}", f"the tables are {', '.join(TABLES)}"
            ) from None


@contextlib.contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """A name to write to; the file takes the place of `path` when it is whole."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield beside
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


_Schema = list[tuple[str, str]]
_Rows = tuple[_Schema, Iterable[tuple[Any, ...]]]


def _write(path: Path, table: _Rows) -> None:
    """A table from rows, some at a time."""
    pa = pyarrow()
    columns, rows = table
    schema = pa.schema(
        [(name, getattr(pa, kind)() if kind != "time" else pa.timestamp("us", "UTC")) for name, kind in columns]
    )
    rows = iter(rows)
    with _replacing(path) as target, pa.parquet.ParquetWriter(target, schema, compression="zstd") as writer:
        while some := list(islice(rows, _ROWS)):
            lists = zip(*some, strict=True)
            arrays = [pa.array(values, field.type) for values, field in zip(lists, schema, strict=True)]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))


def _named(key: tuple[str, ...]) -> tuple[str | None, ...]:
    """Values of a key; None where they are not known."""
    return tuple(None if value == UNKNOWN else value for value in key)


def _keys(found: Fleet, taken: Iterable[str]) -> _Schema:
    """Columns for what is grouped by; `by_file` beside a column `file`."""
    return [(f"by_{name}" if name in set(taken) else name, "string") for name in found.by]


def _groups(found: Fleet) -> _Rows:
    fixed: _Schema = [
        ("streams", "int64"), ("events", "int64"), ("tokens", "int64"), ("pooled", "int64"), ("verdict", "string"),
        ("layer", "string"), ("count_source", "string"),
    ]  # fmt: skip
    for name in _ESTIMATES:
        fixed += [(name, "float64"), (f"{name}_low", "float64"), (f"{name}_high", "float64")]
    fixed += [
        ("mean_acceptance_length", "float64"), ("mean_step_ms", "float64"), ("median_first_token_ms", "float64"),
        ("drift", "string"), ("findings", "string"), ("sentence", "string"), ("fingerprint", "string"),
    ]  # fmt: skip

    def rows() -> Iterator[tuple[Any, ...]]:
        for group in found.groups:
            f = group.fingerprint
            estimates = [f and getattr(f, name) for name in _ESTIMATES]
            before = found.before(group)
            yield (
                *_named(group.key), group.streams, group.events, group.tokens, group.pooled, group.verdict,
                f and f.layer, f and f.count_source,
                *(part for e in estimates for part in ((e.value, e.low, e.high) if e else (None,) * 3)),
                group.acceptance_length, group.step_ms, group.first_token_ms, before and before.verdict,
                ",".join(dict.fromkeys(one.code for one in f.findings)) if f else None,
                f.sentence if f else group.problem,
                msgspec.json.encode(group.to_dict(found.by)["fingerprint"]).decode() if f else None,
            )  # fmt: skip

    return _keys(found, [name for name, _ in fixed]) + fixed, rows()


def _streams(found: Fleet, rows: Iterable[tuple[Any, ...]]) -> _Rows:
    kinds = {"stream": "string", "verdict": "string", "started": "time", "events": "int64", "tokens": "int64"}
    names = ("file", *_STREAMS, "sampled", *EACH)
    kinds |= {"file": "string", "sampled": "bool_"}
    mark = COLUMNS.index("mark")
    started = _STREAMS.index("started")
    tokens = _STREAMS.index("tokens")

    def made() -> Iterator[tuple[Any, ...]]:
        for file, key, drawn, *rest in rows:
            values = rest[:mark] + rest[mark + 1 : len(COLUMNS)]
            if values[started] is not None:
                values[started] = datetime.datetime.fromtimestamp(values[started], datetime.UTC)
            if values[tokens] == NOT_KNOWN:
                values[tokens] = None
            yield *_named(key), file, *values, drawn, *rest[len(COLUMNS) :]

    return [*_keys(found, names), *((name, kinds.get(name, "float64")) for name in names)], made()


def _drift(found: Fleet) -> _Rows:
    along = found.by[-1]
    columns: _Schema = [(name, "string") for name in found.by[:-1]]
    columns += [
        ("along", "string"),
        ("base", "string"),
        ("candidate", "string"),
        ("span", "string"),
        ("verdict", "string"),
    ]
    for name in COMPARED:
        parts = (("base", "float64"), ("candidate", "float64"), ("ratio", "float64"), ("low", "float64"),
                 ("high", "float64"), ("verdict", "string"))  # fmt: skip
        columns += [(f"{name}_{part}", kind) for part, kind in parts]
    columns += [("needed_streams", "int64"), ("sentence", "string")]

    def rows() -> Iterator[tuple[Any, ...]]:
        for one in found.drift:
            changes = [one.changes[name] for name in COMPARED]
            yield (
                *_named(one.series), along, one.base, one.candidate, one.span, one.verdict,
                *(part for c in changes
                  for part in ((c.base, c.candidate, c.ratio, c.low, c.high, c.verdict) if c else (None,) * 6)),
                one.needed_streams, one.sentence,
            )  # fmt: skip

    return columns, rows()
