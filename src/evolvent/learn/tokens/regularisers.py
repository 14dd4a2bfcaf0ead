"""Terms that hold a policy back: distance to a reference, element by element over ``[U]``."""

from __future__ import annotations

from torch import Tensor

from evolvent.learn.tokens.axis import Part, part_of
from evolvent.learn.tokens.ratios import log_ratios

KL_FORMS = {
    "k1": Part(lambda d: d),
    "k2": Part(lambda d: 0.5 * d**2),
    "k3": Part(lambda d: (-d).exp() - 1.0 + d),
}
"""By name: a function of ``d = log pi - log ref``. k1 is unbiased and can be negative, k3 is at least 0."""


def kl(logp: Tensor, ref_logp: Tensor, form: str) -> Tensor:
    """Estimate of KL(pi, ref) from what pi sampled, log-ratios within ±20 (Schulman 2020).

    Raises:
        BadInput: a form that is not one of ``KL_FORMS`` nor ``file.py:NAME``.
    """
    return part_of("kl_form", form, KL_FORMS, Part).call(log_ratios(logp, ref_logp))
