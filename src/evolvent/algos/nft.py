"""NFT: supervised learning on correct answers, and on wrong ones through an implied policy of wrong answers.

Paper: Chen et al. 2025, Bridging Supervised Learning and Reinforcement Learning in Math Reasoning (arXiv 2505.18116).

    q = share of right answers in the group,  c_i = 1 for a right one,  R = pi(w) / pi_old(w) of a token
    L = - mean_tokens (1 - q) [ c log R + (1 - c) log max_v((1 - q R) / (1 - q), floor) ]

If the old policy is a mixture of one that is right with probability q and one that is wrong, raising the first lowers
the second: wrong answers are fitted by their share of the mixture. ``max_v`` bounds the value and leaves the gradient.
On policy the gradient is that of GRPO. Groups that are all right or all wrong are left out. An attempt is right if the
environment reports success, whatever its reward (shaped rewards and penalties are ignored), unless ``correct_above`` is
set. q is the share among attempts whose success is known; the loss derives it from the advantage ``c - q``.

Deviations: one optimiser step an update of 8 tasks x 4 attempts by default, the paper does 16 (``--minibatches``) on
16 x 512 attempts. LoRA instead of all weights, and a learning rate that suits it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from evolvent.core.episode import Episode
from evolvent.core.folder import RunFolder
from evolvent.core.reward_kinds import keep_reward, succeeded
from evolvent.credit import step_group_mean, step_left_out
from evolvent.evaluate.live import Live
from evolvent.runs.language.system import ClippedConfig, Needs, Rule, learn, left_out, open_language

PAPER = "arXiv 2505.18116"
LEVELS = ("step",)
STATUS = "lightly tested"
RIGHT = partial(step_group_mean.assign, config=step_group_mean.Config(kinds=("right",)))
RULE = Rule.of(
    step_left_out, "right", "right or wrong, against the share of right answers", step_left_out.Config(base=RIGHT)
)


@dataclass(frozen=True)
class Config(ClippedConfig):
    """Settings of NFT."""

    correct_above: float | None = None
    """Return above which an attempt counts as correct; None = where the environment reports success."""
    floor: float = 1.0
    """Least probability ratio of the implied policy of wrong answers."""


def run(config: Config, folder: RunFolder, live: Live, *, resume: bool = False) -> dict[str, Any]:
    """Train and return the summary that stands in ``summary.json``."""
    from evolvent.learn.tokens.objectives_of_papers import NFT

    def judge(episodes: list[Episode]) -> None:
        for episode in episodes:
            keep_reward(episode, "right", float(succeeded(episode, config.correct_above)))

    with open_language(config, folder, live, resume=resume, needs=Needs(compares=True)) as run:
        return learn(run, "nft", RULE, replace(NFT, floor=config.floor), before=judge, after=left_out)
