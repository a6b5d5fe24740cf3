"""Named services: the worlds on which the inference is measured, and the nulls that it must not call speculative."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from ..trace import Trace
from .service import INDEPENDENT, Delay, Service, with_knobs
from .simulate import expected_verdict, simulate


@dataclass(frozen=True, slots=True)
class World:
    """A service, the tokens that one stream of it has, and the verdict that is right."""

    name: str
    service: Service
    tokens: int
    verdict: str
    about: str

    def trace(self, *, streams: int = 1, seed: int = 0) -> Trace:
        """`streams` answers from this world; see `simulate`."""
        return simulate(self.service, tokens=self.tokens, streams=streams, seed=seed)


_FAST: Final = Delay("lognormal", 2.0, 1.0)
_INDEPENDENT: Final = Service(max_burst=4, acceptance=0.8, step_ms=20.0, order=INDEPENDENT)
_LINK: Final = Service(
    max_burst=4, acceptance=0.8, step_ms=20.0, step_cv=0.05, step_delay=_FAST, stall_probability=0.01
)
_PLAIN: Final = Service(max_burst=1, step_ms=20.0, step_cv=0.05)
_MTP8: Final = (0.76, 0.81, 0.83, 0.83, 0.86, 0.85, 0.88, 0.87)

_Row = tuple[str, Service, dict[str, Any], int, str]


def _gauss(sigma: float, **knobs: Any) -> dict[str, Any]:
    return {"token_delay": Delay("gauss", sigma), **knobs}


_SPECULATIVE: Final[tuple[_Row, ...]] = (
    *((f"A{s}", _INDEPENDENT, _gauss(s), 600, f"independent Gaussian delays, {s} ms, exact clock") for s in range(7)),
    ("B35", _INDEPENDENT, _gauss(7), 2_000, "independent Gaussian delays, 0.35 of the step"),
    ("B40", _INDEPENDENT, _gauss(8), 8_000, "independent Gaussian delays, 0.40 of the step"),
    ("C", _INDEPENDENT, _gauss(1, k=8, bonus=False, acceptance=0.6, step_ms=35.0), 600, "k = 8 without a bonus token"),
    ("D", _LINK, {}, 600, "in-order link, log-normal delays, 1% stalls of 100-300 ms"),
    ("D_spaced", _LINK, {"in_burst_us": 100.0, "in_burst_cv": 0.5}, 600, "D, tokens of a step 100 us apart"),
    ("E_cv20", _LINK, {"step_cv": 0.2}, 600, "D with a step cv of 20%"),
    ("E_median5", _LINK, {"step_delay": Delay("lognormal", 5.0, 1.0)}, 600, "D with a median delay of 5 ms"),
    ("E_sigma15", _LINK, {"step_delay": Delay("lognormal", 2.0, 1.5)}, 600, "D with a delay sigma of 1.5"),
    ("F", _LINK, {"stall_probability": 0.0, "step_delay": Delay(), "token_delay": Delay("lognormal", 5.0, 0.7)}, 600,
     "in-order link, a log-normal delay of its own for each token"),
    ("G_m2", _LINK, {"max_burst": 2, "acceptance": 0.85}, 600, "D with one draft token"),
    ("G_mtp8", _LINK, {"max_burst": 9, "acceptance": _MTP8}, 3_000, "D with an acceptance for each of 8 positions"),
    ("G_ngram", _LINK, {"max_burst": 6, "acceptance": 0.9, "draft_probability": 0.4}, 3_000,
     "D where 60% of the steps draft nothing"),
    ("G_ngram_plain8", _LINK,
     {"max_burst": 6, "acceptance": 0.9, "draft_probability": 0.4, "plain_step_ms": 8.0, "clip_draft": True}, 3_000,
     "G_ngram where a step without a draft takes 8 ms"),
    *((f"H{p}", _LINK, {"events": "step", "merge_probability": p / 100}, 600, f"D, counted events, {p}% of two steps")
      for p in (0, 5, 20)),
    ("I_1ms", _LINK, {"resolution_ms": 1.0}, 600, "D on a clock that ticks every millisecond"),
    ("I_15ms", _LINK, {"resolution_ms": 15.6, "step_ms": 50.0}, 3_000, "D, 50 ms steps, on a clock of 15.6 ms"),
    ("K10", _INDEPENDENT, _gauss(2, step_cv=0.05), 600, "independent delays, 0.1 of the step, and a drifting clock"),
    ("K20", _INDEPENDENT, _gauss(4, step_cv=0.05), 600, "independent delays, 0.2 of the step, and a drifting clock"),
    ("L", _LINK, {"correlation": 0.6}, 600, "D where the acceptance drifts between easy and hard stretches"),
)  # fmt: skip

_NULL: Final[tuple[_Row, ...]] = (
    ("J_exact", _PLAIN, {"step_cv": 0.0}, 600, "plain decoding, an exact clock"),
    ("J_cv5", _PLAIN, {}, 600, "plain decoding, step cv 5%"),
    ("J_cv20", _PLAIN, {"step_cv": 0.2}, 600, "plain decoding, step cv 20%"),
    ("J_lognormal", _PLAIN, {"step_delay": _FAST}, 600, "plain decoding, log-normal delays"),
    ("J_lognormal5", _PLAIN, {"step_delay": Delay("lognormal", 5.0, 1.0)}, 600, "plain decoding, longer delays"),
    ("J_exponential", _PLAIN, {"step_delay": Delay("exponential", 5.0)}, 600, "plain decoding, exponential delays"),
    ("J_pareto", _PLAIN, {"step_delay": Delay("pareto", 1.0, 1.5)}, 600, "plain decoding, heavy-tailed delays"),
    ("J_gauss2", _PLAIN, _gauss(2, order=INDEPENDENT, step_cv=0.0), 600, "plain decoding, independent delays"),
    ("J_gauss6", _PLAIN, _gauss(6, order=INDEPENDENT, step_cv=0.0), 600, "the same, 0.3 of the step"),
    ("J_stalls", _PLAIN, {"step_delay": _FAST, "stall_probability": 0.01}, 600, "plain decoding, 1% stalls"),
    ("J_slow", _PLAIN, {"step_delay": _FAST, "slow_probability": 0.05}, 600, "plain decoding, 5% slow steps"),
    ("J_all", _PLAIN, {"step_cv": 0.2, "step_delay": _FAST, "stall_probability": 0.01, "slow_probability": 0.05}, 600,
     "plain decoding with delays, stalls, slow steps and a step cv of 20%"),
    ("J_tick1", _PLAIN, {"step_delay": _FAST, "resolution_ms": 1.0}, 600, "plain decoding, a clock of 1 ms"),
    ("J_tick4", _PLAIN, {"step_delay": _FAST, "resolution_ms": 4.0}, 600, "plain decoding on a 4 ms grid"),
    ("J_tick15", _PLAIN, {"step_delay": _FAST, "resolution_ms": 15.6}, 600, "plain decoding, a clock of 15.6 ms"),
    ("J_counted", _PLAIN, {"step_delay": _FAST, "events": "step"}, 600, "plain decoding, counted events"),
    ("J_merged", _PLAIN, {"step_delay": _FAST, "events": "step", "merge_probability": 0.05}, 600,
     "plain decoding, counted events, 5% of two tokens"),
    *((f"J_fixed{n}", _PLAIN, {"stream_interval": n, "interval_mode": "exact", "step_delay": _FAST}, 600,
       f"plain decoding written {n} tokens at a time") for n in range(2, 9)),
    *((f"J_fixed{n}_counted", _PLAIN, {"stream_interval": n, "events": "step", "step_delay": _FAST}, 600,
       f"the same, one counted event per {n} tokens") for n in (2, 4, 8)),
    ("J_flush50", _PLAIN, {"flush_ms": 50.0}, 600, "plain decoding behind a buffer flushed every 50 ms"),
    ("J_flush100", _PLAIN, {"flush_ms": 100.0, "step_cv": 0.2}, 600, "the same, every 100 ms, step cv 20%"),
    ("J_flush100_late", _PLAIN, {"flush_ms": 100.0, "step_delay": _FAST}, 600, "flushed every 100 ms, then delayed"),
    ("J_size2k", _PLAIN, {"flush_bytes": 2_048, "step_delay": _FAST}, 2_000, "plain decoding behind a buffer of 2 KiB"),
    ("J_size16k", _PLAIN, {"flush_bytes": 16_384, "step_delay": _FAST}, 4_000, "the same, 16 KiB"),
    ("J_paced", _PLAIN, {"paced_ms": 8.0, "max_burst": 4, "acceptance": 0.8}, 600, "speculation, paced to 8 ms"),
    ("J_paced_plain", _PLAIN, {"paced_ms": 21.0}, 600, "plain decoding, paced to 21 ms"),
    ("J_block512", _PLAIN, {"read_block": 512, "step_delay": _FAST}, 2_000, "a client that reads blocks of 512 bytes"),
    ("J_block4k", _PLAIN, {"read_block": 4_096, "step_delay": _FAST}, 2_000, "the same, 4 KiB"),
)  # fmt: skip


def _worlds(rows: tuple[_Row, ...]) -> dict[str, World]:
    made = {}
    for name, base, knobs, tokens, about in rows:
        service = with_knobs(base, knobs)
        made[name] = World(name, service, tokens, expected_verdict(service), about)
    return made


NULLS: Final[dict[str, World]] = _worlds(_NULL)
"""Streams in which no verdict but their own is right, "speculative" least of all."""

WORLDS: Final[dict[str, World]] = {**_worlds(_SPECULATIVE), **NULLS}
"""All named worlds by name: A to L with speculation, J_* without (`NULLS`)."""
