"""Chosen parts of large JSON, in the memory of one part.

A benchmark file may be one object of a gigabyte. `Parts` walks over its bytes, hands out the raw text of the values
that a reader wants, and steps over the others without decoding them. Several values may follow each other in one
file (JSON lines, or objects that were appended) or stand in one list. What stands before a cut or a defect is handed
out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from ..bytefile import ByteFile
from ..errors import LimitError

EACH: Final = "*"
"""In a path: every element of an array."""

Path = tuple[str, ...]

_LARGEST: Final = 64 << 20

_SPACE: Final = re.compile(rb"[ \t\r\n]*+")
_BRACKET: Final = re.compile(rb'[\[\]{}"]')
_INSIDE_STRING: Final = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)
_SCALAR: Final = re.compile(rb"[^,\]}\[{\":\s]*+")

# Python's own json writes these words for numbers that JSON does not have.
_NO_NUMBER: Final = re.compile(rb"(?:(?<=[\s:,\[])|\A)(?:-?Infinity|NaN)(?=[\s,\]}]|\Z)")


class _End(Exception):
    """The file ended inside a value."""


class _Defect(Exception):
    """The text is not JSON."""


class Parts:
    """Iterates over (document number from 0, path, raw bytes) for the values at the wanted paths.

    Parameters
    ----------
    source : the file.
    wanted : paths from the root of a document; `EACH` stands for every element of an array. `()` is the document,
        and a list at the root is a list of documents.
        No wanted path may lie inside another one.

    Attributes
    ----------
    documents : how many values the file holds, also those that begin and do not end.
    cut : the file ended inside a value (known at the end).
    defect : at which byte the text stopped to be JSON, or None (known at the end).

    Raises
    ------
    LimitError : a wanted value is larger than 64 MiB.
    """

    def __init__(self, source: ByteFile, wanted: Iterable[Path]) -> None:
        self.documents = 0
        self.cut = False
        self.defect: int | None = None
        self._name = source.name
        self._pieces = source.pieces()
        self._wanted = frozenset(wanted)
        self._inner = frozenset(path[:n] for path in self._wanted for n in range(len(path)))
        self._text = next(self._pieces, b"")
        self._at = 0
        self._before = 0

    def __iter__(self) -> Iterator[tuple[int, Path, bytes]]:
        try:
            while self._more():
                for _ in self._items(b"]") if self._peek() == b"[" else ("",):
                    self.documents += 1
                    for path, raw in self._value(()):
                        yield self.documents - 1, path, raw
        except _End:
            self.cut = True
        except _Defect:
            self.defect = self._before + self._at

    def _value(self, path: Path) -> Iterator[tuple[Path, bytes]]:
        begin = self._peek()
        if path in self._wanted:
            raw = self._take()
            yield path, _NO_NUMBER.sub(b"null", raw) if b"NaN" in raw or b"Infinity" in raw else raw
        elif path not in self._inner or begin not in b"[{":
            self._step_over(keep=False)
        elif begin == b"{":
            for key in self._items(b"}"):
                yield from self._value((*path, key))
        else:
            for _ in self._items(b"]"):
                yield from self._value((*path, EACH))

    def _items(self, closing: bytes) -> Iterator[str]:
        """Before each item of an object (its key) or of an array ("")."""
        self._at += 1
        if self._peek() == closing:
            self._at += 1
            return
        while True:
            yield self._key() if closing == b"}" else ""
            mark = self._peek()
            self._at += 1
            if mark == closing:
                return
            if mark != b",":
                self._at -= 1
                raise _Defect

    def _key(self) -> str:
        if self._peek() != b'"':
            raise _Defect
        key = self._take()[1:-1].decode(errors="replace")
        if self._peek() != b":":
            raise _Defect
        self._at += 1
        return key

    def _take(self) -> bytes:
        begin = self._drop()
        self._step_over(keep=True)
        return self._text[begin : self._at]

    def _step_over(self, *, keep: bool) -> None:
        """Go to the end of the value that begins here; with `keep` its text stays in memory."""
        first = self._peek()
        if first not in b'[{"':
            self._scalar(keep)
            return
        depth = 0
        while True:
            found = _BRACKET.search(self._text, self._at)
            if found is None:
                self._at = len(self._text)
                self._refill(keep)
                continue
            self._at = found.end()
            mark = found.group()
            if mark == b'"':
                self._string(keep)
            else:
                depth += 1 if mark in b"[{" else -1
            if depth == 0:
                return

    def _string(self, keep: bool) -> None:
        """From behind the opening quote to behind the closing one."""
        while True:
            found = _INSIDE_STRING.match(self._text, self._at)
            assert found is not None  # it matches nothing, too
            self._at = found.end()
            if self._text[self._at : self._at + 1] == b'"':
                self._at += 1
                return
            self._refill(keep)

    def _scalar(self, keep: bool) -> None:
        some = False
        while True:
            found = _SCALAR.match(self._text, self._at)
            assert found is not None
            some = some or found.end() > self._at
            self._at = found.end()
            if self._at < len(self._text) or not self._more_text(keep):
                break
        if not some:
            raise _Defect

    def _more(self) -> bool:
        """Whether anything but white space is left."""
        while True:
            self._at = _end(_SPACE.match(self._text, self._at))
            if self._at < len(self._text):
                return True
            if not self._more_text(keep=False):
                return False

    def _peek(self) -> bytes:
        if not self._text[self._at : self._at + 1].strip() and not self._more():
            raise _End
        return self._text[self._at : self._at + 1]

    def _refill(self, keep: bool) -> None:
        if not self._more_text(keep):
            raise _End

    def _more_text(self, keep: bool) -> bool:
        """Append the next piece; what was read is dropped first, unless it is to be kept."""
        piece = next(self._pieces, b"")
        if not piece:
            return False
        if not keep:
            self._drop()
        self._text += piece
        if len(self._text) > _LARGEST:
            raise LimitError(f"one value in {self._name} is larger than {_LARGEST >> 20} MiB", "split the file")
        return True

    def _drop(self) -> int:
        """Forget the text before here when it has become long; where "here" is now."""
        if self._at == len(self._text) or self._at > 1 << 19:
            self._before += self._at
            self._text = self._text[self._at :]
            self._at = 0
        return self._at


def _end(found: re.Match[bytes] | None) -> int:
    assert found is not None
    return found.end()
