"""Everything that was done so far, in one file of SQLite: a run that ends early goes on from there.

Nothing of it has to fit into memory, and it is written after each piece of work: what is in it is complete.
"""

from __future__ import annotations

import io
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import msgspec

from .. import saved
from ..errors import InputError
from .batch import Key
from .law import Law
from .work import COLUMNS, EACH, Fitted, Surveyed, digest

_VERSION: Final = 1
"""Of the tables: another one begins anew."""

_KINDS: Final = {"stream": "TEXT", "verdict": "TEXT", "mark": "INTEGER", "events": "INTEGER", "tokens": "INTEGER"}

_TABLES: Final = f"""
CREATE TABLE surveyed (unit TEXT, key TEXT, streams INTEGER, events INTEGER);
CREATE TABLE done (unit TEXT PRIMARY KEY, file TEXT, problem TEXT);
CREATE TABLE drawn (unit TEXT, key TEXT, mark INTEGER, stream BLOB);
CREATE TABLE fitted (name TEXT PRIMARY KEY, fingerprint BLOB, law BLOB, problem TEXT);
CREATE TABLE measured (unit TEXT PRIMARY KEY, name TEXT);
CREATE TABLE stream (unit TEXT, key TEXT, {", ".join(f"{c} {_KINDS.get(c, 'REAL')}" for c in (*COLUMNS, *EACH))});
CREATE INDEX drawn_key ON drawn (key, mark);
CREATE INDEX surveyed_key ON surveyed (key, unit);
CREATE INDEX stream_key ON stream (key, mark);
CREATE INDEX stream_unit ON stream (unit);
PRAGMA user_version = {_VERSION};
"""


