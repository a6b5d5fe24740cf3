"""Parts of a report: how steps depend on each other, the acceptance length, what is worth a note, histograms."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .findings import finding
from .fingerprint import Finding
from .pictures import Histogram
from .stats import intervals
from .stats.bursts import mean_burst, pmf
from .stats.result import Arrays, LayerFit


def dependence(fit: LayerFit) -> tuple[intervals.Dependence, intervals.Dependence]:
    """Of the burst sizes, for their mean; and of (b - 1) - alpha min(b, M - 1), for alpha (the score of its law)."""
    sizes = [b.astype(np.float64) for b in fit.bursts if b.size]
    n = sum(b.size for b in sizes)
    mean = sum(float(b.sum()) for b in sizes) / max(n, 1)
    p = pmf(fit.hazards)
    b = np.arange(1, p.size + 1)
    trials = np.minimum(b, p.size - 1)
    alpha = float(p @ (b - 1) / (p @ trials))
    scores = [(x - 1) - alpha * np.minimum(x, p.size - 1) for x in sizes]
    return (
        intervals.dependence([x - mean for x in sizes], float(p @ b**2 - (p @ b) ** 2)),
        intervals.dependence(scores, alpha * (1 - alpha) * float(p @ trials)),
    )


def length_of(fit: LayerFit) -> tuple[float, float]:
    """Acceptance length and its standard error for independent steps.

    From the layer where it has its own; else the law's Var(B) / steps, widened by the share of information that the
    hidden steps cost alpha.
    """
    for value, se in (("length", "length_se_iid"), ("acceptance_length", "acceptance_length_se")):
        if value in fit.extra and se in fit.extra:
            return fit.extra[value], fit.extra[se]
    p = pmf(fit.hazards)
    b = np.arange(1, p.size + 1)
    steps = max(float(fit.burst_counts.sum()), 1.0)
    variance = float(p @ b**2 - (p @ b) ** 2)
    spread = float(np.sqrt(max(variance, 0.0) / steps))
    return mean_burst(fit.hazards), spread * float(min(over_known(fit), 5.0))


def over_known(fit: LayerFit) -> float:
    """Standard error of alpha over that of one who knows the bursts; at least 1, and 1 where there is none."""
    trials = float((np.cumsum(fit.burst_counts[::-1])[::-1][:-1]).sum())
    known = float(np.sqrt(fit.alpha * (1 - fit.alpha) / max(trials, 1.0)))
    return max(fit.alpha_se / known, 1.0) if known > 0 and np.isfinite(fit.alpha_se) else 1.0


def steps_of(fit: LayerFit, arrays: Sequence[Arrays]) -> int:
    """Steps of all streams, the last ones included, which the limit cuts."""
    return round(fit.extra.get("steps", float(fit.burst_counts.sum()) + len(arrays)))


def plain_steps(fit: LayerFit, arrays: Sequence[Arrays]) -> int:
    """Steps of all streams after the prefill's when each gives a token: events, or tokens where text is held back."""
    if fit.extra.get("held_back", 0.0) > 0:
        return sum(int(a.tokens.sum()) - 1 for a in arrays if a.tokens is not None)
    return sum(a.t.size - 1 for a in arrays)


STEP_KNOWN = 2e-3
"""Spread over likely steps, as a share of the step, from which on the step is one of several."""


def speculation_notes(fit: LayerFit, dependence: intervals.Dependence, level: float) -> list[Finding]:
    """What a user should know about the burst law beyond its numbers."""
    notes = []
    if fit.max_burst > 2 and np.isfinite(fit.alpha_loglik):
        lead = 2 * (max(fit.loglik, fit.alpha_loglik) - fit.alpha_loglik)
        # Wilson and Hilferty 1931: the cube root of a chi-square is nearly normal
        df = fit.max_burst - 2
        z = ((max(lead, 0.0) / df) ** (1 / 3) - (1 - 2 / (9 * df))) / np.sqrt(2 / (9 * df))
        if z > intervals.quantile(2 * level - 1):
            notes.append(finding("V002", "acceptance by position: " + " ".join(f"{a:.2f}" for a in fit.hazards[:12])))
    if dependence.significant and dependence.lag_one > 0:
        text = f"neighbouring steps correlate by {dependence.lag_one:.2f}"
        text += f"; variance of the mean times {dependence.inflation:.1f}"
        notes.append(finding("V003", text))
    if fit.extra.get("interval", 0.0) > 0:
        notes.append(finding("V008", f"events are sent from {fit.extra['interval']:.0f} tokens on"))
    if fit.extra.get("held_back", 0.0) > 0:
        notes.append(finding("V009", "token counts jump inside bursts"))
    if fit.extra.get("step_spread", 0.0) > STEP_KNOWN * fit.step_s:
        text = f"steps near {fit.step_s * 1e3:.3g} ms explain the times about as well; M is the same under them"
        notes.append(finding("Q006", text))
    if "plain_s" in fit.extra:
        plain, drafted = fit.extra["plain_s"], fit.extra.get("drafted_s", float("nan"))
        text = f"steps without a draft take {plain * 1e3:.3g} ms"
        if np.isfinite(drafted):
            text = f"single-token steps take {plain * 1e3:.3g} ms, the others {drafted * 1e3:.3g} ms (medians)"
        notes.append(finding("V006", text))
    return notes


def stalls(arrays: Sequence[Arrays]) -> list[Finding]:
    """Gaps beyond eight times the 95th percentile."""
    gap = np.concatenate([np.diff(a.t) for a in arrays]) if arrays else np.empty(0)
    if gap.size < 40:
        return []
    long = gap[gap > 8 * max(float(np.quantile(gap, 0.95)), 1e-6)]
    if long.size == 0:
        return []
    return [finding("Q005", f"{long.size} gaps of {long.min() * 1e3:.0f} to {long.max() * 1e3:.0f} ms")]


def size_histogram(fit: LayerFit) -> Histogram:
    """Complete steps by size, with the fitted law."""
    law = pmf(fit.hazards) * float(fit.burst_counts.sum())
    edges = tuple(float(b) for b in range(1, fit.burst_counts.size + 2))
    return Histogram(edges, tuple(float(c) for c in fit.burst_counts), tuple(float(x) for x in law))
