"""Mean step time when the steps before each event are known: elapsed time over steps, safe against late packets.

Event i arrives at A_i = T_i + D_i after x_i steps. Steps accumulate, T_i = T_{i-1} + S; delays D_i do not, but
a stall on a link that keeps order holds back the events behind it. Events that are late on both sides are left out;
what is left is a random walk with drift seen through noise (local level model, Harvey 1989, section 2.3), whose exact
Gaussian likelihood gives the drift, the spread of single steps and a standard error that counts both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numba import njit
from numpy.lib.stride_tricks import sliding_window_view

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

MANY = 20  # streams from which on their own scatter gives the standard error


@dataclass(frozen=True, slots=True)
class StepTime:
    """Seconds: mean step time, its standard error, spread of single steps; spread of the delay, its standard error."""

    step: float
    step_se: float
    step_sd: float
    jitter: float
    jitter_se: float


def lateness(residual: FloatArray, reach: int) -> FloatArray:
    """How much later than its surroundings each event is, on both sides, seconds; shape (n,).

    min(r_i - min of r before, r_i - min of r after), within `reach` events. A stall is late on both sides; a slow
    step shifts all that follows and is late on one side only. Near an end only the inner side counts.

    >>> lateness(np.array([0.0, 0.0, 5.0, 4.0, 0.0, 0.0, 3.0, 3.0]), 3)
    array([0., 0., 5., 4., 0., 0., 3., 3.])
    """
    n = residual.size
    reach = min(reach, max(n - 1, 1))
    before = _least(residual, reach)
    after = _least(residual[::-1], reach)[::-1]
    late: FloatArray = residual - np.maximum(before, after)
    late[:reach] = np.maximum(late[:reach], residual[:reach] - after[:reach])
    late[n - reach :] = np.maximum(late[n - reach :], residual[n - reach :] - before[n - reach :])
    return late


def _least(values: FloatArray, reach: int) -> FloatArray:
    """The smallest of each value and the `reach` before it, shape (n,)."""
    # scipy.ndimage has it, too, and takes a tenth of a short analyze to load
    least: FloatArray = sliding_window_view(np.concatenate((np.full(reach, values[0]), values)), reach + 1).min(1)
    return least


@njit(cache=True, nogil=True)
def _filter(y: FloatArray, x: FloatArray, walk: float) -> tuple[float, float, float, float]:
    """Local level filter with unit noise and `walk` per step on y and on the regressor x, both shape (n,).

    Returns sum log F, sum v_y^2 / F, sum v_y v_x / F, sum v_x^2 / F over the innovations v after a diffuse start.
    """
    level_y, level_x, p = y[0], x[0], 1.0
    logs, yy, yx, xx = 0.0, 0.0, 0.0, 0.0
    for i in range(1, y.size):
        p += walk * (x[i] - x[i - 1])
        f = p + 1.0
        v, u = y[i] - level_y, x[i] - level_x
        logs += np.log(f)
        yy += v * v / f
        yx += v * u / f
        xx += u * u / f
        gain = p / f
        level_y += gain * v
        level_x += gain * u
        p *= 1.0 - gain
    return logs, yy, yx, xx


def _sums(kept: Sequence[tuple[FloatArray, FloatArray]], walk: float) -> FloatArray:
    """`_filter` of each stream, shape (streams, 4)."""
    return np.array([_filter(y, x, walk) for x, y in kept])


def step_time(
    times: Sequence[FloatArray],
    steps: Sequence[FloatArray],
    doubt: float = 0.0,
    resolution: float = 0.0,
) -> StepTime:
    """Mean step time of streams that share it.

    Parameters
    ----------
    times : per stream, arrival times of an anchor and of n events after it, shape (n+1,), seconds.
    steps : per stream, steps that each event holds, shape (n,), at least a little more than 0 in total.
    doubt : variance of the total number of steps, all streams, where that number is an expectation.
    resolution : tick of the clock, seconds.
    """
    pairs = [
        (np.concatenate(([0.0], np.cumsum(m))), t - t[0])
        for t, m in zip(times, steps, strict=True)
        if t.size > 1 and m.sum() > 0
    ]
    if not pairs:
        return StepTime(float("nan"), float("nan"), float("nan"), float("nan"), float("nan"))
    total = sum(float(x[-1]) for x, _ in pairs)
    rough = _rough(pairs)
    kept, late = _clean(pairs, rough, resolution)
    n = sum(x.size - 1 for x, _ in kept)
    if n < 1:
        return StepTime(rough, float("nan"), float("nan"), float("nan"), float("nan"))
    level = _average(kept)
    kept = _near(pairs, kept, rough, level)
    level = _average(kept)
    step = max(rough + level.drift, 0.0)
    se = level.drift_se
    if len(kept) >= MANY:
        se = level.scatter
    se = float(np.sqrt(se**2 + step**2 * doubt / total**2 + resolution**2 / 6 / total**2))
    jitter, jitter_se = _jitter(pairs, late, step)
    return StepTime(float(step), se, float(np.sqrt(level.walk)), jitter, jitter_se)


@dataclass(frozen=True, slots=True)
class _Level:
    """Local level model: drift, standard errors by the model and by the scatter of streams, variances."""

    drift: float
    drift_se: float
    scatter: float
    walk: float
    noise: float


def _average(kept: Sequence[tuple[FloatArray, FloatArray]]) -> _Level:
    """Average over the ratio of walk to noise with its restricted likelihood as weight (flat in the logarithm).

    How much of the scatter accumulates is hard to tell from one stream, and the standard error hangs on it: no single
    ratio is trusted.
    """
    n = sum(x.size - 1 for x, _ in kept)
    ratios = 10.0 ** np.concatenate((np.arange(-7.0, -2.0, 0.5), np.arange(-2.0, 4.01, 0.25)))
    each = np.array([_sums(kept, w) for w in ratios])  # (ratios, streams, 4)
    logs, yy, yx, xx = each.sum(1).T
    drift = yx / xx
    freedom = max(n - 1, 1)
    variance = np.maximum((yy - yx * yx / xx) / freedom, 1e-24)
    loglik = -0.5 * (logs + freedom * np.log(variance) + np.log(xx))
    weight = np.exp(loglik - loglik.max())
    weight /= weight.sum()
    mean = float(weight @ drift)
    wide = freedom / max(freedom - 2, 1)
    spread = float(weight @ (variance * wide / xx + (drift - mean) ** 2))
    best = int(weight.argmax())
    scores = each[best, :, 2] - drift[best] * each[best, :, 3]
    return _Level(
        mean, float(np.sqrt(spread)), float(np.sqrt((scores**2).sum()) / xx[best]),
        float(weight @ (ratios * variance)), float(weight @ variance),
    )  # fmt: skip


def _rough(pairs: Sequence[tuple[FloatArray, FloatArray]]) -> float:
    """Median slope between events half a stream apart: stalls touch few of these pairs."""
    slopes = []
    for x, t in pairs:
        half = max(x.size // 2, 1)
        dx = x[half:] - x[:-half]
        ok = dx > 0
        slopes.append((t[half:] - t[:-half])[ok] / dx[ok])
    return max(float(np.median(np.concatenate(slopes))), 1e-9)


def _clean(
    pairs: Sequence[tuple[FloatArray, FloatArray]], rough: float, resolution: float
) -> tuple[list[tuple[FloatArray, FloatArray]], list[FloatArray]]:
    """Steps and residual times r = A - rough x of the events that are not late, and the lateness of all."""
    rest = [t - rough * x for x, t in pairs]
    late = []
    for (x, t), r in zip(pairs, rest, strict=True):
        reach = int(np.clip(np.ceil(float(np.diff(t).max()) / rough) + 5, 10, 200))
        late.append(lateness(r, max(min(reach, x.size // 2), 1)))
    low, middle = np.quantile(np.concatenate(late), (0.1, 0.5))
    limit = middle + 3.0 * (middle - low) + resolution + 1e-9
    kept = []
    for (x, _), r, excess in zip(pairs, rest, late, strict=True):
        ok = excess <= limit
        if ok.sum() > 1:
            kept.append((x[ok], r[ok]))
        else:
            kept.append((x, r))
    return kept, late


def _near(
    pairs: Sequence[tuple[FloatArray, FloatArray]],
    kept: Sequence[tuple[FloatArray, FloatArray]],
    rough: float,
    level: _Level,
) -> list[tuple[FloatArray, FloatArray]]:
    """All events that lie within 4 standard deviations above the line through their kept neighbours.

    The first choice throws away the hills of the walk itself; this one knows how high they may be.
    """
    result = []
    for (x, t), (kx, kr) in zip(pairs, kept, strict=True):
        r = t - rough * x
        right = np.clip(np.searchsorted(kx, x), 1, kx.size - 1)
        a, b = np.abs(x - kx[right - 1]), np.abs(kx[right] - x)
        inside = (x >= kx[0]) & (x <= kx[-1])
        bridge = np.where(inside, a * b / np.maximum(a + b, 1e-12), np.minimum(a, b))
        line = np.interp(x, kx, kr)
        ok = r - line <= 4.0 * np.sqrt(2.0 * level.noise + level.walk * bridge) + 1e-9
        result.append((x[ok], r[ok]))
    return result


def _jitter(
    pairs: Sequence[tuple[FloatArray, FloatArray]], late: Sequence[FloatArray], step: float
) -> tuple[float, float]:
    """Spread of the delay outside stalls from the covariance of neighbouring gaps, -var(D), and its standard error.

    A late event makes its own gap longer and the next one shorter by as much; steps do not.
    """
    middle = float(np.median(np.concatenate(late)))
    products = []
    for (x, t), excess in zip(pairs, late, strict=True):
        gap = np.diff(t) - step * np.diff(x)
        beyond = excess > max(3.0 * step, 10.0 * middle)
        stalled = np.asarray(sliding_window_view(np.pad(beyond, 2), 5).any(1))  # up to two steps away
        calm = ~(stalled[:-2] | stalled[1:-1] | stalled[2:])
        products.append((-gap[1:] * gap[:-1])[calm])
    both = np.concatenate(products)
    if both.size < 3:
        return float("nan"), float("nan")
    variance = max(float(both.mean()), 0.0)
    jitter = float(np.sqrt(variance))
    se = float(both.std(ddof=1) / np.sqrt(both.size))
    return jitter, se / (2 * jitter) if jitter > np.sqrt(se) / 2 else float(np.sqrt(se))
