"""What robots earn that do nothing: python benchmarks/marl_idle.py

All torques 0, 64 attempts of each robot of ``marl_mujoco.py``. Ant is paid for every step it stays upright, so a return
near this one says that it has learned to stand, not to walk.
"""

import json
from pathlib import Path

import torch
from marl_mujoco import TUNED

from evolvent import envs
from evolvent.core.jsonfile import write_atomic
from evolvent.core.machine import provenance
from evolvent.learn.team.player import TeamPlayer
from evolvent.learn.team.views import Views
from evolvent.runs.team.evaluation import idle_act, summarise

COPIES, ATTEMPTS = 16, 64


def main() -> None:
    """Play and write the result file."""
    rows = []
    for robot in TUNED:
        name = f"mamujoco:{robot}"
        env = envs.load_team(name, COPIES)
        player = TeamPlayer(Views(env.team, ids=False, device=torch.device("cpu")), idle_act(env.team))
        result = player.play(env, episodes=ATTEMPTS, greedy=True, generator=torch.Generator(), seed=0)
        env.close()
        rows.append({"task": robot, "command": "python benchmarks/marl_idle.py", **summarise(result), **provenance()})
        print(robot, rows[-1]["value"], rows[-1]["ci95"])
    target = Path(__file__).parent / "results" / "marl_idle.json"
    write_atomic(target, json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
