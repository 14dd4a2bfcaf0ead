"""What models say of tokens that were sampled already, kept in the record for credit rules."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput
from evolvent.core.reward_kinds import keep_reward
from evolvent.learn.token_critic import token_rows
from evolvent.models.language import Row
from evolvent.rollout.language import LanguageRun


def note_logp(run: LanguageRun, episodes: Sequence[Episode], name: str, adapter: str | None) -> None:
    """Note under ``name`` the log-probability that some weights give to every token, judged as it was sampled.

    Args:
        run: whose model judges.
        episodes: with tokens; notes of this name are replaced.
        name: of the note.
        adapter: whose weights; ``None`` = the frozen base.

    Raises:
        BadInput: actions that were chosen as wholes; their tokens were not sampled one by one.
    """
    if run.config.act != "trie" and any(e.choices(t) for e in episodes for t in range(e.n_steps)):
        raise BadInput(
            "actions that were chosen as wholes have no log-probability for each token", got=f"--act {run.config.act}",
            expected="--act trie", where=f"note {name!r}",
        )  # fmt: skip
    rows = [
        Row(e.context_ids(t), ids, tuple(np.array(c, np.int32) for c in e.choices(t)))
        for e in episodes for t, ids in enumerate(token_rows(e))
    ]  # fmt: skip
    judge = run.judge(adapter)
    logp_K = np.zeros(sum(len(row.tokens) for row in rows), np.float32)
    starts: list[int] = np.cumsum([0, *(len(row.tokens) for row in rows)]).tolist()
    with torch.no_grad():
        for some in run.model.micro_batches(rows, run.config.plan.micro_tokens):
            told = judge([rows[i] for i in some]).logp_K.float().cpu().numpy()
            logp_K[np.concatenate([np.arange(starts[i], starts[i + 1]) for i in some])] = told
    at = 0
    for episode in episodes:
        episode.note(name, logp_K[at : at + episode.n_tokens])
        at += episode.n_tokens


def keep_divergence(run: LanguageRun, episodes: Sequence[Episode], weight: float) -> float:
    """Keep as the kind ``kl`` what an attempt pays for having left the frozen base: ``- weight sum log(pi / ref)``.

    Returns:
        The mean of that sum before the weight, nats an attempt.
    """
    note_logp(run, episodes, "ref_logp", None)
    away = [float(np.sum(e.logp.astype(np.float64) - e.notes["ref_logp"])) for e in episodes]
    for episode, nats in zip(episodes, away, strict=True):
        keep_reward(episode, "kl", -weight * nats)
    return float(np.mean(away))
