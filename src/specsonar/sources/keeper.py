"""Answers into a trace while they run, so that whatever happens, what was received is kept.

A `Tap` is given the bytes of one connection and their times. It decodes them and writes every event at once, with the
count that is known at that moment. When an answer is complete its `end` line corrects the counts. Nothing here owns a
clock, a socket or a thread: one thread at a time feeds a `Keeper`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Final, Protocol, Self

from ..errors import SpecsonarError
from ..findings import finding
from ..fingerprint import Finding
from ..trace import NOT_SAID, Stream, Trace
from ..tracefile import Writer
from ..wire.answer import Answer
from ..wire.connection import Connection

MOST_FINDINGS: Final = 100
"""Findings that are kept in memory; a service that fails all day must not fill it."""


class Decoder(Protocol):
    """What a Tap needs to know of a connection: bytes and times in, answers out (`wire.connection.Connection`)."""

    answers: list[Answer]
    findings: list[Finding]

    def sent(self, t_ns: int, data: bytes) -> None:
        """Bytes to the server."""

    def received(self, t_ns: int, data: bytes, read: int | None = None) -> None:
        """Bytes of one read from the server."""

    def closed(self, t_ns: int) -> None:
        """The connection has ended."""


@dataclass(slots=True)
class _File:
    """Where answers are written, until an error or the end of the recording, and how many are running there."""

    writer: Writer | None
    running: int = 0


@dataclass(slots=True)
class _Lines:
    """One stream of the file: its number there, and the counts of its events as they were written."""

    number: int = 0
    tokens: list[int] = field(default_factory=list)


@dataclass(slots=True)
class _Running:
    """An answer that has not ended, what it is called, and its lines in the file by choice."""

    answer: Answer
    name: str
    meta: Mapping[str, Any]
    file: _File | None = None
    lines: dict[int, _Lines] = field(default_factory=dict)

    def streams(self) -> tuple[dict[int, Stream], list[Finding]]:
        """The streams by choice, as far as they came, and what was noticed."""
        made, found = self.answer.streams(self.name)
        made = [replace(one, meta={**self.meta, **one.meta}) for one in made]
        if len(made) == 1:
            return {next(iter(self.lines), 0): made[0]}, found
        return {int(one.name.rpartition("#")[2]): one for one in made}, found


class Keeper:
    """Keeps the answers of many connections, in a file and in memory.

    Parameters
    ----------
    writer : the file, which `close` closes; None to keep in memory only.
    keep : whether answers that have ended stay in memory for `trace`. Leave it out for recordings without end.
    questions : for each question, as `wire.request.question` makes it, the name by which its answers are to be known.

    Attributes
    ----------
    streams, events : how many of each were recorded so far.
    findings : what was noticed, at most `MOST_FINDINGS` of it.
    meta : what holds for all streams and became known on the way.

    Use it in a `with` block. When the block ends with an error the file is not called complete.

    Raises
    ------
    InputError, BrokenPipeError : from everything that writes, once: the file takes nothing more, and what it has stays.
        After that the recording goes on in memory.
    """

    def __init__(
        self, writer: Writer | None = None, *, keep: bool = True, questions: Mapping[bytes, str] | None = None
    ) -> None:
        self.streams = 0
        self.events = 0
        self.findings: list[Finding] = []
        self.meta: dict[str, Any] = {}
        self._keep = keep
        self._questions = questions or {}
        self._file = _File(writer)
        self._retired: list[_File] = []
        self._for_close: list[Finding] = []
        self._taps: dict[Tap, None] = {}
        self._ended: list[Stream] = []

    def tap(self, name: str, meta: Mapping[str, Any] | None = None, decoder: Decoder | None = None) -> Tap:
        """A place for the bytes of one connection.

        Parameters
        ----------
        name : label of its streams; those of its second answer are called `name:2`.
        meta : what is known of it; goes to each of its streams.
        decoder : how its bytes are read; None for what TCP carries (after TLS), in any HTTP version.
        """
        tap = Tap(self, name, dict(meta or {}), decoder or Connection())
        self._taps[tap] = None
        return tap

    def known_of(self, answer: Answer) -> Mapping[str, Any]:
        """What goes to the streams of an answer besides what it says itself."""
        name = self._questions.get(answer.question)
        return {} if name is None else {"question": name}

    def switch(self, writer: Writer) -> None:
        """Answers that begin from now on go to `writer`; the file before is closed when its last answer has ended."""
        self._retired.append(self._file)
        self._file = _File(writer)
        self._close_retired()

    def trace(self) -> Trace:
        """What was recorded so far and is still kept, with the answers that are running as far as they came."""
        running = [one for tap in self._taps for answer in tap.running for one in answer.streams()[0].values()]
        return Trace((*self._ended, *(one for one in running if len(one))), dict(self.meta), tuple(self.findings))

    def close(self, *, complete: bool = True) -> None:
        """End what is running and close the file; it says that it is whole when the recording is `complete`."""
        for tap in list(self._taps):
            tap.release()
        self._close_retired()
        if writer := self._file.writer:
            self._file.writer = None
            writer.close(complete=complete, findings=self._for_close, meta=self.meta or None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close(complete=kind is None)

    def note(self, found: Iterable[Finding], *, written: bool = False) -> None:
        """Keep what was noticed; it goes to the end of the file unless it is `written` there already."""
        new = [f for f in found if f not in self.findings][: MOST_FINDINGS - len(self.findings)]
        self.findings += new
        self._for_close += [] if written else new

    def write(self, running: _Running) -> None:
        """Write the events that are new in an answer."""
        for event in running.answer.fresh():
            self.events += 1
            if event.choice not in running.lines:
                self._open(running, event.choice)
            lines = running.lines[event.choice]
            lines.tokens.append(event.tokens)
            with self._writing(running.file) as writer:
                if writer:
                    writer.event(lines.number, event.t_ns, event.tokens, event.read, event.size)

    def end(self, running: _Running) -> None:
        """Write what is known of an answer at its end."""
        self.write(running)
        made, found = running.streams()
        if self._keep:
            self._ended += [one for one in made.values() if len(one)]
        self.note(found, written=running.file is not None)
        for choice in running.lines:
            self._end_line(running, choice, made[choice], found)
            found = []
        if running.file:
            running.file.running -= 1
        self._close_retired()

    def _open(self, running: _Running, choice: int) -> None:
        if running.file is None:
            running.file = self._file
            running.file.running += 1
        running.lines[choice] = lines = _Lines()
        self.streams += 1
        known = running.streams()[0][choice]
        with self._writing(running.file) as writer:
            if writer:
                lines.number = writer.stream(
                    f"{running.name}#{choice}" if choice else running.name,
                    start_ns=known.start_ns,
                    count_source=NOT_SAID if known.count_source == NOT_SAID else None,
                    meta=known.meta,
                )

    def _end_line(self, running: _Running, choice: int, one: Stream, found: list[Finding]) -> None:
        lines, settled = running.lines[choice], running.answer.settled(choice)
        with self._writing(running.file) as writer:
            if writer:
                writer.end(
                    lines.number,
                    total_tokens=one.total_tokens,
                    count_source=one.count_source,
                    server_report=one.server_report,
                    meta=one.meta,
                    tokens=None if settled == lines.tokens else settled,
                    findings=found,
                )

    @contextlib.contextmanager
    def _writing(self, file: _File | None) -> Iterator[Writer | None]:
        """The writer of `file`, or None. At its first error it is given up: half a line must stay the last one."""
        writer = file.writer if file else None
        try:
            yield writer
        except (SpecsonarError, OSError):
            if file and writer:
                file.writer = None
                with contextlib.suppress(SpecsonarError, OSError):
                    writer.close(complete=False)
            raise

    def _close_retired(self) -> None:
        for file in [one for one in self._retired if not one.running]:
            self._retired.remove(file)
            with self._writing(file) as writer:
                if writer:
                    writer.close()


class Tap:
    """The bytes of one connection. Made by `Keeper.tap`.

    Attributes
    ----------
    running : its answers that have not ended; those that have are let go of.
    """

    def __init__(self, keeper: Keeper, name: str, meta: dict[str, Any], decoder: Decoder) -> None:
        self.name = name
        self.meta = meta
        self.running: list[_Running] = []
        self._keeper = keeper
        self._decoder: Decoder | None = decoder
        self._answers = 0
        self._noted = 0

    def sent(self, t_ns: int, data: bytes) -> None:
        """Bytes to the server; `t_ns` nanoseconds of the one clock of the recording."""
        if self._decoder:
            with self._limited():
                self._decoder.sent(t_ns, data)
            self._collect()

    def received(self, t_ns: int, data: bytes, read: int | None = None) -> None:
        """Bytes of one read from the server; `read` is its index, counted up when None."""
        if self._decoder:
            with self._limited():
                self._decoder.received(t_ns, data, read)
            self._collect()

    def closed(self, t_ns: int) -> None:
        """The connection has ended, and with it every answer on it."""
        if self._decoder:
            with self._limited():
                self._decoder.closed(t_ns)
        self.release()

    def release(self) -> None:
        """Write the end of every answer as far as it came; whatever comes after is not looked at."""
        self._collect(last=True)
        self._decoder = None
        self._keeper._taps.pop(self, None)

    @contextlib.contextmanager
    def _limited(self) -> Iterator[None]:
        """What a limit of the decoder stops is the recording of one connection, not of the others."""
        try:
            yield
        except SpecsonarError as error:
            self._keeper.note([finding("I008", f"{self.name}: {error.message}")])
            self.release()

    def _collect(self, last: bool = False) -> None:
        decoder = self._decoder
        if not decoder:
            return
        known = [one.answer for one in self.running]
        for answer in [a for a in decoder.answers if not any(a is k for k in known)]:
            self._answers += 1
            name = self.name if self._answers == 1 else f"{self.name}:{self._answers}"
            self.running.append(_Running(answer, name, {**self.meta, **self._keeper.known_of(answer)}))
        for one in list(self.running):
            if last or one.answer.ended:
                self.running.remove(one)
                decoder.answers.remove(one.answer)
                self._keeper.end(one)
            else:
                self._keeper.write(one)
        self._keeper.note(decoder.findings[self._noted :])
        self._noted = len(decoder.findings)
