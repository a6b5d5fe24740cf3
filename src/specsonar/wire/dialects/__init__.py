"""One small file per dialect: a payload in, what it says out. All knowledge about engines lives here.

Each has `NAME`, `matches(payload)`, `said(payload)` and `facts(payload)`; none of them raises, whatever a payload
holds.
"""

from __future__ import annotations

from types import ModuleType
from typing import Final

from . import anthropic, bedrock, cohere, gemini, llamacpp, ollama, openai, responses, sglang, tgi, triton, vllm
from .bedrock import unwrap
from .engines import from_headers
from .said import Facts, Json, Said

DIALECTS: Final[tuple[ModuleType, ...]] = (
    openai, responses, anthropic, ollama, llamacpp, tgi, sglang, gemini, cohere, triton, bedrock, vllm,
)  # fmt: skip

__all__ = ["DIALECTS", "Facts", "Json", "Said", "find", "from_headers", "unwrap"]


def find(payload: Json) -> ModuleType | None:
    """The dialect that `payload` is written in, or None."""
    return next((dialect for dialect in DIALECTS if dialect.matches(payload)), None)
