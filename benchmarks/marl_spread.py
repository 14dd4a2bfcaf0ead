"""Cooperative navigation: mpe simple_spread with three agents, five algorithms, five seeds.

    python benchmarks/marl_spread.py --arms mat happo --seeds 0 1 2 3 4

Discrete moves, 25 steps an attempt, 32 copies x 25 steps an update, 500,000 steps, the same for all. MAT learns with
the settings of its released script for this task (10 passes, lr 7e-4); HAPPO, HATRPO and MAPPO with those that HARL
tuned for it, which but for the sizes of a rollout and HATRPO's threshold are their defaults; IPPO, for which none are
released, with MAPPO's. The score is the return (mean over agents, sum over steps) of 128 greedy attempts after the last
update.
"""

import team_grid
from team_grid import Cell

SIZE = {
    "env": "mpe:simple_spread,n=3",
    "envs": 32,
    "horizon": 25,
    "steps": 500_000,
    "eval_every": 125,
    "eval_episodes": 128,
}


def cells() -> list[Cell]:
    """Every algorithm."""
    own = {"mat": {"epochs": 10, "lr": 7e-4}, "happo": {}, "hatrpo": {"delta": 0.005}, "mappo": {}, "ippo": {}}
    return [Cell("simple_spread-3", algo, algo, {**SIZE, **settings}) for algo, settings in own.items()]


if __name__ == "__main__":
    team_grid.main("marl_spread", cells(), __doc__, seeds=(0, 1, 2, 3, 4))
