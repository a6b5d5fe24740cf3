"""Checks as JUnit XML, for the test reports of CI systems: one suite, one case a check.

What failed is a failure, what stayed undetermined is an error (the test could not be decided), and a quantity that
decides nothing is skipped. Elements and attributes are those that the strictest of the schemas in use asks for.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final
from xml.etree import ElementTree as Xml

from ..fingerprint import FAILED, UNDETERMINED, Check, Comparison, Fingerprint
from .rows import clean

_NO_XML: Final = re.compile("[\ufffe\uffff]")
_ELEMENT: Final = {FAILED: "failure", UNDETERMINED: "error", None: "skipped"}


def render(answer: Fingerprint | Comparison, *, at: str) -> str:
    """The checks of `answer` as a JUnit report.

    Parameters
    ----------
    at : when, as "2026-01-31T12:00:00".
    """
    suite_name = "specsonar.expect" if isinstance(answer, Fingerprint) else "specsonar.compare"
    checks: Sequence[Check] = answer.checks
    said = [check.verdict for check in checks]
    root = Xml.Element("testsuites")
    suite = Xml.SubElement(
        root, "testsuite", name=suite_name, package="specsonar", id="0", timestamp=at, hostname="localhost",
        tests=str(len(checks)), failures=str(said.count(FAILED)), errors=str(said.count(UNDETERMINED)),
        skipped=str(said.count(None)), time="0",
    )  # fmt: skip
    properties = Xml.SubElement(suite, "properties")
    Xml.SubElement(properties, "property", name="verdict", value=_fit(answer.verdict))
    for check in checks:
        case = Xml.SubElement(suite, "testcase", name=_fit(check.name), classname=suite_name, time="0")
        if check.verdict in _ELEMENT:
            element = Xml.SubElement(case, _ELEMENT[check.verdict], message=_fit(check.message))
            if check.verdict is not None:
                element.set("type", check.verdict)
                element.text = _fit(check.message)
    Xml.SubElement(suite, "system-out").text = _fit(answer.sentence)
    Xml.SubElement(suite, "system-err")
    Xml.indent(root)
    return Xml.tostring(root, encoding="unicode", xml_declaration=False).join(
        ('<?xml version="1.0" encoding="UTF-8"?>\n', "\n")
    )


def _fit(text: str) -> str:
    """`text` without what XML cannot say."""
    return _NO_XML.sub("?", clean(text))
