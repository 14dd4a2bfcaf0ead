"""Who makes recorded data: a run that learned, at its end or a third of the way there.

A run that is begun again with fewer steps does the same until there, so that the policy and the attempts of a third of
the way are those of a second, shorter run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Any

import numpy as np
import torch

from evolvent import envs
from evolvent.core.errors import BadInput
from evolvent.core.seeding import seed_tree
from evolvent.data.recorded.episodes import Attempt
from evolvent.data.recorded.recording import record
from evolvent.learn.team.player import TeamPlayer
from evolvent.learn.team.views import Views
from evolvent.runs.team.evaluation import random_act
from evolvent.runs.team.frozen import team_of

WINDOW = 5
"""Updates whose returns are averaged before they are compared."""
COPIES = 8


def a_third(rows: Sequence[Mapping[str, Any]], random: float) -> int:
    """The first update at which attempts, while learning, came a third of the way from ``random`` to the best.

    ``rows`` are the lines of a run's metrics; returns are means over ``WINDOW`` updates.

    Raises:
        BadInput: the run never earned more than random play.
    """
    found = [(int(row["update"]), float(row["return"])) for row in rows if row.get("return") is not None]
    if not found:
        raise BadInput("no attempt ended while the run learned", where="--from", do="train longer: --train-steps")
    returns = np.array([value for _, value in found])
    width = min(WINDOW, len(returns))
    mean = np.convolve(returns, np.ones(width) / width, "valid")
    if mean.max() <= random:
        got, do = f"{mean.max():.4g}, random play {random:.4g}", "train longer: --train-steps"
        raise BadInput("the run learned nothing", got=got, where="--from", do=do)
    reached = int(np.argmax(mean >= random + (mean.max() - random) / 3.0))
    return found[reached + width - 1][0]


def played(player: TeamPlayer, env: str, steps: int, seed: int, tell: Callable[[float], None]) -> tuple[Attempt, ...]:
    """Whole attempts of a policy with sampled actions; ``seed`` resets the environments and draws the actions."""
    generator = torch.Generator(player.views.device)
    generator.manual_seed(seed_tree(seed, "actions"))
    with closing(envs.load_team(env, COPIES)) as copies:
        act = player.act
        return record(
            copies, lambda frame: act(frame, greedy=False, generator=generator), steps=steps, seed=seed, tell=tell
        )


def random_player(env: str) -> TeamPlayer:
    """Random actions."""
    team = team_of(env)
    return TeamPlayer(Views(team, ids=False, device=torch.device("cpu")), random_act(team))
