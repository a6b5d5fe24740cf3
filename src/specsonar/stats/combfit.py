"""Maximum likelihood on the comb: EM steps from the sweep's expectations, then quasi-Newton on its exact gradient."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from . import comb
from .bursts import pmf
from .delays import NORMAL, DelayLaw

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Comb:
    """Parameters: hazards, shape (M-1,); delay spread `sigma` and `step` in seconds; `phase`, shape (streams,): time
    of the middle step; `law` of the delay.

    Step r of a stream with middle index c stands at phase + (r - c) step.
    """

    hazards: FloatArray
    sigma: float
    step: float
    phase: FloatArray
    law: DelayLaw = NORMAL


@dataclass(frozen=True, slots=True, eq=False)
class Expected:
    """What the sweep says at one parameter point; sums over streams unless a shape is given.

    loglik in nats. went, stopped: shape (M-1,). square: sum of delay times pull (`comb.sweep`). line: per stream
    (streams, 5), sums of q, q x, q x^2, q d, q x d over tokens and steps, x = r - c, d = pull, q = posterior.
    """

    loglik: float
    went: FloatArray
    stopped: FloatArray
    square: float
    line: FloatArray


class Problem:
    """Streams, and their state graphs for one M: evaluates `Comb` points. Graphs are built at one point and used
    near it."""

    def __init__(self, times: Sequence[FloatArray], floor: float, *, rough: bool = False) -> None:
        self.times = [np.ascontiguousarray(t, np.float64) for t in times]
        self.tokens = sum(len(t) for t in times)
        self.floor = floor
        self.prune, self.reach = (1e-4, 8.0) if rough else (1e-6, 13.0)
        self.tol, self.rounds = (2e-2, 10) if rough else (5e-4, 30)
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
            self._graphs.append(
                comb.build(t, steps, at.sigma, weights, self.reach, self.prune, self._bits, at.law.kind, at.law.shape)
            )

    def sweep(self, at: Comb) -> list[tuple[float, FloatArray, FloatArray, FloatArray]]:
        """`comb.sweep` of every stream."""
        weights = comb.step_weights(pmf(at.hazards))
        out = []
        for t, phase, x, graph in zip(self.times, at.phase, self._index, self._graphs, strict=True):
            out.append(
                comb.sweep(t, phase + x * at.step, at.sigma, weights, self._bits, at.law.kind, at.law.shape, *graph)
            )
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
        """One EM step, closed form: counts for the hazards, weighted regression for the comb, then the residual for
        sigma; under a skewed law, which has no such form, the hazards alone."""
        went, total = got.went, got.went + got.stopped
        if common:
            hazards = np.full(len(went), went.sum() / max(total.sum(), 1e-300)) if len(went) else went
        else:
            hazards = np.divide(went, total, out=np.full(len(went), 0.5), where=total > 1e-9)
        if at.law.skewed:
            return replace(at, hazards=hazards)
        q, qx, qxx, d, xd = got.line.T
        q = np.maximum(q, 1e-9)
        bend = float((qxx - qx**2 / q).sum())
        slope = float((xd - qx * d / q).sum()) / bend if bend > 0 else 0.0
        slope = float(np.clip(slope, -0.02 * at.step, 0.02 * at.step))
        shift = (d - qx * slope) / q
        square = got.square - 2 * float(slope * xd.sum() + shift @ d)
        square += float((slope**2 * qxx + 2 * slope * shift * qx + shift**2 * q).sum())
        sigma = max(np.sqrt(max(square, 0.0) / self.tokens), self.floor)
        return replace(at, hazards=hazards, sigma=float(sigma), step=at.step + slope, phase=at.phase + shift)

    def gradient(self, at: Comb, got: Expected, *, common: bool) -> tuple[FloatArray, FloatArray]:
        """Score in (logit hazards..., log sigma, step) and in the phases, by Fisher's identity; phases shape
        (streams,)."""
        a = at.hazards
        logit = got.went * (1 - a) - a * got.stopped
        if common and len(a):
            logit = np.array([logit.sum()])
        v = at.sigma**2
        spread = got.square / v - self.tokens
        if at.sigma <= self.floor and spread < 0:
            spread = 0.0
        return np.concatenate((logit, [spread, got.line[:, 4].sum() / v])), got.line[:, 3] / v

    def moved(self, at: Comb, shared: FloatArray, phase: float | FloatArray, *, common: bool) -> Comb:
        """`at` shifted in the coordinates of `gradient`; logits stay within +-14, sigma above its floor."""
        hazards = at.hazards
        if len(hazards):
            bounded = np.clip(hazards, 1e-6, 1 - 1e-6)
            logit = np.log(bounded / (1 - bounded)) + (shared[0] if common else shared[:-2])
            hazards = 1 / (1 + np.exp(-np.clip(logit, -13.8, 13.8)))
        sigma = max(at.sigma * float(np.exp(shared[-2])), self.floor)
        return replace(at, hazards=hazards, sigma=sigma, step=at.step + float(shared[-1]), phase=at.phase + phase)

    def climb(
        self,
        at: Comb,
        *,
        common: bool = False,
        warm: int = 3,
        give_up: float = -np.inf,
    ) -> tuple[Comb, float]:
        """Maximise from `at`: `warm` EM steps, then L-BFGS preconditioned with EM's complete-data information.

        Ends when a further step promises less than `self.tol` nats, or after `warm` steps below `give_up`. Lange 1995,
        Statistica Sinica 5, 1-18.
        Returns the point and its log-likelihood, on graphs built close to it.
        """
        for _ in range(4):
            self.build(at)
            origin = at
            got = self.expect(at)
            for _ in range(warm):
                if not np.isfinite(got.loglik):
                    break
                at = self.em(at, got, common=common)
                got = self.expect(at)
            if not got.loglik > give_up:
                break
            at, got = self._ascend(at, got, common)
            warm = 0
            if self._near(origin, at):
                break
        return at, got.loglik

    def _near(self, a: Comb, b: Comb) -> bool:
        half = max(float(np.abs(x).max()) for x in self._index)
        slip = float(np.abs(a.phase - b.phase).max()) + abs(a.step - b.step) * half
        return slip < 0.3 * b.sigma and abs(np.log(a.sigma / b.sigma)) < 0.15

    def _ascend(self, at: Comb, got: Expected, common: bool) -> tuple[Comb, Expected]:
        past: list[tuple[FloatArray, FloatArray]] = []
        g = np.concatenate(self.gradient(at, got, common=common))
        for _ in range(self.rounds):
            if not np.isfinite(got.loglik):
                break
            d = self._direction(at, got, g, past, common)
            p = len(d) - len(at.phase)
            gain = 0.5 * float(g @ d)
            if not gain > 0:
                if not past:
                    break
                past = []
                continue
            half = max(float(np.abs(x).max()) for x in self._index)
            slip = (float(np.abs(d[p:]).max()) + abs(d[p - 1]) * half) / (0.5 * at.sigma)
            scale = min(1.0, 1.5 / max(float(np.abs(d[: p - 1]).max()), slip, 1e-300))
            for _ in range(6):
                new = self.moved(at, scale * d[:p], scale * d[p:], common=common)
                more = self.expect(new)
                if more.loglik >= got.loglik - 1e-9:
                    break
                scale *= 0.3
            else:
                if not past or gain < self.tol:
                    break
                past = []
                continue
            after = np.concatenate(self.gradient(new, more, common=common))
            y = g - after
            if y @ d > 1e-12:
                past = [*past[-7:], (scale * d, y)]
            at, got, g = new, more, after
            if gain < self.tol:
                break
        return at, got

    def _direction(
        self, at: Comb, got: Expected, g: FloatArray, past: list[tuple[FloatArray, FloatArray]], common: bool
    ) -> FloatArray:
        """Two-loop recursion around the inverse of the complete-data information."""
        q = g.copy()
        left = []
        for s, y in reversed(past):
            left.append(float(s @ q) / float(y @ s))
            q -= left[-1] * y
        r = self._precondition(at, got, q, common)
        for (s, y), c in zip(past, reversed(left), strict=True):
            r += s * (c - float(y @ r) / float(y @ s))
        return r

    def _precondition(self, at: Comb, got: Expected, g: FloatArray, common: bool) -> FloatArray:
        place, scale = at.law.information()
        a, v = at.hazards, at.sigma**2 / place
        own = (got.went + got.stopped) * a * (1 - a)
        if common and len(a):
            own = np.array([own.sum()])
        r = np.empty_like(g)
        k = len(own)
        r[:k] = g[:k] / np.maximum(own, 1e-6)
        r[k] = g[k] / (scale * self.tokens)
        count, x, xx = got.line[:, 0], got.line[:, 1], got.line[:, 2]
        count = np.maximum(count, 1e-9)
        h = g[k + 2 :]
        bend = float((xx - x**2 / count).sum())
        r[k + 1] = v * (g[k + 1] - float(x / count @ h)) / bend if bend > 0 else 0.0
        r[k + 2 :] = (v * h - x * r[k + 1]) / count
        return r

    def information(self, at: Comb, *, common: bool) -> FloatArray:
        """Observed information about (logit hazards..., log sigma, step), phases profiled out; nan where they are not
        at a maximum.

        Differences of the exact score on the graphs of the last `build`.
        """
        at = self.moved(at, np.zeros((min(1, len(at.hazards)) if common else len(at.hazards)) + 2), 0.0, common=common)
        g, h = self.gradient(at, self.expect(at), common=common)
        p = len(g)
        pace = 3e-3 * at.sigma / np.sqrt(self.tokens)
        size = np.full(p, 1e-3)
        size[-1] = pace / max(float(np.abs(x).max()) for x in self._index)
        shared, cross = np.zeros((p, p)), np.zeros((p, len(h)))
        for j in range(p):
            new = self.moved(at, size[j] * np.eye(p)[j], 0.0, common=common)
            gj, hj = self.gradient(new, self.expect(new), common=common)
            shared[j], cross[j] = (g - gj) / size[j], (h - hj) / size[j]
        new = self.moved(at, np.zeros(p), pace, common=common)
        own = (h - self.gradient(new, self.expect(new), common=common)[1]) / pace
        if not (own > 0).all():
            return np.full((p, p), np.nan)
        return np.asarray(0.5 * (shared + shared.T) - (cross / own) @ cross.T, np.float64)

    def covariance(self, at: Comb, *, common: bool) -> FloatArray:
        """Covariance of (logit hazards..., log sigma, step), the inverse of `information`; nan for parameters at a
        bound."""
        info = self.information(at, common=common)
        out: FloatArray = np.full(info.shape, np.nan)
        a = at.hazards[: min(1, len(at.hazards))] if common else at.hazards
        free = np.concatenate(((a > 1e-5) & (a < 1 - 1e-5), [at.sigma > 1.001 * self.floor, True]))
        free &= np.diag(info) > 0
        try:
            out[np.ix_(free, free)] = np.linalg.inv(info[np.ix_(free, free)])
        except np.linalg.LinAlgError:
            pass
        return out
