"""One step of GRPO, ours and in the plain pattern: the same weights, optimizer, reward and loss on both sides.

Plain: transformers' ``generate`` on one row a completion, then one padded row a completion through the model, logits
only where tokens are predicted, the clipped loss of GRPO, backward, AdamW. Ours goes through episodes, ledger and
``improve`` as a run does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from evolvent.core.episode import Episode
from evolvent.core.seeding import rng, seed_tree
from evolvent.credit import step_group_std
from evolvent.learn.tokens.batch import token_batch
from evolvent.learn.tokens.logprobs import TokenLogprobs
from evolvent.learn.tokens.objective import Objective
from evolvent.learn.tokens.policy_gradient import improve
from evolvent.models.language.model import LanguageModel, Row, Sampled

LOSS = Objective(aggregate="seq_mean_token_mean")  # GRPO without a reference, as the other trainer has it by default
LR = 1e-6


@dataclass(frozen=True)
class Shape:
    """Of one step: completions of exactly ``answer`` tokens."""

    prompts: int = 8
    prompt: int = 128
    group: int = 4
    answer: int = 32

    @property
    def tokens(self) -> int:
        """Tokens that are sampled and trained on."""
        return self.prompts * self.group * self.answer


def prompts(n_vocab: int, shape: Shape, seed: int) -> list[np.ndarray]:
    """Prompts of random tokens, without a common beginning: int32 ``[P]`` each."""
    generator = rng(seed, "bench", "prompts")
    return [generator.integers(3, n_vocab, shape.prompt).astype(np.int32) for _ in range(shape.prompts)]


def reward(ids: Sequence[int]) -> float:
    """The share of even tokens: hardly ever the same twice in a group."""
    return sum(i % 2 == 0 for i in ids) / len(ids)


class Ours:
    """A step as a run makes it.

    Args:
        model: its end tokens are taken away, so that every completion is as long as the others.
        shape: of the step.
        micro_tokens: of one pass of training.
    """

    def __init__(self, model: LanguageModel, shape: Shape, micro_tokens: int) -> None:
        self.model, self.shape, self.micro_tokens = model, shape, micro_tokens
        model.end_ids = frozenset()
        self.optimizer = torch.optim.AdamW(model.trainable(), lr=LR, weight_decay=0.0)

    def sample(self, asked: Sequence[np.ndarray], seed: int) -> list[Sampled]:
        """Completions, prompt-major."""
        n = len(asked) * self.shape.group
        seeds = [seed_tree(seed, "bench", "draw", i) for i in range(n)]
        return self.model.sample(asked, n=self.shape.group, max_tokens=self.shape.answer, seeds=seeds)

    def train(self, asked: Sequence[np.ndarray], sampled: Sequence[Sampled]) -> dict[str, float]:
        """Record, credit and one optimiser step."""
        episodes: list[Episode] = []
        for i, done in enumerate(sampled):
            episode = Episode("bench", group=str(i // self.shape.group), id=str(i))
            episode.observe("", token_ids=asked[i // self.shape.group], parent=-1)
            episode.act(done.text, token_ids=done.token_ids, logp=done.logp, reward=reward(done.token_ids.tolist()))
            episode.end(terminated=True)
            episodes.append(episode)
        batch = token_batch(episodes, step_group_std.assign(episodes), level="step")
        return improve(LOSS, batch, TokenLogprobs(self.model), self.optimizer, micro_tokens=self.micro_tokens)


class Plain:
    """The same on the same network and optimizer, one row a completion."""

    def __init__(self, ours: Ours) -> None:
        self.model, self.shape, self.optimizer = ours.model, ours.shape, ours.optimizer
        self.network = ours.model.network

    @torch.no_grad()
    def sample(self, asked: Sequence[np.ndarray]) -> Tensor:
        """Token ids int64 ``[R, P + K]``, prompt-major."""
        rows = torch.tensor(np.stack(asked).astype(np.int64)).repeat_interleave(self.shape.group, 0)
        rows = rows.to(self.model.device)
        return self.network.generate(
            input_ids=rows,
            attention_mask=torch.ones_like(rows),
            max_new_tokens=self.shape.answer,
            min_new_tokens=self.shape.answer,
            do_sample=True,
            temperature=1.0,
            top_k=0,
            top_p=1.0,
        )

    def logp(self, rows: Tensor) -> Tensor:
        """Log-probabilities ``[R, K]`` of the completions."""
        answers = rows[:, -self.shape.answer :]
        logits = self.network(input_ids=rows, use_cache=False, logits_to_keep=self.shape.answer + 1).logits[:, :-1]
        picked = logits.gather(-1, answers[..., None])[..., 0]
        return picked.float() - logits.float().logsumexp(-1)

    def train(self, rows: Tensor) -> None:
        """One optimiser step; the policy is the one that sampled, so the ratio is one with a gradient."""
        got = torch.tensor([reward(ids) for ids in rows[:, -self.shape.answer :].tolist()], device=rows.device)
        groups = got.view(-1, self.shape.group)
        adv = ((groups - groups.mean(1, keepdim=True)) / (groups.std(1, keepdim=True) + 1e-6)).view(-1, 1)
        self.optimizer.zero_grad(set_to_none=True)
        logp = self.logp(rows)
        ratio = (logp - logp.detach()).exp()
        loss = -torch.minimum(ratio * adv, ratio.clamp(1 - LOSS.clip_low, 1 + LOSS.clip_high) * adv).mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_([p for group in self.optimizer.param_groups for p in group["params"]], 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)


def together(asked: Sequence[np.ndarray], sampled: Sequence[Sampled], group: int) -> Tensor:
    """Prompts with their completions as rows int64 ``[R, P + K]``."""
    rows = [np.concatenate([asked[i // group], done.token_ids]) for i, done in enumerate(sampled)]
    return torch.tensor(np.stack(rows).astype(np.int64))


def rows_of(asked: Sequence[np.ndarray], sampled: Sequence[Sampled], group: int) -> list[Row]:
    """The same to be judged."""
    return [Row(asked[i // group], done.token_ids) for i, done in enumerate(sampled)]
