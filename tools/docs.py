"""The documentation's commands and generated pages: list, run, refresh.

In Markdown files the word after three backticks says what a block is:

    sh           commands; the tests run them in a folder that holds copies of recordings
    console      one command after "$ " and what it printed; run as well, and how it begins is compared
    sh service   commands that each run in a terminal of their own until the page ends, like `specsonar serve`. Here
                 they get free ports, and the address that the page names means theirs
    sh setup     commands that install or test the package itself; .ci/run does what they say
    python       a program; the tests run it in the same folder

`python tools/docs.py` writes the generated pages, runs the console blocks again and puts what they print in their
place; `python tools/docs.py PAGE...` does so for these pages. `--check` changes nothing and exits with 1 when a
generated page is out of date.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from reference import GENERATED

ROOT: Final = Path(__file__).resolve().parent.parent
ENGLISH: Final = ROOT / "README.md"
CHINESE: Final = ROOT / "README.zh-CN.md"

_BLOCK: Final = re.compile(r"^```(?P<kind>[^\n`]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_PORT: Final = re.compile(r" --port (\d+)")
_USUAL_PORT: Final = "8765"
"""That of `specsonar serve`, which pages leave out."""


RUN: Final = ("sh", "sh service", "console", "python")
"""The kinds of blocks that are run."""


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
    return [ENGLISH, CHINESE, *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: Path) -> Iterator[Block]:
    """The fenced blocks of a page, in order."""
    for found in _BLOCK.finditer(page.read_text(encoding="utf-8")):
        yield Block(found["kind"].strip(), found["text"], found.start("text"), found.end("text"))


def prepare(folder: Path) -> None:
    """Give `folder` what the commands of the pages expect: copies of recordings, under the paths of the repository."""
    for name in ("examples", "tests/golden/captures", "tests/golden/formats"):
        shutil.copytree(ROOT / name, folder / name)


class Shell:
    """The folder in which the blocks of one page run, and the services that run beside them.

    Addresses of services in commands are those of the page; `shown` puts them back into what was printed.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: list[subprocess.Popen[str]] = []
        self._addresses: dict[str, str] = {}
        scripts = sysconfig.get_path("scripts")
        path = scripts + os.pathsep + os.environ.get("PATH", "")
        self._environment = os.environ | {"PATH": path, "PYTHONUTF8": "1", "COLUMNS": "80"}
        if sources := os.environ.get("PYTHONPATH"):  # blocks run in another folder
            self._environment["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, sources.split(os.pathsep)))
        prepare(folder)

    def __enter__(self) -> Shell:
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self._running):
            process.send_signal(signal.SIGINT)
            process.communicate()

    @property
    def live(self) -> bool:
        """Whether a service runs: then figures and details depend on the load of the machine."""
        return bool(self._running)

    def run(self, block: Block) -> subprocess.CompletedProcess[str]:
        """Run a block; what it printed and how it ended."""
        if block.kind == "sh service":
            for command in block.text.splitlines():
                self._start(command)
            return subprocess.CompletedProcess([], 0, "", "")
        runner = [sys.executable, "-c"] if block.kind == "python" else ["bash", "-euo", "pipefail", "-c"]
        return subprocess.run(
            [*runner, self._here(block.commands)], cwd=self._folder, env=self._environment, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=300, encoding="utf-8", check=False,
        )  # fmt: skip

    def shown(self, printed: str) -> str:
        """What a command printed, with the addresses of the page."""
        for named, real in self._addresses.items():
            printed = printed.replace(real, named)
        return "".join(line.rstrip() + "\n" for line in printed.splitlines())

    def _here(self, text: str) -> str:
        for named, real in self._addresses.items():
            text = text.replace(named, real)
        return text

    def _start(self, command: str) -> None:
        found = _PORT.search(command)
        port = found[1] if found else _USUAL_PORT
        command = self._here(_PORT.sub("", command))
        process = subprocess.Popen(
            ["bash", "-c", f"exec {command} --port 0"], cwd=self._folder, env=self._environment, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8",
        )  # fmt: skip
        self._running.append(process)
        self._addresses[f"127.0.0.1:{port}"] = _address(process.stdout, command)


def _address(printed: IO[str] | None, command: str) -> str:
    """The host and port that a service prints once it listens."""
    assert printed is not None
    found = re.search(r"http://(\S+)", printed.readline())
    if found is None:
        raise SystemExit(f"no address from: {command}")
    return found[1]


def refreshed(page: Path) -> str:
    """The page with the output of its console blocks as it is today."""
    outputs = []
    with tempfile.TemporaryDirectory() as name, Shell(Path(name)) as shell:
        for block in blocks(page):
            if block.kind not in RUN:
                continue
            done = shell.run(block)
            if done.returncode:
                raise SystemExit(f"{page}: {block.commands}{done.stderr}")
            if block.kind == "console":
                outputs.append(shell.shown(done.stdout))
    return with_outputs(page, outputs)


def with_outputs(page: Path, outputs: list[str]) -> str:
    """The page with `outputs` in its console blocks, in their order."""
    text = page.read_text(encoding="utf-8")
    parts, at = [], 0
    consoles = [block for block in blocks(page) if block.kind == "console"]
    for block, output in zip(consoles, outputs, strict=True):
        parts += [text[at : block.start], "".join(f"$ {c}\n" for c in block.commands.splitlines()), output]
        at = block.end
    return "".join(parts) + text[at:]


def main(arguments: list[str]) -> int:
    """Refresh everything or the pages that are named, or check with --check."""
    made = {ROOT / path: make() for path, make in GENERATED.items()}
    if "--check" in arguments:
        return int(any(not page.exists() or page.read_text(encoding="utf-8") != text for page, text in made.items()))
    for page, text in made.items():
        page.write_text(text, encoding="utf-8")
    for page in [Path(name).resolve() for name in arguments] or pages():
        if page != CHINESE:
            page.write_text(refreshed(page), encoding="utf-8")
    english = [block.output for block in blocks(ENGLISH) if block.kind == "console"]
    CHINESE.write_text(with_outputs(CHINESE, english), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
