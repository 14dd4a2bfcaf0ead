"""`evolvent export jsonl|trl|tinker`: a row a decision, or a row a conversation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from evolvent.cli.export.credited import Asked, Credited, Folder, credited
from evolvent.cli.export.messages import Message, messages
from evolvent.cli.export.verl import token_rows
from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput


def jsonl(folder: Folder, export: Asked) -> None:
    """Every decision with its context and its credit, a JSON line each; credit that a rule did not give is null.

    Example: evolvent export jsonl runs/imported --rule step_leave_one_out --out decisions.jsonl
    """
    rows = (
        {"episode": episode.id, "step": step, "agent": episode.agents_T[step], "task": episode.task_id}
        | {"group": episode.group, "messages": context[:-1], "completion": text, "credit": credit}
        | {"reward": float(episode.rewards_T[step]), "success": episode.success}
        for episode, step, credit, context, text in _decisions(credited(folder, export, "jsonl"), export.agent)
    )
    export.write(rows, folder, "decision")


def trl(folder: Folder, export: Asked) -> None:
    """Decisions with credit as rows of prompt and completion, with columns advantage, label and reward.

    Example: evolvent export trl runs/imported --rule step_leave_one_out --out rows.jsonl

    No trainer of TRL that we know reads an advantage: it is for a loss of yours, for weights or a filter. label (the
    advantage is positive) is what KTO reads.
    """
    rows = (
        {"prompt": context[:-1], "completion": context[-1:], "advantage": credit, "label": credit > 0}
        | {"reward": float(episode.rewards_T[step])}
        for episode, step, credit, context, _ in _decisions(credited(folder, export, "trl"), export.agent)
        if credit is not None
    )
    export.write(rows, folder, "decision")


def tinker(folder: Folder, export: Asked, *, cross_entropy: bool = False) -> None:
    """Conversations as tokens, targets, log-probabilities and advantages, shifted as Tinker's Datum wants them.

    Example: evolvent export tinker runs/grpo --rule step_leave_one_out --out data.jsonl

    Args:
        cross_entropy: write weights (the advantages) instead, where log-probabilities are not known.
    """
    batch = token_rows(credited(folder, export, "tinker", tokens=True), export.agent, "tinker")
    t = batch.tensors
    if "old_log_probs" not in t and not cross_entropy:
        raise BadInput(
            "log-probabilities as sampled are not known for every token",
            got="; ".join(batch.warnings),
            expected="those of the policy that sampled",
            where="evolvent export tinker",
            do="--cross-entropy writes weights for that loss instead",
        )
    names = {"weights": "advantages"} if cross_entropy else {"logprobs": "old_log_probs", "advantages": "advantages"}
    export.write(_shifted(t, names), folder, "conversation")


def _shifted(t: Mapping[str, np.ndarray], names: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Each conversation without its padding; ``names``: of the columns, ours by theirs."""
    for i, mask in enumerate(t["response_mask"]):
        taken, prompt = t["attention_mask"][i].astype(bool), np.zeros(t["prompts"].shape[1])
        ids = t["input_ids"][i][taken].tolist()
        columns = {ours: np.concatenate([prompt, t[theirs][i] * mask])[taken] for ours, theirs in names.items()}
        yield {"tokens": ids[:-1], "target_tokens": ids[1:]} | {name: c[1:].tolist() for name, c in columns.items()}


def _decisions(found: Credited, agent: str) -> Iterator[tuple[Episode, int, float | None, list[Message], str]]:
    """Each decision with its credit by step, the conversation that ends with it, and its text."""
    for episode, credits in zip(found.episodes, found.by_step, strict=True):
        said, texts = messages(episode), [node.text for node in episode.nodes if node.step is not None]
        for step, (who, credit) in enumerate(zip(episode.agents_T, credits, strict=True)):
            if agent in ("", who):
                way = episode.branch(int(episode.step_nodes_T[step]))
                yield episode, step, credit, [said[node] for node in way if node in said], texts[step]
