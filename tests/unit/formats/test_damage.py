"""Damaged files: cut anywhere or with bytes changed, they give what is left or one clear line.

`DAMAGE=full pytest -m slow tests/unit/formats/test_damage.py` cuts at every byte and makes 10,000 mutations of every
format, about half an hour; without it the slow tests take a sample of both.
"""

from __future__ import annotations

import io
import os
from pathlib import Path

import numpy as np
import pytest

from specsonar.bytefile import ByteFile
from specsonar.errors import SpecsonarError
from specsonar.importers import look
from specsonar.importers.formats import FORMATS

FULL = os.environ.get("DAMAGE") == "full"
CUTS, MUTATIONS = (None, 10_000) if FULL else (300, 300)
GOLDEN = Path(__file__).parents[2] / "golden"
SAME = {
    "expected.json", "MAKING.md", "http_sse_ns.pcap", "tls13_sse.pcap", "vllm_chat.ts_abs.txt", "vllm_chat.ts_s.txt",
    "h2_tls.trace_ascii.txt",
}  # fmt: skip
"""No recording, or one whose damage would be that of its neighbour."""
FILES = sorted(
    str(p.relative_to(GOLDEN)) for p in (*GOLDEN.glob("formats/*/*"), *GOLDEN.glob("captures/*")) if p.name not in SAME
)


def format_of(data: bytes):
    return max(FORMATS, key=lambda f: f.sniff(data[: 1 << 16]))


def survives(reader, data: bytes, whole: int) -> None:
    """Read `data`; a refusal is one line, and a cut invents no events."""
    try:
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
    data = (GOLDEN / name).read_bytes()
    rng = np.random.default_rng(len(data))
    whole = events_of(data)
    for cut in sorted({0, 1, 2, len(data) - 1, *rng.integers(0, len(data), 25).tolist()}):
        survives(lambda d: look(io.BytesIO(d)), data[:cut], whole)


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_cut_at_many_bytes(name: str) -> None:
    data = (GOLDEN / name).read_bytes()
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
                words = (b"null", b"1e999", b"-1", b"NaN", b'"', b"[", b"{}", b"\xff", b"99999999999999999999", b"[[[[")
                bad[at:at] = words[int(rng.integers(0, len(words)))]
        if not bad:
            break
    return bytes(bad)


def mutate(name: str, times: int) -> None:
    data = (GOLDEN / name).read_bytes()
    rng = np.random.default_rng(times)
    for _ in range(times):
        survives(lambda d: look(io.BytesIO(d)), mutated(data, rng), 1 << 30)


@pytest.mark.parametrize("name", FILES)
def test_some_mutations(name: str) -> None:
    mutate(name, 25)


def files_by_format() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name in FILES:
        found.setdefault(format_of((GOLDEN / name).read_bytes()).NAME, []).append(name)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("format_", "names"), files_by_format().items(), ids=lambda v: v if isinstance(v, str) else "")
def test_many_mutations_of_every_format(format_: str, names: list[str]) -> None:
    for name in names:
        mutate(name, MUTATIONS // len(names) + 1)
