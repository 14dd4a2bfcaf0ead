"""Exact gradients: is the expected gradient of a credit rule the policy gradient? By enumeration, nothing sampled.

A small task has three turns. At each the policy first decides to *go on* or to *stop*, then, going on, which of two
ways (a second token of the same action): 15 trajectories over 14 choices, with a random reward at every decision. All
groups of G trajectories are formed with their probabilities, the rule credits them, and

    expected = sum_groups P(group) 1/G sum_i sum_k credit_{i,k} grad log pi(token_{i,k})

is compared with the true gradient of the expected return. The stop action is what makes this telling: attempts of a
group end at different turns, where careless baselines start to depend on the decision they are to judge.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import lru_cache
from itertools import combinations_with_replacement
from typing import Any, Literal

import numpy as np

from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput
from evolvent.core.ledger import Ledger
from evolvent.testing._kinds import arbitrary, embed, give_kinds

Claim = bool | Literal["up to scale"]
Critic = Literal["wrong", "exact"]
Step = tuple[tuple[int, int], ...]
"""The tokens of a decision, each as (choice point, option 0 or 1)."""
TOLERANCE = 1e-9
NOTES = (
    "value",
    "expected_q",
    "kl",
    "prm_logp",
    "policy_logp",
    "q1",
    "q2",
    "v1",
    "v2",
    "guide",
    "outcome_p",
    "share_before",
    "share_behind",
    "greedy_q",
)
FORCED = -1


@dataclass(frozen=True)
class Path:
    """One trajectory: of each decision its tokens, its reward, the state before it, and who decided.

    A token that had to come is (``FORCED``, 0). ``chance`` is the probability of what the environment drew.
    """

    steps: tuple[Step, ...] = ()
    rewards: tuple[float, ...] = ()
    states: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    chance: float = 1.0

    def then(self, step: Step, reward: float, state: str = "", agent: str = "agent") -> Path:
        """The same with one decision more."""
        return Path(
            (*self.steps, step), (*self.rewards, reward), (*self.states, state), (*self.agents, agent), self.chance
        )

    @property
    def total(self) -> float:
        """Its return."""
        return sum(self.rewards)


@dataclass(frozen=True, eq=False)
class SmallTask:
    """A task small enough to enumerate.

    ``logit_D`` is the policy: the log-odds of option 1 at each of D choice points (also the parameters θ).
    """

    seed: int
    paths: tuple[Path, ...]
    logit_D: np.ndarray
    name: str = ""

    @property
    def probability_N(self) -> np.ndarray:
        """Probability of each trajectory ``[N]``; sums to 1."""
        p = self._odds()
        chosen = [[p[d] if option else 1.0 - p[d] for step in path.steps for d, option in step] for path in self.paths]
        return np.array([path.chance * math.prod(own) for path, own in zip(self.paths, chosen, strict=True)])

    @property
    def odds_D(self) -> np.ndarray:
        """Probability of option 1 at each choice point."""
        return self._odds()[:FORCED]

    def _odds(self) -> np.ndarray:
        """Probability of option 1 at each choice point, and last (index ``FORCED``) of a token that had to come: 0."""
        return np.append(1.0 / (1.0 + np.exp(-self.logit_D)), 0.0)

    def scores_KD(self, path: int) -> np.ndarray:
        """``grad log pi`` of every token of a trajectory, ``[K, D]``."""
        p = self._odds()
        tokens = [token for step in self.paths[path].steps for token in step]
        out = np.zeros((len(tokens), len(p)))
        for k, (d, option) in enumerate(tokens):
            out[k, d] = option - p[d]
        return out[:, :FORCED]

    @property
    def true_gradient_D(self) -> np.ndarray:
        """Gradient of the expected undiscounted return, ``[D]``, by summing over all trajectories."""
        returns = np.array([path.total for path in self.paths])
        score_ND = np.array([self.scores_KD(n).sum(axis=0) for n in range(len(self.paths))])
        return (self.probability_N * returns) @ score_ND

    def episode(self, path: int, *, group: str, id: str) -> Episode:
        """The record of one trajectory, with token ids, log-probabilities and what rules read from the notes.

        Notes: the entropy of each token's choice; ``NOTES`` otherwise arbitrary (wrong on purpose), the same wherever
        the tokens so far are the same.
        """
        p, one, past = self._odds(), self.paths[path], ()
        ep = Episode(f"task{self.seed}", group=group, id=id)
        entropy: list[float] = []
        for state, step, reward, agent in zip(one.states, one.steps, one.rewards, one.agents, strict=True):
            ep.observe(state, agent=agent)
            text = "stop" if step[0][1] else "ab"[step[1][1]]
            logp = [math.log(p[d] if option else 1.0 - p[d]) for d, option in step]
            ids = [2 * (d % len(p)) + option for d, option in step]
            ep.act(text, agent=agent, token_ids=ids, logp=logp, reward=reward)
            entropy += [_entropy(float(p[d])) for d, _ in step]
            past += tuple(step)
        ep.note("entropy", entropy)
        for name in NOTES:
            ep.note(name, [arbitrary(self.seed, f"{name}{past[:k]}") for k in range(len(past))])
        # behind a token a critic says what it says before the next one
        ep.note("share_behind", [arbitrary(self.seed, f"share_before{past[: k + 1]}") for k in range(len(past))])
        ep.end(terminated=True, success=ep.total_reward > 0)
        give_kinds(ep, lambda name: arbitrary(self.seed, name))
        return ep

    def critic(self, episode: Episode) -> np.ndarray:
        """A critic that is wrong on purpose: an arbitrary value per state, ``[T]``."""
        states = [node.text for node in episode.nodes if node.kind == "observation"]
        return np.array([arbitrary(self.seed, state) for state in states])


def _entropy(p: float) -> float:
    return -sum(x * math.log(x) for x in (p, 1.0 - p) if x > 0.0)


@lru_cache(maxsize=32)
def small_task(seed: int, turns: int = 3) -> SmallTask:
    """A task with random rewards and a random policy; ``turns = 3`` has 15 trajectories, 2 has 7, 4 has 31."""
    rng = np.random.default_rng([seed, turns])
    paths: list[Path] = []
    logits: list[float] = []

    def choice_point() -> int:
        logits.append(float(rng.normal(scale=0.7)))
        return len(logits) - 1

    def grow(state: str, before: Path) -> None:
        go, way = choice_point(), choice_point()
        for text, tokens in (("stop", ((go, 1),)), ("a", ((go, 0), (way, 0))), ("b", ((go, 0), (way, 1)))):
            path = before.then(tokens, float(rng.normal()), f"at {state}")
            if text == "stop" or len(path.steps) == turns:
                paths.append(path)
            else:
                grow(state + text, path)

    grow(".", Path())
    return SmallTask(seed, tuple(paths), np.array(logits))


@dataclass(frozen=True)
class GradientReport:
    """Expected against true gradient: ``|E - g| / |g|``, ``<E, g> / <g, g>``, cosine, and the trace of the variance."""

    seed: int
    group_size: int
    relative_error: float
    scale: float
    cosine: float
    variance: float

    @classmethod
    def of(
        cls, seed: int, group_size: int, estimate_ND: np.ndarray, weight_N: np.ndarray, true_D: np.ndarray
    ) -> GradientReport:
        """Of estimates that come with these probabilities, against the true gradient."""
        expected, norm = weight_N @ estimate_ND, float(np.linalg.norm(true_D))
        length = float(np.linalg.norm(expected))
        return cls(
            seed,
            group_size,
            relative_error=float(np.linalg.norm(expected - true_D)) / norm,
            scale=float(expected @ true_D) / norm**2,
            cosine=float(expected @ true_D) / (norm * length) if length > 1e-12 else 0.0,
            variance=float(weight_N @ np.sum(estimate_ND**2, axis=1)) - length**2,
        )

    @property
    def finding(self) -> Claim:
        """What this task shows the rule to be: exact, exact up to a positive scale, or biased."""
        if self.relative_error <= TOLERANCE:
            return True
        return "up to scale" if self.cosine >= 1.0 - TOLERANCE and self.scale > 0 else False


def all_groups(task: SmallTask, group_size: int) -> tuple[list[tuple[int, ...]], np.ndarray]:
    """Every unordered group of trajectories, by their numbers, and its probability.

    Unordered is enough: a rule must treat members alike in any order (``check_credit`` tests that).
    """
    groups = list(combinations_with_replacement(range(len(task.paths)), group_size))
    p = task.probability_N
    ways = [math.factorial(group_size) / math.prod(math.factorial(c) for c in Counter(g).values()) for g in groups]
    return groups, np.array([w * float(np.prod(p[list(g)])) for w, g in zip(ways, groups, strict=True)])


@lru_cache(maxsize=32)
def _group_episodes(task: SmallTask, group_size: int) -> tuple[list[Episode], list[tuple[int, ...]], np.ndarray]:
    """The episodes of every group one after another; the groups and their probabilities."""
    groups, weight = all_groups(task, group_size)
    once = [task.episode(n, group="", id="") for n in range(len(task.paths))]
    episodes = [copy(once[n]) for g in groups for n in g]  # many records of one content, which nobody changes
    for at, episode in enumerate(episodes):
        episode.group = f"g{at // group_size}"
        episode.id = f"{episode.group}.{at % group_size}"
    return episodes, groups, weight


def exact_gradient(
    assign: Callable[[Sequence[Episode]], Ledger],
    level: str,
    *,
    seed: int = 0,
    group_size: int = 3,
    task: SmallTask | None = None,
    batch: bool = False,
    partial: bool = False,
) -> GradientReport:
    """Expected gradient of a rule on one small task, over all groups of one size.

    Args:
        assign: the rule, configured; called once with the episodes of all groups.
        level: "token" or "step": which credit weights ``grad log pi``.
        seed: of the task.
        group_size: G.
        task: default ``small_task(seed)``.
        batch: the rule pools over all it is given: call it group by group.
        partial: the rule leaves attempts out (``LEAVES_OUT``): the mean of a group is over those that are scored.

    Raises:
        BadInput: another level, or a step without credit.
    """
    if level not in ("token", "step"):
        raise BadInput("only token and step credit feed a policy gradient here", got=level, where="testing.exact")
    task = task or small_task(seed)
    episodes, groups, weight = _group_episodes(task, group_size)
    parts = [episodes[i : i + group_size] for i in range(0, len(episodes), group_size)] if batch else [episodes]
    credit = np.concatenate([_of_tokens(assign(part), level) for part in parts])
    if np.isnan(credit).any() and not partial:
        raise BadInput("a valid step was not scored", got=int(np.isnan(credit).sum()), where="testing.exact")
    path_E = np.array(groups).ravel()
    scores = [task.scores_KD(n) for n in range(len(task.paths))]
    starts_E = np.cumsum([0] + [len(scores[n]) for n in path_E.tolist()])[:-1]
    sum_ED, scored_E = np.empty((len(path_E), len(task.logit_D))), ~np.isnan(credit[starts_E])
    credit = np.nan_to_num(credit, nan=0.0)
    for n, score_KD in enumerate(scores):
        rows = np.flatnonzero(path_E == n)
        sum_ED[rows] = credit[starts_E[rows, None] + np.arange(len(score_KD))] @ score_KD
    members_N = scored_E.reshape(len(groups), group_size).sum(axis=1).clip(min=1)
    estimate_ND = sum_ED.reshape(len(groups), group_size, -1).sum(axis=1) / members_N[:, None]
    return GradientReport.of(seed, group_size, estimate_ND, weight, task.true_gradient_D)


def _of_tokens(ledger: Ledger, level: str) -> np.ndarray:
    """What each token is weighted with: its own credit, or that of its step."""
    credit = ledger.values(level)
    return credit[ledger.parent_index("token", "step")] if level == "step" else credit


def measure(
    rule: Any, config: Any = None, *, seeds: Iterable[int] = range(5), group_sizes: Sequence[int] = (2, 3)
) -> list[GradientReport]:
    """Reports of a credit file on several tasks and group sizes.

    Args:
        rule: a module (or object) with ``LEVEL`` and ``assign``.
        config: its ``Config``; ``None`` = the default. A field ``critic`` that is ``None`` gets a wrong critic.
        seeds: tasks.
        group_sizes: group sizes.
    """
    return [
        exact_gradient(
            configured(rule, config, small_task(seed).critic), rule.LEVEL, seed=seed, group_size=size, **pools(rule)
        )
        for seed in seeds
        for size in group_sizes
    ]


def pools(rule: Any) -> dict[str, Any]:
    """What ``exact_gradient`` must know of a rule: whether it pools over groups, and whether it leaves attempts out."""
    return {"batch": getattr(rule, "SCOPE", "group") == "batch", "partial": getattr(rule, "LEAVES_OUT", False)}


def configured(
    rule: Any, config: Any = None, critic: Callable[[Episode], Any] | None = None
) -> Callable[[Sequence[Episode]], Ledger]:
    """The rule with its configuration (default where ``None``), and ``critic`` or an embedder where it needs one."""
    if config is None and hasattr(rule, "Config"):
        config = rule.Config()
    if config is None:
        return rule.assign
    for name, stand_in in (("critic", critic), ("embed", embed)):
        if is_dataclass(config) and any(f.name == name and getattr(config, name) is None for f in fields(config)):
            config = replace(config, **{name: stand_in})  # type: ignore[type-var]
    return lambda episodes: rule.assign(episodes, config)


def finding(reports: Sequence[GradientReport]) -> Claim:
    """What all reports together show: the weakest of their findings."""
    found = [r.finding for r in reports]
    if all(f is True for f in found):
        return True
    return False if any(f is False for f in found) else "up to scale"
