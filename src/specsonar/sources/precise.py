"""Waiting to the microsecond.

On Linux selectors wait in epoll, whose timeout is a whole number of milliseconds, rounded up: what is due in a moment
leaves up to a millisecond late, which is most of what there is to see. `select` takes microseconds, and an epoll
descriptor can be selected on like any other.
"""

from __future__ import annotations

import select
import selectors

if hasattr(selectors, "EpollSelector"):

    class Selector(selectors.EpollSelector):
        """The selector of Linux with timeouts that are not rounded up."""

        def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
            """Wait as `selectors.BaseSelector.select` does."""
            if timeout is not None and timeout > 0:
                select.select((self.fileno(),), (), (), timeout)
                timeout = 0
            return super().select(timeout)

else:  # kqueue and Windows' select take fractions of a millisecond as they are
    Selector = selectors.DefaultSelector  # type: ignore[assignment,misc]
