"""Rollouts of a team in its run folder, one a checkpoint: to be credited again, replayed, or used offline."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from evolvent.core.blob import drop_old
from evolvent.core.errors import BadInput
from evolvent.core.rollout import Rollout
from evolvent.core.rollout_codec import load_columns, load_rollout, save_rollout
from evolvent.core.rollout_ledger import RolloutLedger

NAME = "rollout.json"
EARLIER = "rollouts"
"""Folder of the rollouts of several checkpoints, by the number of the update."""


def store(folder: Path, ledger: RolloutLedger, update: int, retain: int = 1) -> None:
    """Write the rollout of ``ledger``, and what its rule was given besides, over the one before.

    Where ``retain`` is more than 1 (0 = all) it is also written to ``rollouts/``, and the oldest beyond ``retain`` go.
    """
    save_rollout(folder / NAME, ledger.rollout, ledger.columns)
    if retain == 1:
        return
    (folder / EARLIER).mkdir(exist_ok=True)
    save_rollout(folder / EARLIER / f"update-{update:06d}.json", ledger.rollout, ledger.columns)
    for old in sorted((folder / EARLIER).glob("update-*.json"))[: -retain or None] if retain else ():
        old.unlink()
        drop_old(old, newest="")


def stored(folder: Path) -> tuple[Rollout, dict[str, np.ndarray]]:
    """The rollout of a run folder, and the columns beside it by name: ``q_TBAN``, ``policy_TBAN``…

    Raises:
        BadInput: the run stored none, or it cannot be read.
    """
    if not (folder / NAME).exists():
        raise BadInput(
            "the run has recorded no rollout",
            got=str(folder),
            expected=f"{NAME}: arrays of a team in lockstep",
            where="evolvent credit",
            do="take a run of a team (mat, mappo, coma…) made with this version",
        )
    return load_rollout(folder / NAME), load_columns(folder / NAME)
