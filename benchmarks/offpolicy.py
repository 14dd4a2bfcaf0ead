"""Teams that learn from a replay buffer: return against steps, beside MAPPO, and beside BenchMARL's on two tasks.

    python benchmarks/offpolicy.py --tasks spread HalfCheetah-2x3
    python benchmarks/offpolicy.py --tasks vmas-simple_spread vmas-balance --reference DIR
    pip install --no-deps --target DIR benchmarl==1.5.2 torchrl==0.11.1 tensordict==0.11.0 vmas==1.5.2 pyglet==1.5.31 \
        gym==0.26.2 gym_notices six torchvision==0.28.0 hydra-core omegaconf antlr4-python3-runtime==4.9.3 \
        importlib_metadata==8.7.0 zipp cloudpickle pyvers orjson tqdm

DIR is never the environment itself. Five learners share out landmarks and fight (choices), three move a robot
(numbers). On the tasks of VMAS both sides have the same copies, steps, batch, gradient steps, rates, widths, buffer,
exploration and greedy attempts of 100 steps; BenchMARL's networks have tanh and no layer norms, ours ReLU with them.
Seconds of both are those of the clock without judging; ``cpu_s`` of BenchMARL's rows is not of its process. SMAX needs
the extra jax. ``--scale`` takes a share of the steps, for a trial.
"""

import argparse
import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import team_grid
from team_grid import Cell

from evolvent.algos import maddpg, qmix, vdn
from evolvent.core.folder import RunFolder
from evolvent.evaluate.live import Live

HERE = Path(__file__).parent
CHOOSERS = ("vdn", "qmix", "maddpg", "hasac", "mappo")
MOVERS = ("maddpg", "hasac", "mappo")
RACED = {"vdn": vdn, "qmix": qmix, "maddpg": maddpg}
OURS: dict[str, tuple[str, int, tuple[str, ...]]] = {
    "spread": ("spread:n=3,discrete=true", 300_000, CHOOSERS),
    "smax-3m": ("smax:3m", 600_000, CHOOSERS),
    "HalfCheetah-2x3": ("mamujoco:HalfCheetah-2x3", 300_000, MOVERS),
}
VMAS = {"vmas-simple_spread": "simple_spread", "vmas-balance": "balance"}
EQUAL = {
    "envs": 10, "horizon": 100, "batch": 256, "hidden": (128, 128), "lr": 5e-4, "buffer": 100_000, "warmup": 5_000,
    "steps": 300_000, "gamma": 0.99,
}  # fmt: skip
OWN: dict[str, dict[str, Any]] = {
    **{algo: {"exploration": 100_000, "target_every": 100} for algo in ("vdn", "qmix")},
    "maddpg": {"critic_lr": 5e-4, "tau": 0.005, "noise": 0.1, "shared": True},
}
JUDGED = 32


def cells(scale: float) -> list[Cell]:
    """Every learner on every task that takes it."""
    out: list[Cell] = []
    for task, (env, steps, algos) in OURS.items():
        for algo in algos:
            each = {"envs": 20, "horizon": 200} if algo == "mappo" else {}
            plan = {"eval_every": 5 if algo == "mappo" else 10, "eval_episodes": JUDGED}
            out.append(Cell(task, algo, algo, {"env": env, "steps": int(scale * steps), **each, **plan}))
    for task, scenario in VMAS.items():
        for algo in RACED:
            discrete = "" if algo == "maddpg" else ",continuous=false"
            size = {**EQUAL, **OWN[algo], "steps": int(scale * EQUAL["steps"])}
            size |= {"env": f"vmas:{scenario},limit=100{discrete}", "eval_every": 10, "eval_episodes": JUDGED}
            out.append(Cell(task, algo, algo, size))
            out.append(Cell(task, f"{algo}, BenchMARL", f"benchmarl-{algo}", size))
    return out


def theirs(
    algo: str, reference: str, config: Any, folder: RunFolder, live: Live, *, resume: bool = False
) -> dict[str, Any]:
    """A run of BenchMARL with the settings of ours, in a process of its own, as the summary of one of ours."""
    import numpy as np
    import torch

    from evolvent.learn.team.player import TeamPlayer
    from evolvent.learn.team.views import Views
    from evolvent.runs.team.evaluation import play_copies, random_act, summarise
    from evolvent.runs.team.frozen import team_of

    names = ("seed", "envs", "horizon", "batch", "hidden", "lr", "buffer", "warmup", "steps", "gamma")
    more = ("exploration", "epsilon_end", "target_every", "tau", "noise")
    want = {name: getattr(config, name) for name in (*names, *more) if hasattr(config, name)}
    want |= {"algo": algo, "scenario": config.env.partition(":")[2].partition(",")[0], "episodes": JUDGED}
    want |= {"eval_every": config.plan.eval_every, "discrete": "continuous=false" in config.env}
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": reference}
    words = [sys.executable, str(HERE / "offpolicy_worker.py"), json.dumps(want)]
    live.status("BenchMARL, in a process of its own")
    done = subprocess.run(words, capture_output=True, text=True, env=environment)
    if done.returncode:
        sys.exit(f"BenchMARL's side failed:\n{done.stderr[-3000:]}")
    told = json.loads(done.stdout.strip().splitlines()[-1])
    judged = [(step, summarise({"return": np.array(values)})) for step, values in told["evaluations"]]
    for step, result in judged:
        folder.log(step, phase="eval", **result)
    team = team_of(config.env)
    chance = TeamPlayer(Views(team, ids=False, device=torch.device("cpu")), random_act(team))
    seconds = {"act_s": 0.0, "step_s": 0.0, "credit_s": 0.0, "learn_s": told["seconds"]}  # not told apart
    folder.log(judged[-1][0], update=1, **{"return": None}, **seconds)
    random = summarise(play_copies(chance, "random", config, config.env, live))
    final = judged[-1][1]
    score = {"name": "return, greedy", "value": final["value"], "ci95": final["ci95"], "higher_is_better": True}
    ends = {"score": score, "baseline": random, "greedy": final, "sampled": final, "steps": judged[-1][0], "updates": 1}
    return {"algo": f"benchmarl-{algo}", "env": config.env, "seed": config.seed, **ends, "versions": told["versions"]}


def main() -> None:
    """What stands before the flags of every grid."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--reference", default="", help="folder into which BenchMARL was installed")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the steps")
    own, sys.argv[1:] = parser.parse_known_args()
    if own.reference:
        sys.path.append(own.reference)  # behind everything: only what is missing here comes from there
    learners = {
        f"benchmarl-{algo}": SimpleNamespace(Config=module.Config, run=partial(theirs, algo, own.reference))
        for algo, module in RACED.items()
    }
    doc = f"{__doc__}\n--reference DIR and --scale SHARE stand beside these flags:"
    team_grid.main("offpolicy", cells(own.scale), doc, seeds=(0, 1, 2), learners=learners)


if __name__ == "__main__":
    main()
