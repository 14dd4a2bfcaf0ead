"""The frame of a game whose players move one at a time."""

from __future__ import annotations

import numpy as np

from evolvent.core.turns import GameFrame


def in_turn(mover_B: np.ndarray, info_BD: np.ndarray, legal_BN: np.ndarray, reward_BP: np.ndarray) -> GameFrame:
    """What ``mover_B`` knows and may do, in its row; -1 = the game has ended."""
    acts_BP = mover_B[:, None] == np.arange(reward_BP.shape[1])
    return GameFrame(
        acts_BP=acts_BP,
        info_BPD=acts_BP[..., None] * info_BD[:, None].astype(np.float32),
        legal_BPN=acts_BP[..., None] & legal_BN[:, None],
        reward_BP=reward_BP.astype(np.float32),
        ended_B=mover_B < 0,
    )
