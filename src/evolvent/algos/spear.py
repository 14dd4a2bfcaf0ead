"""SPEAR: PPO with a group baseline, a bonus for tool calls that fades, and self-imitation from a growing replay weight.

Paper: Qin et al. 2025, Learn the Ropes, Then Trust the Wins (arXiv 2509.22601).

    fresh:   A_i = R_i - mean_j R_j,  R = return + min(1, bonus turns) (1 + cos(pi t / period)) / 2      t = update
    replay:  A_i = max(0, R_i - median of the means of recent groups), attempts that beat their group lately
    L = L_fresh + (1 - cos(pi t / period)) / 2  L_replay,   each PPO clipped at 1 - .2, 1 + high, summed over
        B length; the replay leaves out 2 % of its tokens, of high covariance (Clip-Cov)

Attempts that were cut off, that repeat themselves (20 tokens ten times in one answer), that are garbled, or that end
without an answer and without a tool are not learned from, nor are groups beyond the ``keep_groups`` with the largest
spread. What is left and beat its group is replayed: up to as many attempts as there are fresh ones, none older than
``stale`` updates; the memory is in the checkpoint.

Deviations: where the world does not tell of tools, every decision counts as a use of one (``--bonus 0`` where more
turns are no virtue). Every update replays some, without bonus in their return (released: all at once when the memory
is full, bonus included). Clip-Cov is the paper's; the released code leaves out 2e-4 of all tokens, fresh ones too.
LoRA instead of all weights, and a learning rate that suits it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from evolvent.core.episode import Episode
from evolvent.core.folder import RunFolder
from evolvent.core.reward_kinds import keep_reward
from evolvent.core.seeding import seed_tree
from evolvent.credit import step_group_mean, step_left_out, step_recent_median
from evolvent.evaluate.live import Live
from evolvent.formulas.curricula import repeats, rising, tool_bonus, widest_groups
from evolvent.learn.tokens.replay import Replay
from evolvent.runs.language.system import ClippedConfig, Needs, Rule, left_out, open_language

PAPER = "arXiv 2509.22601"
LEVELS = ("step",)
STATUS = "lightly tested"
RULE = step_group_mean.Config(kinds=("return", "tools"))


@dataclass(frozen=True)
class Config(ClippedConfig):
    """Settings of SPEAR."""

    clip_high: float = 0.28
    """Upper clip range: the ratio is clipped above 1 + clip_high."""
    length: int = 3000
    """Length that the summed loss is divided by: the largest number of tokens of an attempt."""
    keep_groups: float = 0.75
    """Share of the groups that is trained on: those with the largest standard deviation of returns."""
    bonus: float = 0.1
    """Initial bonus for each turn with a tool call, up to 1 for an attempt."""
    period: float = 200.0
    """Updates over which the bonus falls to 0 and the weight of the replay rises to 1."""
    replay_size: int = 2048
    """Capacity of the replay, in attempts."""
    stale: int = 10
    """Age in updates after which an attempt leaves the replay."""


def run(config: Config, folder: RunFolder, live: Live, *, resume: bool = False) -> dict[str, Any]:
    """Train and return the summary that stands in ``summary.json``."""
    from evolvent.learn.tokens.imitation import WithReplay
    from evolvent.learn.tokens.objectives_of_papers import SPEAR, SPEAR_REPLAY

    own, replayed = (replace(one, clip_high=config.clip_high, length=config.length) for one in (SPEAR, SPEAR_REPLAY))
    with open_language(config, folder, live, resume=resume, needs=Needs(compares=True)) as run:
        replay = Replay(config.replay_size, stale=config.stale, seed=seed_tree(config.seed, "replay"))
        run.keep(replay=replay)
        for t in run.updates():
            episodes = run.collect()  # ACT and STEP
            with run.clock("credit"):  # CREDIT
                bonus = [tool_bonus(uses(e), t, period=config.period, each=config.bonus) for e in episodes]
                for e, extra in zip(episodes, bonus, strict=True):
                    keep_reward(e, "tools", extra)
                paid = [e.total_reward + extra for e, extra in zip(episodes, bonus, strict=True)]
                wide = widest_groups(paid, [e.group for e in episodes], share=config.keep_groups)
                bad = np.array([faulty(e) for e in episodes])
                out_E = ~wide | bad
                base = partial(step_group_mean.assign, config=RULE)
                ledger = step_left_out.assign(episodes, step_left_out.Config(base, out=lambda _, out=out_E: out))
                recent = step_recent_median.Config(recent=tuple(replay.means))
                old = replay.draw(len(episodes), t, partial(step_recent_median.assign, config=recent))
                both = ledger.followed_by(old, "step")
                better = step_group_mean.assign([e for e, w in zip(episodes, wide, strict=True) if w])
                replay.add(better, t, faulty=bad[wide].tolist())
            with run.clock("learn"):  # LEARN
                objective, n = WithReplay(own, replayed, len(episodes), rising(t, config.period)), len(old.episodes)
                metrics = run.improve(objective, both, level="step", replayed=n)
                if n and "gap" in metrics:  # an older policy sampled: that says nothing of sampler and trainer
                    metrics["replay_gap"] = metrics.pop("gap")
            counts = left_out(ledger) | {"faulty": float(bad.mean()), "replayed": float(n)}
            run.log(episodes, ledger, **counts, replay_weight=objective.weight, **metrics)
        summary = "the return and the bonus for turns, against the mean of the group"
        return run.finish("spear", Rule.of(step_group_mean, "spear", summary, RULE))


def uses(episode: Episode) -> int:
    """How often a tool was called; decisions where the world does not tell."""
    return episode.n_steps if episode.outcomes is None else len(episode.outcomes)


def faulty(episode: Episode) -> bool:
    """Cut off, repetitive, garbled, or without an answer and without a tool: not to be learned from."""
    if episode.truncated or "length" in episode.finish_T:
        return True
    answers = np.split(episode.token_ids, np.cumsum(episode.tokens_per_step_T)[:-1])
    if any(repeats(ids.tolist(), n=20) >= 10 for ids in answers):
        return True
    if any("\ufffd" in node.text for node in episode.nodes if node.step is not None):
        return True
    return not episode.answer and not episode.outcomes
