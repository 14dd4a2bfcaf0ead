"""A plume of gas in a steady wind, and what a sensor that misses says about where it comes from.

A source at x_s gives off Q; the gas drifts with the wind u, spreads with the diffusivity D and lasts tau
(Vergassola et al. 2007; the form of AutoSTE, Hutchinson et al. 2019). With d the distance from the source:

    lambda = sqrt( D tau / (1 + u² tau / (4 D)) )
    C(p)   = Q / (4 pi D d) exp( -[(p - x_s) · (cos phi, sin phi)] u / (2 D) - d / lambda )

The wind comes *from* phi. The sensor reads v = C (1 + 0.5 n), n ~ N(0, 1); 0 below its threshold h, and 0 where it
misses, with probability 1 - P. What a reading says:

    L(v) = P Phi((h - C) / h) + 1 - P   for v <= h,      N(v; C, sigma = 0.5 C + 1e-4)   otherwise
"""

from __future__ import annotations

import math

import numpy as np

from evolvent.core.errors import BadInput

NOISE, FLOOR, NEAREST = 0.5, 1e-4, 1e-5
ROWS = ("x", "y", "z", "strength", "wind", "direction", "diffusivity", "lifetime")
"""The source term theta, in this order."""


def possible(theta: np.ndarray) -> np.ndarray:
    """Which source terms ``[..., 8, N]`` there can be: Q >= 0, u >= 0, D > 0, tau > 0; bool ``[..., N]``."""
    q, u, d, tau = (theta[..., i, :] for i in (3, 4, 6, 7))
    return (q >= 0) & (u >= 0) & (d > 0) & (tau > 0)


def coefficients(theta: np.ndarray) -> np.ndarray:
    """What of the formula does not depend on the place: Q / (4 pi D), u cos phi / 2D, u sin phi / 2D, 1 / lambda.

    ``theta`` is ``[..., 8, N]``, the result ``[..., 4, N]`` of the same type.

    Raises:
        BadInput: a source term that there cannot be (``possible``).
    """
    if not possible(theta).all():
        at = np.argwhere(~possible(theta))[0]
        got = dict(zip(ROWS, theta[(*at[:-1], slice(None), at[-1])].tolist(), strict=True))
        expected = "strength and wind >= 0, diffusivity and lifetime > 0"
        raise BadInput("no such source", got=got, expected=expected, where="formulas.plume")
    q, u, phi, d, tau = (theta[..., i, :] for i in range(3, 8))
    drift = u / (2 * d)
    per_length = np.sqrt((1 + u * u * tau / (4 * d)) / (d * tau))
    return np.stack([q / (4 * math.pi * d), drift * np.cos(phi), drift * np.sin(phi), per_length], axis=-2)


def concentration(at: np.ndarray, theta: np.ndarray, known: np.ndarray | None = None) -> np.ndarray:
    """C at places ``[..., 3]`` for sources ``[..., 8, N]``: ``[..., N]``; ``known``: their ``coefficients``."""
    scale, along_x, along_y, per_length = np.moveaxis(coefficients(theta) if known is None else known, -2, 0)
    x, y, z = (at[..., i, None] - theta[..., i, :] for i in range(3))
    distance = np.maximum(np.sqrt(x * x + y * y + z * z), NEAREST)
    return scale / distance * np.exp(-(x * along_x + y * along_y) - distance * per_length)


def normal_cdf(x: np.ndarray) -> np.ndarray:
    """Phi to 8e-8 (Abramowitz & Stegun 7.1.26), in the type of ``x``."""
    y = np.abs(x) * (1 / math.sqrt(2.0))
    t = 1.0 / (1.0 + 0.3275911 * y)
    tail = ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t
    upper = 0.5 * tail * np.exp(-y * y)
    return np.where(x > 0, 1.0 - upper, upper)


def log_likelihood(reading: np.ndarray, concentration: np.ndarray, threshold: float, detects: float) -> np.ndarray:
    """Log L of readings ``[...]`` where the concentration is ``[..., N]``; ``detects`` is P. Densities may exceed 1."""
    silent = reading <= threshold
    if silent.all():
        return _silent(concentration, threshold, detects)
    if not silent.any():
        return _heard(reading[..., None], concentration)
    out = np.empty(np.broadcast_shapes((*reading.shape, 1), concentration.shape), concentration.dtype)
    whole = np.broadcast_to(concentration, out.shape)
    out[silent] = _silent(whole[silent], threshold, detects)
    out[~silent] = _heard(reading[~silent, None], whole[~silent])
    return out


def _silent(concentration: np.ndarray, threshold: float, detects: float) -> np.ndarray:
    return np.log(detects * normal_cdf(1.0 - concentration / threshold) + (1.0 - detects))


def _heard(reading: np.ndarray, concentration: np.ndarray) -> np.ndarray:
    sigma = NOISE * concentration + FLOOR
    return -0.5 * ((reading - concentration) / sigma) ** 2 - np.log(sigma * math.sqrt(2 * math.pi))
