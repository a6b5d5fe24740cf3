"""One small file per dialect: a payload in, what it says out. All knowledge about engines lives here."""

from __future__ import annotations

from types import ModuleType
from typing import Final

from . import llamacpp, openai
from .said import Facts, Json, Said

DIALECTS: Final[tuple[ModuleType, ...]] = (llamacpp, openai)

__all__ = ["DIALECTS", "Facts", "Json", "Said", "find", "from_headers"]


def find(payload: Json) -> ModuleType | None:
    """The dialect that `payload` is written in, or None."""
    return next((dialect for dialect in DIALECTS if dialect.matches(payload)), None)


def from_headers(headers: Json) -> Facts:
    """What the response headers (lower-case names) say about the engine."""
    server = str(headers.get("server") or "")
    if server == "llama.cpp":
        return Facts(engine="llama.cpp", event_is="token")
    if server == "uvicorn" and "openai-processing-ms" in headers:
        return Facts(engine="llama-cpp-python", event_is="token")
    return Facts()
