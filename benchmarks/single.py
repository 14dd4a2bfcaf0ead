"""Systems of one agent beside stable-baselines3: return against steps, and CPU seconds, at equal settings.

    pip install --no-deps --target DIR stable-baselines3==2.9.2      # never into the environment itself
    python benchmarks/single.py --reference DIR

PPO and DQN play CartPole-v1, DDPG and TD3 Pendulum-v1 (TD3 is ``ddpg --twin --smoothing 0.2 --delay 2``). Both sides
have the same copies, steps, batches, rates, sizes of networks and gradient steps; ours have layer norms and ReLU,
theirs tanh (PPO) or ReLU. Both are judged by the same greedy attempts at the same steps, whose CPU seconds are not
counted. The sides take turns within a seed, in one process with one thread; the ratio of their seconds is taken seed by
seed.
"""

import argparse
import json
import os
import sys

# one thread on both sides; before numpy is imported
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import importlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch

from evolvent import envs
from evolvent.core.config import with_fields
from evolvent.core.jsonfile import dump, write_atomic
from evolvent.core.machine import provenance
from evolvent.core.team import Frame
from evolvent.evaluate.live import Live
from evolvent.formulas.statistics import student_interval

HERE = Path(__file__).parent
OUT = HERE / "results" / "single.json"
SIDES = ("ours", "stable-baselines3")
POINTS, JUDGED = 10, 20
"""Evaluations on the way, and attempts of each."""
PENDULUM = {
    "batch": 128, "hidden": (64, 64), "lr": 1e-3, "critic_lr": 1e-3, "buffer": 100_000, "warmup": 1_000, "tau": 0.005,
    "noise": 0.1,
}  # fmt: skip
TD3 = {"twin": True, "smoothing": 0.2, "delay": 2}
CELLS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "PPO": ("ppo", "CartPole-v1", {"steps": 61_440, "envs": 8, "horizon": 256}),
    "DQN": ("dqn", "CartPole-v1", {"steps": 30_000}),
    "DDPG": ("ddpg", "Pendulum-v1", {"steps": 10_000, **PENDULUM}),
    "TD3": ("ddpg", "Pendulum-v1", {"steps": 10_000, **PENDULUM, **TD3}),
}
Play = Callable[[Frame], np.ndarray]
Point = tuple[int, float]


def main() -> None:
    """Run the missing rows and write the result file."""
    a = _arguments()
    sys.path.append(a.reference)  # behind everything: only what is missing here comes from there
    torch.set_num_threads(1)
    with Live(plain=True) as live:
        for seed in a.seeds:
            for name in a.cells:
                algo, task, settings = CELLS[name]
                config = with_fields(importlib.import_module(f"evolvent.algos.{algo}").Config(), **settings)
                config = with_fields(config, steps=a.steps or config.steps)
                for side in sorted(SIDES, reverse=bool(seed % 2)):
                    key = {"cell": name, "algo": algo, "task": task, "side": side, "seed": seed}
                    if any(key.items() <= row.items() for row in rows(a.out)):
                        continue
                    live.note(f"{name}, seed {seed}: {side}")
                    curve, spent = (ours if side == "ours" else theirs)(name, config, seed)
                    row = {**key, "steps": config.steps, "cpu_s": spent, "curve": curve, **provenance()}
                    write_atomic(a.out, dump([*rows(a.out), row], indent=1) + "\n")


def rows(path: Path) -> list[dict[str, Any]]:
    """What has been measured."""
    return json.loads(path.read_text("utf-8")) if path.exists() else []


class Judge:
    """Greedy attempts on the way, always the same; their CPU seconds do not count."""

    def __init__(self, task: str, steps: int) -> None:
        self._env, self._every = envs.load_team(f"gymnasium:{task}", JUDGED), steps / POINTS
        self.curve: list[Point] = []
        self._begun, self._aside = time.process_time(), 0.0

    def at(self, step: int, play: Play) -> None:
        """Judge where a tenth of the steps is over."""
        if step < self._every * (len(self.curve) + 1) - 1:
            return
        begun = time.process_time()
        frame, gained, on = self._env.reset(7), np.zeros(JUDGED), np.ones(JUDGED, bool)
        while on.any():
            frame = self._env.step(play(frame))
            gained += frame.reward_BA[:, 0] * on
            on &= ~frame.done_B
        self.curve.append((step, float(gained.mean())))
        self._aside += time.process_time() - begun

    @property
    def spent(self) -> float:
        """CPU seconds of learning."""
        return time.process_time() - self._begun - self._aside


