"""RAFT: rejection sampling fine-tuning: sample, keep the best answer to each task, learn it as an example.

Paper: Dong et al. 2023, RAFT: Reward rAnked FineTuning for Generative Foundation Model Alignment (arXiv 2304.06767).

    a_1 … a_G ~ pi(. | task),   kept: the best of them, argmax_g r(a_g)
    L = - mean over the tokens of what was kept of log pi(w)

``--which successes`` keeps all attempts that succeeded instead (rejection sampling, as STaR does, arXiv 2203.14465,
without its hints). A task whose attempts all failed teaches nothing: its best one earned what any other did.

Deviations: one update, with the policy as it is, is the paper's stage. Of equally good attempts the first is kept. LoRA
instead of all weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from evolvent.core.episode import Episode
from evolvent.core.folder import RunFolder
from evolvent.core.ledger import Ledger
from evolvent.credit._sides import answered, compared, sided
from evolvent.evaluate.live import Live
from evolvent.runs.language.imitation import imitate
from evolvent.runs.language.system import ClippedConfig, Needs, Rule, left_out, open_language

PAPER = "arXiv 2304.06767"
LEVELS = ("step",)
STATUS = "lightly tested"


@dataclass(frozen=True)
class Config(ClippedConfig):
    """Settings of RAFT."""

    which: Literal["best", "successes"] = "best"
    """What is learned from: best = the best attempt at each task, where any is better than another or succeeded;
    successes = all that succeeded (or, where nobody says, earned more than 0)."""


def run(config: Config, folder: RunFolder, live: Live, *, resume: bool = False) -> dict[str, Any]:
    """Train and return the summary that stands in ``summary.json``."""
    rule = Rule(
        "kept", "step", "1 for what is kept, nothing for the rest", best if config.which == "best" else successes
    )
    needs = Needs(compares=config.which == "best")
    with open_language(config, folder, live, resume=resume, needs=needs) as run:
        for _ in run.updates():
            episodes = run.collect()  # ACT and STEP
            with run.clock("credit"):  # CREDIT
                ledger = rule.assign(episodes)
            with run.clock("learn"):  # LEARN
                metrics = imitate(run, ledger, epochs=config.epochs, minibatches=config.minibatches)
            run.log(episodes, ledger, **metrics, **left_out(ledger))
        return run.finish("raft", rule)


def best(episodes: Sequence[Episode]) -> Ledger:
    """Credit 1 for the first of the best attempts at each task, none for the others; none at all of a task at which all
    failed alike.
    """
    kept: dict[int, float] = {}
    for members, earned in compared(episodes):
        first = members[int(earned.argmax())]
        if earned.max() > earned.min() or _succeeded(episodes[first]):
            kept[first] = 1.0
    return sided(episodes, kept, "algos.raft")


def successes(episodes: Sequence[Episode]) -> Ledger:
    """Credit 1 for every attempt that succeeded, none for the others."""
    return sided(episodes, {i: 1.0 for i in answered(episodes) if _succeeded(episodes[i])}, "algos.raft")


def _succeeded(episode: Episode) -> bool:
    return episode.total_reward > 0 if episode.success is None else episode.success
