"""Run a recall policy in a synthetic memory world, with the real ``Memory`` end to end, and measure what it learned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
from synthetic_worlds import Bandit, BanditTask, Chain

from evolvent.formulas.statistics import forgetting
from evolvent.memory.memory import Memory
from evolvent.memory.policies import Policy, preset, rule_of

_CHUNK = 20_000  # rows of a bank written at once


def policy_for(name: str, **overrides: object) -> Policy:
    """A preset that chooses among the same candidates as all others: cosine above .3, no margin, ten of them.

    The words of these worlds mean nothing, and a margin belongs to an embedder; what is compared is the ranking.
    """
    same = {} if name in ("none", "random", "rag") else {"gate": 0.3, "pool": 10, "relevance": "cosine", "margin": 2.0}
    return preset(name, **{**same, **overrides})


def run_bandit(world: Bandit, policy: Policy | None, *, path: str | Path = ":memory:") -> dict[str, float | None]:
    """One policy through the whole stream of a bandit world (``None``: the oracle, which shows the good memory alone).

    Args:
        world: the world of one seed.
        policy: how to recall and learn.
        path: where the store is made.

    Returns:
        Metrics by name; ``None`` where one does not apply.
        success: mean probability of success over the stream, exploration and omission included.
        regret, regret_late: mean shortfall to the oracle per task, in the whole stream and its second half.
        first: success at the first encounter of each task. last: in the last pass.
        frozen: mean probability of success on held-out tasks after the stream, without exploration or omission.
        coverage: share of the clusters' memories that were ever credited.
        separation: probability that a good memory has the higher value than another of its cluster (AUC, ties half),
        by what the policy ranks with when similarity has no weight. separation_companion: against companions alone.
        forgetting: share of the solved tasks that the next pass does not solve, mean over passes.
        shown: memories in sight per task.
    """
    o, n = world.options, len(world.tasks)
    chance_PN, shown = np.zeros((o.passes, n)), 0
    out: dict[str, float | None] = dict.fromkeys(("coverage", "separation", "separation_companion"))
    if policy is None:
        chance_PN[:], frozen = o.p1, o.p1
        shown = chance_PN.size
    else:
        with Memory(path, policy=policy, embedder=world.embedder, seed=world.seed, sync="normal") as memory:
            _plant(memory, world)
            for number, task in world.stream():
                with memory.transaction():
                    recall = memory.recall(task.text)
                    p = world.chance(task, [item.body for item in recall.items], number)
                    memory.settle(recall, world.reward(p, task, number))
                chance_PN[number, task.index] = p
                shown += len(recall.items)
            frozen = _frozen(memory, world)
            if rule_of(policy).credit is not None:
                tried = sum(m.n > 0 for m in memory.items() if world.planted(m.body).cluster >= 0)
                out["coverage"] = tried / world.n_clustered
                out |= _separation(memory, world, policy)
    solved = (world.luck() < chance_PN).astype(float)
    lost = [forgetting(a, b)["of_prev_success"] for a, b in pairwise(solved)]
    return {
        "success": float(chance_PN.mean()),
        "regret": float(o.p1 - chance_PN.mean()),
        "regret_late": float(o.p1 - chance_PN[o.passes // 2 :].mean()),
        "first": float(chance_PN[0].mean()),
        "last": float(chance_PN[-1].mean()),
        "frozen": frozen,
        **out,
        "forgetting": float(np.mean(lost)) if lost else None,
        "shown": shown / chance_PN.size,
    }


def run_chain(world: Chain, policy: Policy, *, path: str | Path = ":memory:", every: bool = False) -> dict[str, float]:
    """One policy in the provenance world; only the recall of the last stage is settled, or that of ``every`` stage.

    Returns:
        first_good, first_bad: mean change of the value of the first stage's memories; first_gap their difference;
        first_choice: share of topics whose first stage shows the good memory in the end (frozen; both or neither
        count half); last_choice: the same at the last stage. success: mean probability of success over all attempts;
        late: over the last quarter of them.
    """
    o = world.options
    chance_AT = np.zeros((o.attempts, o.topics))
    with Memory(path, policy=policy, embedder=world.embedder, seed=world.seed, sync="normal") as memory:
        ids: dict[str, str] = {}
        for stage in range(o.depth):
            new = memory.remember_many(world.rows(stage, ids))
            ids |= {m.body: id_ for m, id_ in zip(world.stages[stage], new, strict=True)}
        start = {body: memory.get(id_).value for body, id_ in ids.items()}
        for attempt in range(o.attempts):
            for topic in range(o.topics):
                with memory.transaction():
                    recalls = [memory.recall(world.text(topic, stage)) for stage in range(o.depth)]
                    p = world.chance([[item.body for item in r.items] for r in recalls])
                    for recall in recalls if every else recalls[-1:]:
                        memory.settle(recall, world.reward(p, topic, attempt))
                chance_AT[attempt, topic] = p
        first = {m.good: [] for m in world.stages[0]}
        for m in world.stages[0]:
            first[m.good].append(memory.get(ids[m.body]).value - start[m.body])
        good, bad = float(np.mean(first[True])), float(np.mean(first[False]))
        return {
            "first_good": good,
            "first_bad": bad,
            "first_gap": good - bad,
            "first_choice": _choice(memory, world, 0),
            "last_choice": _choice(memory, world, o.depth - 1),
            "success": float(chance_AT.mean()),
            "late": float(chance_AT[-max(1, o.attempts // 4) :].mean()),
        }


def _plant(memory: Memory, world: Bandit) -> None:
    rows = world.rows()
    for start in range(0, len(rows), _CHUNK):
        memory.remember_many(rows[start : start + _CHUNK])


def _frozen(memory: Memory, world: Bandit) -> float:
    last = world.options.passes - 1

    def chance(task: BanditTask) -> float:
        items = memory.recall(task.text, frozen=True, is_test=True).items
        return world.chance(task, [item.body for item in items], last)

    return float(np.mean([chance(task) for task in world.heldout]))


def _separation(memory: Memory, world: Bandit, policy: Policy) -> dict[str, float | None]:
    """AUC of good against other memories of the cluster, mean over clusters, by the score without similarity."""
    o = world.options
    size = policy.pool + world.n_clustered // o.clusters
    without = {"weight": 1.0, "hide": 0.0, "length": 1e9}  # similarity: each rule has some of these
    alone = {name: value for name, value in without.items() if hasattr(policy, name)}
    bare = replace(policy, gate=-1.0, pool=size, **alone)
    every, companions = [], []
    for cluster, text in enumerate(world.centre_text):
        recall = memory.recall(text, k=size, policy=bare, frozen=True, is_test=True)
        scores: dict[str, list[float]] = {}
        for item in (*recall.items, *recall.omitted):
            scores.setdefault(world.role(item.body, cluster, o.passes - 1), []).append(item.score)
        rest = [x for role, some in scores.items() if role not in ("good", "background") for x in some]
        # beside what is known to harm there may be no place for it: then it stands below all that is there
        good = scores.get("good", [-np.inf])
        every += _wins(good, rest)
        companions += _wins(good, scores.get("companion", []))
    return {
        "separation": float(np.mean(every)) if every else None,
        "separation_companion": float(np.mean(companions)) if companions else None,
    }


def _wins(good: Sequence[float], rest: Sequence[float]) -> list[float]:
    return [1.0 if g > x else 0.5 if g == x else 0.0 for g in good for x in rest]


def _choice(memory: Memory, world: Chain, stage: int) -> float:
    found = []
    for topic in range(world.options.topics):
        items = memory.recall(world.text(topic, stage), frozen=True, is_test=True).items
        found.append(float(np.mean([world.is_good(item.body) for item in items])) if items else 0.5)
    return float(np.mean(found))
