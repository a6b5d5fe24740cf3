"""Counters of a server (Prometheus text, `/metrics`) before and after its answers, as a report of its speculation.

vLLM, SGLang, llama.cpp and TGI count what they draft and accept. Series of several engines, models or ranks are added
up. A counter that fell has begun again at zero. The difference covers everything that the server did in between.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from .dialects.report import made

_LINE: Final = re.compile(r'([A-Za-z_:][\w:]*)(\{(?:[^"}]|"(?:[^"\\]|\\.)*")*\})?[ \t]+([^ \t]+)', re.ASCII)
_POSITION: Final = re.compile(r'[{,]\s*position="(\d{1,3})"')

_MOST_LINES: Final = 1_000_000
_LONGEST_LINE: Final = 10_000
_MOST: Final = float(1 << 53)
_WHOLE_DRAFTS: Final = 0.02
"""Share of drafts that may be shorter than the others: the last one of an answer is clipped."""

Samples = Mapping[str, Mapping[str, float]]


def samples(text: str) -> dict[str, dict[str, float]]:
    """Values by name (without `_total`, with `_` for `:`) and by the text of their labels; what is no number is left
    out.

    >>> samples('vllm:generation_tokens_total{engine="0"} 12.0')
    {'vllm_generation_tokens': {'{engine="0"}': 12.0}}
    """
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for line in text.split("\n", _MOST_LINES)[:_MOST_LINES]:
        sample = _LINE.match(line) if len(line) <= _LONGEST_LINE else None
        if sample is None:
            continue
        try:
            value = float(sample[3])
        except ValueError:
            continue
        if math.isfinite(value) and abs(value) < _MOST:
            found[sample[1].replace(":", "_").removesuffix("_total")][sample[2] or ""] = value
    return dict(found)


def report(before: str, after: str, answers: int | None = None) -> dict[str, Any] | None:
    """What the server counted between two readings of its `/metrics`, in the words of `dialects.report`.

    Parameters
    ----------
    before, after : the texts.
    answers : how many answers were asked for in between, where the server does not count them.

    Returns
    -------
    None where the counters do not tell of speculation, or nothing was generated in between.
    """
    counted = _Difference(samples(before), samples(after), answers)
    return next((told for make in _ENGINES if (told := make(counted)) is not None), None)


class _Difference:
    """Counters after minus counters before."""

    def __init__(self, before: Samples, after: Samples, answers: int | None) -> None:
        self._before = before
        self._after = after
        self._answers = answers

    def count(self, *names: str) -> int | None:
        """Growth of the first of these counters that the server has, all its series added up."""
        for name in names:
            if series := self._after.get(name):
                return round(sum(self._grown(name, label) for label in series))
        return None

    def by_position(self, name: str) -> list[int]:
        """Growth of a counter for each draft position."""
        positions: dict[int, float] = defaultdict(float)
        for label in self._after.get(name, ()):
            if found := _POSITION.search(label):
                positions[int(found[1])] += self._grown(name, label)
        return (
            [round(positions[i]) for i in range(len(positions))] if set(positions) == set(range(len(positions))) else []
        )

    def gauge(self, name: str) -> float | None:
        """The mean of a gauge's series that are not zero."""
        values = [v for v in self._after.get(name, {}).values() if v]
        return sum(values) / len(values) if values else None

    def answers(self, *names: str) -> int:
        """How many answers there were: by a counter, as the caller says, or one."""
        counted = self.count(*names)
        return self._answers or 1 if counted is None else counted

    def _grown(self, name: str, label: str) -> float:
        before, after = self._before.get(name, {}).get(label, 0.0), self._after[name][label]
        return after - before if after >= before else after


def _spec_decode(engine: str, tokens: str, *answers: str) -> Callable[[_Difference], dict[str, Any] | None]:
    """The counters that vLLM began and llama.cpp has taken over."""

    def make(counted: _Difference) -> dict[str, Any] | None:
        prefix = f"{engine}_spec_decode_num"
        drafted, accepted = counted.count(f"{prefix}_draft_tokens"), counted.count(f"{prefix}_accepted_tokens")
        total, steps = counted.count(f"{engine}_{tokens}"), counted.count(f"{prefix}_drafts")
        if drafted is None or accepted is None or not (total or drafted):
            return None
        reached = counted.by_position(f"{prefix}_accepted_tokens_per_pos")
        each = round(drafted / steps) if steps else 0
        alike = bool(steps) and abs(drafted - each * (steps or 0)) <= _WHOLE_DRAFTS * drafted
        tried = list(zip([steps or 0, *reached], reached, strict=False)) if alike and len(reached) == each else []
        return made(
            f"/metrics {engine}:spec_decode_*", drafted, accepted, total=total, steps=steps,
            draft_length=each if alike and each else None, tried=tried, answers=counted.answers(*answers),
        )  # fmt: skip

    return make


def _sglang(counted: _Difference) -> dict[str, Any] | None:
    """Verification steps where they are counted; else the length that the server last averaged over."""
    total, steps = counted.count("sglang_generation_tokens"), counted.count("sglang_spec_verify_calls")
    answers = counted.answers("sglang_num_requests")
    if steps:
        accepted = max(total - answers - steps, 0) if total is not None else None
        return made("/metrics sglang:spec_verify_calls", None, accepted, total=total, steps=steps, answers=answers)
    length = counted.gauge("sglang_spec_accept_length")
    if length is None or not total:
        return None
    return {**made("/metrics sglang:spec_accept_length", None, None), "acceptance_length": length}


def _tgi(counted: _Difference) -> dict[str, Any] | None:
    """One entry of the histogram is one step; the first step of an answer is its prefill."""
    name = "tgi_request_skipped_tokens"
    steps, accepted = counted.count(f"{name}_count"), counted.count(f"{name}_sum")
    if not steps or accepted is None:
        return None
    answers = min(counted.answers("tgi_request_success", "tgi_request_count"), steps)
    return made(f"/metrics {name}", None, accepted, total=steps + accepted, steps=steps - answers, answers=answers)


_ENGINES: Final[Iterable[Callable[[_Difference], dict[str, Any] | None]]] = (
    _spec_decode("vllm", "generation_tokens", "vllm_request_success"),
    _spec_decode("llamacpp", "tokens_predicted"),
    _sglang,
    _tgi,
)
