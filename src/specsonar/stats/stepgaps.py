"""The gap before an event that holds m steps: about m step times, with late packets, pile-ups and stalls.

Density of a gap g given m steps and n tokens, in 1/seconds:

    core   Student t with 4 degrees of freedom, location m s + c (n - m), squared scale D + m V + (0.3 c (n - m))^2
    tiny   uniform on [0, s/4]: an event that waited behind a late one on a link that keeps order
    tail   s / (g + s)^2: a stall, a slow step

0 <= c <= s/2 is the extra time of a token (drafts of varying length), V belongs to the step, D to the delivery. A
second core for events of one token stands for steps without a draft. Weights of the parts do not depend on m.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

FREEDOM = 4.0
DEAREST = 0.5  # most that a further token may cost, in steps
TOKEN_CV = 0.3  # spread of the extra time of a token, relative


def student(z: FloatArray) -> FloatArray:
    """Density of Student's t with 4 degrees of freedom, shape of `z`: 3/8 (1 + z^2/4)^(-5/2).

    >>> float(student(np.linspace(-50, 50, 20001)).sum() * 0.005).__round__(4)
    1.0
    """
    result: FloatArray = 0.375 * (1.0 + z * z / FREEDOM) ** -2.5
    return result


def student_below(z: FloatArray) -> FloatArray:
    """Distribution of the same law: 1/2 + 3/8 t (1 - t^2/12) with t = z / sqrt(1 + z^2/4).

    >>> student_below(np.array([-np.inf, 0.0, 2.13185])).round(4).tolist()
    [0.0, 0.5, 0.95]
    """
    t = 2.0 * np.sin(np.arctan(z / 2.0))
    result: FloatArray = 0.5 + 0.375 * t * (1.0 - t * t / 12.0)
    return result


def mode(values: FloatArray) -> float:
    """Half-sample mode (Robertson and Cryer 1974): halve the shortest interval that holds half of the points.

    >>> mode(np.array([1.0, 5.0, 5.1, 5.15, 9.0, 30.0])).__round__(2)
    5.12
    """
    x = np.sort(values)
    while x.size > 3:
        half = (x.size + 1) // 2
        widths = x[half - 1 :] - x[: x.size - half + 1]
        first = int(widths.argmin())
        x = x[first : first + half]
    if x.size == 3:
        x = x[:2] if x[1] - x[0] < x[2] - x[1] else x[1:]
    return float(x.mean())


@dataclass(frozen=True, slots=True)
class StepGaps:
    """Parameters of the law of a gap; seconds.

    Attributes
    ----------
    step : s, location of a gap of one step with one token.
    slope : c, extra time of a further token.
    delay_var, step_var : D and V.
    tiny, tail : weights of the two other parts.
    plain, plain_share : location and share of the second core among events of one token; share 0 for none.
    floor : least scale of the core.
    sloped : whether c is estimated; else it stays 0.
    """

    step: float
    slope: float
    delay_var: float
    step_var: float
    tiny: float = 0.05
    tail: float = 0.05
    plain: float = 0.0
    plain_share: float = 0.0
    floor: float = 1e-6
    sloped: bool = True

    def scale(self, order: FloatArray, extra: FloatArray) -> FloatArray:
        """Scale of the core for m = `order` steps with `extra` = n - m tokens more than steps."""
        drafting = (TOKEN_CV * self.slope * extra) ** 2
        result: FloatArray = np.sqrt(self.delay_var + order * self.step_var + drafting + self.floor**2)
        return result

    def parts(
        self, gaps: FloatArray, counts: IntArray, most: int
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Core, second core (both shape (most, n)), tiny and tail (shape (n,)), each with its weight in it."""
        order = np.arange(1.0, most + 1)[:, None]
        scale = self.scale(order, np.asarray(counts - order, np.float64))
        weight = 1.0 - self.tiny - self.tail
        core = weight / scale * student((gaps - order * self.step - self.slope * (counts - order)) / scale)
        second = np.zeros_like(core)
        if self.plain_share > 0:
            one = counts == 1
            second[0, one] = (
                self.plain_share * weight / scale[0, one] * student((gaps[one] - self.plain) / scale[0, one])
            )
            core[0, one] *= 1.0 - self.plain_share
        tiny = np.where(gaps <= self.step / 4, 4.0 * self.tiny / self.step, 0.0)
        return core, second, tiny, self.tail * self.step / (gaps + self.step) ** 2

    def density(self, gaps: FloatArray, counts: IntArray, most: int) -> FloatArray:
        """Density of each gap given m = 1..most steps, shape (most, n), 1/seconds."""
        core, second, tiny, tail = self.parts(gaps, counts, most)
        result: FloatArray = core + second + tiny + tail
        return result

    def below(self, gaps: FloatArray, count: int, order: int) -> FloatArray:
        """Probability of a gap up to each of `gaps` for an event of `count` tokens and `order` steps, shape (n,)."""
        extra = float(count - order)
        scale = float(self.scale(np.array(float(order)), np.array(extra)))
        core = student_below((gaps - order * self.step - self.slope * extra) / scale)
        if order == 1 and count == 1:
            core = (1.0 - self.plain_share) * core + self.plain_share * student_below((gaps - self.plain) / scale)
        tiny = np.minimum(gaps / (self.step / 4), 1.0)
        result: FloatArray = (1.0 - self.tiny - self.tail) * core + self.tiny * tiny
        return result + self.tail * gaps / (gaps + self.step)

    def updated(self, gaps: FloatArray, counts: IntArray, steps: FloatArray, times: FloatArray) -> StepGaps:
        """One EM step given P(m | data), shape (most, n), for events that each stand for `times`, shape (n,)."""
        most, n = steps.shape[0], float(times.sum())
        steps = steps * times
        core, second, tiny, tail = self.parts(gaps, counts, most)
        total = core + second + tiny + tail
        inside = steps * core / total
        order = np.arange(1.0, most + 1)[:, None]
        extra = np.asarray(counts - order, np.float64)
        scale = self.scale(order, extra)
        z = (gaps - order * self.step - self.slope * (counts - order)) / scale
        heavy = (FREEDOM + 1.0) / (FREEDOM + z * z)
        w = inside * heavy / scale**2
        x = np.broadcast_to(order, w.shape)
        step, slope = _line(w, x, extra, np.broadcast_to(gaps, w.shape))
        if not self.sloped:
            step, slope = float((w * x * gaps).sum() / max((w * x * x).sum(), 1e-300)), 0.0
        residual = gaps - order * step - slope * extra
        own = np.maximum(1.0 - (TOKEN_CV * self.slope * extra / scale) ** 2, 0.0)  # share that is not drafting
        delay_var, step_var = _variances(inside, heavy * own, residual, order)
        second_core = (steps * second / total)[0]
        share, plain = self.plain_share, self.plain
        if share > 0:
            ones = counts == 1
            most_one = second_core[ones].sum() + inside[0, ones].sum()
            share = float(np.clip(second_core[ones].sum() / max(most_one, 1e-9), 1e-6, 1 - 1e-6))
            hs = (FREEDOM + 1.0) / (FREEDOM + ((gaps - plain) / scale[0]) ** 2) * second_core
            plain = float((hs * gaps).sum() / max(hs.sum(), 1e-12)) if hs.sum() > 1e-9 else plain
        return replace(
            self,
            step=step if step > self.floor else self.step,
            slope=slope,
            delay_var=delay_var,
            step_var=step_var,
            tiny=float(((steps / total).sum(0) * tiny).sum() + 0.5) / (n + 2.0),
            tail=float(((steps / total).sum(0) * tail).sum() + 0.5) / (n + 2.0),
            plain=plain,
            plain_share=share,
        )


