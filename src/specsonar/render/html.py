"""A Fingerprint as a page of HTML that stands alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from ..fingerprint import AUTOREGRESSIVE, Comparison, Estimate, Fingerprint
from . import comparison as compared
from .charts import Palette, Table, figures
from .maps import sweep_figures
from .page import Card, Section, notes, page
from .pairs import comparison_figures
from .rows import basis, decimals, interval, number, rows, server_report
from .tables import TOTALS, totals
from .terminal import weight

if TYPE_CHECKING:
    from ..sweep import Sweep

_MEANS: Final = {
    "speculative": "a draft is verified in every step, so steps give one token or several",
    "autoregressive": "plain decoding: each step gives one token, however irregular the steps are",
    "fixed-chunks": "the server sends a constant number of tokens at a time",
    "buffered": "something on the way holds tokens back and lets them go together",
    "paced": "something on the way lets tokens go at an even rate",
}


def render(fingerprint: Fingerprint) -> str:
    """`fingerprint` as one HTML file; it fetches nothing."""
    return page("specsonar report", fingerprint.sentence, list(cards(fingerprint)), list(sections(fingerprint)))


def comparison(found: Comparison) -> str:
    """`found` as one HTML file."""
    return page("specsonar comparison", found.sentence, list(_changes(found)), list(_of_both(found)))


def _changes(found: Comparison) -> Iterator[Card]:
    for name, *_, change, between, verdict in compared.rows(found):
        if not verdict.startswith("not "):
            yield Card(change, verdict, between, name)


def _of_both(found: Comparison) -> Iterator[Section]:
    if drawn := comparison_figures(found, Palette.css()):
        yield Section("What changed", compared.needed(found), figures=drawn)
    yield Section("Quantities", table=Table(compared.HEADS, tuple(compared.rows(found))))
    if found.checks:
        yield Section("Gate", table=checks(found))
    if found.findings:
        yield Section("Findings", notes=notes(found.findings))
    for name, side in (("Base", found.base), ("Candidate", found.candidate)):
        yield Section(name, side.sentence, figures=figures(side, Palette.css()), table=estimates(side))
        yield Section(f"Provenance of the {name.lower()}", notes=notes(side.findings), table=_origin(side))


def sweep(found: Sweep) -> str:
    """`found` as one HTML file."""
    told = f"How well services with known settings are recognised: {found.reps} repetitions of each."
    names, table = found.flat()
    rows_ = tuple(tuple("" if v is None else f"{v:.4g}" if isinstance(v, float) else str(v) for v in row)
                  for row in table)  # fmt: skip
    parts = [
        Section("Figures", figures=sweep_figures(found, Palette.css())),
        Section("All services together", table=Table(TOTALS, tuple(totals(found)))),
        Section("All numbers", table=Table(tuple(name.replace("_", " ") for name in names), rows_)),
    ]
    return page("specsonar sweep", told, (), parts)


def cards(fingerprint: Fingerprint) -> Iterator[Card]:
    """The numbers that matter most."""
    f = fingerprint
    for name, unit, estimate, places in (
        ("acceptance length", "tokens a step", f.acceptance_length, None),
        ("max burst M", "tokens", f.max_burst, 0),
        ("acceptance rate", "", f.acceptance_rate, None),
        ("step time", "ms", f.step_ms, None),
        ("decoding rate", "tokens/s", f.tokens_per_s, None),
    ):
        plain = f.verdict == AUTOREGRESSIVE and name in ("acceptance length", "max burst M")
        if estimate is not None and not plain:
            yield _card(name, unit, estimate, places)


def _card(name: str, unit: str, estimate: Estimate, places: int | None) -> Card:
    digits = decimals(estimate) if places is None else places
    return Card(number(estimate.value, digits), unit, interval(estimate, digits), name)


def sections(fingerprint: Fingerprint) -> Iterator[Section]:
    """The page from top to bottom."""
    f = fingerprint
    if drawn := figures(f, Palette.css()):
        yield Section("What arrived", figures=drawn)
    yield Section("Estimates", table=estimates(f))
    if f.alternatives:
        yield Section("Explanations", _RIVALS, table=explanations(f))
    if f.findings:
        yield Section("Findings", "What to know about the data and the answer.", notes=notes(f.findings))
    if f.checks:
        yield Section("Expectations", table=checks(f))
    if said := server_report(f):
        text = "What the server says about its own speculation. It is compared with the estimates, never used for them."
        yield Section("The server's own report", text, table=Table(("quantity", "said"), tuple(said)))
    yield Section("Provenance", table=_origin(f))


_RIVALS = (
    "Every explanation was fitted to the same times. Nats are natural logarithms of odds: 3 nats behind is 20 times "
    "less likely, 7 nats a thousand times."
)


def checks(found: Fingerprint | Comparison) -> Table:
    """What a gate asks, and the answers."""
    return Table(("asked", "verdict", "figures"), tuple((c.name, c.verdict or "", c.message) for c in found.checks))


def _origin(fingerprint: Fingerprint) -> Table:
    return Table(("", ""), tuple(provenance(fingerprint)))


def estimates(fingerprint: Fingerprint) -> Table:
    """Every quantity with its interval and how that was made."""
    each = rows(fingerprint, server=False)
    return Table(
        ("quantity", "value", "interval", "how"), tuple((r.quantity, r.value, r.interval, r.method) for r in each)
    )


def explanations(fingerprint: Fingerprint) -> Table:
    """The rivals, and why they lost."""
    each = tuple((a.model, _MEANS.get(a.model, ""), weight(a.weight), a.reason) for a in fingerprint.alternatives)
    return Table(("explanation", "what it says", "share of the evidence", "why it won or lost"), each)


def provenance(fingerprint: Fingerprint) -> Iterator[tuple[str, str]]:
    """What the numbers rest on: the data, how they were asked for, the files, the program."""
    known = fingerprint.provenance
    yield "data", ", ".join(basis(fingerprint))
    for name, value in fingerprint.conditions.items():
        yield str(name).replace("_", " "), str(value)
    for source in known.get("inputs", ()):
        yield str(source.get("name", "")), f"sha256 {source.get('sha256', '')}"
    yield "specsonar", f"version {known.get('version', '')}, seed {known.get('seed', '')}"
