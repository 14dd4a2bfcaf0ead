"""SPEAR: explore with tools first, then imitate what went well, by a replay whose weight rises while a bonus fades.

Paper: Qin et al. 2025, Learn the Ropes, Then Trust the Wins (arXiv 2509.22601).

    fresh:   A_i = R_i - mean_j R_j,  R = return + min(1, bonus turns) (1 + cos(pi t / period)) / 2      t = update
    replay:  A_i = max(0, R_i - median of the means of recent groups), attempts that beat their group lately
    L = L_fresh + (1 - cos(pi t / period)) / 2  L_replay,   each PPO clipped at 1 - .2, 1 + high, summed over
        B length; the replay leaves out 2 % of its tokens, of high covariance (Clip-Cov)

Attempts that were cut off, and groups beyond the ``keep_groups`` with the largest spread, are not learned from. The
replay takes up to as many attempts as there are fresh ones, none older than ``stale`` updates; it is in the checkpoint.

Deviations: repetitive or garbled attempts are not filtered out; every decision counts as a use of a tool
(``--bonus 0`` where more turns are no virtue). LoRA instead of all weights, and a learning rate that suits it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from evolvent.core.episode import Episode
from evolvent.core.folder import RunFolder
from evolvent.core.reward_kinds import keep_reward
from evolvent.core.seeding import seed_tree
from evolvent.credit import step_group_mean, step_recent_median
from evolvent.evaluate.live import Live
from evolvent.formulas.curricula import rising, tool_bonus, widest_groups
from evolvent.learn.imitation import WithReplay
from evolvent.learn.leave_out import leave_out
from evolvent.learn.objectives_of_papers import SPEAR, SPEAR_REPLAY
from evolvent.learn.replay import Replay, side_by_side
from evolvent.rollout.language import open_language
from evolvent.rollout.language_config import LanguageConfig
from evolvent.rollout.language_credit import Rule
from evolvent.rollout.language_frozen import evaluate_language

PAPER = "arXiv 2509.22601"
LEVELS = ("step",)
STATUS = "lightly tested"
RULE = step_group_mean.Config(kinds=("return", "tools"))


@dataclass(frozen=True)
class Config(LanguageConfig):
    """Settings of SPEAR."""

    clip_high: float = 0.28
    """How far above 1 a ratio counts."""
    length: int = 3000
    """The most tokens an attempt can have."""
    keep_groups: float = 0.75
    """Share of the groups, those with the largest spread, that is learned from."""
    bonus: float = 0.1
    """Reward of a turn at the start, up to 1 an attempt."""
    period: float = 200.0
    """Updates in which the bonus fades and the replay rises."""
    replay_size: int = 2048
    """Attempts that are kept for replay."""
    stale: int = 10
    """Updates after which one is forgotten."""

    grad_clip: float = 1.0
    """Largest norm of the gradient."""


def run(config: Config, folder: RunFolder, live: Live, *, resume: bool = False) -> dict[str, Any]:
    """Train and return the summary that stands in ``summary.json``."""
    own, replayed = (replace(one, clip_high=config.clip_high, length=config.length) for one in (SPEAR, SPEAR_REPLAY))
    with open_language(config, folder, live, resume=resume) as run:
        replay = Replay(config.replay_size, stale=config.stale, seed=seed_tree(config.seed, "replay"))
        run.keep(replay=replay)
        for t in run.updates():
            episodes = run.collect()  # ACT and STEP
            with run.clock("credit"):  # CREDIT
                for e in episodes:
                    keep_reward(e, "tools", tool_bonus(e.n_steps, t, period=config.period, each=config.bonus))
                ledger = step_group_mean.assign(episodes, RULE)
                leave_out(ledger, _left_out(episodes, config.keep_groups))
                old = replay.draw(len(episodes), t)
                recent = step_recent_median.Config(recent=tuple(replay.means))
                both = side_by_side(ledger, step_recent_median.assign(old, recent))
                replay.add(episodes, t)
            with run.clock("learn"):  # LEARN
                objective = WithReplay(own, replayed, len(episodes), rising(t, config.period))
                told = run.improve(objective, both.episodes, both, level="step", grad_clip=config.grad_clip)
                if old:  # they were sampled by an older policy, which says nothing of sampler and trainer
                    told["replay_gap"] = told.pop("gap")
            run.log(episodes, ledger, replayed=float(len(old)), replay_weight=objective.weight, **told)
        summary = "the return and the bonus for turns, against the mean of the group"
        return run.finish("spear", Rule("spear", "step", summary, lambda e: step_group_mean.assign(e, RULE)))


def _left_out(episodes: Sequence[Episode], share: float) -> list[bool]:
    """What was cut off, and groups of little spread."""
    wide = widest_groups([e.total_reward for e in episodes], [e.group for e in episodes], share=share)
    return [not w or e.truncated or "length" in e.meta["finish"] for e, w in zip(episodes, wide.tolist(), strict=True)]


def evaluate(folder: RunFolder, live: Live, episodes: int | None = None, *, env: str = "") -> dict[str, Any]:
    """Attempt held-out tasks with the newest checkpoint, frozen; ``env`` may be another world."""
    return evaluate_language(Config, folder, live, episodes, env=env)
