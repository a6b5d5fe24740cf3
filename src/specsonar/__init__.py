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
    from .compare import compare
    from .errors import ConnectionFailed, FormatError, InputError, LimitError, SpecsonarError, UsageError
    from .fingerprint import Comparison, Estimate, Finding, Fingerprint
    from .fit import fingerprint
    from .importers import read
    from .plan import plan_data, plan_speed, speedup
    from .planned import DataPlan, SpeedPlan
    from .probe import Probe, probe
    from .sources.simulate import simulate
    from .trace import Stream, Trace

__all__ = [
    "Comparison", "ConnectionFailed", "DataPlan", "Estimate", "Finding", "Fingerprint", "FormatError", "InputError",
    "LimitError", "Probe", "SpecsonarError", "SpeedPlan", "Stream", "Trace", "UsageError", "__version__", "compare",
    "fingerprint", "plan_data", "plan_speed", "probe", "read", "simulate", "speedup",
]  # fmt: skip

__version__: Final = "0.1.0"

_HOME: Final = {
    "Comparison": "fingerprint",
    "ConnectionFailed": "errors",
    "DataPlan": "planned",
    "Estimate": "fingerprint",
    "Finding": "fingerprint",
    "Fingerprint": "fingerprint",
    "FormatError": "errors",
    "InputError": "errors",
    "LimitError": "errors",
    "SpecsonarError": "errors",
    "SpeedPlan": "planned",
    "Stream": "trace",
    "Trace": "trace",
    "Probe": "probe",
    "UsageError": "errors",
    "compare": "compare",
    "fingerprint": "fit",
    "plan_data": "plan",
    "plan_speed": "plan",
    "probe": "probe",
    "read": "importers",
    "simulate": "sources.simulate",
    "speedup": "plan",
}


# These are functions here and modules below. Python binds a submodule's name on its first import only, so that import
# is done now and the name given back to the function.
for _name in ("compare", "fingerprint", "probe"):
    import_module(f".{_name}", __name__)
    del globals()[_name]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
