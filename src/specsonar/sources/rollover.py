"""The files of a recording that may grow for days: one after the other, each of about the same size."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ..errors import InputError, UsageError
from ..tracefile import Writer
from .keeper import Keeper

_SUFFIXES: Final = (".jsonl", ".json", ".gz", ".zst")


def unix_offset_ns() -> int:
    """What has to be added to the times of a recording that begins now to make them Unix time, nanoseconds.

    Kept in the meta of the file, it tells the day; the times themselves stay on a clock that nobody can set.
    """
    return time.time_ns() - time.perf_counter_ns()


class Rollover:
    """Opens the files of one recording.

    Parameters
    ----------
    target : a file, or a directory, where the file is named after `kind` and the time. What a plain file holds
        already stays; the recording is added to it.
    kind : word for the file name.
    rotate : bytes after which the next file is begun; None for never. Answers that are running stay in their file, so
        a file may become longer by what they bring.
    meta : goes into every file, beside the offset of the clock.

    Attributes
    ----------
    paths : the files so far.

    Raises
    ------
    InputError : a file cannot be written. UsageError : a packed file that exists.
    """

    def __init__(
        self, target: Path, kind: str, *, rotate: int | None = None, meta: Mapping[str, Any] | None = None
    ) -> None:
        if target.is_dir():
            target = target / time.strftime(f"specsonar-{kind}-%Y%m%d-%H%M%S.jsonl")
        self._first, self._rotate, self._meta = target, rotate, dict(meta or {})
        self.paths: list[Path] = []

    def open(self) -> Writer:
        """A writer for the next file."""
        path = self._first if not self.paths else self._numbered(len(self.paths) + 1)
        packed = path.suffix in (".gz", ".zst")
        if packed and path.exists():
            raise UsageError(f"{path} exists, and nothing can be added to a packed file", "choose another -o FILE")
        writer = Writer(path, append=not packed, meta={**self._meta, "unix_offset_ns": unix_offset_ns()})
        self.paths.append(path)
        return writer

    def turn(self, keeper: Keeper) -> None:
        """Let `keeper` go on in a new file when the one it writes is full."""
        if self._rotate is None or not self.paths:
            return
        try:
            size = os.path.getsize(self.paths[-1])
        except OSError as error:
            raise InputError(f"the recording {self.paths[-1]} is gone: {error.strerror}") from None
        if size >= self._rotate:
            keeper.switch(self.open())

    def _numbered(self, number: int) -> Path:
        """recording.jsonl.gz, recording.2.jsonl.gz, ..."""
        name, suffixes = self._first.name, ""
        while (suffix := Path(name).suffix) in _SUFFIXES:
            name, suffixes = name[: -len(suffix)], suffix + suffixes
        return self._first.with_name(f"{name}.{number}{suffixes}")
