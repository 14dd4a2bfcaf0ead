"""The credit of a few attempts under several rules, token by token, for the report (``DIR/credit.json``).

Rules are recomputed from the record: what the rule that trained the model said can be seen beside what others would
have said of the same attempts. Rules with a critic are there where the run noted its values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from evolvent.core import rounding
from evolvent.core.episode import Episode
from evolvent.core.ledger import Ledger
from evolvent.credit import (
    agent_sequential,
    step_gae,
    step_group_std,
    step_leave_one_out,
    step_progress,
    step_return_to_go,
    token_bad,
    token_ntpo,
    token_sequential,
)

MOST_EPISODES, MOST_TOKENS = 8, 600
Discounted = (
    step_gae.Config
    | step_progress.Config
    | token_bad.Config
    | token_ntpo.Config
    | agent_sequential.Config
    | token_sequential.Config
)
"""Settings of the rules that read a critic's values: discount and trace."""
Decode = Callable[[Sequence[int]], str]
"""Token ids to text."""


@dataclass(frozen=True)
class Rule:
    """A rule as the page shows it: ``level`` of the credit that it assigns ("token" or "step"), one line of summary."""

    name: str
    level: str
    summary: str
    assign: Callable[[Sequence[Episode]], Ledger]
    config: Any = None
    """Its settings, where it has any."""

    @classmethod
    def of(cls, rule: Any, name: str, summary: str, config: Any = None) -> Rule:
        """A module of ``credit/`` (or a ``CreditRule``) with its settings; agents' credit is read off their steps."""
        assign = rule.assign if config is None else partial(rule.assign, config=config)
        return cls(name, "token" if rule.LEVEL == "token" else "step", summary, assign, config)


def left_out(ledger: Ledger) -> dict[str, float]:
    """For the log: share of the episodes whose steps have no credit: they are not learned from."""
    return {"left_out": 1.0 - compared(ledger)["compared"] / max(len(ledger.episodes), 1)}


def compared(ledger: Ledger) -> dict[str, float]:
    """For the log: episodes whose steps have credit."""
    return {"compared": float(len(np.unique(ledger.episode_index("step")[~np.isnan(ledger.values("step"))])))}


def standard_rules(episodes: Sequence[Episode], settings: Discounted | None = None) -> list[Rule]:
    """Rules that can be computed from the record of these episodes.

    Those with a critic have the discount and trace of ``settings``, which are those of the rule that trained: what
    differs between them is the rule. Without settings they are not there.
    """
    rules = [
        Rule.of(step_group_std, "group_std", "GRPO: the return against its group, over the group's spread"),
        Rule.of(step_leave_one_out, "leave_one_out", "RLOO: the return against that of the others"),
        Rule.of(step_return_to_go, "return_to_go", "REINFORCE: what was earned from here on"),
    ]
    if settings is not None and all("value" in e.notes for e in episodes):
        gamma, gae_lambda = settings.gamma, settings.gae_lambda
        inside = settings.gae_lambda_inside if isinstance(settings, token_bad.Config) else None
        bad = token_bad.Config(gamma=gamma, gae_lambda=gae_lambda, gae_lambda_inside=inside)
        summary = f"token by token, discount {gamma:g} between turns only, lambda {gae_lambda:g}"
        rules.append(Rule.of(token_bad, "poad", summary, bad))
        summary = f"token by token, discount {gamma:g} at every token, lambda {gae_lambda:g}"
        rules.append(Rule.of(token_ntpo, "ntpo", summary, token_ntpo.Config(gamma=gamma, gae_lambda=gae_lambda)))
        summary = f"action-level PPO: one advantage a turn, discount {gamma:g}, lambda {gae_lambda:g}"
        rules.append(Rule.of(step_gae, "turn_gae", summary, step_gae.Config(gamma=gamma, gae_lambda=gae_lambda)))
    return rules


