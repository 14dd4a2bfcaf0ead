"""Advantage over siblings: what a decision earned, less what the others earned who stood in the same state.

Source: our own; leave-one-out (Kool et al. 2019) at every state that several attempts went through.

    A_t = mean over j that made decision t of [ G_{j,t} - mean over the others k in the same state of G_{k,t} ]

Unbiased where the attempts are independent samples: the others' returns do not depend on the decision that is judged.
Who stands alone in a state keeps the whole reward to go (baseline 0). For attempts that part at the first decision it
is leave-one-out with reward to go.

Deviations: none. Attempts that a search chose by their value are not independent.
"""

from __future__ import annotations

from collections.abc import Sequence

from evolvent.core.episode import Episode
from evolvent.core.ledger import Ledger
from evolvent.credit._shared import Shared
from evolvent.credit.step_search_return import to_go

LEVEL = "step"
UNBIASED = True


def assign(episodes: Sequence[Episode]) -> Ledger:
    """Credit of every step of the valid episodes, in units of reward."""
    shared = Shared(episodes)
    own = to_go(shared)
    return shared.ledger(shared.mean(own - shared.others(own)))
