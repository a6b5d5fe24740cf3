"""Maximum likelihood on the comb: EM steps from the sweep's expectations, then Newton on its exact gradient."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from specsonar.stats import comb
from specsonar.stats.bursts import pmf

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Comb:
    """Parameters: hazards, shape (M-1,); delay spread `sigma` and `step` in seconds; `phase`, shape (streams,): time of the middle step.

    Step r of a stream with middle index c stands at phase + (r - c) step.
    """

    hazards: FloatArray
    sigma: float
    step: float
    phase: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Expected:
    """What the sweep says at one parameter point; sums over streams unless a shape is given.

    loglik in nats. went, stopped: shape (M-1,). square: sum of squared delays. line: per stream (streams, 5), sums of
    q, q x, q x^2, q d, q x d over tokens and steps, x = r - c, d = delay, q = posterior.
    """

    loglik: float
    went: FloatArray
    stopped: FloatArray
    square: float
    line: FloatArray


class Problem:
    """Streams, and their state graphs for one M: evaluates `Comb` points. Graphs are built at one point and used near it."""

    def __init__(self, times: Sequence[FloatArray], floor: float, *, prune: float = 1e-7, reach: float = 14.0) -> None:
        self.times = [np.ascontiguousarray(t, np.float64) for t in times]
        self.tokens = sum(len(t) for t in times)
        self.floor = floor
        self.prune, self.reach = prune, reach
        self._graphs: list[tuple[Any, ...]] = []
        self._index: list[FloatArray] = []
        self._bits = 1

    def build(self, at: Comb) -> None:
        """Build the graphs around `at`."""
        m = len(at.hazards) + 1
        self._bits = m.bit_length()
        # no hazard is exactly 0 or 1 while the graph is made: a state that later counts must not be missing
        weights = comb.step_weights(pmf(np.clip(at.hazards, 0.02, 0.98)))
        self._graphs, self._index = [], []
        for t, phase in zip(self.times, at.phase, strict=True):
            pad = 2.0 + 5.0 * at.sigma / at.step
            first = np.floor((t[0] - phase) / at.step - pad)
            last = np.ceil((t[-1] - phase) / at.step + pad)
            x = np.arange(first, last + 1)
            steps = phase + x * at.step
            self._index.append(x)
            self._graphs.append(comb.build(t, steps, at.sigma, weights, self.reach, self.prune, self._bits))

    def sweep(self, at: Comb) -> list[tuple[float, FloatArray, FloatArray, FloatArray]]:
        """`comb.sweep` of every stream."""
        weights = comb.step_weights(pmf(at.hazards))
        out = []
        for t, phase, x, graph in zip(self.times, at.phase, self._index, self._graphs, strict=True):
            out.append(comb.sweep(t, phase + x * at.step, at.sigma, weights, self._bits, *graph))
        return out

    def expect(self, at: Comb) -> Expected:
        """Likelihood and the expectations that EM and the gradient need."""
        m = len(at.hazards) + 1
        p = np.concatenate(([0.0], pmf(at.hazards), [0.0]))
        pair = p[:-1] + p[1:]
        whole = np.divide(p[:-1], pair, out=np.ones(m + 1), where=pair > 0)
        loglik, square = 0.0, 0.0
        complete, cut = np.zeros(m + 2), np.zeros(m + 1)
        line = np.zeros((len(self.times), 5))
        for k, (value, moments, sizes, ends) in enumerate(self.sweep(at)):
            loglik += value
            if not np.isfinite(value):
                break
            complete[:-1] += sizes.sum(0) + ends[0] * whole
            complete[1:] += ends[0] * (1 - whole)
            cut += ends[1]
            x = self._index[k]
            square += float(moments[:, 2].sum())
            q, d = moments[:, 0], moments[:, 1]
            line[k] = q.sum(), q @ x, q @ x**2, d.sum(), x @ d
        beyond = complete[1 : m + 1][::-1].cumsum()[::-1]  # steps of size >= j, j = 1..M
        cut_beyond = cut[1:][::-1].cumsum()[::-1]
        return Expected(loglik, beyond[1:] + cut_beyond[1:], complete[1:m], square, line)

    def em(self, at: Comb, got: Expected, *, common: bool) -> Comb:
        """One EM step, closed form: counts for the hazards, weighted regression for the comb, then the residual for sigma."""
        went, total = got.went, got.went + got.stopped
        if common:
            hazards = np.full(len(went), went.sum() / max(total.sum(), 1e-300)) if len(went) else went
        else:
            hazards = np.divide(went, total, out=np.full(len(went), 0.5), where=total > 1e-9)
        q, qx, qxx, d, xd = got.line.T
        q = np.maximum(q, 1e-9)
        bend = float((qxx - qx**2 / q).sum())
        slope = float((xd - qx * d / q).sum()) / bend if bend > 0 else 0.0
        slope = float(np.clip(slope, -0.02 * at.step, 0.02 * at.step))
        shift = (d - qx * slope) / q
        square = got.square - 2 * float(slope * xd.sum() + shift @ d)
        square += float((slope**2 * qxx + 2 * slope * shift * qx + shift**2 * q).sum())
        sigma = max(np.sqrt(max(square, 0.0) / self.tokens), self.floor)
        return Comb(hazards, float(sigma), at.step + slope, at.phase + shift)

    # -- Newton -----------------------------------------------------------------------------------------------------

    def gradient(self, at: Comb, got: Expected, *, common: bool) -> tuple[FloatArray, FloatArray]:
        """Score in (logit hazards..., log sigma, step) and in the phases, by Fisher's identity; phases shape (streams,)."""
        a = at.hazards
        logit = got.went * (1 - a) - a * got.stopped
        if common and len(a):
            logit = np.array([logit.sum()])
        v = at.sigma**2
        shared = np.concatenate((logit, [got.square / v - self.tokens, got.line[:, 4].sum() / v]))
        return shared, got.line[:, 3] / v

    def information(self, at: Comb, *, common: bool) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Observed information by differences of the exact score: shared (p, p), cross (p, streams), phases (streams,)."""
        p = (min(1, len(at.hazards)) if common else len(at.hazards)) + 2
        spans = max(float(np.ptp(x)) for x in self._index)
        pace = 1e-3 * at.sigma / np.sqrt(self.tokens) * 3
        size = np.full(p, 1e-3)
        size[-1] = pace / max(spans, 1.0) * 3
        shared, cross = np.zeros((p, p)), np.zeros((p, len(self.times)))
        for j in range(p):
            d = np.zeros(p)
            d[j] = size[j]
            up, down = self._moved(at, d, 0.0, common), self._moved(at, -d, 0.0, common)
            gu = self.gradient(up, self.expect(up), common=common)
            gd = self.gradient(down, self.expect(down), common=common)
            shared[j] = -(gu[0] - gd[0]) / (2 * size[j])
            cross[j] = -(gu[1] - gd[1]) / (2 * size[j])
        up, down = self._moved(at, np.zeros(p), pace, common), self._moved(at, np.zeros(p), -pace, common)
        gu = self.gradient(up, self.expect(up), common=common)
        gd = self.gradient(down, self.expect(down), common=common)
        return 0.5 * (shared + shared.T), cross, -(gu[1] - gd[1]) / (2 * pace)

    def _moved(self, at: Comb, d: FloatArray, phase: float | FloatArray, common: bool) -> Comb:
        hazards = at.hazards
        if len(hazards):
            logit = np.log(hazards / (1 - hazards)) + (d[0] if common else d[:-2])
            hazards = 1 / (1 + np.exp(-logit))
        return Comb(hazards, max(at.sigma * float(np.exp(d[-2])), self.floor), at.step + float(d[-1]), at.phase + phase)

    def climb(
        self,
        at: Comb,
        *,
        common: bool = False,
        warm: int = 8,
        rounds: int = 12,
        tol: float = 1e-4,
        give_up: float = -np.inf,
    ) -> tuple[Comb, float]:
        """Maximise from `at`: `warm` EM steps, then Newton steps guarded by EM. Returns the point and its log-likelihood."""
        self.build(at)
        got = self.expect(at)
        for _ in range(warm):
            at = self.em(at, got, common=common)
            got = self.expect(at)
        if not got.loglik > give_up:
            return at, got.loglik
        for outer in range(3):
            start = got.loglik
            at, got = self._newton(at, got, common, rounds, tol)
            if outer and abs(got.loglik - start) < 10 * tol:
                break
            self.build(at)
            got = self.expect(at)
        return at, got.loglik

    def _newton(self, at: Comb, got: Expected, common: bool, rounds: int, tol: float) -> tuple[Comb, Expected]:
        for _ in range(rounds):
            if not np.isfinite(got.loglik):
                return at, got
            inner = replace(at, hazards=np.clip(at.hazards, 1e-6, 1 - 1e-6))
            shared, cross, own = self.information(inner, common=common)
            g, h = self.gradient(at, got, common=common)
            free = self._free(at, common)
            moved = False
            if (own > 0).all() and np.isfinite(shared).all() and np.isfinite(cross).all():
                schur = shared - (cross / own) @ cross.T
                free &= np.diag(schur) > 0
                rhs = g - cross @ (h / own)
                sub = schur[np.ix_(free, free)]
                unit = np.sqrt(np.maximum(np.diag(sub), 1e-20))
                values, vectors = np.linalg.eigh(sub / unit / unit[:, None])
                if len(values) and values.min() > 1e-6:
                    d = np.zeros(len(g))
                    d[free] = vectors @ ((vectors.T @ (rhs[free] / unit)) / values) / unit
                    phase = (h - cross.T @ d) / own
                    gain = 0.5 * float(g @ d + h @ phase)
                    limit = max(float(np.abs(d[:-1]).max()), 2 * float(np.abs(phase).max()) / at.step, 1e-300)
                    scale = min(1.0, 1.0 / limit)
                    for _try in range(4):
                        new = self._moved(inner, scale * d, scale * phase, common)
                        more = self.expect(new)
                        if more.loglik >= got.loglik - 1e-7:
                            at, got, moved = new, more, True
                            break
                        scale *= 0.25
                    if moved and gain < tol:
                        return at, got
            if not moved:
                before = got.loglik
                for _em in range(5):
                    at = self.em(at, got, common=common)
                    got = self.expect(at)
                if got.loglik - before < tol:
                    return at, got
        return at, got

    def _free(self, at: Comb, common: bool) -> npt.NDArray[np.bool_]:
        """Parameters away from their bounds."""
        a = at.hazards[: min(1, len(at.hazards))] if common else at.hazards
        return np.concatenate(((a > 1e-5) & (a < 1 - 1e-5), [at.sigma > 1.001 * self.floor, True]))

    def covariance(self, at: Comb, *, common: bool) -> FloatArray:
        """Covariance of (logit hazards..., log sigma, step), phases profiled out; nan for parameters at a bound."""
        inner = replace(at, hazards=np.clip(at.hazards, 1e-6, 1 - 1e-6))
        shared, cross, own = self.information(inner, common=common)
        free = self._free(at, common)
        schur = shared - (cross / own) @ cross.T
        out = np.full_like(schur, np.nan)
        try:
            out[np.ix_(free, free)] = np.linalg.inv(schur[np.ix_(free, free)])
        except np.linalg.LinAlgError:
            pass
        return out
