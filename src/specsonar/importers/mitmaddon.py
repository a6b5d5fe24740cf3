"""JSON lines of a small mitmproxy addon that sets `flow.response.stream` and writes each read.

    {"flow": "8c100116-...", "t": 1795964477.6908133, "t_rel": 0.0626, "n": 210, "data": "data: {...}\\n\\n"}

`t` is the time of day, `t_rel` counts from the request; `n` is the number of bytes.
"""

from __future__ import annotations

from typing import Final

from ..bytefile import ByteFile
from ..errors import LimitError
from ..trace import Trace
from ..wire.answer import Answer
from ..wire.body import Body
from .answers import add_answers, stamp_ns
from .gather import Gathered
from .refusals import refuse_gaps
from .sniff import has

NAME: Final = "mitmproxy addon lines"
LOOKS: Final = 'JSON lines {"flow":..,"t":..,"n":..,"data":..}, one for each read'
KEYS: Final = ("flow", "t", "data")

_MOST_FLOWS: Final = 100_000


def sniff(head: bytes) -> float:
    """How much `head` looks like this format, 0 to 1."""
    return has(head, KEYS, score=0.7)


def read(source: ByteFile, *, unit: str | None = None, gaps: bool = False) -> Trace:
    """Read all flows.

    Raises
    ------
    UsageError : `gaps` was asked for. LimitError : too many flows.
    """
    refuse_gaps(gaps)
    gathered = Gathered(source)
    flows: dict[str, tuple[Answer, Body]] = {}
    t_ns = 0
    for number, line in enumerate(gathered.lines(), 1):
        when = stamp_ns(line.get("t"))
        if when is None or not isinstance(line.get("data"), str):
            gathered.skip(f"read {number}")
            continue
        t_ns = when
        name = str(line.get("flow"))
        if name not in flows:
            if len(flows) >= _MOST_FLOWS:
                raise LimitError(f"{source.name} has more than {_MOST_FLOWS:,} flows", "split the file")
            after = stamp_ns(line.get("t_rel"))
            answer = Answer(start_ns=None if after is None else t_ns - after)
            flows[name] = answer, Body(answer, findings=gathered.findings)
        try:
            flows[name][1].feed(t_ns, line["data"].encode(errors="replace"), number)
        except LimitError as error:
            gathered.skip(f"read {number}: {error.message}")
    for _, body in flows.values():
        body.end(t_ns)
    add_answers(gathered, [answer for answer, _ in flows.values()], 1000)
    return gathered.trace()
