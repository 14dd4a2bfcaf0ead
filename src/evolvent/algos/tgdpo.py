"""TGDPO: DPO whose margin weights each token by the reward of a model trained with DPO.

Paper: Zhu et al. 2025, TGDPO: Harnessing Token-Level Reward Guidance for Enhancing Direct Preference Optimization
(arXiv 2506.14574).

    r_t = log pi_rm(w_t) / ref(w_t)                                   pi_rm: an adapter that DPO has trained
    m   = sum_chosen (1 + alpha beta r_t) (log pi - log ref)_t - sum_rejected (1 - alpha beta r_t) (log pi - log ref)_t
    L   = - log sigmoid(beta m)

Two stages in one run, on one base: in the first ``reward_updates`` updates DPO trains the adapter "reward", then it is
frozen and guides the adapter "policy". The first ends early where half of the minutes or tokens are gone;
``--reward-from RUN`` takes the adapter of another run (of ``dpo``) and leaves it out. Pairs as in ``dpo``: the best and
worst attempt of each group of the policy, or ``--pairs``.

Deviations: as in ``dpo``. In the first stage attempts are those of the untrained policy; it is 10 updates long, the
paper trains its reward once over a data set.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from evolvent.core.errors import BadInput
from evolvent.core.folder import RunFolder
from evolvent.core.ledger import Ledger
from evolvent.credit import step_preferred, token_guided
from evolvent.evaluate.live import Live
from evolvent.runs.language.notes import exact_logprobs, note_all
from evolvent.runs.language.pairs import attempts, find_pairs
from evolvent.runs.language.system import ClippedConfig, LanguageRun, Needs, Rule, check_stages, compared, open_language

PAPER = "arXiv 2506.14574"
LEVELS = ("token",)
STATUS = "lightly tested"
POLICY, REWARD = "policy", "reward"


@dataclass(frozen=True)
class Config(ClippedConfig):
    """Settings of TGDPO."""

    pairs: str = ""
    """File of pairs: episodes.jsonl of a run, or JSON lines of prompt, chosen, rejected; empty = own attempts."""
    reward_from: str = ""
    """Run or adapter folder of a reward model trained by DPO; empty = trained in the first updates."""
    reward_updates: int = 10
    """Updates of the first stage, which trains the reward model."""
    alpha: float = 0.5
    """Coefficient α of the token rewards in the margin."""
    beta: float = 0.1
    """KL coefficient β: a larger one keeps the policy closer to the reference model."""


def run(config: Config, folder: RunFolder, live: Live, *, resume: bool = False) -> dict[str, Any]:
    """Train and return the summary that stands in ``summary.json``."""
    from evolvent.learn.preference.objective import Preference

    objective, first = Preference("dpo", beta=config.beta), 0 if config.reward_from else config.reward_updates
    check_stages(config.updates, first, "--reward-updates")
    guide = _adapter_folder(config.reward_from) if config.reward_from else None
    pairs, settings = find_pairs(config.pairs), token_guided.Config(alpha=config.alpha, beta=config.beta)
    rule = Rule.of(token_guided, "tgdpo", "the side of the attempt, times one plus the reward of the token", settings)
    needs = Needs(compares=pairs is None, recorded=pairs is not None)
    with open_language(config, folder, live, resume=resume, adapters=(POLICY, REWARD), needs=needs) as run:
        recorded = attempts(run, pairs)
        if guide is not None:
            run.model.load_adapter(guide, REWARD)
        for update in run.updates():
            episodes = recorded(update)[0] if recorded else run.collect()  # ACT and STEP
            adapter = REWARD if run.early(first) else POLICY
            with run.clock("credit"):  # CREDIT
                sides = step_preferred.assign(episodes)
                if adapter == POLICY:
                    _note_guide(run, sides)
                ledger = rule.assign(episodes) if adapter == POLICY else sides
            metrics = compared(sides) | {"stage": 1.0 if adapter == REWARD else 2.0}
            if metrics["compared"]:
                with run.clock("learn"):  # LEARN
                    level = "token" if adapter == POLICY else "step"
                    metrics |= run.improve(objective, ledger, level=level, adapter=adapter)
                if adapter == REWARD:
                    metrics.pop("gap", 0.0)  # the policy acted, another adapter learned: nothing to agree on
                    metrics["reward_steps"] = metrics.pop("updates")
            run.log(episodes, ledger, **metrics)
        return run.finish("tgdpo", rule)


def _note_guide(run: LanguageRun, sides: Ledger) -> None:
    """Note how much likelier the model of rewards makes every token of the pairs than the first model does."""
    from evolvent.learn.tokens.batch import token_batch

    config = run.config
    batch = token_batch(sides.episodes, sides, level="step", constrained=config.act == "trie")
    guide_K = np.zeros(sides.size("token"), np.float32)
    if batch.rows:
        there, base = (
            batch.looked_up(exact_logprobs(run, name), config.plan.micro_tokens)[0] for name in (REWARD, run.reference)
        )
        side_K = sides.values("step")[sides.parent_index("token", "step")]
        guide_K[~np.isnan(side_K)] = (there - base).numpy()
    note_all(sides.episodes, "guide", guide_K)


def _adapter_folder(place: str) -> Path:
    for path in (Path(place) / "model" / POLICY, Path(place) / "model", Path(place)):
        if (path / "adapter_config.json").is_file():
            return path
    raise BadInput(
        "no adapter there",
        got=place,
        expected="a finished run of dpo, or a folder of an adapter",
        where="--reward-from",
    )
