"""What models say of tokens that were sampled already, kept in the record for credit rules.

Whose log-probabilities a formula may use is decided here and in ``learn.tokens.policy_gradient``, and nowhere else:

- ``Episode.logp`` is what the sampler said as it drew. It is the behaviour policy of attempts that an *older* policy
  made (replay), and what ``gap`` is measured against. Nothing else subtracts from it or subtracts it: in bfloat16 it is
  off by .07 nats a token, in other places than the same weights in training are.
- Ratios and penalties *in a loss* are of training passes that ran alike: ``learn.tokens.policy_gradient``.
- Differences that become *credit* (KL in the reward, implicit rewards, weights of tokens) are noted here: both sides
  computed after sampling, in float32 whatever the model's format. They may be small against rounding, and what follows
  a small difference is scaled up: by OPRL, and by AdamW, which knows no small gradients. That costs 1.6 times a pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput
from evolvent.core.reward_kinds import keep_reward
from evolvent.runs.language.run import LanguageRun

if TYPE_CHECKING:
    from evolvent.learn.tokens.logprobs import TokenLogprobs


def exact_logprobs(run: LanguageRun, adapter: str | None) -> TokenLogprobs:
    """Some weights (``None`` = the frozen base), whose log-probabilities may be subtracted from one another's."""
    from evolvent.learn.tokens.logprobs import TokenLogprobs

    return TokenLogprobs(run.model, adapter, run.config.temperature, exact=True)


def note_logp(run: LanguageRun, episodes: Sequence[Episode], name: str, adapter: str | None) -> None:
    """Note under ``name`` the log-probability that some weights give to every token, in float32; no adapter: the frozen
    base.

    Raises:
        BadInput: actions that were chosen as wholes; their tokens were not sampled one by one.
    """
    from evolvent.learn.critics.token import token_rows
    from evolvent.models.language.model import Row

    if run.config.act != "trie" and any(e.choices(t) for e in episodes for t in range(e.n_steps)):
        raise BadInput(
            "actions that were chosen as wholes have no log-probability for each token",
            got=f"--act {run.config.act}",
            expected="--act trie",
            where=f"note {name!r}",
        )
    rows = [
        Row(e.context_ids(t), ids, tuple(np.array(c, np.int32) for c in e.choices(t)))
        for e in episodes
        for t, ids in enumerate(token_rows(e))
    ]
    policy = exact_logprobs(run, adapter)
    logp_K = np.zeros(sum(len(row.tokens) for row in rows), np.float32)
    starts: list[int] = np.cumsum([0, *(len(row.tokens) for row in rows)]).tolist()
    for some in run.model.micro_batches(rows, run.config.plan.micro_tokens):
        found = policy([rows[i] for i in some]).logp_K.cpu().numpy()
        logp_K[np.concatenate([np.arange(starts[i], starts[i + 1]) for i in some])] = found
    note_all(episodes, name, logp_K)


def note_all(episodes: Sequence[Episode], name: str, values_K: np.ndarray) -> None:
    """Note under ``name`` what is known of every token, ``[K]`` over all attempts in order."""
    at = 0
    for episode in episodes:
        episode.note(name, values_K[at : at + episode.n_tokens])
        at += episode.n_tokens


def write_divergence(run: LanguageRun, episodes: Sequence[Episode], weight: float) -> float:
    """Keep as the kind ``kl`` what an attempt pays for having left the reference: ``- weight sum log(pi / ref)``.

    Returns:
        The mean of that sum before the weight, nats an attempt.
    """
    note_logp(run, episodes, "policy_logp", "policy")
    note_logp(run, episodes, "ref_logp", run.reference)
    away = [float(np.sum(e.notes["policy_logp"] - e.notes["ref_logp"], dtype=np.float64)) for e in episodes]
    for episode, nats in zip(episodes, away, strict=True):
        keep_reward(episode, "kl", -weight * nats)
    return float(np.mean(away))
