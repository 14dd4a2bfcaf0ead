"""The market: each part of a plan goes to a ranked agent under a lease; it pays, and remembers, what came of it.

    score = w . [similarity, quality, reliability, -price / budget, bonus]
    p     = (1 - explore) softmax(score / T) + explore / n            over the n candidates that are left

quality, reliability: posterior means of what the agent did so far, a newcomer's being those of the others; bonus:
``sqrt(ln(1 + N) / (1 + n))`` (UCB). All weights but the bonus's are learned from the log of leases by a pairwise
logistic loss: success against failure at one capability, weighed by the inverse of both propensities. What an agent's
own owner bought does not count.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np

from evolvent.algos.holos.accounts import Accounts, cost
from evolvent.algos.holos.plans import Node
from evolvent.algos.holos.pool import Pool, Said
from evolvent.algos.holos.profiles import Profile
from evolvent.core.seeding import rng
from evolvent.formulas.selection import softmax

FEATURES = ("similarity", "quality", "reliability", "price", "bonus")
HAND_F = np.array([1.0, 4.0, 1.0, 1.0, 0.5])
"""Weights before anything is learned."""
TEMPERATURE, PRIOR_N0 = 0.25, 2.0
EVERY, NEWEST, CLIP, PULL = 50, 300, 25.0, 0.03
"""Leases between two fits, and in one; the most that a pair weighs; how weights are held near those by hand."""
USER = "user:client"
Arm = Literal["market", "unlearned", "random", "single", "generalist", "unguarded"]
"""``unlearned``: weights by hand, nothing remembered; ``random``: any able agent; ``single``: the best one alone;
``generalist``: one with everybody's lessons, alone; ``unguarded``: what an agent's own owner bought counts, too."""
ALONE: tuple[Arm, ...] = ("single", "generalist")


class Ranking:
    """How likely each candidate is to be chosen, learned from lines of the log."""

    def __init__(self, *, explore: float, guarded: bool = True) -> None:
        self.explore, self.guarded, self.weights_F = explore, guarded, HAND_F.copy()
        self._of: defaultdict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
        self._log = list[tuple[str, np.ndarray, float, float]]()
        self._seen = 0

    def features(self, found: Sequence[Profile], capability: str, vec_D: np.ndarray, budget: int) -> np.ndarray:
        """``[N, F]`` of candidates for a question."""
        total = sum(n for (_, where), (n, _) in self._of.items() if where == capability)
        rows = [
            [
                float(np.dot(one.vector, vec_D)),
                self._mean(one.id, capability),
                self._mean(one.id, ""),
                -one.price / budget,
                float(np.sqrt(np.log1p(total) / (1.0 + self._of[one.id, capability][0]))),
            ]
            for one in found
        ]
        return np.array(rows)

    def chances(self, x_NF: np.ndarray) -> np.ndarray:
        """Probabilities ``[N]``."""
        return (1.0 - self.explore) * softmax(x_NF @ self.weights_F, TEMPERATURE) + self.explore / len(x_NF)

    def record(self, lease: Mapping[str, Any]) -> None:
        """Take in a line of the log, as ``Market.serve`` makes it."""
        if lease["own"] and self.guarded:
            return
        good, in_time = float(lease["quality"]), float(lease["how"] == "answered")
        for where, value in ((lease["capability"], good), ("", in_time)):
            self._of[lease["agent"], where][0] += 1.0
            self._of[lease["agent"], where][1] += value
        self._seen += 1
        if lease["x"]:
            self._log.append((lease["capability"], np.array(lease["x"]), lease["p"], good))
            self._log = self._log[-NEWEST:]
        if self._seen % EVERY == 0:
            self.weights_F = fit(self._log)

    def _mean(self, agent: str, where: str) -> float:
        every = [value for (_, at), value in self._of.items() if at == where]
        prior = (1.0 + sum(got for _, got in every)) / (2.0 + sum(n for n, _ in every))
        n, got = self._of[agent, where]
        return (prior * PRIOR_N0 + got) / (PRIOR_N0 + n)


def fit(log: Sequence[tuple[str, np.ndarray, float, float]]) -> np.ndarray:
    """Weights ``[F]`` from leases (capability, features, propensity, quality), held near those by hand."""
    pairs = [
        (good[1] - bad[1], min(1.0 / (good[2] * bad[2]), CLIP))
        for good in log
        if good[3] >= 0.5
        for bad in log
        if bad[3] < 0.5 and bad[0] == good[0]
    ]
    if not pairs:
        return HAND_F.copy()
    diff_PF, weight_P = np.array([one for one, _ in pairs]), np.array([one for _, one in pairs])
    diff_PF[:, -1], weights = 0.0, HAND_F.copy()  # how much is explored is not learned
    for _ in range(100):
        slope_P = weight_P / (1.0 + np.exp(np.clip(diff_PF @ weights, -30.0, 30.0)))
        weights += slope_P @ diff_PF / weight_P.sum() - PULL * (weights - HAND_F)
    return weights


@dataclass
class Market:
    """Agents, their accounts and their processes.

    Args:
        judge: of a question and an answer, whether it is accepted at once, and its quality, 0 to 1, found afterwards by
            somebody who is neither the payer nor the worker.
        vectors: of every question, by the task's id.
        attempts: candidates that a node may be leased to, one after another.
        penalty: what a lease that brought nothing costs an agent's stake.
    """

    profiles: Sequence[Profile]
    accounts: Accounts
    pool: Pool
    judge: Callable[[Node, Said], tuple[bool, float]]
    vectors: Mapping[str, np.ndarray]
    ranking: Ranking
    arm: Arm
    attempts: int
    penalty: int
    seed: int
    worst: str = ""
    """Who trades with its own owner."""
    _rows: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]], init=False)
    _twice: int = field(default=0, init=False)

    def serve(self, task: str, nodes: Sequence[Node]) -> dict[str, Any]:
        """Have a plan carried out, in order, until a node fails; the line of the log.

        ``twice``: answers to what was closed already, which the accounts did not pay.
        """
        self._rows, self._twice, said = [], 0, dict[str, tuple[Said, float]]()
        for node in nodes:
            if (found := self._node(f"{task}/{node.id}", node, USER, owner="client")) is None:
                break
            said[node.id] = found
        self._late("")
        delivered = len(said) == len(nodes)
        return {
            "task": task,
            "delivered": delivered,
            "right": delivered and all(quality == 1.0 for _, quality in said.values()),
            "said": {name: [reply.agent, reply.answer] for name, (reply, _) in said.items()},
            "leases": self._rows,
            "twice": self._twice,
        }

    def trade(self, task: str, nodes: Sequence[Node]) -> list[dict[str, Any]]:
        """The owner of ``worst`` buys these nodes of it and finds every answer perfect; the leases of the log."""
        owner, self._rows = self._by_id[self.worst].owner, []
        for node in nodes:
            self._node(f"{task}/{node.id}", node, f"user:{owner}", owner=owner, only=self.worst)
        return self._rows

    def recall(self, leases: Iterable[Mapping[str, Any]]) -> None:
        """Take in leases of the log, as a market that goes on does."""
        if self.arm in ("market", "unguarded"):
            for lease in leases:
                self.ranking.record(lease)

    def _node(self, job: str, node: Node, payer: str, *, owner: str, only: str = "") -> tuple[Said, float] | None:
        """Lease a node to one candidate after another; what was accepted first, with its quality."""
        self.accounts.reserve(job, payer, cost(node.budget))
        left = [one for one in self._candidates(node) if only in ("", one.id)]
        for attempt in range(1 if only else self.attempts):
            if not left:
                break
            lease = f"{job}/{attempt}"
            x_NF = self.ranking.features(left, node.capability, self.vectors[node.question.id], node.budget)
            ranked = self.arm not in ("random", *ALONE)
            p_N = self.ranking.chances(x_NF) if ranked else np.full(len(left), 1.0 / len(left))
            at = int(rng(self.seed, lease).choice(len(left), p=p_N))
            one = left[at]
            reply = self.pool.ask(one.id, lease, node.question.id)
            # an answer from a lease of this node that had run out is as good
            heard = ([reply] if reply.how == "answered" else []) + self._late(job)
            judged = [
                (said, 1.0 if only else quality) for said in heard for ok, quality in [self.judge(node, said)] if ok
            ]
            row = {"lease": lease, "capability": node.capability, "agent": one.id, "own": one.owner == owner}
            row |= {
                "how": reply.how,
                "p": float(p_N[at]),
                "x": x_NF[at].round(6).tolist() if ranked and not only else [],
            }
            self._log(row | {"quality": max((quality for said, quality in judged if said.lease == lease), default=0.0)})
            if judged:
                self._offer(job, *judged[0])
                self._twice += sum(not self._offer(job, said, quality) for said, quality in judged[1:])
                return judged[0]
            self.accounts.forfeit(lease, one.id, payer, self.penalty)
            if self.arm not in ALONE:
                left.pop(at)
        self.accounts.release(job)
        return None

    def _late(self, job: str) -> list[Said]:
        """Late answers to this job; those to others, which are closed, are offered to the accounts."""
        of = [(said.lease.rpartition("/")[0], said) for said in self.pool.late()]
        self._twice += sum(not self._offer(whose, said, 1.0) for whose, said in of if whose != job)
        return [said for whose, said in of if whose == job]

    def _offer(self, job: str, said: Said, quality: float) -> bool:
        return self.accounts.settle(job, f"agent:{said.agent}", self._by_id[said.agent].price, quality)

    @cached_property
    def _by_id(self) -> dict[str, Profile]:
        return {one.id: one for one in self.profiles}

    def _candidates(self, node: Node) -> list[Profile]:
        """Agents that are able, have something at stake, and are not too dear."""
        there = [one for one in self.profiles if self.accounts.balance(f"stake:{one.id}") >= self.penalty]
        healthy = [one for one in there if one.price <= node.budget]
        able = [one for one in healthy if node.capability in one.skills]
        return healthy if self.arm in ALONE else able

    def _log(self, row: dict[str, Any]) -> None:
        self._rows.append(row)
        self.recall([row])
