"""specsonar's own trace file: JSON lines that can be written while the stream runs and read up to any cut.

    {"specsonar":"trace","version":2,"meta":{...},"findings":[...]}    header
    {"stream":0,"name":"...","start_ns":...,"meta":{...}}               opens stream 0
    [0,1000,1,0,210]                                                    stream, t_ns, tokens, read, size
    {"blind":0,"from_ns":...,"to_ns":...}                               nothing could be received
    {"end":0,"total_tokens":...,"count_source":...,"server_report":...} the answer is complete
    {"truth":0,"value":{...}}                                           from a simulator only
    {"close":{"streams":1,"events":1},"findings":[...],"meta":{...}}    the recording is complete

An event is written when it arrives, before the whole answer has told what it was. So an `end` line may bring `tokens`,
one count for each event of its stream as they stand in the file: it replaces what was written, and 0 means that the
event had no token in it and is left out. It may bring `findings` too.

Streams may be interleaved. Times and ticks are nanoseconds, sizes bytes, a token count of -1 means "not said".
All keys but the first of each line are optional, and unknown keys are ignored. Another recording may follow in the
same file, with a header and stream numbers of its own. A line is either whole or unreadable, never wrong: no prefix
of a line is valid JSON. So a file cut at any byte loads up to the cut, and the missing `close` line tells of it.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Final, Protocol, Self, cast

import msgspec
import numpy as np
import zstandard

from .errors import InputError, UsageError
from .fingerprint import Finding
from .trace import UNKNOWN, Stream, Trace

# Format history, newest first:
#   2  `tokens` of an end line correct the counts; `findings` of end and close lines
#   1  first version
VERSION: Final = 2

Control = dict[str, Any]
UPGRADE: Final[dict[int, Callable[[Control], Control]]] = {1: lambda line: line}
"""For each old version the function that turns one of its control lines into one of the next version."""

_BATCH: Final = 256
"""Lines per write and per compressed block of a finished trace: what a cut archive can lose."""


class _Sink(Protocol):
    def write(self, data: bytes, /) -> Any: ...
    def flush(self) -> Any: ...
    def close(self) -> Any: ...


class _Zstd:
    """A zstd stream whose `flush` ends a block, so that everything before it can be unpacked."""

    def __init__(self, raw: BinaryIO) -> None:
        self._raw = raw
        self._pack = zstandard.ZstdCompressor(level=3).compressobj()

    def write(self, data: bytes, /) -> None:
        self._raw.write(self._pack.compress(data))

    def flush(self) -> None:
        self._raw.write(self._pack.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK))
        self._raw.flush()

    def close(self) -> None:
        self._raw.write(self._pack.flush())
        self._raw.flush()


class Writer:
    """Writes a trace while it is being recorded.

    Parameters
    ----------
    target : a path (`.gz` and `.zst` are packed), or an open binary file, which is left open.
    meta : what holds for all streams; JSON types. NaN and infinities become null.
    findings : what was noticed before.
    append : add a further recording to a plain file that may exist already.
    hide : takes what must not reach the file (a key that a server sent back) out of a line.
    flush_every : events after which everything so far is handed to the operating system. By default 1 for a plain
        file, so that a killed recorder loses nothing, and 256 for a packed one.

    Use it in a `with` block. When the block ends with an error the `close` line is left out, as in a crash.

    Raises
    ------
    InputError : the target cannot be written. UsageError : `append` with a packed file.
    """

    def __init__(
        self,
        target: str | os.PathLike[str] | BinaryIO,
        *,
        meta: Mapping[str, Any] | None = None,
        findings: Iterable[Finding] = (),
        append: bool = False,
        hide: Callable[[bytes], bytes] | None = None,
        flush_every: int | None = None,
    ) -> None:
        self._hide = hide
        suffix = Path(target).suffix if isinstance(target, (str, os.PathLike)) else ""
        packed = suffix in (".gz", ".zst")
        if append and packed:
            raise UsageError("a packed trace cannot be appended to", "record to a plain file and pack it later")
        self._flush_every = flush_every or (_BATCH if packed else 1)
        self._waiting = self._streams = self._events = 0
        self._reads: dict[int, int] = {}
        self._name = str(target) if isinstance(target, (str, os.PathLike)) else "the output"
        self._raw: BinaryIO | None = None
        torn = False
        if isinstance(target, (str, os.PathLike)):
            with self._told():
                self._raw = open(target, "ab+" if append else "wb")  # noqa: SIM115  (closed by close)
                torn = append and _is_torn(self._raw)
            self._sink = _pack(self._raw, suffix)
        else:
            self._sink = target
        notes = {"findings": [f.to_dict() for f in findings]}
        try:
            self._control({"specsonar": "trace", "version": VERSION, "meta": meta, **notes}, before=b"\n" * torn)
            with self._told():
                self._sink.flush()  # so that the file says what it is from its first block on
        except (InputError, OSError):
            with contextlib.suppress(InputError, OSError):
                self.close(complete=False)
            raise

    def stream(
        self,
        name: str = "",
        *,
        start_ns: int | None = None,
        resolution_ns: int | None = None,
        count_source: str | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> int:
        """Open a stream and return its number. Times in nanoseconds of the clock of the events."""
        number = self._streams
        self._streams += 1
        self._reads[number] = 0
        fields = {"name": name, "start_ns": start_ns, "resolution_ns": resolution_ns}
        self._control({"stream": number, **fields, "count_source": count_source, "meta": meta})
        return number

    def event(self, stream: int, t_ns: int, tokens: int = UNKNOWN, read: int | None = None, size: int = 0) -> None:
        """One event: receive time, tokens it carries, index of its socket read (its own when None), bytes."""
        if read is None:
            read = self._reads[stream]
        self._reads[stream] = read + 1
        self._put(b"[%d,%d,%d,%d,%d]\n" % (stream, t_ns, tokens, read, size), 1)

    def blind(self, stream: int, from_ns: int, to_ns: int) -> None:
        """Between these times nothing could be received."""
        self._control({"blind": stream, "from_ns": from_ns, "to_ns": to_ns})

    def end(
        self,
        stream: int,
        *,
        total_tokens: int | None = None,
        count_source: str | None = None,
        server_report: Mapping[str, Any] | None = None,
        meta: Mapping[str, Any] | None = None,
        tokens: Sequence[int] | None = None,
        findings: Iterable[Finding] = (),
    ) -> None:
        """The answer is complete; what became known with its end.

        `tokens` has the final count of every event that was written for this stream, 0 for "was none after all".
        """
        fields = {"total_tokens": total_tokens, "count_source": count_source, "tokens": tokens}
        notes = {"findings": [f.to_dict() for f in findings]}
        self._reads.pop(stream, None)
        self._control({"end": stream, **fields, "server_report": server_report, "meta": meta, **notes})

    def truth(self, stream: int, value: Mapping[str, Any]) -> None:
        """The simulator's answer, beside what was observed."""
        self._control({"truth": stream, "value": value})

    def add(self, one: Stream) -> None:
        """A whole stream, quickly."""
        number = self.stream(
            one.name, start_ns=one.start_ns, resolution_ns=one.resolution_ns, count_source=one.count_source,
            meta=one.meta,
        )  # fmt: skip
        columns = zip(one.t_ns.tolist(), one.tokens.tolist(), one.read.tolist(), one.size.tolist(), strict=True)
        lines = [f"[{number},{t},{n},{r},{z}]\n" for t, n, r, z in columns]
        for at in range(0, len(lines), _BATCH):
            batch = lines[at : at + _BATCH]
            self._put("".join(batch).encode(), len(batch))
        for begin, end in one.blind:
            self.blind(number, int(begin), int(end))
        self.end(number, total_tokens=one.total_tokens, server_report=one.server_report)
        if one.truth is not None:
            self.truth(number, one.truth)

    def close(
        self, *, complete: bool = True, findings: Iterable[Finding] = (), meta: Mapping[str, Any] | None = None
    ) -> None:
        """Write the `close` line, unless the recording is not `complete`, and close what was opened here.

        `findings` is what was noticed while recording and belongs to no stream, `meta` what became known with its end.
        """
        if complete:
            notes = {"findings": [f.to_dict() for f in findings], "meta": meta}
            self._control({"close": {"streams": self._streams, "events": self._events}, **notes})
        with self._told(), contextlib.ExitStack() as last:
            if self._raw is not None:  # closed even where nothing more can be written
                last.callback(self._raw.close)
                last.callback(self._sink.close)
            self._sink.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close(complete=kind is None)

    def _control(self, line: Mapping[str, Any], before: bytes = b"") -> None:
        said = {k: v for k, v in line.items() if v is not None and (v or k not in ("name", "meta", "findings"))}
        text = msgspec.json.encode(said, enc_hook=_plain)
        self._put(before + (self._hide(text) if self._hide else text) + b"\n", 0)

    def _put(self, data: bytes, events: int) -> None:
        self._events += events
        self._waiting += events or 1
        with self._told():
            self._sink.write(data)
            if self._waiting >= self._flush_every:
                self._sink.flush()
                self._waiting = 0

    def _told(self) -> contextlib.AbstractContextManager[None]:
        return _write_errors(self._name)


