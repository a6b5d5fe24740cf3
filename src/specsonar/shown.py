"""What a notebook makes of a record: a view, a data frame, a plot."""

from __future__ import annotations

from typing import Any


class Shown:
    """Base of the records that people look at. It draws nothing itself: that is imported when somebody looks."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from .render import notebook

        return notebook.render(self)

    def to_dataframe(self) -> Any:
        """The numbers as a data frame of pandas, or of polars where only that is installed: one row a quantity.

        Raises
        ------
        InputError : neither is installed.
        """
        from .extras import data_frame
        from .render import notebook

        return data_frame(notebook.columns(self))

    def plot(self, figure: str | None = None) -> Any:
        """An altair chart, which a notebook draws; it can be changed and saved like any other.

        Parameters
        ----------
        figure : name of one figure ("arrivals", "burst-sizes", "gaps", "acceptance"...), or None for all, one below
            the other.

        Raises
        ------
        InputError : the extra `report` is not installed. KeyError : there is no such figure; the message names all.
        """
        from .extras import need_report
        from .render import notebook

        need_report()
        return notebook.plot(self, figure)
