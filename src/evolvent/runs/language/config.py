"""Settings of a run that trains a language model, and what is checked before anything is loaded."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from evolvent.core.config import at_least, flat
from evolvent.core.errors import BadInput, missing_extra
from evolvent.runs.shell import device

Way = Literal["word", "token", "sum", "trie"]
"""As ``models.language.acting.Way``; here without what that imports."""


@dataclass(frozen=True)
class Plan:
    """Settings of a run that do not belong to an algorithm."""

    minutes: float = 0.0
    """Time limit in minutes, checked after each update; 0 = no limit."""
    sampled: int = 0
    """Limit on sampled tokens in total, checked after each update; 0 = no limit."""
    lora_rank: int = 8
    """Rank of the LoRA adapter; 0 = train all weights."""
    lora_alpha: int = 16
    """Alpha of the LoRA adapter: its scale is alpha / rank."""
    lora_targets: tuple[str, ...] = ("q_proj", "v_proj")
    """Modules that get LoRA weights, by the ends of their names; all-linear = every linear layer but the head."""
    reference: Literal["start", "base"] = "start"
    """What KL and preferences measure from: start, the weights that training starts from, a loaded adapter's among
    them; or base, the model beneath that adapter."""
    device: str = "cpu"
    """Torch device: cpu, cuda."""
    dtype: str = "auto"
    """Data type of the weights: float32, bfloat16, or auto (bfloat16 where the processor supports it)."""
    sampler: Literal["own", "vllm"] = "own"
    """Sampler of free text: the model itself, or vLLM in the same process (docs/vllm.md)."""
    threads: int = 0
    """Threads of torch; 0 = torch's default."""
    workers: int = 0
    """Threads that step environments while others wait for the model; 0 = all environments in lockstep."""
    style: Literal["plain", "chat"] = "plain"
    """Prompt format: plain text to continue, or the model's chat template."""
    transcript: bool = False
    """Keep the conversation of earlier turns in the prompt; otherwise each decision has a fresh prompt."""
    answer: int = 0
    """Largest number of tokens of an answer; 0 = the environment's limit."""
    turns: int = 0
    """Largest number of decisions of an attempt; 0 = the environment's limit."""
    tokens: int = 0
    """Largest number of sampled tokens of an attempt; 0 = no limit."""
    truncated: Literal["count", "leave_out", "leave_out_episode"] = "count"
    """Answers cut off by the token limit: train on them (count), drop the answer, or drop its whole attempt."""
    micro_tokens: int = 512
    """Tokens of one forward and backward pass (gradient accumulation): bounds the memory, and changes results by
    rounding only. A LoRA step of a 135M model in float32 takes 1.2 GB besides the model at 512, 1.7 GB at 768. More is
    faster with all weights trained, or where attempts share long prompts."""
    checkpointing: bool = False
    """Gradient checkpointing: recompute activations in the backward pass, for less memory and more time."""
    eval_every: int = 10
    """Updates between evaluations on held-out tasks; 0 = only before and after training."""
    eval_tasks: int = 32
    """Held-out tasks in an evaluation."""
    save_every: int = 1
    """Updates between checkpoints."""
    record: int = 2
    """Attempts of each update that are written to episodes.jsonl; those of the last update are all written."""
    curriculum: Literal["none", "sec"] = "none"
    """Which training tasks come: in order (none), or of the kinds that teach most (sec, from 1,024 tasks)."""
    allocation: Literal["even", "knapsack"] = "even"
    """How an update's attempts are distributed over its tasks: evenly, or where they are worth most (knapsack)."""
    memory: str = ""
    """A memory that learns beside the weights from the same attempts: memlift, memrl, …; empty = none."""
    memories: int = 3
    """Memories retrieved into the prompt, at most (top k)."""
    lessons: tuple[str, ...] = ("successes", "corrections")
    """What is written into the memory: successes, corrections, failures, procedures (in the model's words)."""


@dataclass(frozen=True)
class CriticPlan(Plan):
    """Settings of a run with a critic."""

    critic_epochs: int = 0
    """Epochs of the critic over an update (cheap: its features are frozen); 0 = as many as the policy's, 20 of one that
    foresees how programs end."""
    warmup: int = 0
    """Number of first updates that train only the critic; fewer if half of the minutes or tokens are spent before."""


@dataclass(frozen=True)
class LanguageConfig:
    """Settings that every learner of language models has."""

    KIND = "language"
    EXTENDABLE = (("updates", "update"), ("plan.minutes", "t"), ("plan.sampled", "sampled_tokens"))
    grad_clip = 1.0  # a field where there is a choice

    env: str = "arithmetic:largest"
    """Environment with its options, e.g. overcooked:tomato-salad or babyai:GoToRedBallNoDists; or yours, file.py[:NAME]
    (also prompts and a reward)."""
    model: str = "smollm2-135m"
    """Language model to train: a name, a Hugging Face id, or a folder."""
    seed: int = 0
    """Random seed of tasks, sampling and minibatches."""
    updates: int = 100
    """Number of updates; each one samples attempts and then trains on them."""
    prompts: int = 8
    """Tasks per update."""
    group: int = 4
    """Group size: attempts at each task (G)."""
    act: Way = "trie"
    """How to choose a listed action: trie = token by token; word, token, sum = whole, by its log-probability."""
    temperature: float = 1.0
    """Sampling temperature during training."""
    lr: float = 1e-4
    """Learning rate of AdamW."""
    epochs: int = 1
    """Epochs: passes over the attempts of an update."""
    minibatches: int = 1
    """Minibatches in an epoch: optimiser steps for each pass over the attempts."""
    plan: Plan = Plan()
    """Device, prompts, budgets, evaluations, checkpoints."""


