"""A particle filter over source terms, for all copies of a search at once.

    w <- w L(v);   where 1 / sum w² < N / 2:   resample (systematic), move, w <- 1 / N
    move: theta' = theta + h chol(Cov_block) e,  e ~ N(0, I),  taken with probability min(1, L'(v) / L(v))
    h = A N^(-1 / (n + 4)),   A = (4 / (n + 2))^(1 / (n + 4)),   n = 8;   blocks (x, y, z), Q, (u, phi), (D, tau)

The filter of AutoSTE and of the code of AGDC, with three differences. Systematic positions are (u + j) / N: in the code
they are (u + j - 1) / N, so that two lie below zero and the last two strata are never drawn. The ratio above is that
of a symmetric walk: the code multiplies it by the density of the step, exp(-e'e / 2), which takes a 16th of the moves
(``released_move``). Moves out of the box are refused, as those to a source that there cannot be.

Every copy draws from a stream of its own, and no sum runs over copies: a copy alone has the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evolvent.core.errors import BadInput
from evolvent.formulas import plume

_BLOCKS = (slice(0, 3), slice(3, 4), slice(4, 6), slice(6, 8))
FEWEST = 16
"""Particles below which covariances mean nothing."""


class Belief:
    """B beliefs of N particles.

    Attributes:
        theta_B8N: float32, the source terms, rows as ``plume.ROWS``.
        weight_BN: float32, they sum to 1.
        known_B4N: the particles' ``plume.coefficients``.
    """

    def __init__(
        self, copies: int, particles: int, box: float, threshold: float, detects: float, *, released_move: bool = False
    ) -> None:
        self.threshold, self.detects, self._box, self._released = threshold, detects, box, released_move
        self.theta_B8N = np.zeros((copies, 8, particles), np.float32)
        self.weight_BN = np.zeros((copies, particles), np.float32)
        self.known_B4N = np.zeros((copies, 4, particles), np.float32)
        self._width = (4 / 10) ** (1 / 12) * particles ** (-1 / 12)

    def start(self, copy: int, theta_8N: np.ndarray) -> None:
        """Begin anew in one copy, with particles from the prior.

        Raises:
            BadInput: a particle that is no source.
        """
        self.theta_B8N[copy] = theta_8N
        self.known_B4N[copy] = plume.coefficients(self.theta_B8N[copy])
        self.weight_BN[copy] = 1.0 / theta_8N.shape[1]

    def update(
        self, rows: np.ndarray, at_R3: np.ndarray, reading_R: np.ndarray, streams: Sequence[np.random.Generator]
    ) -> None:
        """Take in what was read at a place in the copies ``rows``; each has its random stream.

        Raises:
            BadInput: no particle can explain what was read: the belief has collapsed.
        """
        at, reading = at_R3.astype(np.float32), reading_R.astype(np.float32)
        said = self._log_likelihood(at, reading, self.theta_B8N[rows], self.known_B4N[rows])
        with np.errstate(divide="ignore"):  # a weight may have become 0
            log_weight = np.log(self.weight_BN[rows]) + said
        top = log_weight.max(axis=1)
        if not np.isfinite(top).all():
            i = int(np.flatnonzero(~np.isfinite(top))[0])
            raise BadInput(
                "the belief has collapsed: no particle can explain what was read",
                got=f"{reading_R[i]:g} at {at_R3[i].tolist()}",
                expected="a finite reading, and a particle that may lead to it",
                where=f"copy {rows[i]}",
                do="take more particles, or a prior that the source can come from",
            )
        weight = np.exp(log_weight - top[:, None])
        weight /= weight.sum(axis=1, keepdims=True)
        self.weight_BN[rows] = weight
        if (few := np.flatnonzero(1.0 / (weight * weight).sum(axis=1) < weight.shape[1] / 2)).size:
            self._renew(rows[few], at[few], reading[few], said[few], streams)

    def mean(self, rows: np.ndarray | slice = slice(None)) -> np.ndarray:
        """Mean of x and y, ``[R, 2]``: the estimate."""
        return (self.theta_B8N[rows, :2] * self.weight_BN[rows, None]).sum(axis=2)

    def cov(self, rows: np.ndarray | slice = slice(None)) -> np.ndarray:
        """Variances of x and y, and their covariance, ``[R, 3]``."""
        off = self.theta_B8N[rows, :2] - self.mean(rows)[:, :, None]
        weighted = off * self.weight_BN[rows, None]
        return np.stack([(weighted[:, i] * off[:, j]).sum(axis=1) for i, j in ((0, 0), (1, 1), (0, 1))], axis=1)

    def effective(self) -> np.ndarray:
        """Effective share of the particles, ``[B]`` in (0, 1]."""
        return 1.0 / (self.weight_BN * self.weight_BN).sum(axis=1) / self.weight_BN.shape[1]

    def _log_likelihood(self, at: np.ndarray, reading: np.ndarray, theta: np.ndarray, known: np.ndarray) -> np.ndarray:
        return plume.log_likelihood(reading, plume.concentration(at, theta, known), self.threshold, self.detects)

    def _renew(
        self,
        rows: np.ndarray,
        at: np.ndarray,
        reading: np.ndarray,
        said: np.ndarray,
        streams: Sequence[np.random.Generator],
    ) -> None:
        """Resample the copies ``rows``, and move their particles; ``said``: their log-likelihoods ``[R, N]``."""
        old, weight = self.theta_B8N[rows], self.weight_BN[rows]
        n = weight.shape[1]
        chosen = np.stack([systematic(w, streams[b].random()) for b, w in zip(rows, weight, strict=True)])
        noise = np.stack([streams[b].standard_normal((8, n), np.float32) for b in rows])
        lot = np.stack([streams[b].random(n, np.float32) for b in rows])
        theta = np.take_along_axis(old, chosen[:, None], axis=2)
        moved = theta.copy()
        off = old - (old * weight[:, None]).sum(axis=2, keepdims=True)
        for block in _BLOCKS:
            own = off[:, block].astype(np.float64)
            cov = np.matmul(own * weight[:, None], own.transpose(0, 2, 1))
            cov += 1e-9 * np.eye(cov.shape[1])  # particles that are all the same
            moved[:, block] += np.matmul(self._width * np.linalg.cholesky(cov), noise[:, block])
        open_ = plume.possible(moved) & ((moved[:, :2] >= 0) & (moved[:, :2] <= self._box)).all(axis=1)
        moved = np.where(open_[:, None], moved, theta)
        known = plume.coefficients(moved)
        gain = self._log_likelihood(at, reading, moved, known) - np.take_along_axis(said, chosen, axis=1)
        if self._released:
            gain -= 0.5 * (noise * noise).sum(axis=1)
        taken = (np.log(np.maximum(lot, 1e-30)) < gain)[:, None]
        self.theta_B8N[rows] = np.where(taken, moved, theta)
        before = np.take_along_axis(self.known_B4N[rows], chosen[:, None], axis=2)
        self.known_B4N[rows] = np.where(taken, known, before)
        self.weight_BN[rows] = 1.0 / n


def systematic(weight_N: np.ndarray, u: float) -> np.ndarray:
    """Which particles are drawn: those at the positions (u + j) / N of the summed weights; int ``[N]``, rising.

    Particle i is drawn floor(N w_i) or ceil(N w_i) times, N w_i in the mean over u in [0, 1).
    """
    n = len(weight_N)
    summed = np.cumsum(weight_N, dtype=np.float64)
    drawn = np.searchsorted(summed, (u + np.arange(n)) / n * summed[-1], side="right")
    return np.minimum(drawn, n - 1)
