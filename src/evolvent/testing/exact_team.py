"""Exact gradients of rules over rollouts, on a team game small enough to enumerate.

Two agents with two choices each play for at most two steps: the first joint choice decides what both see next, and one
of the four ends the attempt at once, so attempts differ in length. The reward is the team's: 13 courses of play in all.
Every pair of courses makes a rollout of two environments (so that a rule which compares environments is seen to), the
rule credits it, and

    expected = sum_pairs P(pair) 1/2 sum_b sum_t sum_i credit_{t,b,i} grad log pi^i(a^i_t | s_t)

is compared with the true gradient of the expected return, over the logits of both agents. Where a rule gives targets
for a critic, their expectation in each state is compared with the true value of the state.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product
from typing import Any

import numpy as np

from evolvent.core.errors import BadInput
from evolvent.core.rollout import Rollout
from evolvent.core.rollout_ledger import RolloutLedger
from evolvent.testing.exact import Critic, GradientReport, Path, SmallTask, all_groups

Pair = tuple[int, int]
STATES, AGENTS = 4, 2
_LEADS_TO = {(0, 0): 1, (0, 1): 2, (1, 0): 3}  # (1, 1) ends the attempt


@dataclass(frozen=True, eq=False)
class TeamGame:
    """The game: team reward of each joint choice in each state, and the policy (log-odds of choice 1)."""

    seed: int
    reward_SNN: np.ndarray
    logit_AS: np.ndarray

    @property
    def policy_ASN(self) -> np.ndarray:
        """Probability of each choice: ``[A, S, 2]``."""
        p = 1.0 / (1.0 + np.exp(-self.logit_AS))
        return np.stack([1.0 - p, p], axis=-1)

    @property
    def courses(self) -> list[tuple[Pair, ...]]:
        """Every course of play: the joint choices of its steps."""
        pairs = list(product(range(2), repeat=2))
        longer: list[tuple[Pair, ...]] = [(first, (n, m)) for first in _LEADS_TO for n, m in pairs]
        return [*longer, ((1, 1),)]

    def states(self, course: tuple[Pair, ...]) -> list[int]:
        """The state before each step."""
        return [0, *(_LEADS_TO[pair] for pair in course[:-1])]

    @cached_property
    def task(self) -> SmallTask:
        """The courses as trajectories: choice point ``i * STATES + s`` is that of agent i in state s."""
        paths: list[Path] = []
        for course in self.courses:
            path = Path()
            for s, pair in zip(self.states(course), course, strict=True):
                chosen = tuple((i * STATES + s, option) for i, option in enumerate(pair))
                path = path.then(chosen, float(self.reward_SNN[(s, *pair)]))
            paths.append(path)
        return SmallTask(self.seed, tuple(paths), self.logit_AS.ravel())

    def value_S(self) -> np.ndarray:
        """Expected return to go from each state ``[S]``."""
        p = self.policy_ASN
        joint_SNN = np.einsum("sn,sm->snm", p[0], p[1])
        return np.einsum("snm,snm->s", joint_SNN, self.joint_q_SNN())

    def joint_q_SNN(self) -> np.ndarray:
        """Expected return to go after each joint choice ``[S, 2, 2]``."""
        p, q = self.policy_ASN, self.reward_SNN.copy()
        for pair, after in _LEADS_TO.items():
            q[(0, *pair)] += p[0, after] @ self.reward_SNN[after] @ p[1, after]
        return q


@lru_cache(maxsize=16)
def team_game(seed: int) -> TeamGame:
    """A game with random rewards and a random policy."""
    rng = np.random.default_rng([seed, 2])
    return TeamGame(seed, rng.normal(size=(STATES, 2, 2)), rng.normal(scale=0.7, size=(AGENTS, STATES)))


def columns(game: TeamGame, courses: list[tuple[Pair, ...]], critic: Critic) -> tuple[Rollout, dict[str, np.ndarray]]:
    """One environment a course, as a rollout, and what a rule may ask for besides: ``q_TBAN``, ``policy_TBAN``.

    A course that ended early has an absent second row, whose reward must not count.
    """
    shape = (2, len(courses), AGENTS)
    obs, action = np.zeros((*shape, STATES)), np.zeros(shape, np.int64)
    reward, mask = np.full(shape, 99.0), np.zeros(shape, np.bool_)
    over = np.ones(shape[:2], np.bool_)
    value, q, policy = np.zeros(shape), np.zeros((*shape, 2)), np.full((*shape, 2), 0.5)
    value_AS, q_ASNN = _critic(game, critic)
    for b, course in enumerate(courses):
        for t, (s, pair) in enumerate(zip(game.states(course), course, strict=True)):
            obs[t, b, :, s], action[t, b], mask[t, b] = 1.0, pair, True
            reward[t, b], value[t, b] = game.reward_SNN[(s, *pair)], value_AS[:, s]
            q[t, b] = q_ASNN[0, s, :, pair[1]], q_ASNN[1, s, pair[0], :]
            policy[t, b] = game.policy_ASN[:, s]
        over[0, b] = len(course) == 1
    ended = np.zeros(shape[:2], np.bool_)
    rollout = Rollout(
        obs_TBAD=obs,
        action_TBA=action,
        reward_TBA=reward,
        terminated_TB=over,
        truncated_TB=ended,
        value_TBA=value,
        mask_TBA=mask,
    )
    return rollout, {"q_TBAN": q, "policy_TBAN": policy}


def _critic(game: TeamGame, critic: Critic) -> tuple[np.ndarray, np.ndarray]:
    """Values ``[A, S]`` and joint Q ``[A, S, 2, 2]`` as each agent's critic sees them: true, or arbitrary."""
    if critic == "exact":
        return np.tile(game.value_S(), (AGENTS, 1)), np.tile(game.joint_q_SNN(), (AGENTS, 1, 1, 1))
    rng = np.random.default_rng([game.seed, 3])
    return rng.normal(size=(AGENTS, STATES)), rng.normal(size=(AGENTS, STATES, 2, 2))


