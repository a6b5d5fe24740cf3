"""Small parts of the proxy: its address, its notes, its files."""

from __future__ import annotations

import itertools
from pathlib import Path

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specsonar.cli.recording import size
from specsonar.errors import InputError, UsageError
from specsonar.importers import read
from specsonar.sources.keeper import Keeper
from specsonar.sources.proxy import notes
from specsonar.sources.proxy.upstream import Upstream
from specsonar.sources.rollover import Rollover


@pytest.mark.parametrize(
    ("url", "host", "port", "tls", "authority", "prefix"),
    [
        ("http://127.0.0.1:8000", "127.0.0.1", 8000, False, "127.0.0.1:8000", ""),
        ("localhost:8000/", "localhost", 8000, False, "localhost:8000", ""),
        ("https://api.example.com/v1/", "api.example.com", 443, True, "api.example.com", "/v1"),
        ("wss://api.example.com:444", "api.example.com", 444, True, "api.example.com:444", ""),
        ("http://[::1]:80", "::1", 80, False, "[::1]:80", ""),
    ],
)
def test_upstream(url: str, host: str, port: int, tls: bool, authority: str, prefix: str) -> None:
    assert Upstream.parse(url) == Upstream(host, port, tls, authority, prefix)
    assert Upstream.parse(str(Upstream.parse(url))) == Upstream.parse(url)


@pytest.mark.parametrize(
    "url", ["", "ftp://x", "http://", "http://x:port", "http://x:99999", "http://me:secret@x", "http://x/?key=secret"]
)
def test_an_upstream_that_is_none(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        Upstream.parse(url)
    assert "secret" not in caught.value.message + caught.value.hint


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 9), st.integers(0, 1 << 60), st.binary())), st.data())
def test_notes_can_be_cut_anywhere(sent: list[tuple[int, int, int, bytes]], data: st.DataObject) -> None:
    raw = b"".join(notes.pack(*note) for note in sent)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=8)))
    unpacker = notes.Unpacker()
    edges = [0, *cuts, len(raw)]
    got = [note for a, b in itertools.pairwise(edges) for note in unpacker.feed(raw[a:b])]
    assert got == [notes.Note(*note) for note in sent]


@pytest.mark.parametrize(("text", "bytes_"), [("1", 1), ("500kB", 500_000), ("100MB", 10**8), ("1.5 g", 1_500_000_000)])
def test_sizes(text: str, bytes_: int) -> None:
    assert size(text) == bytes_


@pytest.mark.parametrize("text", ["", "0", "MB", "-1", "1TB", "ten"])
def test_no_sizes(text: str) -> None:
    with pytest.raises(click.BadParameter):
        size(text)


def test_files_follow_each_other_by_size(tmp_path: Path) -> None:
    files = Rollover(tmp_path / "a.jsonl", "proxy", rotate=100, meta={"capture": "proxy" * 20})
    with Keeper(files.open()) as keeper:
        files.turn(keeper)
        files.turn(keeper)
    assert [path.name for path in files.paths] == ["a.jsonl", "a.2.jsonl", "a.3.jsonl"]
    assert all(read(path).findings == () for path in files.paths)


def test_without_a_size_there_is_one_file(tmp_path: Path) -> None:
    files = Rollover(tmp_path, "proxy")
    with Keeper(files.open()) as keeper:
        files.turn(keeper)
    (path,) = files.paths
    assert path.name.startswith("specsonar-proxy-2") and path.parent == tmp_path


def test_what_a_file_holds_already_stays(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"specsonar":"trace","version":1}\n{"stream":0,"name":"old"}\n')
    Keeper(Rollover(tmp_path / "a.jsonl", "proxy").open()).close()
    assert [one.name for one in read(tmp_path / "a.jsonl").streams] == ["old"]
    (tmp_path / "a.jsonl.gz").write_bytes(b"")
    with pytest.raises(UsageError, match="exists"):
        Rollover(tmp_path / "a.jsonl.gz", "proxy").open()


def test_a_recording_that_is_taken_away_is_noticed(tmp_path: Path) -> None:
    files = Rollover(tmp_path / "a.jsonl.gz", "proxy", rotate=1)
    with Keeper(files.open()) as keeper:
        files.turn(keeper)
        assert files.paths[1].name == "a.2.jsonl.gz"
        files.paths[1].unlink()
        with pytest.raises(InputError, match="gone"):
            files.turn(keeper)
