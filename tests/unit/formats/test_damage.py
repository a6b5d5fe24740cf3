"""Damaged files: cut anywhere or with bytes changed, they give what is left or one clear line.

`DAMAGE=full pytest -m slow tests/unit/formats/test_damage.py` cuts at every byte and makes 10,000 mutations of every
format, about an hour; without it the slow tests take a sample of both.
"""

from __future__ import annotations

import base64
import contextlib
import gzip
import io
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import zstandard

from specsonar import convert, tracefile
from specsonar.bytefile import ByteFile
from specsonar.errors import SpecsonarError
from specsonar.importers import look
from specsonar.importers.formats import FORMATS
from specsonar.trace import COUNTED, Trace, stream

FULL = os.environ.get("DAMAGE") == "full"
CUTS, MUTATIONS = (None, 10_000) if FULL else (300, 300)
GOLDEN = Path(__file__).parents[2] / "golden"
SAME = {
    "expected.json", "MAKING.md", "http_sse_ns.pcap", "tls13_sse.pcap", "vllm_chat.ts_abs.txt", "vllm_chat.ts_s.txt",
    "h2_tls.trace_ascii.txt",
}  # fmt: skip
"""No recording, or one whose damage would be that of its neighbour."""
LONGEST_S = 20
"""A reading that takes longer hangs; these files are read within some milliseconds."""


def unpacked(path: Path) -> bytes:
    return zstandard.ZstdDecompressor().decompress(path.read_bytes())


def made() -> Iterator[tuple[str, bytes]]:
    """Files of our own, and those that are small enough to be written here."""
    rng = np.random.default_rng(3)
    trace = Trace(
        tuple(
            stream(
                10**18 + np.cumsum(rng.integers(0, 30_000_000, 20)), rng.integers(-1, 5, 20), read=np.arange(20) // 2,
                size=rng.integers(1, 99, 20), name=name, count_source=COUNTED,
            )
            for name in ("one", "two")
        ),
        {"tool": "x"},
    )  # fmt: skip
    out = io.BytesIO()
    tracefile.write(trace, out)
    plain = out.getvalue()
    yield "made/trace.jsonl", plain
    yield "made/trace.jsonl.gz", gzip.compress(plain, mtime=0)
    yield "made/trace.jsonl.zst", zstandard.ZstdCompressor().compress(plain)
    for suffix in (".csv", ".parquet"):
        out = io.BytesIO()
        convert.write(trace, out, suffix)
        yield f"made/trace{suffix}", out.getvalue()
    yield "made/metrics.txt", b"".join(
        b'# TYPE vllm:%s counter\nvllm:%s{engine="0"} %d.0\n' % (name, name, n)
        for name, n in (
            (b"spec_decode_num_drafts_total", 71), (b"spec_decode_num_draft_tokens_total", 213),
            (b"spec_decode_num_accepted_tokens_total", 120), (b"generation_tokens_total", 192),
        )
    )  # fmt: skip
    yield "made/timeline.json", b'{"wall_start": 1.5, "points": [{"t": 0.3, "cum_completion": 40}]}'
    yield "made/otlp.json", b'{"resourceMetrics": [{"scopeMetrics": [{"metrics": [{"name": "x", "histogram": {}}]}]}]}'
    means = b'{"avg": 1.0, "p99": 2.0, "unit": "ms"}'
    yield (
        "made/summary.json",
        (
            b'{"inter_token_latency": %s, "time_to_first_token": %s, "request_throughput": {"avg": 3.0}}'
            % (means, means)
        ),
    )
    for path in sorted(GOLDEN.glob("wire/*.zst")):
        yield f"wire/{path.stem}", unpacked(path)
        yield (
            f"body/{path.stem}",
            b"".join(
                base64.b64decode(row["b64"]) for row in map(json.loads, unpacked(path).splitlines()) if "b64" in row
            ),
        )
    for name in ("ov.draft.conf", "vllm.noise.k4.chat"):
        yield f"recordings/{name}", unpacked(GOLDEN / f"recordings/{name}.jsonl.zst")[:20_000]


