"""Whether a team is one: who earns at another's expense is not trained on the mean of both their rewards."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from evolvent.core.errors import BadInput
from evolvent.core.team import Frame

# words in the names of agents that say on which side they are
_FOES = {"adversary", "leadadversary", "eve", "enemy", "opponent"}
_PAIRS = (("red", "blue"), ("attacker", "defender"), ("predator", "prey"), ("pursuer", "evader"))
_ROWS = 50_000  # joint steps that are looked at
_FEW = 5  # steps in which two rewards moved: less may be chance


class Rewards:
    """The rewards of random play, to be asked who earns at whose expense."""

    def __init__(self) -> None:
        self._reward_TBA: list[np.ndarray] = []
        self._done_TB: list[np.ndarray] = []

    def watch(self, frame: Frame) -> None:
        """One step in every copy."""
        if len(self._done_TB) * len(frame.done_B) < _ROWS:
            self._reward_TBA.append(frame.reward_BA.astype(np.float64))
            self._done_TB.append(frame.done_B.copy())

    def sides(self) -> tuple[list[int], str] | None:
        """One of two sides by the numbers of its agents, and what tells them apart; ``None``: nobody is opposed.

        Opposed are agents one of whom loses while another gains, against their means in the same attempt: where an
        attempt began concerns all of its steps, and would make agents look opposed by chance. The fewer attempts, the
        clearer it must be. Rewards that always add up to the same are opposed, too, among however many agents.
        """
        reward_NA, attempt_N = self._rows()
        attempts = np.bincount(attempt_N)
        centre_KA = np.stack([np.bincount(attempt_N, of_one) for of_one in reward_NA.T], axis=1) / attempts[:, None]
        one_step = attempts.max() == 1
        apart_NA = reward_NA - (reward_NA.mean(axis=0) if one_step else centre_KA[attempt_N])
        moment_AA = apart_NA.T @ apart_NA
        scale_AA = np.sqrt(np.outer(np.diag(moment_AA), np.diag(moment_AA)))
        like_AA = np.divide(moment_AA, scale_AA, out=np.zeros_like(moment_AA), where=scale_AA > 0)
        moved_NA = reward_NA != np.median(reward_NA, axis=0)
        like_AA[moved_NA.T.astype(np.int64) @ moved_NA < _FEW] = 0.0
        i, j = np.unravel_index(like_AA.argmin(), like_AA.shape)
        first = [k for k in range(len(like_AA)) if like_AA[k, i] > like_AA[k, j]]
        if like_AA[i, j] < -0.3 - 1.0 / np.sqrt(len(attempts)):
            return first, f"the reward of one falls where that of the other rises (correlation {like_AA[i, j]:.2f})"
        if like_AA[i, j] < 0.0 and moment_AA.sum() < 0.01 * np.trace(moment_AA):
            return first, "the rewards of all agents always add up to the same"
        return None

    def alike(self) -> bool:
        """Whether all agents earned the same in every step, and not nothing: a team, whatever its agents are called."""
        reward_NA, _ = self._rows()
        return bool((reward_NA == reward_NA[:, :1]).all() and reward_NA.any())

    def _rows(self) -> tuple[np.ndarray, np.ndarray]:
        """All joint steps, ``[N, A]``, and the number of the attempt that each belongs to."""
        done_TB = np.stack(self._done_TB)
        ended_BT = (done_TB.cumsum(axis=0) - done_TB).T
        name_BT = ended_BT + np.arange(len(ended_BT))[:, None] * (len(done_TB) + 1)
        _, attempt_N = np.unique(name_BT.reshape(-1), return_inverse=True)
        return np.stack(self._reward_TBA, axis=1).reshape(attempt_N.size, -1), attempt_N


def check_one_side(config: Any, agents: Sequence[str], rewards: Rewards) -> None:
    """Refuse a game of two sides, by the rewards of random play and by names such as ``adversary_0``, unless
    ``--opposed`` asks for it.

    Raises:
        BadInput: names the sides.
    """
    found = (None if rewards.alike() else _named_sides(agents)) or rewards.sides()
    if found is None or config.plan.opposed:
        return
    first, said = found
    ours = ", ".join(str(agents[k]) for k in first)
    theirs = ", ".join(str(name) for k, name in enumerate(agents) if k not in first)
    raise BadInput(
        "these agents are no team: some earn at the expense of others",
        got=f"{ours} against {theirs}: {said}",
        expected="agents that want the same; all are trained on the mean of their rewards",
        where=f"--env {config.env}",
        do="choose a cooperative scenario; of a game of your own, let one side be played inside the environment; "
        "--opposed trains on the mean all the same",
    )


def _named_sides(agents: Sequence[str]) -> tuple[list[int], str] | None:
    """One of two sides by the words in the names of agents."""
    words = [set(re.findall(r"[a-z]+", str(name).lower())) for name in agents]
    for one, other in ((_FOES, None), *(({a}, {b}) for a, b in _PAIRS)):
        first = [k for k, said in enumerate(words) if said & one]
        rest = [k for k, said in enumerate(words) if k not in first and (other is None or said & other)]
        if first and rest:
            return first, "their names say so"
    return None
