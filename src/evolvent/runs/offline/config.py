"""Settings of a run that learns from recorded attempts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class OfflinePlan:
    """Settings of a run that do not belong to an algorithm."""

    device: str = "cpu"
    """Torch device: cpu, cuda."""
    threads: int = 1
    """Threads of torch; small networks are fastest with one."""
    eval_every: int = 10
    """Updates between evaluations in the environment; 0 = only at the end."""
    eval_episodes: int = 20
    """Episodes of an evaluation."""
    save_every: int = 10
    """Updates between checkpoints; a run that is stopped writes one too."""
    normalise: bool = True
    """Show observations in units of their spread in the data."""
    step_s: float = 300.0
    """Seconds that a step of all copies may take in an environment of your own, before it counts as hung; 0 = any."""


@dataclass(frozen=True)
class OfflineConfig:
    """Settings that every learner from recorded attempts has."""

    KIND = "offline"
    EXTENDABLE = (("steps", "step"),)
    ids = False  # a field where there are several agents

    data: str = ""
    """Recorded attempts: a folder of `evolvent data make`, the run folder of a team, or your own .npz."""
    env: str = "gymnasium:Hopper-v5"
    """Environment that the data are of, with its options; what is learned is judged there."""
    seed: int = 0
    """Random seed of weights, minibatches and evaluations."""
    steps: int = 20_000
    """Gradient steps. Only whole updates are run."""
    log_every: int = 200
    """Gradient steps between two lines of the log (an update)."""
    batch: int = 256
    """Steps of the data in a gradient step."""
    plan: OfflinePlan = OfflinePlan()
    """Device, evaluations, checkpoints."""
