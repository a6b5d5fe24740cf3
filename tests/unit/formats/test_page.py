"""The page of formats names every format, and every key of `show --json`."""

from __future__ import annotations

from pathlib import Path

from specsonar.importers.formats import FORMATS
from specsonar.show import StreamView, show

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "reference" / "formats.md").read_text(encoding="utf-8")


def test_every_format_is_on_the_page() -> None:
    assert [f.NAME for f in FORMATS if f.NAME not in PAGE] == []


def test_every_key_of_show_is_on_the_page() -> None:
    keys = show(ROOT / "tests" / "golden" / "formats" / "servebench" / "run.json").to_dict()
    assert [key for key in keys if f"`{key}`" not in PAGE] == []
    assert [key for key in StreamView.__dataclass_fields__ if f".{key}`" not in PAGE] == []