def exact_team_gradient(rule: Any, config: Any = None, *, seed: int = 0, critic: Critic = "wrong") -> GradientReport:
    """Expected gradient of a rule on one game, over all pairs of courses.

    Raises:
        BadInput: a step that an agent took was not scored, or the rule asks for a column that the game lacks.
    """
    game = team_game(seed)
    call, estimates = with_columns(rule, config), list[np.ndarray]()
    groups, weight_N = all_groups(game.task, 2)
    for pair in groups:
        rollout, more = columns(game, [game.courses[n] for n in pair], critic)
        credit = call(rollout, more).values("step")
        if np.isnan(credit[rollout.active_TBA]).any():
            raise BadInput("a step was not scored", got=int(np.isnan(credit).sum()), where="testing.exact_team")
        own = [credit[: len(game.courses[n]), b].ravel() for b, n in enumerate(pair)]  # by step, then by agent
        estimates.append(np.mean([x @ game.task.scores_KD(n) for x, n in zip(own, pair, strict=True)], axis=0))
    return GradientReport.of(seed, 2, np.array(estimates), weight_N, game.task.true_gradient_D)


def target_error(rule: Any, config: Any = None, *, seed: int = 0, critic: Critic = "wrong") -> float | None:
    """Largest distance of a rule's expected targets from the true values, over states and agents.

    ``None`` where it gives no targets.
    """
    game = team_game(seed)
    call = with_columns(rule, config)
    total_AS, weight_S = np.zeros((AGENTS, STATES)), np.zeros(STATES)
    for course, p in zip(game.courses, game.task.probability_N, strict=True):
        ledger = call(*columns(game, [course], critic))
        if "step" not in ledger.targets:
            return None
        for t, s in enumerate(game.states(course)):
            total_AS[:, s] += p * ledger.targets["step"][t, 0]
            weight_S[s] += p
    return float(np.abs(total_AS / weight_S - game.value_S()).max())


def measure_team(
    rule: Any, config: Any = None, *, seeds: Iterable[int] = range(3), critic: Critic = "wrong"
) -> list[GradientReport]:
    """Reports of a credit file on several games; see ``testing.exact.measure``."""
    return [exact_team_gradient(rule, config, seed=seed, critic=critic) for seed in seeds]


def with_columns(rule: Any, config: Any = None) -> Callable[[Rollout, dict[str, np.ndarray]], RolloutLedger]:
    """The rule with its configuration, given those of the columns that its ``assign`` names as keywords."""
    settings = rule.Config() if config is None and hasattr(rule, "Config") else config
    asked = [p for p in inspect.signature(rule.assign).parameters.values() if p.kind is p.KEYWORD_ONLY]

    def call(rollout: Rollout, more: dict[str, np.ndarray]) -> RolloutLedger:
        missing = [p.name for p in asked if p.default is p.empty and p.name not in more]
        if missing:
            raise BadInput("the rule asks for what is not there", got=missing, expected=sorted(more), where="assign")
        given = {p.name: more[p.name] for p in asked if p.name in more}
        return rule.assign(rollout, **given) if settings is None else rule.assign(rollout, settings, **given)

    return call
