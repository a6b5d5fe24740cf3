"""Finished work on disk: one small file a task, named by what its result depends on, whole or not there."""

from __future__ import annotations

import contextlib
import json
import math
import os
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from ..errors import InputError
from .cells import QUANTITIES, Task
from .methods import Measured

SCHEMA: Final = "specsonar.sweep-cell/1"


class Store:
    """A folder of results. Several sweeps may use it, at the same time, too.

    Attributes
    ----------
    damaged : files that could not be read, or hold something else than their name says; they are computed again.

    Raises
    ------
    InputError : the folder cannot be made.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.damaged: list[str] = []
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"cannot make {str(folder)!r}: {error.strerror or error}", "choose another DIR") from error

    def path(self, task: Task) -> Path:
        """Where the result of a task is, or would be; two letters of its name keep folders small."""
        return self._folder / task.key[:2] / f"{task.key}.json"

    def load(self, task: Task) -> list[Measured] | None:
        """The result of a task; None where there is none yet, where it failed, and where its file is damaged."""
        path = self.path(task)
        try:
            text = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise InputError(f"cannot read {str(path)!r}: {error.strerror or error}", "mend it or remove it") from error
        try:
            record = json.loads(text)
            if record["schema"] != SCHEMA or record["task"] != json.loads(json.dumps(task.content())):
                raise ValueError("of another task")
            if record["error"] is not None:
                return None
            found = [_measured(plain) for plain in record["results"]]
            if len(found) != task.count:
                raise ValueError("not complete")
        except (ValueError, KeyError, TypeError, AttributeError):
            self.damaged.append(str(path))
            return None
        return found

    def save(self, task: Task, results: list[Measured]) -> None:
        """Keep the result of a task."""
        self._write(task, {"results": [_plain(m) for m in results], "error": None})

    def save_failure(self, task: Task, error: str, detail: str) -> None:
        """Keep why a task failed; the next sweep tries it again."""
        self._write(task, {"results": None, "error": error, "detail": detail})

    def _write(self, task: Task, outcome: dict[str, Any]) -> None:
        path = self.path(task)
        text = json.dumps({"schema": SCHEMA, "task": task.content(), **outcome}, allow_nan=False, indent=1)
        try:
            path.parent.mkdir(exist_ok=True)
            handle, name = tempfile.mkstemp(prefix=".", dir=path.parent)
            try:
                with os.fdopen(handle, "w", encoding="utf-8") as file:
                    file.write(text)
                os.replace(name, path)
            except BaseException:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(name)
                raise
        except OSError as error:
            raise InputError(f"cannot write {str(path)!r}: {error.strerror or error}", "make room for it") from error


def _plain(measured: Measured) -> dict[str, Any]:
    """JSON has no nan: what was not given is null."""
    return {k: None if isinstance(v, float) and math.isnan(v) else v for k, v in asdict(measured).items()}


def _measured(plain: dict[str, Any]) -> Measured:
    numbers = {name: math.nan if plain[name] is None else float(plain[name]) for name in (*QUANTITIES, "seconds")}
    intervals = {str(name): (float(low), None if high is None else float(high))
                 for name, (low, high) in plain["intervals"].items()}  # fmt: skip
    return Measured(
        plain["verdict"], intervals=intervals, sizes=tuple(map(float, plain["sizes"])), refused=plain["refused"],
        **numbers,
    )  # fmt: skip
