"""Terms that hold a policy back: distance to a reference, element by element over ``[U]``."""

from __future__ import annotations

from torch import Tensor

from evolvent.core.errors import BadInput
from evolvent.learn.tokens.ratios import log_ratios

KL_FORMS = ("k1", "k2", "k3")


def kl(logp: Tensor, ref_logp: Tensor, form: str) -> Tensor:
    """Estimate of KL(pi, ref) from what pi sampled, ``d = log pi - log ref`` within ±20 (Schulman 2020).

    ``k1``: d, unbiased, can be negative. ``k2``: d²/2. ``k3``: e^{-d} - 1 + d, at least 0.

    Raises:
        BadInput: unknown form.
    """
    d = log_ratios(logp, ref_logp)
    if form == "k1":
        return d
    if form == "k2":
        return 0.5 * d**2
    if form == "k3":
        return (-d).exp() - 1.0 + d
    raise BadInput("unknown form of the divergence", got=form, expected=KL_FORMS, where="learn.regularisers")
