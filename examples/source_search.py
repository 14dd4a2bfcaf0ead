"""A planner of one's own in the search for a source, beside one step towards the mean of the belief.

    python examples/source_search.py 64

Ours goes to a place that it draws from its belief and keeps for ten steps; both make the same searches.
"""

import sys

import numpy as np
import torch

from evolvent import envs
from evolvent.envs.team.ste import MOVES
from evolvent.runs.team.searches import played, player_of, searching


def drawn(env, keep=10):
    """Towards a particle, drawn anew every ``keep`` steps."""
    draw, aim = np.random.default_rng(0), np.zeros((env.n_envs, 2))

    def act(*seen):
        for b in np.flatnonzero(env.age_B % keep == 0):
            weight = env.belief.weight_BN[b].astype(float)
            aim[b] = env.belief.theta_B8N[b, :2, draw.choice(len(weight), p=weight / weight.sum())]
        return torch.from_numpy(((aim - env.at_B3[:, :2]) @ MOVES.T).argmax(1)[:, None])

    return act


def towards_mean(env):
    return lambda *seen: torch.from_numpy(((env.belief.mean() - env.at_B3[:, :2]) @ MOVES.T).argmax(1)[:, None])


for planner in (drawn, towards_mean):
    env = envs.load_team("ste:wide", 32)
    found = played(player_of(env, planner(searching(env))), env, int(sys.argv[1]), seed=0)
    said = {name: round(float(np.mean(found[name])), 2) for name in ("success", "wrong_stop", "steps")}
    print(planner.__name__, said)
