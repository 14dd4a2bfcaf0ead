"""Multi-agent MuJoCo: HalfCheetah 6x1 and Ant 4x2 with MAT, HAPPO and MAPPO, three seeds.

    python benchmarks/marl_mujoco.py --steps 400000 --tasks HalfCheetah-6x1 --arms mat --seeds 0

With --minutes instead of --steps the steps that fit are found by a trial of three updates and stay fixed from then on,
so that a run that was stopped goes on; a busy machine gives fewer steps. MAT learns with the settings of its released
script for these robots but for the copies (16 x 100 steps an update instead of 40 x 100), HAPPO with the tuned ones of
HARL (Ant: clip 0.1, no entropy; HalfCheetah: those of its 2x3, 15 passes, clip 0.05), MAPPO with its defaults.
Observations are those of gymnasium-robotics: an agent's own joints, those one step along the body, and the torso, with
the agent's number; published curves are of another task version (v2) and give every agent the full state (HARL) or
other neighbours (MAT).
"""

import team_grid
from team_grid import Cell

SIZE = {"envs": 16, "eval_every": 50, "eval_episodes": 16, "save_every": 20}
MAT = {"horizon": 100, "epochs": 10, "minibatches": 40, "lr": 5e-5, "clip": 0.05, "entropy": 1e-3, "grad_clip": 0.5}
HAPPO = {"hidden": (128, 128, 128)}
TUNED = {"HalfCheetah-6x1": {"epochs": 15, "clip": 0.05}, "Ant-4x2": {"clip": 0.1, "entropy": 0.0}}


def cells() -> list[Cell]:
    """Every robot with every algorithm."""
    out: list[Cell] = []
    for robot, tuned in TUNED.items():
        size = {**SIZE, "env": f"mamujoco:{robot}"}
        out += [
            Cell(robot, "mat", "mat", {**size, **MAT}),
            Cell(robot, "happo", "happo", {**size, **HAPPO, **tuned}),
            Cell(robot, "mappo", "mappo", size),
        ]
    return out


if __name__ == "__main__":
    team_grid.main("marl_mujoco", cells(), __doc__, seeds=(0, 1, 2), minutes=40.0)
