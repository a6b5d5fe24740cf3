"""Laws of a gap: a point mass at zero (same read, same tick), log-normal components, and a wide tail.

All densities are with respect to the logarithm of the gap, plus counting measure at zero. The common factor 1/gap
is left out of the inner loops and put back by `gaps.Gaps.log_jacobian`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

TAIL_DECADES = 4.0
_ROOT = float(np.sqrt(2 * np.pi))


@dataclass(frozen=True, slots=True, eq=False)
class GapLaw:
    """P(gap = 0) = zero; else log gap ~ sum_k weight_k Normal(mean_k, sd_k^2) + tail / width on [low, low + width].

    Attributes
    ----------
    zero : probability of a gap below the clock's tick.
    weight, mean, sd : shape (K,); natural logarithm of seconds.
    tail, low, width : probability and support of the log-uniform tail.
    cap : log gap above which the law has no density at all (inf for none).
    floor : log gap below which the components have none; the tail may.
    most_tail : the tail's share is estimated, but never beyond this.
    """

    zero: float
    weight: FloatArray
    mean: FloatArray
    sd: FloatArray
    tail: float
    low: float
    width: float
    cap: float = np.inf
    most_tail: float = 1.0
    floor: float = -np.inf

    def components(self, log_gap: FloatArray, is_zero: npt.NDArray[np.bool_]) -> FloatArray:
        """Weighted densities, shape (K+2, n): log-normal components, tail, point mass."""
        z = (log_gap - self.mean[:, None]) / self.sd[:, None]
        out = np.empty((self.mean.size + 2, log_gap.size))
        out[:-2] = (self.weight / (self.sd * _ROOT))[:, None] * np.exp(-0.5 * z * z)
        out[:-2, log_gap < self.floor] = 0.0
        out[-2] = np.where((log_gap >= self.low) & (log_gap <= self.low + self.width), self.tail / self.width, 0.0)
        out[:-1, is_zero | (log_gap > self.cap)] = 0.0
        out[-1] = np.where(is_zero, self.zero, 0.0)
        return out

    def density(self, log_gap: FloatArray, is_zero: npt.NDArray[np.bool_]) -> FloatArray:
        """Density of each gap, shape (n,)."""
        result: FloatArray = self.components(log_gap, is_zero).sum(0)
        return result

    def updated(
        self, log_gap: FloatArray, is_zero: npt.NDArray[np.bool_], weights: FloatArray, floor: FloatArray
    ) -> GapLaw:
        """One EM step of the mixture for gaps that belong to this law with posterior `weights`, shape (n,).

        `floor`, shape (n,), is the smallest spread of log gap that the clock's tick allows near each gap.
        """
        parts = self.components(log_gap, is_zero)
        parts *= np.maximum(weights, 0.0) / np.maximum(parts.sum(0), 1e-300)
        mass = parts.sum(1)
        total = mass.sum()
        if total <= 1e-9:
            return self
        core = np.maximum(mass[:-2], 1e-9)
        safe = np.where(is_zero, 0.0, log_gap)
        mean = np.where(mass[:-2] > 1e-6, parts[:-2] @ safe / core, self.mean)
        square = (parts[:-2] * (safe - mean[:, None]) ** 2).sum(1)
        # the pseudo-observations at the floor keep a component from collapsing on one gap
        least = np.maximum((parts[:-2] @ floor) / core, 0.01)
        sd = np.sqrt((square + 2.0 * least**2) / (mass[:-2] + 2.0))
        tail = min(float(mass[-2] / total), self.most_tail)
        rest = total - mass[-2]
        share = (1.0 - tail) / rest if rest > 0 else 0.0
        return replace(
            self, zero=float(mass[-1] * share), weight=mass[:-2] * share, mean=mean, sd=np.maximum(sd, least), tail=tail
        )

    @property
    def median(self) -> float:
        """Weighted geometric centre of the log-normal components, seconds."""
        weight = self.weight.sum()
        return float(np.exp((self.weight * self.mean).sum() / weight)) if weight > 0 else 0.0


def initial(
    log_gap: FloatArray,
    is_zero: npt.NDArray[np.bool_],
    components: int,
    tail: float,
    *,
    cap: float = np.inf,
    most_tail: float = 1.0,
) -> GapLaw:
    """A GapLaw spread over the quantiles of the gaps given, shape (n,); broad when there are few."""
    zero = float(is_zero.mean()) if is_zero.size else 0.0
    positive = log_gap[~is_zero]
    if positive.size == 0:
        positive = np.array([np.log(1e-5)])
    at = (np.arange(components) + 0.5) / components
    mean = np.quantile(positive, at)
    spread = max(float(positive.std()) / components, 0.05)
    share = (1.0 - min(zero, 0.98)) * (1.0 - tail)
    low = float(positive.min()) - 0.1
    high = cap if np.isfinite(cap) else max(float(positive.max()) + 0.1, low + float(np.log(10)) * TAIL_DECADES)
    return GapLaw(
        zero=zero,
        weight=np.full(components, share / components),
        mean=mean,
        sd=np.full(components, spread),
        tail=(1.0 - zero) * tail,
        low=low,
        width=max(high - low, 0.1),
        cap=cap,
        most_tail=most_tail,
    )
