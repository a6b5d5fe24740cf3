"""One self-contained HTML page: what it says goes in as records, how it looks stands in the template beside this.

Nothing on the page is fetched: its policy forbids all connections, and only the scripts whose hashes it names may run.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final

import jinja2
import msgspec
import vl_convert

from .charts import Figure, Palette, Table, themed
from .images import vega_lite
from .rows import clean

_LOUD: Final = {"warning": "warning", "error": "warning", "info": "note"}


@dataclass(frozen=True, slots=True)
class Card:
    """A number worth a glance, with its interval and what it is."""

    value: str
    unit: str
    interval: str
    name: str


@dataclass(frozen=True, slots=True)
class Note:
    """A finding: its kind ("warning" or "note"), code, text and what to do."""

    kind: str
    code: str
    text: str
    hint: str


@dataclass(frozen=True, slots=True)
class Section:
    """A heading with what stands below it."""

    title: str
    text: str = ""
    figures: Sequence[Figure] = ()
    table: Table | None = None
    notes: Sequence[Note] = ()


def notes(findings: Sequence[Any]) -> list[Note]:
    """Findings as the page shows them."""
    return [Note(_LOUD.get(f.severity, "note"), f.code, f.message, f.hint) for f in findings]


def page(title: str, sentence: str, cards: Sequence[Card], sections: Sequence[Section]) -> str:
    """The whole page; every text in it is escaped."""
    specs = {f"{s.title}/{f.name}": _spec(f) for s in sections for f in s.figures}
    folder = files(__package__) / "assets"
    style, script = ((folder / name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    library = _library()
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, finalize=_shown
    )
    template = environment.from_string((folder / "page.html").read_text(encoding="utf-8"))
    return template.render(
        title=title, sentence=sentence, cards=cards, sections=sections, style=style, script=script, library=library,
        specs=_inert(specs), policy=" ".join(_hash(text) for text in (library, script)),
    )  # fmt: skip


def _spec(figure: Figure) -> dict[str, Any]:
    told = f"{figure.title}. {figure.caption}"
    sized = figure.chart.properties(width="container", height=figure.height, description=told)
    spec: dict[str, Any] = themed(sized, Palette.css()).to_dict()
    return spec


def _shown(value: Any) -> Any:
    """Text from a hostile server or file as one line; what the template marks as safe stays."""
    return clean(value) if type(value) is str else value


def _inert(value: Any) -> str:
    """JSON that cannot end the script element it stands in."""
    return msgspec.json.encode(value).decode().replace("<", "\\u003c").replace(">", "\\u003e")


def _hash(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


@cache
def _library() -> str:
    """Vega with everything it needs, for a script element."""
    return vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vega_lite()).replace("</script", "<\\/script")
