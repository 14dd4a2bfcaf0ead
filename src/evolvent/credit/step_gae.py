"""Generalised advantage estimation: temporal-difference errors of a critic, summed with a decaying trace.

Paper: Schulman et al. 2016 (arXiv 1506.02438); the defaults are those of PPO (Schulman et al. 2017).

    delta_t = r_t + gamma V(s_{t+1}) - V(s_t)
    A_t     = sum_k (gamma trace)^k delta_{t+k}

With ``gamma = trace = 1`` it is unbiased whatever the critic says, since V(s_t) is only a baseline then; with the
defaults the critic's errors bend the gradient a little (cosine 0.998 to 0.9997 with an arbitrary critic in the exact
test). After termination the next value is 0. After truncation it is the critic's value of the observation where the
attempt stopped, so the critic must give T + 1 values for such an episode. Needs no group.

Deviations: none; a critic has to be given, there is no silent V = 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput
from evolvent.core.ledger import Ledger
from evolvent.credit._group import valid_rows
from evolvent.formulas.returns import gae

LEVEL = "step"
UNBIASED = False


@dataclass(frozen=True)
class Config:
    """Settings of GAE."""

    critic: Callable[[Episode], ArrayLike] | None = None
    """Values V(s_t) of an episode, ``[T]``, or ``[T + 1]`` with the value of the last observation."""
    gamma: float = 0.99
    """Discount per step."""
    trace: float = 0.95
    """Trace decay (lambda): 1 trusts the rewards, 0 the critic."""


CLAIMS = ((Config(gamma=1.0, trace=1.0), True), (Config(gamma=1.0), False))


def assign(episodes: Sequence[Episode], config: Config = Config()) -> Ledger:
    """Credit of every step of the valid episodes, in units of reward.

    Raises:
        BadInput: no critic, a critic that returns another number of values, or a truncated episode without the value
            of its last observation.
    """
    ledger = Ledger.for_episodes(episodes)
    owner, adv = ledger.episode_index("step"), np.full(ledger.size("step"), np.nan)
    for i in valid_rows(episodes):
        value, after = _values(episodes[i], config)
        ends = np.arange(len(value)) == len(value) - 1
        adv[np.searchsorted(owner, i) : np.searchsorted(owner, i, "right")] = gae(
            episodes[i].rewards_T,
            value,
            after,
            gamma=config.gamma,
            trace=config.trace,
            terminated_T=ends & (not episodes[i].truncated),
            truncated_T=ends & episodes[i].truncated,
        )
    ledger.set("step", adv)
    return ledger


def _values(episode: Episode, config: Config) -> tuple[np.ndarray, np.ndarray]:
    """Value before and after each step, ``[T]`` each; 0 after the last step of an attempt that really ended."""
    if config.critic is None:
        raise BadInput(
            "GAE needs a critic",
            expected="Config(critic=function from an episode to values [T])",
            where="credit.step_gae",
            do="give one, or use step_return_to_go",
        )
    v = np.asarray(config.critic(episode), dtype=np.float64)
    if v.shape not in ((episode.n_steps,), (episode.n_steps + 1,)) or (episode.truncated and len(v) == episode.n_steps):
        raise BadInput(
            "the critic's values do not fit the episode",
            got=v.shape,
            expected=f"({episode.n_steps + 1},)" + ("" if episode.truncated else f" or ({episode.n_steps},)"),
            where=f"credit.step_gae, episode {episode.id}",
            do="a truncated episode also needs the value of its last observation",
        )
    return v[: episode.n_steps], np.append(v, 0.0)[1 : episode.n_steps + 1]