class State:
    """What is known at one moment of a run. Use it in a `with` block.

    Raises
    ------
    InputError : another run is using the file, or it is none of ours.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._db = sqlite3.connect(path, timeout=0.5)
            # one writer, and a crash of the machine may cost the last pieces of work, never the file
            self._db.executescript(
                "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA locking_mode = EXCLUSIVE;"
            )
            self._db.execute("BEGIN IMMEDIATE")
            version = self._db.execute("PRAGMA user_version").fetchone()[0]
            self._db.commit()
            if version != _VERSION:
                self._clear()
        except sqlite3.Error as error:
            if "locked" in str(error):
                raise InputError(
                    f"another run is writing to {path.parent}", "wait for it, or choose another DIR"
                ) from None
            raise InputError(f"cannot use {path}: {error}", "remove it, or choose another DIR") from None

    def _clear(self) -> None:
        names = [row[0] for row in self._db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for name in names:
            self._db.execute(f'DROP TABLE "{name}"')
        self._db.executescript(_TABLES)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._db.close()

    def forget_all_but(self, units: Iterable[str]) -> None:
        """Drop what was learnt of files that are no more, or no more the same."""
        with self._db:
            self._db.execute("CREATE TEMP TABLE kept (unit TEXT PRIMARY KEY)")
            self._db.executemany("INSERT OR IGNORE INTO kept VALUES (?)", ((unit,) for unit in units))
            for table in ("surveyed", "done", "drawn", "measured", "stream"):
                self._db.execute(f"DELETE FROM {table} WHERE unit NOT IN (SELECT unit FROM kept)")
            self._db.execute("DROP TABLE kept")

    def done(self) -> set[str]:
        """Units that were looked through; those that failed are tried again."""
        return {row[0] for row in self._db.execute("SELECT unit FROM done WHERE problem IS NULL")}

    def problems(self) -> list[tuple[str, str]]:
        """Files that could not be used, and why."""
        rows = self._db.execute(
            "SELECT file, MIN(problem) FROM done WHERE problem IS NOT NULL GROUP BY file ORDER BY file"
        )
        return list(rows)

    def keep_survey(self, unit: str, file: str, found: Surveyed, most: int) -> None:
        """What a unit holds. Of each group only the `most` streams with the smallest marks stay drawn."""
        with self._db:
            self._drop(unit)
            self._db.execute("INSERT INTO done VALUES (?, ?, NULL)", (unit, file))
            rows = [(unit, _text(key), *counts) for key, counts in found.groups.items()]
            self._db.executemany("INSERT INTO surveyed VALUES (?, ?, ?, ?)", rows)
            drawn = [(unit, _text(key), mark, data) for key, mark, data in found.drawn]
            self._db.executemany("INSERT INTO drawn VALUES (?, ?, ?, ?)", drawn)
            for key in found.groups:
                where = "SELECT mark FROM drawn WHERE key = ?1 ORDER BY mark LIMIT 1 OFFSET ?2"
                self._db.execute(f"DELETE FROM drawn WHERE key = ?1 AND mark >= ({where})", (_text(key), most))

    def keep_problem(self, unit: str, file: str, problem: str) -> None:
        """Why a unit could not be used; what it gave before that is dropped."""
        with self._db:
            self._drop(unit)
            self._db.execute("INSERT INTO done VALUES (?, ?, ?)", (unit, file, problem))

    def _drop(self, unit: str) -> None:
        for table in ("surveyed", "done", "drawn", "measured", "stream"):
            self._db.execute(f"DELETE FROM {table} WHERE unit = ?", (unit,))

    def groups(self) -> list[Key]:
        """Every group, in order."""
        return sorted(_key(row[0]) for row in self._db.execute("SELECT DISTINCT key FROM surveyed"))

    def counts(self) -> tuple[int, int, int]:
        """Files, streams and events that were read."""
        files = self._db.execute("SELECT COUNT(DISTINCT file) FROM done WHERE problem IS NULL").fetchone()[0]
        streams, events = self._db.execute("SELECT SUM(streams), SUM(events) FROM surveyed").fetchone()
        return files, streams or 0, events or 0

    def sample_name(self, key: Key) -> str:
        """Other when the sample of the group is another."""
        rows = self._db.execute("SELECT unit, mark FROM drawn WHERE key = ? ORDER BY mark, unit", (_text(key),))
        return digest(list(key), [list(row) for row in rows])

    def sample(self, key: Key) -> list[bytes]:
        """The streams that were drawn."""
        rows = self._db.execute("SELECT stream FROM drawn WHERE key = ? ORDER BY mark, unit", (_text(key),))
        return [row[0] for row in rows]

    def fitted(self, name: str) -> Fitted | None:
        """What was found in the sample of that name."""
        row = self._db.execute("SELECT fingerprint, law, problem FROM fitted WHERE name = ?", (name,)).fetchone()
        if row is None:
            return None
        found = None if row[0] is None else saved.load(io.BytesIO(row[0]))
        return Fitted(found, msgspec.msgpack.decode(row[1], type=Law | None), row[2])

    def keep_fit(self, name: str, found: Fitted) -> None:
        """The fingerprint of a sample."""
        plain = None if found.fingerprint is None else msgspec.json.encode(found.fingerprint.to_dict())
        law = msgspec.msgpack.encode(found.law)
        with self._db:
            self._db.execute("INSERT OR REPLACE INTO fitted VALUES (?, ?, ?, ?)", (name, plain, law, found.problem))

    def forget_fits(self, but: Iterable[str]) -> None:
        """Drop the fits of samples that are no more."""
        kept = set(but)
        names = [row for row in self._db.execute("SELECT name FROM fitted") if row[0] not in kept]
        with self._db:
            self._db.executemany("DELETE FROM fitted WHERE name = ?", names)

    def groups_of(self, unit: str) -> list[Key]:
        """Groups with streams in a unit."""
        return sorted(_key(row[0]) for row in self._db.execute("SELECT key FROM surveyed WHERE unit = ?", (unit,)))

    def measured(self, unit: str) -> str | None:
        """By which laws the streams of a unit were measured; None when they were not."""
        row = self._db.execute("SELECT name FROM measured WHERE unit = ?", (unit,)).fetchone()
        return None if row is None else str(row[0])

    def keep_measures(self, unit: str, name: str, found: list[tuple[Key, list[tuple[Any, ...]]]]) -> None:
        """The figures of the streams of a unit."""
        blank = (None,) * len(EACH)
        with self._db:
            self._db.execute("DELETE FROM stream WHERE unit = ?", (unit,))
            for key, rows in found:
                whole = ((unit, _text(key), *(row + blank)[: len(COLUMNS) + len(EACH)]) for row in rows)
                marks = ", ".join("?" * (2 + len(COLUMNS) + len(EACH)))
                self._db.executemany(f"INSERT INTO stream VALUES ({marks})", whole)
            self._db.execute("INSERT OR REPLACE INTO measured VALUES (?, ?)", (unit, name))

    def totals(self, key: Key) -> tuple[int, int, int | None, int]:
        """Streams, events and tokens of a group (None where a stream does not tell), and streams in its sample."""
        text = _text(key)
        streams, events, tokens, least = self._db.execute(
            "SELECT COUNT(*), SUM(events), SUM(tokens), MIN(tokens) FROM stream WHERE key = ?", (text,)
        ).fetchone()
        drawn = self._db.execute("SELECT COUNT(*) FROM drawn WHERE key = ?", (text,)).fetchone()[0]
        return streams, events or 0, None if least is None or least < 0 else tokens, drawn

    def median(self, key: Key, column: str) -> float | None:
        """Of one column over the streams of a group that have a value; None without any."""
        where = f"FROM stream WHERE key = ? AND {column} IS NOT NULL"
        count = self._db.execute(f"SELECT COUNT(*) {where}", (_text(key),)).fetchone()[0]
        if not count:
            return None
        row = self._db.execute(f"SELECT {column} {where} ORDER BY {column} LIMIT 1 OFFSET ?", (_text(key), count // 2))
        return float(row.fetchone()[0])

    def measures(self, key: Key) -> Iterator[tuple[float, ...]]:
        """acceptance_length, steps, step_ms, spread_ms and first_token_ms of each stream, always in one order."""
        names = "acceptance_length, steps, step_ms, spread_ms, first_token_ms"
        with closing(self._db.cursor()) as cursor:
            yield from cursor.execute(f"SELECT {names} FROM stream WHERE key = ? ORDER BY mark, stream", (_text(key),))

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Of every stream: its file, its group and its figures, and whether it is in the sample of the group."""
        names = ", ".join(f"stream.{name}" for name in (*COLUMNS, *EACH))
        with closing(self._db.cursor()) as cursor:
            for file, key, drawn, *rest in cursor.execute(
                f"SELECT done.file, stream.key, drawn.mark IS NOT NULL, {names} FROM stream JOIN done USING (unit) "
                "LEFT JOIN drawn ON drawn.key = stream.key AND drawn.mark = stream.mark AND drawn.unit = stream.unit "
                "ORDER BY stream.key, done.file, stream.unit, stream.rowid"
            ):
                yield file, _key(key), bool(drawn), *rest


def _text(key: Key) -> str:
    return msgspec.json.encode(list(key)).decode()


def _key(text: str) -> Key:
    return tuple(msgspec.json.decode(text))
