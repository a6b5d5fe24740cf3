"""What streams are grouped by: names of columns, what recordings know of their requests, folders, and the time."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from ..errors import UsageError
from ..trace import Stream
from .places import shown
from .result import UNKNOWN

DEFAULT: Final = ("model", "endpoint", "day")
_ALSO: Final = {
    "model": ("modelname", "modelid"),
    "endpoint": ("service", "baseurl", "url", "server", "host", "upstream"),
    "day": ("date",),
}
"""Other names of a key, best first, in small letters and without marks."""

_FOLDER: Final = re.compile(r"([A-Za-z_][\w-]*)=([^/]+)/")
_DATE: Final = re.compile(r"(?<!\d)(20\d\d)[-_]?(0[1-9]|1[0-2])[-_]?(0[1-9]|[12]\d|3[01])(?!\d)")
_UNIX_NS: Final = (978_307_200 * 10**9, 4_102_444_800 * 10**9)
"""From 2001 to 2100: nanoseconds in between count from 1970; uptimes and offsets are far smaller."""

_KEY: Final = re.compile(r"\w[\w .-]*")
_LONGEST: Final = 120


def parse(text: str) -> tuple[str, ...]:
    """`model,endpoint,day` as names.

    Raises
    ------
    UsageError : none, one twice, or something that is no name.
    """
    keys = tuple(part.strip() for part in text.split(","))
    if len(set(keys)) != len(keys) or not all(_KEY.fullmatch(key) for key in keys):
        raise UsageError(f"--by {text!r} is no list of names", "for example --by model,endpoint,day")
    return keys


def plain(name: str) -> str:
    """A name in small letters without marks, as names are compared.

    >>> plain("Base_URL")
    'baseurl'
    """
    return re.sub(r"[^a-z0-9]", "", name.lower())


def matching(key: str, names: Sequence[str]) -> str | None:
    """Which of `names` holds `key`; None when none does."""
    known = {plain(name): name for name in reversed(names)}
    wanted = (plain(key), *_ALSO.get(key, ()))
    return next((known[one] for one in wanted if one in known), None)


def value(raw: Any) -> str:
    """A value as it is shown and grouped by."""
    if raw is None or raw == "":
        return UNKNOWN
    if isinstance(raw, datetime.datetime | datetime.date):
        return raw.strftime("%Y-%m-%d")
    return shown(str(raw).strip())[:_LONGEST] or UNKNOWN


def of_path(by: Sequence[str], name: str) -> dict[str, str]:
    """What a file's name tells: folders like `model=a/`, and a date."""
    told = dict(_FOLDER.findall(name))
    found = {key: value(told[match]) for key in by if (match := matching(key, list(told)))}
    if date := _DATE.search(name):
        found.setdefault("day", "-".join(date.groups()))
    return found | {"file": name}


def is_unix_ns(t_ns: int) -> bool:
    """Whether a time in nanoseconds counts from 1970, and not from when a machine was started."""
    return _UNIX_NS[0] < t_ns < _UNIX_NS[1]


def moment(key: str, started_s: float) -> str | None:
    """The day or the hour of a Unix time, UTC; None for another key and for no time."""
    if key not in ("day", "hour") or not math.isfinite(started_s):
        return None
    when = datetime.datetime.fromtimestamp(started_s, datetime.UTC)
    return when.strftime("%Y-%m-%d" if key == "day" else "%Y-%m-%dT%H")


def of_stream(by: Sequence[str], one: Stream, meta: Mapping[str, Any], path: Mapping[str, str]) -> tuple[Any, float]:
    """The group of a recorded stream, and the Unix time at which it began; nan where its clock does not tell."""
    started = one.start_ns if one.start_ns is not None else int(one.t_ns[0])
    offset = meta.get("unix_offset_ns", 0)
    unix = started + (offset if isinstance(offset, int) else 0)
    seconds = unix * 1e-9 if is_unix_ns(unix) else np.nan
    known = {**meta, **one.meta}
    found = []
    for key in by:
        name = matching(key, [k for k, v in known.items() if isinstance(v, str | int | float)])
        told = value(known[name]) if name else moment(key, seconds) or path.get(key, UNKNOWN)
        found.append(told)
    return tuple(found), float(seconds)
