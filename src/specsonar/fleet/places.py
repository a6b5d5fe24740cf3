"""Where the files of a fleet lie: directories, globs, and whatever fsspec can open."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, BinaryIO, Final

from ..errors import InputError, SpecsonarError, UsageError
from ..extras import need_fleet

_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://|[a-z]+::")
_MAGIC: Final = re.compile(r"[*?[]")
_SECRET: Final = re.compile(r"(?<=://)[^/@\s]*@|(?<=[?&])[^=&\s]+=[^&:\s]*")
_STAMPS: Final = ("ETag", "etag", "mtime", "LastModified", "last_modified", "updated", "created", "date_time", "CRC")


@dataclass(frozen=True, slots=True)
class Place:
    """One file.

    Attributes
    ----------
    name : for people and for the sample, without the folder that was asked for.
    path : of a local file, or inside the file system of `url`.
    url : as the user wrote it, which says how to open `path`; None for a local file.
    size : bytes; 0 where it is not known.
    stamp : changes when the file does.
    """

    name: str
    path: str
    url: str | None = None
    size: int = 0
    stamp: str = ""

    def open(self) -> str | BinaryIO:
        """The path of a local file, or an open file that lies elsewhere; close what is not a path.

        Raises
        ------
        InputError : it cannot be opened.
        """
        if self.url is None:
            return self.path
        try:
            file: BinaryIO = _file_system(self.url)[0].open(self.path, "rb")
        except Exception as error:  # a file system of anybody's making raises anything
            raise InputError(f"cannot open {self.name}: {plain(error)}") from None
        return file


def is_url(source: str) -> bool:
    """Whether fsspec has to open it."""
    return bool(_URL.match(source))


def only_here(sources: Sequence[str]) -> bool:
    """Whether no other process can see some of the files."""
    return any(part.startswith("memory:") for source in sources for part in source.split("::"))


def shown(text: str) -> str:
    """`text` without passwords and tokens of the addresses in it.

    >>> shown("s3://me:secret@bucket/day.parquet?sig=abc")
    's3://bucket/day.parquet?'
    """
    return _SECRET.sub("", text)


def plain(error: BaseException) -> str:
    """One line that says what went wrong, without passwords."""
    text = " ".join(str(error).split())[:200]
    return shown(text) or type(error).__name__


def listed(sources: Sequence[str], *, but: str | None = None) -> list[Place]:
    """Every file of `sources`, in the order of their names, each once.

    Parameters
    ----------
    sources : files, directories (everything below), globs ("**" goes through directories) and URLs of fsspec.
    but : a directory to leave out: what an earlier run wrote.

    Raises
    ------
    InputError : nothing is there, or it cannot be listed. UsageError : no source at all.
    """
    if not sources:
        raise UsageError("no files were named", "give a directory, a glob in quotation marks, or a URL")
    found: dict[tuple[str | None, str], Place] = {}
    for source in sources:
        places = _remote(source) if is_url(source) else _local(source, but)
        if not places:
            raise InputError(f"no files at {shown(source)}", "check the name; put a glob in quotation marks")
        found.update(((place.url, place.path), place) for place in places)
    return sorted(found.values(), key=lambda place: (place.name, place.path))


def _local(source: str, but: str | None) -> list[Place]:
    if os.path.isdir(source):
        root = source
        paths = [path for path in _below(source) if but is None or not _inside(path, but)]
    elif os.path.exists(source):
        root, paths = os.path.dirname(source), [source]
    elif _MAGIC.search(source):
        root = re.split(_MAGIC, source)[0].rpartition("/")[0]
        paths = [p for p in glob.glob(source, recursive=True) if os.path.isfile(p) and not (but and _inside(p, but))]
    else:
        raise InputError(f"no such file: {source}", "check the name and the folder")
    return [_stat(path, root) for path in paths]


def _below(folder: str) -> Iterator[str]:
    for where, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (os.path.join(where, name) for name in sorted(names) if not name.startswith("."))


def _inside(path: str, folder: str) -> bool:
    return os.path.realpath(path).startswith(os.path.join(os.path.realpath(folder), ""))


def _stat(path: str, root: str) -> Place:
    try:
        known = os.stat(path)
    except OSError:  # a dangling link is told of when it is opened
        return Place(os.path.relpath(path, root or "."), path)
    return Place(os.path.relpath(path, root or "."), path, None, known.st_size, str(known.st_mtime_ns))


@cache  # one that nobody holds closes the archive that its files lie in
def _file_system(url: str) -> tuple[Any, str]:
    need_fleet("fsspec", "files at a URL need")
    import fsspec.core

    system, path = fsspec.core.url_to_fs(url)
    return system, path


def _remote(url: str) -> list[Place]:
    try:
        system, path = _file_system(url)
        if _MAGIC.search(path):
            root, known = re.split(_MAGIC, path)[0].rpartition("/")[0], system.glob(path, detail=True)
        elif system.isdir(path):
            root, known = path, system.find(path, detail=True)
        else:
            root, known = path.rpartition("/")[0], {path: system.info(path)}
    except SpecsonarError:
        raise
    except Exception as error:  # the same
        raise InputError(f"cannot list {shown(url)}: {plain(error)}", "check the address and who may read it") from None
    return [
        Place(
            p.removeprefix(root).strip("/") or p, p, url, int(about.get("size") or 0),
            "|".join(str(about[key]) for key in _STAMPS if key in about),
        )
        for p, about in known.items() if about.get("type") != "directory"
    ]  # fmt: skip
