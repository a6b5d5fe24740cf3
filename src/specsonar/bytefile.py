"""Bytes of an input file: opened, hashed, decompressed and cut into whole lines, in bounded memory.

Nothing here knows what the bytes mean. An archive that breaks off gives what it held up to there and says so;
an archive that unpacks to absurd amounts, or a line without end, stops the reading before the memory is gone.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import tempfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import BinaryIO, Final, Self

import zstandard

from .errors import FormatError, InputError, LimitError

BLOCK: Final = 1 << 20
"""Bytes that are read or unpacked at a time."""

HEAD: Final = 1 << 16
"""Bytes that a format is recognised from."""

BOM: Final = b"\xef\xbb\xbf"
"""What some editors put before UTF-8 text; it is left out, and no binary format begins like it."""

GZIP_MAGIC: Final = b"\x1f\x8b"
ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"

# Four bytes of a hostile zstd archive can hold 128 KiB, so it is fed in pieces that stay small when unpacked.
_ZSTD_PIECE: Final = 1 << 10
_ZSTD_READ: Final = 1 << 16
_ZSTD_WINDOW: Final = 1 << 27


@dataclass(frozen=True, slots=True)
class Limits:
    """What protects the reader's memory.

    Attributes
    ----------
    line : longest line, bytes.
    size : most bytes that an archive may unpack to.
    ratio : most unpacked bytes for each packed byte, looked at once `grace` bytes were unpacked. Recordings
        reach 30, a bomb 1,000 and more.
    """

    line: int = 8 << 20
    size: int = 16 << 30
    ratio: int = 200
    grace: int = 8 << 20


class ByteFile:
    """One input, read once from begin to end.

    Parameters
    ----------
    path : a file, "-" for standard input, or an open binary file.

    Attributes
    ----------
    name : file name without its folder, for messages and provenance.
    path : the file as it was named, or None for standard input and open files.
    broken : why an archive ended early, or "" when it did not (known once everything was read).
    open_end : the last line had no newline (known once everything was read).

    Raises
    ------
    InputError : the file is not there, is a folder, or may not be read.
    """

    def __init__(self, path: str | os.PathLike[str] | BinaryIO, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self.broken = ""
        self.open_end = False
        self._hash = hashlib.sha256()
        self._packed = 0
        self._unpacked = 0
        self._own = False
        self.path: str | None = None
        if isinstance(path, (str, os.PathLike)):
            self.name = os.path.basename(os.fspath(path)) or os.fspath(path)
            self._raw: BinaryIO
            if os.fspath(path) == "-":
                self.name, self._raw = "stdin", sys.stdin.buffer
            else:
                self._raw, self._own, self.path = _open(path), True, os.fspath(path)
        else:
            self.name, self._raw = os.path.basename(str(getattr(path, "name", "input"))), path
        self._plain = self._marked()
        self._head: list[bytes] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self._own:
            self._raw.close()

    def head(self, size: int = HEAD) -> bytes:
        """The first `size` unpacked bytes, or all when there are fewer; they are not used up.

        Raises
        ------
        InputError : reading failed. LimitError : an archive unpacks to too much.
        """
        while sum(map(len, self._head)) < size and (block := next(self._plain, b"")):
            self._head.append(block)
        return b"".join(self._head)[:size]

    def blocks(self, longest: int | None = None) -> Iterator[bytes]:
        """Whole lines, about `BLOCK` bytes at a time; only the very last line may lack its newline.

        A line of more than `longest` bytes, by default `limits.line`, is refused.

        Raises
        ------
        InputError : reading failed. LimitError : a line is too long, or an archive unpacks to too much.
        """
        rest, lines = b"", 0
        allowed = longest or self.limits.line
        while block := self._next():
            cut = block.rfind(b"\n") + 1
            if cut:
                whole, rest = rest + block[:cut], block[cut:]
                lines += whole.count(b"\n")
                yield whole
            else:
                rest += block
            if len(rest) > allowed:
                raise LimitError(
                    f"line {lines + 1} of {self.name} is longer than {allowed >> 20} MiB",
                    "this is not a recording with one event per line",
                )
        if rest:
            self.open_end = True
            yield rest

    def pieces(self) -> Iterator[bytes]:
        """All unpacked bytes, cut anywhere.

        Raises
        ------
        InputError : reading failed. LimitError : an archive unpacks to too much.
        """
        while piece := self._next():
            yield piece

    @contextlib.contextmanager
    def on_disk(self) -> Iterator[str]:
        """The path of an unpacked copy, for readers that need to jump about; it is removed at the end.

        Raises
        ------
        InputError : reading or writing failed. LimitError : an archive unpacks to too much.
        """
        with tempfile.TemporaryDirectory(prefix="specsonar.") as folder:
            path = os.path.join(folder, "copy")
            try:
                with open(path, "wb") as copy:
                    copy.writelines(self.pieces())
            except OSError as error:
                raise InputError(f"cannot copy {self.name}: {error.strerror or error}") from error
            yield path

    def sha256(self) -> str:
        """Hexadecimal hash of the file as it is stored; reads what is left of it."""
        while self._read(BLOCK):
            pass
        return self._hash.hexdigest()

    def _next(self) -> bytes:
        return self._head.pop(0) if self._head else next(self._plain, b"")

    def _read(self, size: int) -> bytes:
        try:
            data = self._raw.read(size)
        except OSError as error:
            raise InputError(f"cannot read {self.name}: {error.strerror or error}") from error
        self._hash.update(data)
        return data

    def _marked(self) -> Iterator[bytes]:
        pieces = self._unpack()
        yield from (piece for piece in (next(pieces, b"").removeprefix(BOM),) if piece)
        yield from pieces

    def _unpack(self) -> Iterator[bytes]:
        first = self._read(BLOCK)
        if first.startswith(GZIP_MAGIC):
            pieces = self._gunzip(first)
        elif first.startswith(ZSTD_MAGIC):
            pieces = self._unzstd(first)
        else:
            while first:
                yield first
                first = self._read(BLOCK)
            return
        for piece in pieces:
            self._unpacked += len(piece)
            self._check()
            if piece:
                yield piece
        if self._unpacked == 0 and self.broken:
            raise InputError(
                f"{self.name} is {self.broken} before its first byte of content", "copy or record it again"
            )

    def _check(self) -> None:
        allowed, n = self.limits, self._unpacked
        if n > allowed.size or (n > allowed.grace and n > allowed.ratio * self._packed):
            raise LimitError(
                f"{self.name} unpacks to more than {n >> 20} MiB from {max(1, self._packed >> 10)} KiB",
                "if this archive is no accident, unpack it first",
            )

    def _gunzip(self, data: bytes) -> Iterator[bytes]:
        while True:
            unpacker = zlib.decompressobj(wbits=31)
            while not unpacker.eof:
                if not data and not (data := self._read(BLOCK)):
                    self.broken = "a truncated archive"
                    return
                try:
                    piece = unpacker.decompress(data, BLOCK)
                except zlib.error:
                    self.broken = "a damaged archive"
                    return
                self._packed += len(data) - len(unpacker.unconsumed_tail) - len(unpacker.unused_data)
                data = unpacker.unconsumed_tail
                yield piece
            data = unpacker.unused_data.lstrip(b"\0") or self._read(BLOCK).lstrip(b"\0")
            if not data:
                return

    def _unzstd(self, data: bytes) -> Iterator[bytes]:
        context = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW)
        while True:
            unpacker = context.decompressobj()
            while not unpacker.eof:
                if not data and not (data := self._read(_ZSTD_READ)):
                    self.broken = "a truncated archive"
                    return
                piece, data = data[:_ZSTD_PIECE], data[_ZSTD_PIECE:]
                self._packed += len(piece)
                try:
                    yield unpacker.decompress(piece)
                except zstandard.ZstdError:
                    self.broken = "a damaged archive"
                    return
            data = unpacker.unused_data + data or self._read(_ZSTD_READ)
            if not data:
                return


def _open(path: str | os.PathLike[str]) -> BinaryIO:
    shown = os.fspath(path)
    try:
        return open(path, "rb", buffering=0)
    except FileNotFoundError:
        raise InputError(f"no such file: {shown}", "check the name and the folder") from None
    except IsADirectoryError:
        raise InputError(f"{shown} is a directory", "name the files in it") from None
    except PermissionError:
        raise InputError(f"no permission to read {shown}", "check who owns the file") from None
    except (OSError, ValueError) as error:
        raise InputError(f"cannot open {shown!r}: {error}") from None


SAVE_AS_UTF8: Final = "save it as UTF-8; in PowerShell, write it with `| Set-Content -Encoding utf8 FILE`"


def check_text(head: bytes, name: str) -> None:
    """Refuse what cannot be a text recording, by its first bytes.

    Raises
    ------
    InputError : the file is empty. FormatError : it is not UTF-8 text.
    """
    if not head:
        raise InputError(f"{name} is empty", "record again; nothing was written")
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise FormatError(f"{name} is UTF-16 text", SAVE_AS_UTF8)
    if b"\0" in head:
        raise FormatError(f"{name} is a binary file{_binary_kind(head)}", "a text recording is needed")
    try:
        head.decode()
    except UnicodeDecodeError as error:
        if error.start < len(head) - 4:  # a character cut by the end of the head is none of our business
            raise FormatError(f"{name} is not UTF-8 text{_binary_kind(head)}", "a text recording is needed") from None


_KINDS: Final = (
    (b"SQLite format 3", "an SQLite database"),
    (b"PK\x03\x04", "a zip archive"), (b"PAR1", "a Parquet table"), (b"%PDF", "a PDF document"),
    (b"\x89PNG", "a PNG image"), (b"BZh", "a bzip2 archive"), (b"\xfd7zXZ", "an xz archive"),
    (GZIP_MAGIC, "an archive inside an archive"), (ZSTD_MAGIC, "an archive inside an archive"),
)  # fmt: skip


def _binary_kind(head: bytes) -> str:
    return next((f" ({kind})" for magic, kind in _KINDS if head.startswith(magic)), "")