def write(trace: Trace, target: str | os.PathLike[str] | BinaryIO) -> None:
    """Write a whole trace; `.gz` and `.zst` by the suffix of a path. A file appears whole or not at all.

    Raises
    ------
    InputError : the target cannot be written.
    """
    if not isinstance(target, (str, os.PathLike)):
        _write(trace, target)
        return
    path = Path(os.path.realpath(target))
    if path.exists() and not stat.S_ISREG(path.stat().st_mode):
        _write(trace, path)  # a device or a pipe
        return
    part = path.with_name(f".{os.getpid()}.{path.name}")
    try:
        _write(trace, part, shown=str(target))
        with _write_errors(str(target)):
            os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def _write(trace: Trace, target: str | os.PathLike[str] | BinaryIO, shown: str = "") -> None:
    with (
        _write_errors(shown) if shown else contextlib.nullcontext(),
        Writer(target, meta=trace.meta, findings=trace.findings, flush_every=_BATCH) as writer,
    ):
        for one in trace.streams:
            writer.add(one)


@contextlib.contextmanager
def _write_errors(name: str) -> Any:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise InputError(f"cannot write {name}: {error.strerror or error}", "choose another place") from error


def _pack(raw: BinaryIO, suffix: str) -> _Sink:
    if suffix == ".gz":
        return cast(_Sink, gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0, compresslevel=6))
    return _Zstd(raw) if suffix == ".zst" else raw


def _is_torn(raw: BinaryIO) -> bool:
    """Whether a file that is open for appending ends in the middle of a line."""
    if raw.seek(0, os.SEEK_END) == 0:
        return False
    raw.seek(-1, os.SEEK_END)
    return raw.read(1) != b"\n"


def _plain(value: object) -> Any:
    """JSON types for what numpy and read-only mappings hold."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} cannot be written to a trace")
