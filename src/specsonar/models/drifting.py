"""Independent delays on a clock that drifts: step noise accumulates, every token has a delay of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from ..stats.bursts import pmf
from ..stats.comb import step_weights
from ..stats.combfit import Comb
from ..stats.track import track
from .comb_laws import Drift

FloatArray = npt.NDArray[np.float64]
PRUNE = 1e-5
_SMALL: FloatArray = 0.02 * np.eye(3)


def evaluate(times: Sequence[FloatArray], at: Drift) -> tuple[float, FloatArray, FloatArray]:
    """Log-likelihood over streams; expected complete steps by size, shape (M+1,); the same for cut last steps."""
    m = len(at.hazards) + 1
    weights = step_weights(pmf(at.hazards))
    loglik, sizes = 0.0, np.zeros((2, m + 1))
    for t in times:
        value, counts = track(t, at.sigma, at.step, at.wander, weights, m.bit_length(), PRUNE)
        loglik += value
        sizes += counts
    return loglik, sizes[0], sizes[1]


def em(times: Sequence[FloatArray], at: Drift, *, common: bool, rounds: int) -> Drift:
    """EM steps for the hazards alone; keeps the best point seen."""
    best = at
    for _ in range(rounds):
        loglik, whole, cut = evaluate(times, at)
        if loglik > best.loglik:
            best = replace(at, loglik=loglik)
        m = len(at.hazards) + 1
        if m == 1 or not np.isfinite(loglik):
            break
        went = np.array([whole[j + 1 :].sum() + cut[j + 1 :].sum() for j in range(1, m)])
        total = went + whole[1:m]
        ratio = np.divide(went, total, out=np.full(m - 1, 0.5), where=total > 1e-9)
        if common:
            ratio = np.full(m - 1, went.sum() / max(float(total.sum()), 1e-9))
        at = replace(at, hazards=np.clip(ratio, 1e-6, 1 - 1e-6))
    return best


class Tracked:
    """Streams on a drifting clock; a `comb_laws.Climber`."""

    def __init__(self, times: Sequence[FloatArray], floor: float) -> None:
        self.times = times
        self.floor = floor
        self._curvature: FloatArray | None = None

    def climb(self, at: Drift, *, common: bool = False, warm: int = 3, give_up: float = -np.inf) -> tuple[Drift, float]:
        """EM for the hazards and quasi-Newton for (sigma, step, wander), in turn, until a turn gains less than .02
        nats."""
        at = em(self.times, replace(at, loglik=-np.inf), common=common, rounds=warm + 1)
        for _ in range(4):
            before = at.loglik
            if not before > give_up:
                break
            at = self._polish(at)
            at = em(self.times, at, common=common, rounds=3)
            if at.loglik - before < 0.02:
                break
        return at, at.loglik

    def _polish(self, at: Drift) -> Drift:
        """Newton steps in (log sigma, log step, log wander), curvature computed once per stream set; quasi-Newton
        where it fails."""
        for _ in range(4):

            def f(x: FloatArray, here: Drift = at) -> float:
                return evaluate(self.times, _shifted(here, x, self.floor))[0]

            if self._curvature is None:
                self._curvature = _hessian(f, np.full(3, 0.1))
            bend = self._curvature
            if not np.isfinite(bend).all() or np.linalg.eigvalsh(bend).max() > -1e-3:
                self._curvature = None
                return self._search(at)
            slope = np.array([f(e) - f(-e) for e in _SMALL]) / 0.04
            if not np.isfinite(slope).all():
                return at
            d: FloatArray = np.asarray(-np.linalg.solve(bend, slope), np.float64)
            gain = 0.5 * float(slope @ d)
            if gain < 0.01:
                return at
            d /= max(1.0, 2 * float(np.abs(d).max()))
            for _half in range(4):
                value = f(d)
                if value > at.loglik:
                    break
                d *= 0.3
            else:
                return at
            short = value - at.loglik < 0.3 * gain
            at = replace(_shifted(at, d, self.floor), loglik=value)
            if short:
                self._curvature = None
        return at

    def _search(self, at: Drift) -> Drift:
        def lose(x: FloatArray) -> float:
            loglik = evaluate(self.times, _shifted(at, x, self.floor))[0]
            return -loglik if np.isfinite(loglik) else 1e12

        options = {"eps": 1e-3, "maxiter": 10, "ftol": 1e-6}
        # imported where it is used: half a second that most recordings never need
        from scipy.optimize import minimize

        got = minimize(lose, np.zeros(3), method="L-BFGS-B", options=options, bounds=[(-3, 3)] * 3)
        return replace(_shifted(at, got.x, self.floor), loglik=-float(got.fun)) if -got.fun > at.loglik else at


def _shifted(at: Drift, x: FloatArray, floor: float) -> Drift:
    """Coordinates of the climb: log sigma, log step in hundredths, log wander."""
    return replace(
        at,
        sigma=max(at.sigma * float(np.exp(x[0])), floor),
        step=at.step * float(np.exp(0.01 * x[1])),
        wander=max(at.wander * float(np.exp(x[2])), 1e-4 * at.step),
    )


def start(times: Sequence[FloatArray], combs: Sequence[tuple[float, Comb]]) -> Drift:
    """The best of a few combs, found on short pieces of the streams, as a start for `climb`."""
    tried = []
    for _, c in combs:
        for share in (0.02, 0.06):
            hazards = np.clip(c.hazards, 0.02, 0.98)
            tried.append(em(times, Drift(hazards, 0.9 * c.sigma, c.step, share * c.step), common=False, rounds=3))
    return max(tried, key=lambda d: d.loglik)


def pieces(times: Sequence[FloatArray], tokens: int) -> list[FloatArray]:
    """Streams cut in pieces of about `tokens` points, so short that the clock has not drifted within one."""
    return [part for t in times for part in np.array_split(t, max(1, len(t) // tokens)) if len(part) >= 8]


def errors(times: Sequence[FloatArray], at: Drift, floor: float, *, common: bool) -> FloatArray:
    """Covariance of (logit hazards..., log sigma, step / s, log wander) from second differences of the
    log-likelihood."""
    m = len(at.hazards) + 1
    shared = min(1, m - 1) if common else m - 1
    p = shared + 3
    a = np.clip(at.hazards, 1e-3, 1 - 1e-3)
    logit = np.log(a / (1 - a))
    scale = np.full(p, 0.1)
    scale[-2] = 0.1  # of a hundredth

    def f(x: FloatArray) -> float:
        moved = _shifted(at, x[shared:], floor)
        return evaluate(times, replace(moved, hazards=1 / (1 + np.exp(-(logit + (x[:shared] if shared else 0.0))))))[0]

    info = -_hessian(f, scale)
    back = np.ones(p)
    back[-2] = 0.01 * at.step
    info = info / back / back[:, None]
    free = np.diag(info) > 0
    out = np.full((p, p), np.nan)
    try:
        out[np.ix_(free, free)] = np.linalg.inv(info[np.ix_(free, free)])
    except np.linalg.LinAlgError:
        pass
    return out


def _hessian(f: Callable[[FloatArray], float], h: FloatArray) -> FloatArray:
    p = len(h)
    eye = np.diag(h)
    zero = f(np.zeros(p))
    up, down = [f(e) for e in eye], [f(-e) for e in eye]
    out = np.zeros((p, p))
    for i in range(p):
        out[i, i] = (up[i] - 2 * zero + down[i]) / h[i] ** 2
        for j in range(i):
            cross = f(eye[i] + eye[j]) - up[i] - up[j] + 2 * zero - down[i] - down[j] + f(-eye[i] - eye[j])
            out[i, j] = out[j, i] = cross / (2 * h[i] * h[j])
    return out