def credit_page(
    episodes: Sequence[Episode], ledger: Ledger, trained: Rule, rules: Sequence[Rule], decode: Decode, update: int
) -> dict[str, Any]:
    """What ``credit.json`` holds: a few attempts of an update, the best and the worst, with the credit of every token
    by the rule that trained and by others.
    """
    others = [rule for rule in rules if rule.name != trained.name]
    ledgers = {trained.name: ledger} | {rule.name: rule.assign(episodes) for rule in others}
    credit = {rule.name: _per_token(ledgers[rule.name], rule.level) for rule in (trained, *others)}
    owner = ledger.episode_index("token")
    shown: list[dict[str, Any]] = []
    for i in _chosen(episodes):
        mine = {name: values[owner == i] for name, values in credit.items()}
        shown.append(_episode(episodes[i], mine, decode, update, _of_memories(ledger, i)))
    described = [
        {
            "name": r.name,
            "level": r.level,
            "summary": r.summary,
            "trained": r is trained,
            "unit": "token" if r.level == "token" else "turn",
        }
        for r in (trained, *others)
    ]
    return {"rules": described, "episodes": shown}


def _per_token(ledger: Ledger, level: str) -> np.ndarray:
    values = ledger.values(level)
    return values if level == "token" else values[ledger.parent_index("token", level)]


def differ(episodes: Sequence[Episode]) -> bool:
    """Whether two attempts of a group earned differently."""
    return any(map(rounding.differ, _returns(episodes).values()))


def _returns(episodes: Sequence[Episode]) -> dict[str, list[float]]:
    groups: dict[str, list[float]] = {}
    for e in episodes:
        groups.setdefault(e.group, []).append(e.total_reward)
    return groups


def _chosen(episodes: Sequence[Episode]) -> list[int]:
    """Attempts of groups that differ first; among them the best and the worst returns."""
    groups = _returns(episodes)
    fits = [i for i, e in enumerate(episodes) if e.valid and 0 < e.n_tokens <= MOST_TOKENS]
    telling = [i for i in fits if rounding.differ(groups[episodes[i].group])] or fits
    order = sorted(telling, key=lambda i: episodes[i].total_reward)
    half = MOST_EPISODES // 2
    return order if len(order) <= MOST_EPISODES else [*reversed(order[-half:]), *order[:half]]


def _of_memories(ledger: Ledger, episode: int) -> dict[str, float]:
    """What each memory that was shown in an attempt earned by it, where that was scored."""
    lo, hi = np.searchsorted(ledger.episode_index("memory"), (episode, episode + 1)).tolist()
    names, values = ledger.units("memory")[lo:hi], ledger.values("memory")[lo:hi].tolist()
    return {str(name): value for name, value in zip(names, values, strict=True) if np.isfinite(value)}


def _episode(
    episode: Episode, credit: Mapping[str, np.ndarray], decode: Decode, update: int, memories: Mapping[str, float]
) -> dict[str, Any]:
    nodes: list[dict[str, Any]] = []
    starts = np.concatenate([[0], np.cumsum(episode.tokens_per_step_T)])
    notes = episode.notes
    texts = [node.text if node.kind == "observation" else "" for node in episode.nodes]
    for node, following in zip(episode.nodes, [*texts[1:], ""], strict=True):
        if node.kind == "recall":
            shown_here = [f"{m} (credit {memories[m]:+.2f})" if m in memories else m for m in node.data["shown"]]
            shown_here += [f"{m} left out" for m in node.data["omitted"]]
            listed = ", ".join(shown_here) or "nothing"
            nodes.append({"kind": "observation", "agent": "memory", "text": f"in sight: {listed}"})
            continue
        if node.step is None:
            # the result of a tool is not shown twice, where an observation follows that holds it
            if node.kind == "observation" or (node.kind == "tool" and not (following and node.text in following)):
                nodes.append({"kind": "observation", "agent": node.agent, "text": node.text})
            continue
        span = slice(int(starts[node.step]), int(starts[node.step + 1]))
        row: dict[str, Any] = {"kind": "action", "agent": node.agent, "text": node.text}
        row |= {
            "reward": float(episode.rewards_T[node.step]),
            "tokens": [decode([i]) for i in episode.token_ids[span].tolist()],
        }
        row["logp"] = _numbers(episode.logp[span])
        row |= {name: _numbers(notes[name][span]) if name in notes else None for name in ("entropy", "value")}
        row["credit"] = {name: _numbers(values[span]) for name, values in credit.items()}
        nodes.append(row)
    return {
        "id": episode.id,
        "task": episode.task_id,
        "group": episode.group,
        "return": episode.total_reward,
        "success": episode.success,
        "update": update,
        "nodes": nodes,
    }


def _numbers(values: np.ndarray) -> list[float | None]:
    return [None if not np.isfinite(x) else round(float(x), 5) for x in values]