FILES = {
    str(p.relative_to(GOLDEN)): p.read_bytes()
    for p in sorted((*GOLDEN.glob("formats/*/*"), *GOLDEN.glob("captures/*")))
    if p.name not in SAME
} | dict(made())


def format_of(data: bytes):
    with ByteFile(io.BytesIO(data)) as source:
        head = source.head()
    return max(FORMATS, key=lambda f: f.sniff(head))


@contextlib.contextmanager
def bounded() -> Iterator[None]:
    """A reading that does not come back is stopped, so that the file that did it is seen."""

    def stop(*_: object) -> None:
        raise AssertionError(f"not read within {LONGEST_S} s")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, LONGEST_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def survives(reader, data: bytes, whole: int) -> None:
    """Read `data`; a refusal is one line, and a cut invents no events."""
    try:
        with bounded():
            trace = reader(data)
    except SpecsonarError as error:
        assert error.message and "\n" not in error.message
        return
    assert trace.events <= whole
    for one in trace.streams:
        assert (np.diff(one.t_ns) >= 0).all()


def direct(module):
    def reader(data: bytes):
        with ByteFile(io.BytesIO(data)) as source:
            return module.read(source)

    return reader


def events_of(data: bytes) -> int:
    try:
        return look(io.BytesIO(data)).events or 1 << 30  # what is left of such a file may look like another one
    except SpecsonarError:
        return 1 << 30


@pytest.mark.parametrize("name", FILES)
def test_cut_at_some_bytes(name: str) -> None:
    data = FILES[name]
    rng = np.random.default_rng(len(data))
    whole = events_of(data)
    for cut in sorted({0, 1, 2, len(data) - 1, *rng.integers(0, len(data), 25).tolist()}):
        survives(lambda d: look(io.BytesIO(d)), data[:cut], whole)


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_cut_at_many_bytes(name: str) -> None:
    data = FILES[name]
    reader, whole = direct(format_of(data)), events_of(data)
    for cut in range(0, len(data), max(1, len(data) // CUTS) if CUTS else 1):
        survives(reader, data[:cut], whole)


def mutated(data: bytes, rng: np.random.Generator) -> bytes:
    """`data` with up to four bytes changed, taken out, doubled, or moved from elsewhere in it."""
    bad = bytearray(data)
    for _ in range(int(rng.integers(1, 5))):
        at = int(rng.integers(0, len(bad)))
        length = int(rng.integers(1, 40))
        match int(rng.integers(0, 6)):
            case 0:
                bad[at] = int(rng.integers(0, 256))
            case 1:
                bad[at] ^= 1 << int(rng.integers(0, 8))
            case 2:
                del bad[at : at + length]
            case 3:
                bad[at:at] = bad[at : at + length]
            case 4:
                other = int(rng.integers(0, len(bad)))
                bad[at : at + length] = bad[other : other + length]
            case _:
                words = (
                    b"null",
                    b"1e999",
                    b"-1",
                    b"NaN",
                    b'"',
                    b"[",
                    b"{}",
                    b"\xff",
                    b"99999999999999999999",
                    b"[[[[",
                    b"[" * 5000,
                )
                bad[at:at] = words[int(rng.integers(0, len(words)))]
        if not bad:
            break
    return bytes(bad)


def mutate(name: str, times: int) -> None:
    data = FILES[name]
    rng = np.random.default_rng(times)
    for _ in range(times):
        survives(lambda d: look(io.BytesIO(d)), mutated(data, rng), 1 << 30)


@pytest.mark.parametrize("name", FILES)
def test_some_mutations(name: str) -> None:
    mutate(name, 25)


def files_by_format() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name in FILES:
        found.setdefault(format_of(FILES[name]).NAME, []).append(name)
    return found


def test_no_format_is_left_out() -> None:
    assert set(files_by_format()) == {f.NAME for f in FORMATS}


@pytest.mark.slow
@pytest.mark.parametrize(("format_", "names"), files_by_format().items(), ids=lambda v: v if isinstance(v, str) else "")
def test_many_mutations_of_every_format(format_: str, names: list[str]) -> None:
    for name in names:
        mutate(name, MUTATIONS // len(names) + 1)
