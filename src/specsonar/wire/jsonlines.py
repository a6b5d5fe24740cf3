"""JSON values one after the other: a line each, or found by their brackets."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from .framing import Event
from .limits import Limits, too_much
from .values import payload

_SPACE: Final = b" \t\r\x1e"  # the last one begins a record of application/json-seq
_OUTSIDE: Final = re.compile(rb'["{}\[\]]')
_INSIDE: Final = re.compile(rb'["\\]')


class Lines:
    """Newline-delimited JSON: bytes in, (value, bytes) of each line out. A broken line costs that line only."""

    def __init__(self, limits: Limits) -> None:
        self._limit = limits.event_bytes
        self._part = bytearray()

    def feed(self, data: bytes) -> Iterator[Event]:
        """Values that `data` completes."""
        *lines, rest = data.split(b"\n")
        if lines and self._part:
            lines[0] = bytes(self._part) + lines[0]
            self._part.clear()
        for line in lines:
            if text := line.strip(_SPACE):
                yield Event(payload(text), len(text))
        if len(self._part) + len(rest) > self._limit:
            raise too_much("a line of JSON", self._limit)
        self._part += rest

    def end(self) -> Iterator[Event]:
        """The last line, where it has no end."""
        yield from self.feed(b"\n")


class Values:
    """JSON objects found by their brackets: concatenated, over several lines, or the elements of one growing array.

    Bytes in, (value, bytes) of each object out.
    """

    def __init__(self, limits: Limits) -> None:
        self._limit = limits.event_bytes
        self._part = bytearray()
        self._depth = 0
        self._outer = 0  # depth at which objects are values: 1 inside an array
        self.is_array = False
        self._in_string = False
        self._escaped = False

    def feed(self, data: bytes) -> Iterator[Event]:
        """Objects that `data` completes."""
        at = 0
        begin = 0 if self._depth > self._outer else -1
        if self._escaped and data:
            at, self._escaped = 1, False
        while found := (_INSIDE if self._in_string else _OUTSIDE).search(data, at):
            mark, at = found[0], found.end()
            if mark == b'"':
                self._in_string = not self._in_string
            elif mark == b"\\":
                self._escaped = at == len(data)
                at += 1
            elif mark in b"{[":
                if self._depth == 0:
                    self.is_array = mark == b"["
                    self._outer = int(self.is_array)
                if self._depth == self._outer:
                    begin = at - 1
                self._depth += 1
            else:
                self._depth = max(0, self._depth - 1)
                if self._depth == self._outer and begin >= 0:
                    text = bytes(self._part) + data[begin:at] if self._part else data[begin:at]
                    self._part.clear()
                    begin = -1
                    if text.startswith(b"{"):
                        yield Event(payload(text), len(text))
        if begin >= 0:
            if len(self._part) + len(data) - begin > self._limit:
                raise too_much("a JSON value", self._limit)
            self._part += data[begin:]

    def end(self) -> Iterator[Event]:
        """Nothing: an object without its last bracket is no value."""
        yield from ()
