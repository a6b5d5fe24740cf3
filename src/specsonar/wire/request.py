"""What is kept of a request: the settings that say how it was decoded. No prompt, no text, no key."""

from __future__ import annotations

import os.path
import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

from .dialects.said import Json, name, number, rows, table, whole
from .values import payload

_TEXT_KEYS: Final = ("prompt", "input", "inputs", "text")
_LIMIT_KEYS: Final = ("max_completion_tokens", "max_tokens", "n_predict", "max_new_tokens", "max_output_tokens")


def settings(request: Json) -> dict[str, Any]:
    """Model, temperature, limit of tokens, top_p and seed of a request body, as far as it names them."""
    inner: Json = {}
    if isinstance(extra := request.get("generation_config"), str):
        inner = table(payload(extra))
    both = {**inner, **request}
    limit = next((n for key in _LIMIT_KEYS if (n := whole(both.get(key)))), None)
    temperature = number(both.get("temperature"))
    if temperature is None and both.get("do_sample") is False:
        temperature = 0.0
    return {
        key: value
        for key, value in (
            ("model", name(request.get("model"))),
            ("temperature", temperature),
            ("max_tokens", limit),
            ("top_p", number(both.get("top_p"))),
            ("seed", whole(both.get("seed"))),
        )
        if value is not None
    }


def question(request: Json) -> bytes:
    """Digest of the text that a request asks, by which questions are told apart without being kept; b"" for none."""
    said = rows(request.get("messages"))
    last = said[-1] if said and isinstance(said[-1], Mapping) else {}
    texts = (last.get("content"), *(request.get(key) for key in _TEXT_KEYS))
    return next((digest(text) for text in texts if isinstance(text, str)), b"")


def digest(text: str) -> bytes:
    """What `question` makes of a text."""
    return sha256(text.encode("utf-8", "surrogatepass")).digest()


def no_folder(model: object) -> str | None:
    """A model's name; of an absolute path only the last part, since folders tell about people."""
    if not isinstance(model, str):
        return None
    return os.path.basename(model.rstrip("/\\")) if re.match(r"/|~|[A-Za-z]:[\\/]", model) else model
