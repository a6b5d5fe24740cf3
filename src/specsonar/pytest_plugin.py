"""For tests of a service: the fixture `specsonar_probe`, `assert_equivalent` and `assert_speculative`.

    from specsonar.pytest_plugin import assert_equivalent, assert_speculative

    def test_speculation_works(specsonar_probe):
        found = specsonar_probe("http://localhost:8000", streams=20)
        assert_speculative(found, min_acceptance_length=2.5)
        assert_equivalent("base.json", found, margin=0.1)

An answer that the data cannot give is no success: it fails with `Undetermined`, whose message says how much more has to
be recorded. With `undetermined="skip"` the test is skipped instead. pytest loads this module wherever specsonar is
installed, so it imports nothing but pytest until a test uses it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

if TYPE_CHECKING:
    from .fingerprint import Check, Comparison, Fingerprint
    from .trace import Trace

    Side = Fingerprint | Trace | str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
    """A fingerprint, a trace, or files: recordings of one service, or one saved fingerprint."""


class Undetermined(AssertionError):
    """The data do not say whether the assertion holds."""


@pytest.fixture(scope="session")
def specsonar_probe() -> Callable[..., Fingerprint]:
    """`specsonar_probe(url, **settings)`: the fingerprint of a service, as `specsonar.probe` makes it.

    The same question is asked once a session, however many tests ask it.
    """
    known: dict[tuple[str, str], Fingerprint] = {}

    def ask(url: str, **settings: Any) -> Fingerprint:
        from .probe import probe

        key = url, repr(sorted(settings.items()))
        if key not in known:
            found = probe(url, **settings)
            if found.ended == "failed":
                raise found.errors[-1]
            known[key] = found.fingerprint
        return known[key]

    return ask


def assert_equivalent(
    base: Side,
    candidate: Side,
    *,
    margin: float = 0.03,
    level: float = 0.95,
    allow_mismatch: bool = False,
    undetermined: str = "fail",
) -> Comparison:
    """Acceptance length and step of both sides are the same within `margin`; the comparison, for further questions.

    Parameters
    ----------
    base, candidate : fingerprints, traces, or names of files.
    margin : relative difference that does not matter.
    level : of the intervals.
    allow_mismatch : compare recordings made under different conditions all the same.
    undetermined : "fail", or "skip" the test where the data do not tell.

    Raises
    ------
    AssertionError : something changed, for the worse or the better. Undetermined : the data do not tell.
    """
    __tracebackhide__ = True
    _known(undetermined)
    from .compare import compare
    from .fingerprint import EQUIVALENT, UNDETERMINED

    found = compare(_side(base, level), _side(candidate, level), margin=margin, level=level,
                    allow_mismatch=allow_mismatch)  # fmt: skip
    if found.verdict == EQUIVALENT:
        return found
    told = "\n".join([found.sentence, *(f"  {c.name}: {c.message}" for c in found.checks), *_hints(found.findings)])
    if found.verdict == UNDETERMINED:
        _give_up(f"{told}\nRecord more or longer answers on both sides, or accept a wider margin.", undetermined)
    raise AssertionError(f"{told}\nIf the change is wanted, save a new base: `specsonar analyze ... --json -o FILE`.")


def assert_speculative(
    found: Side, *, min_acceptance_length: float | None = None, level: float = 0.95, undetermined: str = "fail"
) -> Fingerprint:
    """The service decodes speculatively, and surely gives `min_acceptance_length` tokens a step; its fingerprint.

    Parameters
    ----------
    found : a fingerprint, a trace, or names of files.
    min_acceptance_length : bound that the whole interval of the acceptance length has to reach.
    level : of the intervals, where they are made here.
    undetermined : "fail", or "skip" the test where the data do not tell.

    Raises
    ------
    AssertionError : it does not. Undetermined : the data do not tell.
    """
    __tracebackhide__ = True
    _known(undetermined)
    from .expect import check, parse
    from .fingerprint import FAILED, SPECULATIVE, UNDETERMINED

    answer = _side(found, level)
    wanted = [f"verdict={SPECULATIVE}"]
    if min_acceptance_length is not None:
        wanted.append(f"acceptance_length>={float(min_acceptance_length)!r}")
    checks = [check(answer, parse(text)) for text in wanted]
    open_ = [c for c in checks if c.verdict == UNDETERMINED]
    if failed := [c for c in checks if c.verdict == FAILED]:
        raise AssertionError("\n".join([*map(_line, failed), *_hints(answer.findings)]))
    if open_:
        _give_up("\n".join([*map(_line, open_), *_hints(answer.findings)]), undetermined)
    return answer


def _line(check: Check) -> str:
    return f"expected {check.name}: {check.verdict}, {check.message}"


def _known(undetermined: str) -> None:
    if undetermined not in ("fail", "skip"):
        raise ValueError(f'undetermined is "fail" or "skip", not {undetermined!r}')


def _give_up(message: str, undetermined: str) -> NoReturn:
    __tracebackhide__ = True
    if undetermined == "skip":
        pytest.skip(message)
    raise Undetermined(message)


def _hints(findings: Sequence[Any]) -> list[str]:
    """What the findings that matter say, and what to do about them."""
    return [f"  {f.code} {f.message}. {f.hint}".rstrip() for f in findings if f.severity != "info"]


def _side(given: Side, level: float) -> Fingerprint:
    from .fingerprint import Fingerprint

    if isinstance(given, Fingerprint):
        return given
    if isinstance(given, str | os.PathLike):
        given = [given]
    if isinstance(given, Sequence):
        from .saved import side

        return side([os.fspath(name) for name in given], level=level)
    from .fit import fingerprint

    return fingerprint(given, level=level)
