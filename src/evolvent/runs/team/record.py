"""The rollout of a team's newest checkpoint in its run folder: to be credited again, replayed, or used offline."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from evolvent.core.errors import BadInput
from evolvent.core.rollout import Rollout
from evolvent.core.rollout_codec import load_columns, load_rollout, save_rollout
from evolvent.core.rollout_ledger import RolloutLedger

NAME = "rollout.json"


def store(folder: Path, ledger: RolloutLedger) -> None:
    """Write the rollout of ``ledger``, and what its rule was given besides, over the one before."""
    save_rollout(folder / NAME, ledger.rollout, ledger.columns)


def stored(folder: Path) -> tuple[Rollout, dict[str, np.ndarray]]:
    """The rollout of a run folder, and the columns beside it by name: ``q_TBAN``, ``policy_TBAN``…

    Raises:
        BadInput: the run stored none, or it cannot be read.
    """
    if not (folder / NAME).exists():
        raise BadInput(
            "the run has recorded no rollout", got=str(folder), expected=f"{NAME}: arrays of a team in lockstep",
            where="evolvent credit", do="take a run of a team (mat, mappo, coma…) made with this version",
        )  # fmt: skip
    return load_rollout(folder / NAME), load_columns(folder / NAME)
