"""DAPO: GRPO with a wider upper clip, token mean, soft length penalty, and only groups whose returns differ.

Paper: Yu et al. 2025, DAPO: An Open-Source LLM Reinforcement Learning System at Scale (arXiv 2503.14476).

    R_i = return + 0 up to limit - buffer tokens, falling to -1 at limit
    A_i = (R_i - mean_j R_j) / (std_j R_j + eps)
    L   = - mean_tokens min(r A, clip(r, 1 - low, 1 + high) A)                       no reference

An update draws tasks until ``prompts`` groups have returns that differ, in at most ``draws`` draws, each of as many
tasks as are missing; groups that differ are kept. With fewer it trains on what there is, and ``differing`` in the log
says how many. What was sampled in vain counts in ``attempts``, ``sampled_tokens`` and ``return``, and takes no part in
the loss or its denominators.

Deviations: one optimiser step an update of 8 tasks x 4 attempts by default, the paper does 16 (``--minibatches``) on
512 x 16; a draw of the released code is a whole batch, and what is too many is thrown away. LoRA instead of all
weights, and a learning rate that suits it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from evolvent.core.episode import Episode
from evolvent.core.folder import RunFolder
from evolvent.core.reward_kinds import keep_reward
from evolvent.credit import step_group_std, step_left_out
from evolvent.evaluate.live import Live
from evolvent.formulas.curricula import teaching
from evolvent.formulas.process_rewards import overlong_penalty
from evolvent.runs.language.system import ClippedConfig, LanguageRun, Needs, Rule, learn, open_language

PAPER = "arXiv 2503.14476"
LEVELS = ("step",)
STATUS = "tested"
RULE = step_group_std.Config(kinds=("return", "overlong"))


@dataclass(frozen=True)
class Config(ClippedConfig):
    """Settings of DAPO."""

    draws: int = 10
    """Rounds of sampling in an update, at most, to find groups whose returns differ."""
    overlong_limit: int = 20480
    """Length of an attempt, in sampled tokens, from which the full penalty of -1 applies."""
    overlong_buffer: int = 4096
    """Length of the interval below the limit, in tokens, over which the penalty rises from 0 to 1."""
    clip_low: float = 0.2
    """Lower clip range: the ratio is clipped below 1 - clip_low."""
    clip_high: float = 0.28
    """Upper clip range: the ratio is clipped above 1 + clip_high."""


def run(config: Config, folder: RunFolder, live: Live, *, resume: bool = False) -> dict[str, Any]:
    """Train and return the summary that stands in ``summary.json``."""
    from evolvent.learn.tokens.objectives_of_papers import DAPO

    objective = replace(DAPO, clip_low=config.clip_low, clip_high=config.clip_high)
    tokens = {"limit": config.overlong_limit, "buffer": config.overlong_buffer}
    overlong_penalty(0, **tokens)  # refuses what is no buffer, before anything is loaded
    with open_language(config, folder, live, resume=resume, needs=Needs(compares=True, even=True)) as run:
        fresh: dict[str, np.ndarray] = {}

        def collect(_: int) -> tuple[list[Episode], dict[str, float]]:
            episodes, fresh["out"], drawn = collect_differing(run, config.draws)
            for episode in episodes:
                keep_reward(episode, "overlong", overlong_penalty(episode.n_tokens, **tokens))
            return episodes, drawn

        some = step_left_out.Config(partial(step_group_std.assign, config=RULE), out=lambda _: fresh["out"])
        rule = Rule.of(step_left_out, "group_std_overlong", "GRPO, with a penalty on length", some)
        return learn(run, "dapo", rule, objective, collect=collect)


def collect_differing(run: LanguageRun, draws: int) -> tuple[list[Episode], np.ndarray, dict[str, float]]:
    """Attempts at fresh tasks until ``prompts`` groups have returns that differ, in at most ``draws`` draws of as many
    tasks as groups are missing.

    Returns:
        All attempts that were made; which of them are not to be learned from, bool ``[E]`` (groups that are all alike);
        and ``draws`` and ``differing``, the number of groups that differ.
    """
    episodes: list[Episode] = []
    chosen: list[str] = []
    made = 0
    while made < draws and len(chosen) < run.config.prompts:
        missing = run.config.prompts - len(chosen)
        episodes += run.collect(again=made, which=[(n, g) for n in range(missing) for g in range(run.config.group)])
        chosen = differing(episodes)
        made += 1
    out_E = np.array([e.group not in chosen for e in episodes], dtype=np.bool_)
    return episodes, out_E, {"draws": float(made), "differing": float(len(chosen))}


def differing(episodes: Sequence[Episode]) -> list[str]:
    """Groups in which valid attempts earned differently, in order."""
    valid = [e for e in episodes if e.valid]
    teaching_N = teaching([e.total_reward for e in valid], [e.group for e in valid])
    return list(dict.fromkeys(e.group for e, teaches in zip(valid, teaching_N, strict=True) if teaches))
