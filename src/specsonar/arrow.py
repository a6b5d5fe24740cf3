"""pyarrow, which comes with the extra `parquet`."""

from __future__ import annotations

from typing import Any

from .errors import InputError


def pyarrow() -> Any:
    """The package, with its module `parquet`.

    Raises
    ------
    InputError : it is not installed.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise InputError("Parquet needs the extra 'parquet'", "pip install 'specsonar[parquet]'") from None
    return pyarrow
