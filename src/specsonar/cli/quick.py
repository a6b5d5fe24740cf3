"""A start that is quicker than the libraries would make it."""

from __future__ import annotations

import sys


def load_numba() -> None:
    """Import numba without scipy.linalg, which it would load to look for BLAS.

    No kernel here uses linear algebra, and the search takes a sixth of a short `analyze`. numba then offers none to any
    kernel of this process: right for a command, whose process is its own, and wrong in a library.
    """
    if "numba" in sys.modules or "scipy.linalg" in sys.modules:
        return
    sys.modules["scipy.linalg"] = None  # type: ignore[assignment]  # how Python is told that an import fails
    try:
        import numba.np.arraymath  # noqa: F401
    finally:
        del sys.modules["scipy.linalg"]