@dataclass(frozen=True)
class ClippedConfig(LanguageConfig):
    """Settings of learners that scale large gradients down."""

    grad_clip: float = 1.0
    """Gradient norm above which a gradient is scaled down, of the policy and of a critic."""


@dataclass(frozen=True)
class PPOConfig(ClippedConfig):
    """Settings of learners with PPO's clip."""

    clip: float = 0.2
    """Clip range of the probability ratio (PPO's epsilon)."""


@dataclass(frozen=True)
class CriticConfig(ClippedConfig):
    """Settings of PPO with a critic of prefixes; the defaults are those of POAD's released Overcooked script."""

    gamma: float = 0.99
    """Discount factor per action; of NTPO per token."""
    gae_lambda: float = 0.95
    """λ of GAE, from one action to the next; of POAD and NTPO at every token."""
    clip: float = 0.2
    """Clip range of probability ratios and of values (PPO's epsilon)."""
    entropy: float = 1e-4
    """Coefficient of the entropy bonus."""
    kl_stop: float = 0.02
    """KL divergence from the sampling policy, in nats, above which an optimiser step is discarded."""
    critic_lr: float = 1e-4
    """Learning rate of the critic."""
    grad_clip: float = 0.5
    """Gradient norm above which a gradient is scaled down, of the policy and of the critic."""
    plan: CriticPlan = field(default_factory=CriticPlan)
    """Device, prompts, budgets, evaluations, checkpoints, critic."""


_POSITIVE = """
    updates prompts group epochs minibatches eval_tasks save_every micro_tokens draws passes capacity memories
    progress_passes replay_size stale limit length rounds shown rollouts simulations widths longest questions samples
    lora_alpha
"""
_COUNTS = """
    minutes sampled lora_rank threads workers answer turns tokens eval_every record critic_epochs warmup whole interval
    reward_updates imitate keep gamma gae_lambda kl alpha ce kept
"""
LEAST: dict[str, int] = {**dict.fromkeys(_POSITIVE.split(), 1), **dict.fromkeys(_COUNTS.split(), 0)}
"""The least value of settings that count something or weigh it, by their names in all algorithms."""
MANY, MACHINE = 1_000_000, 4096
MOST: dict[str, int] = {
    **dict.fromkeys(
        ("prompts", "group", "eval_tasks", "questions", "samples", "rollouts", "simulations", "widths"), MANY
    ),
    **dict.fromkeys(("threads", "workers", "lora_rank"), MACHINE),
    **dict.fromkeys(("gamma", "gae_lambda"), 1),  # else returns grow with what is far away
}
"""The largest value of those of which something is made, one each, before anything is seen of the run."""


def check_stages(updates: int, before: int, flag: str, *, parts: int = 1, who: str = "the policy") -> None:
    """Refuse a run that would end before a later stage is trained: it would look like any other result.

    ``before`` updates are ahead of that stage, which trains ``who``: ``parts`` times the value of ``flag``.

    Raises:
        BadInput: names a value that works.
    """
    if before < 0:
        raise BadInput("a setting is too small", got=before, expected=">= 0", where=flag)
    if 0 < updates <= before:
        longest = (updates - 1) // parts
        raise BadInput(
            f"{who} would never be trained",
            got=f"{flag} {before // parts} with --updates {updates}",
            expected=f"{flag} {longest} or less",
            where=flag,
            do=f"{flag} {longest // 2}, or --updates {2 * before}",
        )


def check(config: LanguageConfig, adapters: Sequence[str]) -> None:
    """Refuse settings that do not fit together.

    Raises:
        BadInput: names the setting.
    """
    from evolvent.models.language.load import dtype_of

    plan = config.plan
    names = [path.rpartition(".")[2] for path in flat(config)]
    rates = [name for name in names if name == "lr" or name.endswith("_lr")]
    at_least(config, LEAST | dict.fromkeys(rates, 0), MOST)
    if config.updates * config.prompts > MANY * 10:
        raise BadInput(
            "more tasks than a run can draw",
            got=config.updates * config.prompts,
            expected=f"at most {MANY * 10:,}",
            where="--updates x --prompts",
            do="limit a run by --minutes or --sampled",
        )
    if not 0.0 < config.temperature < math.inf:
        raise BadInput(
            "nothing is learned from greedy attempts", got=config.temperature, expected="> 0", where="--temperature"
        )
    if not config.grad_clip >= 0.0:
        raise BadInput("no gradient norm", got=config.grad_clip, expected=">= 0 (0: no limit)", where="--grad-clip")
    if plan.lora_rank < 1 and len(adapters) > 1:
        raise BadInput(
            "several agents on one base need adapters",
            got=f"--lora-rank {plan.lora_rank}",
            expected=">= 1",
            where="--lora-rank",
        )
    if plan.lora_rank < 1 and plan.sampler == "vllm":
        raise BadInput("vLLM samples from adapters", got="--lora-rank 0", expected=">= 1", where="--sampler vllm")
    if plan.sampler == "vllm" and importlib.util.find_spec("vllm") is None:
        raise missing_extra("vllm", "vllm", "--sampler vllm")
    dtype_of(plan.dtype, "cpu")
    device(plan.device)
