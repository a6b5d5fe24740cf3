"""The same recording as editors, `jq` and other versions of a tool would have written it reads the same."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from specsonar.importers import look
from specsonar.trace import Trace

GOLDEN = Path(__file__).parents[2] / "golden"
TEXTS = sorted(
    str(p.relative_to(GOLDEN))
    for p in (*GOLDEN.glob("formats/*/*"), *GOLDEN.glob("captures/*"))
    if p.suffix in (".json", ".jsonl", ".har", ".txt", ".csv") and p.name not in ("expected.json", "gaps_ms.txt")
)
NUMBERS = "formats/generic/arrivals_seconds.json"  # one a line, they are plain text
JSON = [name for name in TEXTS if name.endswith((".json", ".jsonl", ".har")) and name != NUMBERS]


def documents(text: bytes) -> list[Any]:
    """The records of a list or of lines, or the only value."""
    try:
        value = json.loads(text)
    except ValueError:
        return [json.loads(line) for line in text.splitlines() if line.strip()]
    return value if isinstance(value, list) else [value]


def lines(text: bytes, **how: Any) -> bytes:
    return b"\n".join(json.dumps(one, **how).encode() for one in documents(text))


def extended(value: Any) -> Any:
    """With keys that no version of today has, before and after the others."""
    if isinstance(value, list):
        return [extended(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {"zz_new": {"a": [1, {"b": None}]}} | {k: extended(v) for k, v in value.items()} | {"zz_last": "é\u2028"}


def written(text: bytes) -> tuple[Any, ...]:
    trace: Trace = look(io.BytesIO(text))
    begin = min((int(s.t_ns[0]) for s in trace.streams if len(s)), default=0)
    streams = [(s.start_ns, (s.t_ns - begin).tolist(), s.tokens.tolist(), s.total_tokens) for s in trace.streams]
    return trace.meta["format"], streams, [f.code for f in trace.findings], trace.meta.get("holds")


ANY: dict[str, Callable[[bytes], bytes]] = {
    "a mark of UTF-8": lambda text: b"\xef\xbb\xbf" + text,
    "empty lines": lambda text: b"\n \r\n" + text + b"\r\n\n",
    "lines of Windows": lambda text: text.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n"),
    "packed": gzip.compress,
}
OF_JSON: dict[str, Callable[[bytes], bytes]] = {
    "compact": lambda text: lines(text, separators=(",", ":")),
    "many lines": lambda text: lines(text, indent=2),
    "sorted keys": lambda text: lines(text, sort_keys=True, ensure_ascii=False),
    "one list": lambda text: json.dumps(documents(text)).encode(),
    "a list of many lines": lambda text: json.dumps(documents(text), indent=1).encode(),
    "one line": lambda text: lines(text).replace(b"\n", b""),
    "more keys": lambda text: b"\n".join(json.dumps(extended(one)).encode() for one in documents(text)),
}


@pytest.mark.parametrize("how", ANY)
@pytest.mark.parametrize("name", TEXTS)
def test_how_files_are_stored(name: str, how: str) -> None:
    text = (GOLDEN / name).read_bytes()
    assert written(ANY[how](text)) == written(text)


@pytest.mark.parametrize("how", OF_JSON)
@pytest.mark.parametrize("name", JSON)
def test_how_json_is_written(name: str, how: str) -> None:
    text = (GOLDEN / name).read_bytes()
    assert written(OF_JSON[how](text)) == written(text)
