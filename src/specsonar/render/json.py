"""A record as JSON: the contract, UTF-8, two spaces of indent, a newline at the end, and no NaN."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec

from ..fingerprint import Fingerprint


def render(fingerprint: Fingerprint) -> str:
    """`fingerprint` as JSON of schema `specsonar.fingerprint/1`."""
    return dumps(fingerprint.to_dict())


def dumps(value: Any) -> str:
    """Plain data as indented JSON. Numbers that are not finite become null, numpy scalars become numbers."""
    return msgspec.json.format(msgspec.json.encode(_plain(value)), indent=2).decode() + "\n"


def _plain(value: Any) -> Any:
    match value:
        case bool() | int() | None:
            return value
        case float():
            return float(value) if math.isfinite(value) else None
        case str():
            # File names may hold bytes that are no UTF-8; they arrive as lone surrogates.
            return value.encode("utf-8", "replace").decode("utf-8")
        case Mapping():
            return {str(_plain(key)): _plain(item) for key, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
    if hasattr(value, "tolist"):  # numpy scalars and arrays, without importing numpy
        return _plain(value.tolist())
    raise TypeError(f"{type(value).__name__} has no place in JSON")
