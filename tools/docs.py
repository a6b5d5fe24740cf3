"""The documentation's commands and generated pages: list, run, refresh.

In Markdown files the word after three backticks says what a block is:

    sh         commands; the tests run them in an empty folder that holds a copy of examples/
    console    one command after "$ " and what it printed; run as well, and how it begins is compared
    sh setup   commands that install or test the package itself; .ci/run does what they say
    python     a program; the tests run it in the same folder

`python tools/docs.py` runs the console blocks again, puts what they print in their place, and writes the generated
pages. `python tools/docs.py --check` changes nothing and exits with 1 when a generated page is out of date.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from specsonar.findings import CATALOGUE

ROOT: Final = Path(__file__).resolve().parent.parent
FINDINGS: Final = ROOT / "docs" / "reference" / "findings.md"

_BLOCK: Final = re.compile(r"^```(?P<kind>[^\n`]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_FAMILIES: Final = {
    "I": "the input",
    "Q": "the quality of the data",
    "V": "the verdict and its numbers",
    "S": "the server's own report",
    "C": "comparisons",
}


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: its kind, its text, and where the text stands in the file."""

    kind: str
    text: str
    start: int
    end: int

    @property
    def commands(self) -> str:
        """What a shell is given: the text of `sh`, the lines after "$ " of `console`."""
        if self.kind != "console":
            return self.text
        return "".join(line[2:] + "\n" for line in self.text.splitlines() if line.startswith("$ "))

    @property
    def output(self) -> str:
        """What a `console` block shows below its command."""
        return "".join(line + "\n" for line in self.text.splitlines() if not line.startswith("$ "))


def pages() -> list[Path]:
    """Every page whose blocks are run."""
    return [ROOT / "README.md", ROOT / "README.zh-CN.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: Path) -> Iterator[Block]:
    """The fenced blocks of a page, in order."""
    for found in _BLOCK.finditer(page.read_text(encoding="utf-8")):
        yield Block(found["kind"].strip(), found["text"], found.start("text"), found.end("text"))


def prepare(folder: Path) -> None:
    """Give `folder` what the commands of the pages expect: a copy of examples/."""
    shutil.copytree(ROOT / "examples", folder / "examples")


def run(block: Block, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a block in `folder` with the specsonar of this Python."""
    scripts = sysconfig.get_path("scripts")
    environment = os.environ | {"PATH": scripts + os.pathsep + os.environ.get("PATH", ""), "PYTHONUTF8": "1"}
    if block.kind == "python":
        command = [sys.executable, "-c", block.text]
    else:
        command = ["bash", "-euo", "pipefail", "-c", block.commands]
    return subprocess.run(
        command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300,
        encoding="utf-8", check=False,
    )  # fmt: skip


def findings_page() -> str:
    """docs/reference/findings.md, from the catalogue."""
    lines = [
        "# Findings",
        "",
        "Made from `specsonar.findings.CATALOGUE` by `python tools/docs.py`; do not edit.",
        "`specsonar explain CODE` prints the same.",
        "",
        "| code | severity | title |",
        "|---|---|---|",
        *(f"| [{c}](#{c.lower()}) | {e.severity} | {e.title} |" for c, e in sorted(CATALOGUE.items())),
    ]
    for family, about in _FAMILIES.items():
        lines += ["", f"## {family}: {about}"]
        for code, entry in sorted(CATALOGUE.items()):
            if code.startswith(family):
                lines += ["", f"### {code}", "", f"**{entry.title}** ({entry.severity})", "", entry.what, ""]
                lines += [f"Why it matters: {entry.why}", "", f"What to do: {entry.do}"]
    return "\n".join(lines) + "\n"


def refreshed(page: Path) -> str:
    """The page with the output of its console blocks as it is today."""
    text = page.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder)
        parts, at = [], 0
        for block in blocks(page):
            if block.kind not in ("sh", "console", "python"):
                continue
            done = run(block, folder)
            if done.returncode:
                raise SystemExit(f"{page}: {block.commands}{done.stderr}")
            if block.kind == "console":
                shown = "".join(line.rstrip() + "\n" for line in done.stdout.splitlines())
                parts += [text[at : block.start], "".join(f"$ {c}\n" for c in block.commands.splitlines()), shown]
                at = block.end
    return "".join(parts) + text[at:]


def main() -> int:
    """Refresh, or check with --check."""
    current = FINDINGS.read_text(encoding="utf-8") if FINDINGS.exists() else ""
    if "--check" in sys.argv[1:]:
        return int(current != findings_page())
    FINDINGS.write_text(findings_page(), encoding="utf-8")
    for page in pages():
        page.write_text(refreshed(page), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
