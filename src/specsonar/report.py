"""From fitted explanations to a Fingerprint: estimates with intervals, histograms, findings. No fitting here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from . import evidence, sentence, totals
from . import report_parts as parts
from .findings import finding
from .fingerprint import (
    AUTOREGRESSIVE,
    BUFFERED,
    FIXED_CHUNKS,
    PACED,
    SPECULATIVE,
    UNDETERMINED,
    Alternative,
    Estimate,
    Finding,
    Fingerprint,
)
from .models.choose import full_burst_bound
from .models.explanation import Explanation
from .pictures import Histogram
from .stats import baseline as article
from .stats import intervals
from .stats.result import Arrays, LayerFit
from .trace import Stream, Trace

FloatArray = npt.NDArray[np.float64]

_HALF: Final = 0.7

_NEAR: Final = 2.0
"""Nats within which another M is as good as the best."""


@dataclass(frozen=True, slots=True)
class Report:
    """What every answer about these streams has in common."""

    trace: Trace
    arrays: list[Arrays]
    count_source: str
    noticed: tuple[Finding, ...]
    level: float
    seed: int

    def determined(self, best: Explanation, shares: Sequence[Alternative]) -> Fingerprint:
        """The answer for the winning explanation."""
        fit = best.fit
        if fit is None or best.model in (FIXED_CHUNKS, BUFFERED, PACED):
            return self._grouped(best, shares)
        if best.model == AUTOREGRESSIVE:
            return self._autoregressive(best, fit, shares)
        return self._speculative(best, fit, shares)

    def _speculative(self, best: Explanation, fit: LayerFit, shares: Sequence[Alternative]) -> Fingerprint:
        dependence, for_alpha = parts.dependence(fit)
        widen = float(np.sqrt(dependence.inflation))
        widen_alpha = float(np.sqrt(for_alpha.inflation))
        notes = list(parts.speculation_notes(fit, dependence, self.level))
        length, length_se = parts.length_of(fit)
        length_se *= widen
        freedom = dependence.freedom
        how = f"likelihood{', ' + dependence.method if dependence.method else ''}"
        burst = self._max_burst(fit)
        if burst.high is None:
            notes.append(finding("V001", f"{fit.burst_counts[-1]:.0f} full bursts of {fit.max_burst} tokens were seen"))
        acceptance = self._estimate(
            fit.alpha, *intervals.share(fit.alpha, fit.alpha_se * widen_alpha, self.level, for_alpha.freedom),
            f"{how}; {parts.over_known(fit):.2f} times the error of known bursts",
        )  # fmt: skip
        positions = tuple(
            # half a trial away from 0 and 1, where the standard error is that of half a trial
            self._estimate(
                a,
                *intervals.share(min(max(a, _HALF * s), 1 - _HALF * s), s * widen_alpha, self.level, for_alpha.freedom),
                how,
            )
            for a, s in zip(fit.hazards.tolist(), fit.hazards_se.tolist(), strict=True)
        )
        # tokens over steps is what a server's counters show; the interval is about the law, whose last burst is whole
        low, high = self._length_interval(length, length_se, burst, freedom)
        mean = self._estimate(float(np.clip(fit.extra.get("length", length), low, high)), low, high, how)
        length = mean.value
        step = self._step(fit)
        rate_se = intervals.log_ratio((length, fit.step_s), (length_se, fit.step_se)) * length / fit.step_s
        rate = self._positive(length / fit.step_s, rate_se, "acceptance length over step")
        top = burst.high
        best_case = mean.high if mean.high is not None else length
        efficiency = self._estimate(
            length / burst.value, mean.low / top if top else 0.0, best_case / burst.low, "from the acceptance length"
        )
        gap = Estimate(
            burst.value - length, max(burst.low - best_case, 0.0), top - mean.low if top else None,
            self.level, "from the acceptance length",
        )  # fmt: skip
        return self._answer(
            SPECULATIVE, notes, shares, best, max_burst=burst, acceptance_rate=acceptance,
            acceptance_by_position=positions, acceptance_length=mean, step_ms=step, jitter_ms=self._jitter(fit),
            tokens_per_s=rate, efficiency=efficiency, gap_tokens=gap, steps=parts.steps_of(fit, self.arrays),
            burst_sizes=parts.size_histogram(fit),
        )  # fmt: skip

    def _length_interval(self, length: float, se: float, burst: Estimate, freedom: float) -> tuple[float, float]:
        """Between 1 and M where M is known, a score interval of (E[B] - 1) / (M - 1); else a logarithmic one."""
        if burst.high is None:
            return intervals.positive(length, se, self.level, freedom, 1.0)
        room = burst.value - 1.0
        low, high = intervals.share((length - 1.0) / room, se / room, self.level, freedom)
        return 1.0 + room * low, 1.0 + room * high

    def _autoregressive(self, best: Explanation, fit: LayerFit, shares: Sequence[Alternative]) -> Fingerprint:
        one = Estimate(1.0, 1.0, 1.0, self.level, "every step gives one token")
        notes = [finding("V007", "a draft that is never accepted would look the same")]
        rate = None
        if fit.step_s > 0:
            rate = self._positive(1 / fit.step_s, fit.step_se / fit.step_s**2, "one over the step")
        return self._answer(
            AUTOREGRESSIVE, notes, shares, best, max_burst=one, acceptance_length=one, step_ms=self._step(fit),
            jitter_ms=self._jitter(fit), tokens_per_s=rate, efficiency=one,
            gap_tokens=Estimate(0.0, 0.0, 0.0, self.level, "every step gives one token"),
            steps=parts.plain_steps(fit, self.arrays),
        )  # fmt: skip

    def _grouped(self, best: Explanation, shares: Sequence[Alternative]) -> Fingerprint:
        """Fixed chunks, buffers and pacing: the decoder behind them stays hidden."""
        notes = [finding("V010", "the decoder behind cannot be seen, so its burst, acceptance and step are not given")]
        flush = best.extra.get("flush_s", float("nan"))
        return self._answer(
            best.model, notes, shares, best, tokens_per_s=self._rate(),
            chunk_tokens=int(best.extra["chunk"]) if best.model == FIXED_CHUNKS else None,
            flush_ms=round(flush * 1e3, 6) if best.model == BUFFERED and np.isfinite(flush) else None,
        )  # fmt: skip

    def undetermined(
        self, why: Finding, *, needed: int | None = None, shares: Sequence[Alternative] = (),
        best: Explanation | None = None,
    ) -> Fingerprint:  # fmt: skip
        """No verdict, with the reason and what is known all the same: the token rate."""
        return self._answer(UNDETERMINED, [why], shares, best, tokens_per_s=self._rate(), needed_tokens=needed)

    def ridge(self, best: Explanation, shares: Sequence[Alternative]) -> Fingerprint:
        """High jitter: only E[B] / step is known."""
        assert best.fit is not None
        have = sum(a.t.size for a in self.arrays)
        needed = max(int(best.fit.extra["needed_tokens"]), 2 * have)
        text = f"{have} tokens at this jitter do not show the step; about {needed} are needed"
        return self.undetermined(finding("Q006", text), needed=needed, shares=shares, best=best)

    def without_counts(self, step: Explanation | None, total: int | None) -> Fingerprint:
        """Events hold several tokens each: their mean number follows from the total, the largest does not.

        Parameters
        ----------
        step : plain timing of the events, for the step time.
        total : tokens of all streams, or None when the server gave none.
        """
        events = sum(a.t.size for a in self.arrays)
        shares: Sequence[Alternative] = ()
        fit = step.fit if step is not None else None
        timing: dict[str, Any] = {"step_ms": self._step(fit), "jitter_ms": self._jitter(fit)} if fit is not None else {}
        if total is None:
            why = finding("Q007", "neither the events' token counts nor their total are known")
            return self._answer(UNDETERMINED, [why], shares, step, rate_known=False, **timing)
        streams = len(self.arrays)
        steps = events - streams
        mean = (total - streams) / steps if steps else float("nan")
        # the first event is the prefill's token; the spread of bursts is unknown, at most that of sizes 1..2 mean - 1
        spread = max(mean - 1.0, 0.0) / np.sqrt(3.0) / np.sqrt(max(steps, 1))
        low, high = intervals.positive(mean, float(spread), self.level, floor=1.0)
        length = self._estimate(mean, low, high, "total over events")
        notes = [finding("Q007", f"{total} tokens in {events} events: {mean:.2f} a step, largest burst unknown")]
        whole = abs(mean - round(mean)) * steps < 2.0
        single = mean < 1.02 or total - events <= streams  # the token that ends an answer makes no event
        verdict = AUTOREGRESSIVE if single else UNDETERMINED if whole else SPECULATIVE
        if verdict == UNDETERMINED:
            notes.append(finding("V005", f"a constant {round(mean)} tokens an event would look the same"))
        rate = None
        if fit is not None and fit.step_s > 0:
            se = intervals.log_ratio((mean, fit.step_s), (float(spread), fit.step_se)) * mean / fit.step_s
            rate = self._positive(mean / fit.step_s, se, "acceptance length over step")
        one = Estimate(1.0, 1.0, 1.0, self.level, "total over events") if verdict == AUTOREGRESSIVE else None
        return self._answer(
            verdict, notes, shares, step, max_burst=one, acceptance_length=length, tokens_per_s=rate, steps=steps,
            tokens=total, by_stream=totals.by_stream(fit, self._kept, self.arrays, events_are_steps=True), **timing,
        )  # fmt: skip

    def _answer(
        self, verdict: str, notes: Sequence[Finding], shares: Sequence[Alternative], best: Explanation | None,
        *, rate_known: bool = True, tokens: int | None = None, **known: Any,
    ) -> Fingerprint:  # fmt: skip
        fields: dict[str, Any] = dict.fromkeys(_ESTIMATES)
        fit = best.fit if best is not None and verdict in (SPECULATIVE, AUTOREGRESSIVE) else None
        each = totals.by_stream(fit, self._kept, self.arrays)
        fields |= {"steps": None, "burst_sizes": None, "by_stream": each} | known
        notes = [
            *self.trace.findings,
            *self.noticed,
            *notes,
            *parts.stalls(self.arrays),
        ]
        count = self.token_count if tokens is None and rate_known else tokens
        report, claimed = self._server_said(verdict, fields, count, notes)
        notes += claimed
        layer = best.layer if best is not None else None
        answer = Fingerprint(
            verdict=verdict, sentence="", layer=layer, count_source=self.count_source,
            alternatives=tuple(shares),
            streams=len(self.trace.streams), events=self.trace.events,
            tokens=count,
            server_report=report, findings=tuple(notes), gaps=evidence.gaps(best, self.arrays),
            phases=evidence.phases(fit, self.arrays), burst_profile=evidence.profile(fit),
            arrivals=evidence.arrivals(fit, self.arrays),
            conditions=totals.conditions(self._kept, self.trace.meta),
            provenance={
                "version": version("specsonar"),
                "inputs": list(self.trace.meta.get("inputs", ())),
                "seed": self.seed,
            },
            **fields,
        )  # fmt: skip
        return sentence.completed(answer)

    def _server_said(
        self, verdict: str, fields: dict[str, Any], tokens: int | None, notes: Sequence[Finding]
    ) -> tuple[Mapping[str, Any] | None, list[Finding]]:
        """The server's own report, and how it agrees with the inference."""
        streams, counters = self.trace.streams, self.trace.meta.get("server_report")
        if not counters and not any(one.server_report for one in streams):
            return None, []
        from . import claims  # brings the words of every server

        report = claims.pooled(streams)
        inferred = claims.Inferred(
            verdict, fields["acceptance_length"], fields["max_burst"], fields["acceptance_by_position"],
            len(streams), tokens, blurred=any(f.code in ("V008", "V009") for f in notes),
        )  # fmt: skip
        return report or counters, [note for told in (report, counters) for note in claims.compared(told, inferred)]

    @property
    def _kept(self) -> list[Stream]:
        """The streams behind `arrays`: one event makes no gap."""
        return [s for s in self.trace.streams if len(s) >= 2]

    @property
    def token_count(self) -> int:
        """Tokens of all streams; an event without a count is one."""
        return sum(int(a.tokens.sum()) if a.tokens is not None else a.t.size for a in self.arrays)

    def _rate(self) -> Estimate | None:
        """Tokens per second from first to last event; interval from ten blocks."""
        tokens = sum(int(a.tokens[1:].sum()) if a.tokens is not None else a.t.size - 1 for a in self.arrays)
        span = sum(float(a.t[-1]) for a in self.arrays)
        if span <= 0 or tokens < 20:
            return None
        blocks = []
        for a in self.arrays:
            at = np.linspace(0, a.t.size - 1, max(2, 10 // len(self.arrays)) + 1).astype(int)
            count = np.cumsum(a.tokens) if a.tokens is not None else np.arange(a.t.size)
            blocks += list(zip(np.diff(count[at]), np.diff(a.t[at]), strict=True))
        n, seconds = np.array(blocks, np.float64).T
        rate = tokens / span
        miss = n - rate * seconds
        se = float(np.sqrt(miss @ miss * len(blocks) / max(len(blocks) - 1, 1))) / span
        return self._positive(rate, se, "tokens over time, blocks", len(blocks) - 1)

    def _step(self, fit: LayerFit) -> Estimate | None:
        return self._positive(fit.step_s * 1e3, fit.step_se * 1e3, "likelihood") if np.isfinite(fit.step_s) else None

    def _jitter(self, fit: LayerFit) -> Estimate | None:
        if not np.isfinite(fit.jitter_s):
            return None
        low, high = intervals.plain(fit.jitter_s * 1e3, fit.jitter_se * 1e3, self.level)
        return Estimate(fit.jitter_s * 1e3, max(low, 0.0), high, self.level, "spread of the delay, likelihood")

    def _max_burst(self, fit: LayerFit) -> Estimate:
        top = max(fit.loglik_by_burst.values())
        near = [m for m, value in fit.loglik_by_burst.items() if value > top - _NEAR and m <= fit.max_burst]
        bounded = full_burst_bound(fit.hazards, float(fit.burst_counts[-1]), self.level)
        low = min([*near, fit.max_burst])
        high = float(fit.max_burst) if bounded else None
        return Estimate(float(fit.max_burst), float(low), high, self.level, "likelihood over M, full bursts")

    def _positive(self, value: float, se: float, how: str, freedom: float = float("inf")) -> Estimate:
        return self._estimate(value, *intervals.positive(value, se, self.level, freedom), how)

    def _estimate(self, value: float, low: float, high: float, how: str) -> Estimate:
        return Estimate(value, min(low, value), max(high, value), self.level, how)


_ESTIMATES: Final = (
    "max_burst", "acceptance_rate", "acceptance_by_position", "acceptance_length", "step_ms", "jitter_ms",
    "tokens_per_s", "efficiency", "gap_tokens",
)  # fmt: skip


def baseline(trace: Trace, arrays: list[Arrays], count_source: str, level: float, seed: int) -> Fingerprint:
    """The founding article's analyser, stream by stream and averaged. It gives no intervals: each is its value."""
    base = Report(trace, arrays, count_source, (), level, seed)
    usable = [a for a in arrays if a.t.size >= 3]
    if not usable:
        return base.undetermined(finding("Q001", "the baseline needs three tokens"), needed=3)
    seen = [article.analyse(a.t) for a in usable]

    def bare(value: float) -> Estimate | None:
        return Estimate(value, value, value, level, "two-means baseline, no interval") if np.isfinite(value) else None

    bursts = np.concatenate([b.bursts for b in seen])
    largest = int(np.median([b.max_burst for b in seen]))
    mean, step = float(bursts.mean()), float(np.mean([b.step_s for b in seen]))
    counts = np.bincount(bursts)[1:].astype(np.float64)
    return base._answer(
        SPECULATIVE if largest > 1 else AUTOREGRESSIVE, [], (), None, max_burst=bare(float(largest)),
        acceptance_rate=bare(float(np.mean([b.alpha for b in seen]))), acceptance_length=bare(mean),
        step_ms=bare(step * 1e3), tokens_per_s=base._rate(), steps=int(bursts.size),
        burst_sizes=Histogram(tuple(float(b) for b in range(1, counts.size + 2)), tuple(float(c) for c in counts)),
    )  # fmt: skip
