"""Games that tell joint policies from separate and from shared ones: permutation and split, three seeds.

    python benchmarks/marl_games.py --tasks permutation --arms mat --seeds 0 1 2

Four agents that see the same six numbers of noise and move once. Permutation: paid when all four moves differ; agents
that are alike and independent are right with probability 4!/4^4 = .094. Split: paid when the first two play one of two
moves and the last two the other; one memoryless policy for all is right with probability 2/2^4 = .125 at best. 32
copies, 8 attempts each an update (256), 10 passes of MAT; everything else is what the algorithms have by default. 80
updates, and 240 where separate or shared actors play split. "-ids" sees its own number. The rows hold the share of
right attempts while learning (actions are drawn) by update.
"""

import team_grid
from team_grid import Cell

SIZE = {"envs": 32, "horizon": 8, "ids": False, "eval_every": 40, "eval_episodes": 256}
UPDATES = 256  # steps of one


def cells() -> list[Cell]:
    """Every arm of both games."""
    joint = {**SIZE, "env": "permutation:n=4", "epochs": 10, "steps": 80 * UPDATES}
    split = {**SIZE, "env": "split:n=4", "steps": 240 * UPDATES}
    return [
        Cell("permutation", "mat", "mat", joint),
        Cell("permutation", "pmat", "pmat", joint),
        Cell("permutation", "mat_dec", "mat", {**joint, "actor": "local"}),
        Cell("permutation", "mat_dec-ids", "mat", {**joint, "actor": "local", "ids": True}),
        Cell("split", "mat", "mat", {**split, "epochs": 10, "steps": 80 * UPDATES}),
        Cell("split", "happo", "happo", split),
        Cell("split", "hatrpo", "hatrpo", split),
        Cell("split", "mappo-shared", "mappo", split),
    ]


if __name__ == "__main__":
    team_grid.main("marl_games", cells(), __doc__, seeds=(0, 1, 2))
