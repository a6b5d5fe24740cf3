"""specsonar: how an LLM service decodes, from nothing but when its tokens arrive.

>>> import specsonar
>>> trace = specsonar.read("times.txt")  # doctest: +SKIP
>>> print(specsonar.fingerprint(trace).sentence)  # doctest: +SKIP

Everything is imported on first use, so that importing the package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from .errors import FormatError, InputError, LimitError, SpecsonarError, UsageError
    from .fingerprint import Estimate, Finding, Fingerprint
    from .fit import fingerprint
    from .importers import read
    from .sources.simulate import simulate
    from .trace import Stream, Trace

__all__ = [
    "Estimate", "Finding", "Fingerprint", "FormatError", "InputError", "LimitError", "SpecsonarError", "Stream",
    "Trace", "UsageError", "__version__", "fingerprint", "read", "simulate",
]  # fmt: skip

__version__: Final = "0.1.0"

_HOME: Final = {
    "Estimate": "fingerprint",
    "Finding": "fingerprint",
    "Fingerprint": "fingerprint",
    "FormatError": "errors",
    "InputError": "errors",
    "LimitError": "errors",
    "SpecsonarError": "errors",
    "Stream": "trace",
    "Trace": "trace",
    "UsageError": "errors",
    "fingerprint": "fit",
    "read": "importers",
    "simulate": "sources.simulate",
}


# `fingerprint` is a function here and a module below. Python binds a submodule's name on its first import only, so
# that import is done now and the name given back to the function.
import_module(".fingerprint", __name__)
del globals()["fingerprint"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
