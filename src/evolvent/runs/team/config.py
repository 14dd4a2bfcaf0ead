"""Settings of a run that trains a team."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from evolvent.learn.team.config import PPO, Joint


@dataclass(frozen=True)
class Plan:
    """Settings of a run that do not belong to an algorithm."""

    workers: int | str = 0
    """Processes that step the environments; 0 = the main process; ray or ray:N = actors on a Ray cluster."""
    device: str = "cpu"
    """Torch device: cpu, cuda."""
    threads: int = 1
    """Threads of torch; small networks are fastest with one."""
    eval_every: int = 50
    """Updates between evaluations; 0 = only at the end."""
    eval_episodes: int = 32
    """Episodes of an evaluation."""
    save_every: int = 50
    """Updates between checkpoints; a run that is stopped writes one too. Environments restart at a checkpoint."""
    keep_rollouts: int = 1
    """Rollouts that are kept: 1 = the newest checkpoint's alone (rollout.json); K of the newest checkpoints, or 0 = of
    every update, in rollouts/: whole attempts, as data to learn from."""
    lr_end: float = 1.0
    """What learning rates fall to by the end of the run, linearly, as a share of what they begin with."""
    init: str = ""
    """Run folder whose weights initialise the networks (the number of agents may differ); empty = random weights."""
    step_s: float = 300.0
    """Seconds that a step of all copies may take in an environment of your own, before it counts as hung; 0 = any."""
    normalise_obs: Literal["auto", "on", "off"] = "auto"
    """Show observations in units of their own running spread; auto = in environments of your own."""
    opposed: bool = False
    """Train on the mean of all rewards even where the agents' interests conflict."""


@dataclass(frozen=True)
class EnvConfig:
    """Settings that every learner in environments has."""

    KIND = "team"
    EXTENDABLE = (("steps", "step"),)
    ids = False  # a field where there are several agents
    one_size = True  # False where the network reads each number on its own

    env: str = "spread:n=3"
    """Environment with its options, e.g. mamujoco:HalfCheetah-6x1 or mpe:simple_spread; or yours, file.py[:NAME]."""
    seed: int = 0
    """Random seed of weights, environments, actions and minibatches."""
    steps: int = 1_000_000
    """Total environment steps over all copies; one step moves every agent of one copy. Only whole updates are run."""
    envs: int = 32
    """Copies of the environment that are stepped in parallel."""
    horizon: int = 100
    """Rollout length T: steps of each copy of the environment between two updates."""
    gamma: float = 0.99
    """Discount factor per step."""
    plan: Plan = Plan()
    """Workers, device, evaluations, checkpoints."""


@dataclass(frozen=True)
class OneAgentPPO(PPO, EnvConfig):
    """Settings that are usual for PPO with one agent (stable-baselines3, CleanRL for numbers)."""

    steps: int = 200_000
    """Total environment steps over all copies. Only whole updates are run."""
    envs: int = 8
    """Copies of the environment that are stepped in parallel."""
    horizon: int = 256
    """Rollout length T: steps of each copy of the environment between two updates."""
    gae_lambda: float = 0.95
    """λ of GAE."""
    hidden: tuple[int, ...] = (64, 64)
    """Hidden layers of actor and critic, as their widths."""
    epochs: int = 10
    """Epochs over a rollout, of actor and critic."""
    minibatches: int = 32
    """Minibatches that a rollout is split into."""
    lr: float = 3e-4
    """Learning rate of actor and critic (Adam, eps 1e-5)."""
    clip: float = 0.2
    """Clip range of probability ratios (PPO's epsilon)."""
    entropy: float = 0.0
    """Coefficient of the entropy bonus; 0.01 is usual for choices."""
    grad_clip: float = 0.5
    """Gradient norm above which a gradient is scaled down."""


@dataclass(frozen=True)
class TeamConfig(EnvConfig):
    """Settings of a team's learners from rollouts."""

    ids: bool = True
    """Append the agent's index (one-hot) to its observation."""
    gae_lambda: float = 0.95
    """λ of GAE."""


@dataclass(frozen=True)
class ReplayConfig(EnvConfig):
    """Settings of learners from a replay buffer."""

    envs: int = 1
    """Copies of the environment that are stepped in parallel."""
    horizon: int = 500
    """Steps of each copy of the environment between two lines of the log (an update)."""
    plan: Plan = Plan(eval_every=20, save_every=20)
    """Workers, device, evaluations, checkpoints."""
    buffer: int = 100_000
    """Steps that the replay buffer holds, over all copies; it stands in every checkpoint."""
    batch: int = 128
    """Transitions of a gradient step."""
    warmup: int = 1_000
    """Steps over all copies before the first gradient step."""
    train_every: int = 1
    """Steps of each copy between two gradient steps."""
    n_step: int = 1
    """Rewards that a target sums before it is bootstrapped; fewer where an attempt ends."""


@dataclass(frozen=True)
class JointReplayConfig(ReplayConfig):
    """Settings of a team's learners from a replay buffer with critics of joint actions."""

    ids: bool = True
    """Append the agent's index (one-hot) to its observation."""
    steps: int = 500_000
    """Total environment steps over all copies; one step moves every agent of one copy. Only whole updates are run."""
    envs: int = 10
    """Copies of the environment that are stepped in parallel."""
    horizon: int = 200
    """Steps of each copy of the environment between two lines of the log (an update)."""
    batch: int = 256
    """Transitions of a gradient step."""
    warmup: int = 5_000
    """Steps over all copies with random actions, before the first gradient step."""
    hidden: tuple[int, ...] = (128, 128)
    """Hidden layers of actors and critics, as their widths."""
    lr: float = 5e-4
    """Learning rate of the actors (Adam)."""
    critic_lr: float = 1e-3
    """Learning rate of the critics (Adam)."""
    tau: float = 0.005
    """Share by which the copies follow in a step."""


@dataclass(frozen=True)
class JointConfig(Joint, TeamConfig):
    """Settings of a joint policy of a team."""
