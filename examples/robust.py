"""A policy that balances a pole, under noise on its sensors and with a thicker pole. No page is written, no file read.

pip install -c constraints.txt -e '.[marl]' && python examples/robust.py [--steps 40000]
"""

import argparse
import tempfile
from pathlib import Path

import torch

import evolvent
from evolvent import envs
from evolvent.algos import ppo
from evolvent.core.folder import RunFolder

TASK = "gymnasium:InvertedPendulum-v5"
WORLDS = {
    "undisturbed": TASK,
    "sensors: noise of .1": f"disrupt:[{TASK}],obs=gaussian:0.1",
    "rewards: noise of 1": f"disrupt:[{TASK}],reward=gaussian:1",
    "world: thicker bodies": f"disrupt:[{TASK}],dynamics=geometry*1.5",
}


def main() -> None:
    """Train, then play the frozen policy in every world, from the same starts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=40_000)
    parser.add_argument("--episodes", type=int, default=8)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "pole"
        evolvent.run("ppo", env=TASK, steps=given.steps, eval_episodes=given.episodes, out=run, quiet=True)
        policy = ppo.policy(RunFolder.open(run))
    for name, world in WORLDS.items():
        env = envs.load_team(world, given.episodes, testing=True)
        generator = torch.Generator().manual_seed(0)
        found = policy.play(env, episodes=given.episodes, greedy=True, generator=generator, seed=1)
        env.close()
        print(f"{name:24} return {found['return'].mean():7.1f} in {found['length'].mean():5.0f} steps")


if __name__ == "__main__":
    main()
