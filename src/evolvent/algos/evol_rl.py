"""EVOL-RL: no labels: the majority answer counts as correct, and novel reasoning earns more.

Paper: Zhou et al. 2025, Evolving Language Models without Labels (arXiv 2509.15194).

    u_i = 1 - (mean cos to its class + max cos to anyone) / 2           cos of the embedded reasoning
    R_i in [0.5, 1] for the majority answer, [-1, -0.5] for any other, by u inside the class; -1 without an answer
    A_i = (R_i - mean_j R_j) / (std_j R_j + eps)
    L   = - mean_tokens min(r A, clip(r, 1 - .2, 1 + high) A) + kl KL(pi || ref) - entropy H

The environment's reward is never used: it is reported, not learned from. An answer is the last action as the
environment reads it; the reasoning is the text of all decisions. All attempts of a group vote, the first
``learn_share`` of them are learned from. With 64 votes as published: ``--group 64``.

Deviations: embeddings are those of all-MiniLM-L6-v2. LoRA instead of all weights, and a learning rate that suits it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from evolvent.core.episode import Episode
from evolvent.core.folder import RunFolder
from evolvent.credit import step_left_out, step_majority_novelty
from evolvent.evaluate.live import Live
from evolvent.runs.language.system import REFERENCE, ClippedConfig, Needs, Rule, learn, open_language

PAPER = "arXiv 2509.15194"
LEVELS = ("step",)
STATUS = "lightly tested"


@dataclass(frozen=True)
class Config(ClippedConfig):
    """Settings of EVOL-RL."""

    learn_share: float = 0.5
    """Share of the attempts of a group that is trained on; all of them vote."""
    embedder: str = "all-MiniLM-L6-v2"
    """Embedding model for the reasoning; hash = a bag of words."""
    clip_high: float = 0.28
    """Upper clip range: the ratio is clipped above 1 + clip_high."""
    kl: float = 0.001
    """Coefficient of the KL penalty towards the reference model; 0 = no penalty."""
    entropy: float = 0.003
    """Coefficient of the entropy bonus."""


def run(config: Config, folder: RunFolder, live: Live, *, resume: bool = False) -> dict[str, Any]:
    """Train and return the summary that stands in ``summary.json``."""
    from evolvent.learn.tokens.objectives_of_papers import EVOL_RL
    from evolvent.memory import embedders

    objective = replace(EVOL_RL, clip_high=config.clip_high, kl=config.kl, entropy=config.entropy)
    embed = embedders.ready(config.embedder).embed
    base = partial(step_majority_novelty.assign, config=step_majority_novelty.Config(embed=embed))

    def votes_only(episodes: Sequence[Episode]) -> np.ndarray:
        seen = [sum(e.group == episode.group for e in episodes[:i]) for i, episode in enumerate(episodes)]
        return np.array(seen) >= config.learn_share * config.group

    some = step_left_out.Config(base, votes_only)
    rule = Rule.of(step_left_out, "majority_novelty", "agreement with the majority, and novelty", some)
    needs = Needs(base=REFERENCE if config.kl else "", compares=True, even=True)
    with open_language(config, folder, live, resume=resume, needs=needs) as run:
        return learn(run, "evol_rl", rule, objective)