def ours(name: str, config: Any, seed: int) -> tuple[list[Point], float]:
    """One run of ours: the curve, and its CPU seconds."""
    algo, task, _ = CELLS[name]
    module, judge = importlib.import_module(f"evolvent.algos.{algo}"), Judge(CELLS[name][1], config.steps)
    env, done, generator = envs.load_team(f"gymnasium:{task}", config.envs), 0, torch.Generator()
    each = config.envs * config.horizon

    def watch(player: Any, row: dict[str, Any]) -> None:
        nonlocal done
        done += each
        judge.at(done, lambda frame: player.act(frame, greedy=True, generator=generator))

    module.train(config, env, seed=seed, watch=watch)
    return judge.curve, judge.spent


def theirs(name: str, config: Any, seed: int) -> tuple[list[Point], float]:
    """One run of stable-baselines3 with the same settings."""
    import stable_baselines3 as sb3
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.noise import NormalActionNoise

    task = CELLS[name][1]
    judge = Judge(task, config.steps)
    space = gymnasium.make(task).action_space

    def act(frame: Frame) -> np.ndarray:
        action, _ = model.predict(frame.obs_BAD[:, 0], deterministic=True)
        return action[:, None] if name in ("PPO", "DQN") else action[:, None] / space.high

    class Watch(BaseCallback):
        def _on_step(self) -> bool:
            if self.num_timesteps % (config.envs * config.horizon) == 0:
                judge.at(self.num_timesteps, act)
            return True

    common = {"seed": seed, "device": "cpu", "gamma": config.gamma, "policy_kwargs": {"net_arch": list(config.hidden)}}
    if name == "PPO":
        batch = config.envs * config.horizon // config.minibatches
        sizes = {"n_steps": config.horizon, "batch_size": batch, "n_epochs": config.epochs}
        model = sb3.PPO(
            "MlpPolicy", make_vec_env(task, config.envs, seed=seed), learning_rate=config.lr, **sizes, **common
        )
    else:
        common |= {"learning_rate": config.lr, "buffer_size": config.buffer, "learning_starts": config.warmup}
        common |= {"batch_size": config.batch, "train_freq": config.train_every, "gradient_steps": 1}
        if name == "DQN":
            own = {
                "target_update_interval": config.target_every,
                "exploration_fraction": config.exploration / config.steps,
            }
            model = sb3.DQN("MlpPolicy", task, exploration_final_eps=config.epsilon_end, **own, **common)
        else:
            noise = NormalActionNoise(np.zeros(space.shape), config.noise * np.ones(space.shape))
            model = getattr(sb3, name)("MlpPolicy", task, tau=config.tau, action_noise=noise, **common)
    model.learn(config.steps, callback=Watch())
    return judge.curve, judge.spent


def table_of(algo: str) -> list[str]:
    """Lines of one system for its page: return on the way, and CPU seconds beside the reference."""
    found = [row for row in rows(OUT) if row["algo"] == algo]
    if not found:
        return []
    shares = (0.2, 0.4, 0.6, 1.0)
    heads = "".join(f" | after {share:.0%}" for share in shares)
    out = [f"| task | learner | seeds | steps{heads} | CPU s, ours / theirs |", "|---|---|---|---|---|---|---|---|---|"]
    for name in dict.fromkeys(row["cell"] for row in found):
        cell = [row for row in found if row["cell"] == name]
        mine, its = ({row["seed"]: row for row in cell if row["side"] == side} for side in SIDES)
        ratio = _mean([mine[seed]["cpu_s"] / its[seed]["cpu_s"] for seed in mine.keys() & its.keys()], 2)
        for runs, label, spent in ((mine, f"`{algo}`", ""), (its, SIDES[1], ratio)):
            steps = max(row["steps"] for row in runs.values())
            way = " | ".join(_mean([_after(row, share) for row in runs.values()]) for share in shares)
            out.append(f"| {cell[0]['task']} | {name}, {label} | {len(runs)} | {steps:,} | {way} | {spent} |")
    return out


def _after(row: dict[str, Any], share: float) -> float:
    """The return once a share of the steps is over."""
    return row["curve"][round(share * len(row["curve"])) - 1][1]


def _mean(values: list[float], digits: int = 0) -> str:
    low, high = student_interval(values) if len(values) > 1 else (values[0], values[0])
    return f"{np.mean(values):.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reference", required=True, help="folder into which stable-baselines3 was installed")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--cells", nargs="+", default=list(CELLS), choices=list(CELLS))
    parser.add_argument("--steps", type=int, default=0, help="steps of every run; 0 = those of the cell")
    parser.add_argument("--out", type=Path, default=OUT)
    return parser.parse_args()


if __name__ == "__main__":
    main()