def _line(w: FloatArray, x: FloatArray, extra: FloatArray, y: FloatArray) -> tuple[float, float]:
    """Weighted least squares y = s x + c extra with 0 <= c <= s / 2: a token more costs less than a step."""
    xx, xe, ee = float((w * x * x).sum()), float((w * x * extra).sum()), float((w * extra * extra).sum())
    xy, ey = float((w * x * y).sum()), float((w * extra * y).sum())
    determinant = xx * ee - xe * xe
    if determinant > 1e-9 * xx * ee:
        slope = (xx * ey - xe * xy) / determinant
        step = (xy - slope * xe) / xx
        if slope > DEAREST * step:
            step = (xy + DEAREST * ey) / (xx + 2 * DEAREST * xe + DEAREST**2 * ee)
            return step, DEAREST * step
        if slope > 0:
            return step, slope
    return xy / max(xx, 1e-300), 0.0


def _variances(inside: FloatArray, heavy: FloatArray, residual: FloatArray, order: FloatArray) -> tuple[float, float]:
    """D, V >= 0 with D + m V closest to the heavy-tailed variance at each m."""
    mass = inside.sum(1)
    seen = mass > 1e-9
    if not seen.any():
        return 0.0, 0.0
    m = order[seen, 0]
    v = (inside * heavy * residual**2).sum(1)[seen] / mass[seen]
    share = mass[seen] / (1.0 + m) ** 2  # a variance is known to within itself, and grows with m at most in proportion
    mean_m, mean_v = float(np.average(m, weights=share)), float(np.average(v, weights=share))
    spread = float(np.average((m - mean_m) ** 2, weights=share))
    slope = float(np.average((m - mean_m) * (v - mean_v), weights=share)) / spread if spread > 1e-12 else 0.0
    if m.size < 2 or slope <= 0:
        return mean_v, 0.0
    if mean_v - slope * mean_m < 0:
        return 0.0, float(np.average(v * m, weights=share) / np.average(m * m, weights=share))
    return mean_v - slope * mean_m, slope
