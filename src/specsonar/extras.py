"""What comes with an extra and may be missing."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from .errors import InputError


def need_report() -> None:
    """Make sure that figures and pages can be drawn.

    Raises
    ------
    InputError : the extra `report` is not installed.
    """
    if any(find_spec(name) is None for name in ("altair", "vl_convert", "jinja2")):
        raise InputError("figures and HTML need the extra 'report'", "pip install 'specsonar[report]'")


def need_cluster() -> None:
    """Make sure that a Dask cluster can be used.

    Raises
    ------
    InputError : the extra `cluster` is not installed.
    """
    if find_spec("distributed") is None:
        raise InputError("a Dask cluster needs the extra 'cluster'", "pip install 'specsonar[cluster]'")


def need_peers() -> None:
    """Make sure that the methods of other fields are there.

    Raises
    ------
    InputError : the extra `peers` is not installed.
    """
    if find_spec("hmmlearn") is None:
        raise InputError("the method 'hmm' needs the extra 'peers'", "pip install 'specsonar[peers]'")


def need_fleet(package: str, what: str) -> None:
    """Make sure that a package of the extra `fleet` is there; `what` needs it, for example "files at a URL need".

    Raises
    ------
    InputError : it is not installed.
    """
    if find_spec(package) is None:
        raise InputError(f"{what} the extra 'fleet'", "pip install 'specsonar[fleet]'")


def data_frame(columns: dict[str, list[Any]]) -> Any:
    """A pandas DataFrame, or a polars one where only that is installed.

    Raises
    ------
    InputError : neither is installed.
    """
    try:
        import pandas
    except ImportError:
        try:
            import polars
        except ImportError:
            raise InputError("a data frame needs pandas or polars", "pip install pandas") from None
        return polars.DataFrame(columns)
    return pandas.DataFrame(columns)
