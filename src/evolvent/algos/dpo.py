"""DPO: preference learning: the better attempt of a pair becomes more likely, relative to the reference model.

Paper: Rafailov et al. 2023, Direct Preference Optimization (arXiv 2305.18290).

    L = - log sigmoid(beta m),    m = sum_chosen (log pi - log ref) - sum_rejected (log pi - log ref)

over all tokens that the model said in either attempt, all turns of it. ``--loss ipo`` is (m - 1 / (2 beta))^2 (Azar et
al., arXiv 2310.12036), ``--loss robust`` is unbiased where a share ``flipped`` of the preferences is wrong (Chowdhury
et al., arXiv 2403.00409).

Pairs are the best and the worst attempt of every group that the policy makes in an update, or recorded: ``--pairs`` is
the ``episodes.jsonl`` of a run, or lines of {"prompt", "chosen", "rejected"} (texts, or messages).
``--compare siblings`` compares, of the trees that a search recorded, the decisions made in one state: the one behind
which attempts earned most on average, and the one behind which they earned least.

Deviations: pairs made on the way by the policy itself are not the paper's (it learns from a fixed set). LoRA by
default, with the frozen base as reference, and learning rates that suit it (published: 1e-6 on all weights).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from evolvent.core.folder import RunFolder
from evolvent.credit import step_preferred
from evolvent.evaluate.live import Live
from evolvent.runs.language.pairs import Compare, attempts, find_pairs
from evolvent.runs.language.system import REFERENCE, ClippedConfig, Needs, Rule, compared, learn, open_language

PAPER = "arXiv 2305.18290"
LEVELS = ("step",)
STATUS = "lightly tested"
RULE = Rule.of(step_preferred, "preferred", "+1 for the best of a group, -1 for the worst (a side, not an advantage)")


@dataclass(frozen=True)
class Config(ClippedConfig):
    """Settings of DPO."""

    pairs: str = ""
    """File of pairs: episodes.jsonl of a run, or JSON lines of prompt, chosen, rejected; empty = own attempts."""
    compare: Compare = "attempts"
    """What is compared of recorded attempts: whole attempts at a task, or siblings, decisions made in one state."""
    loss: Literal["dpo", "robust", "ipo"] = "dpo"
    """Loss: dpo, ipo or robust."""
    beta: float = 0.1
    """KL coefficient β: a larger one keeps the policy closer to the reference model."""
    flipped: float = 0.0
    """Share of preferences assumed to be wrong; read by the robust loss only."""


def run(config: Config, folder: RunFolder, live: Live, *, resume: bool = False) -> dict[str, Any]:
    """Train and return the summary that stands in ``summary.json``."""
    from evolvent.learn.preference.objective import Preference

    objective = Preference(config.loss, beta=config.beta, flipped=config.flipped)
    pairs = find_pairs(config.pairs, config.compare)
    needs = Needs(base=REFERENCE, compares=pairs is None, recorded=pairs is not None)
    with open_language(config, folder, live, resume=resume, needs=needs) as run:
        return learn(run, "dpo", RULE, objective, collect=attempts(run, pairs), after=compared)
