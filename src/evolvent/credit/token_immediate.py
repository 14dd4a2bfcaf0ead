"""Immediate rewards: what each token did to the share of tests that a critic foresees (IRCoCo).

Paper: Li et al. 2024, IRCoCo (arXiv 2401.16637).

    A_k = f(s_k, w_k) - f(s_k)      f: the share of its tests that a program which begins so will pass

A token is paid when it is said: the one after which the program can no longer be right pays for it, those before and
after it do not. Inside a decision the credits add up to what was foreseen at its end less what was at its beginning.

Biased: it holds only what was foreseen, nothing that happened (cosine -0.68 to 0.83 on ten random tasks of the
exact test with an arbitrary critic). With exact values of the return it is the policy's advantage, and unbiased. Needs
no group, and ``notes["share_before"]`` and ``notes["share_behind"]`` of every token.

Deviations: the token that ends a program is paid, too (in the released training it gets nothing). Some of the released
data sets pay the score behind a token itself, which pays for saying more; the one that is trained on pays the change.
The critic's deviations stand in ``algos/policy_gradient/foreseen.py``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evolvent.core.episode import Episode
from evolvent.core.ledger import Ledger
from evolvent.credit._tokens import pooled

LEVEL = "token"
UNBIASED = False
NEEDS = ("share_before", "share_behind", "kind:share")
_WHERE = "credit.token_immediate"


def assign(episodes: Sequence[Episode]) -> Ledger:
    """Change of the foreseen share at every token of the valid episodes.

    Raises:
        BadInput: no note ``share_before`` or ``share_behind`` for every token.
    """
    ledger = Ledger.for_episodes(episodes)
    adv_K = np.full(ledger.size(LEVEL), np.nan)
    rows, before = pooled(ledger, "share_before", _WHERE)
    adv_K[rows] = pooled(ledger, "share_behind", _WHERE)[1] - before
    ledger.set(LEVEL, adv_K)
    return ledger
