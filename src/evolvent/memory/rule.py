"""What a rule of the memory is: its settings, what it is given, and what it returns.

``memory/rules`` has one a file; yours may lie anywhere.

A rule is a module with

- ``Config``: a frozen dataclass, a ``Policy`` with the rule's own settings and their defaults;
- ``rank(config, pool) -> Ranking``: pure; scores of the candidates of one recall;
- ``credit(config, settled) -> [Change]``: pure; what one outcome changes. Without it nothing is learned.

and, where it needs them,

- ``walk(config) -> (links, through_failures)``: how far back credit goes to the memories that a memory was made from,
  and whether it passes memories of failures (default: not at all);
- ``bars(config, pool) -> bool [N]``: candidates that take no place in the pool from others;
- ``bounds(config, reward_range) -> (low, high)``: where a starting value may lie (default: the reward range);
- ``CANDIDATES = "near" | "any" | "none"``: compared with the task (default), drawn at random, or nothing is shown;
- ``SOURCES = True``: candidates come with the track records of their sources;
- ``HISTORY = True``: candidates come with their newest outcomes, and how relevant they were to the tasks of those;
- ``PAIRS = True``: candidates come with the newest uses of memories: question, memory shown, outcome;
- ``RETIRED``: settings that receipts may still name and that mean nothing any more;
- ``BODIES = True``: credit is given how much of the action each shown memory answers for.

``settle`` calls ``credit`` with what the store holds, ``memory/ledger.py`` with what recorded episodes say.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType, ModuleType
from typing import Any, Literal, NamedTuple

import numpy as np

from evolvent.core import config as configs
from evolvent.core.errors import BadInput
from evolvent.memory.events import Event, Loaded
from evolvent.memory.lift import Effect

# credit below this share of the first step is not walked back any further
_NEGLIGIBLE = 1e-4
_USUAL = frozenset((int, float))
# a memory's number in a store, or its id in a record
Id = Any


# ------------------------------------------------------------------------------------------------------------- settings
@dataclass(frozen=True)
class Policy:
    """Settings that every rule has; a rule's ``Config`` adds its own, and has its own defaults."""

    name: str
    """What receipts call it."""
    objective: str = "success"
    """Which learned value ranks; settle(objective=…) feeds it."""
    k: int = 3
    """Memories shown at most."""
    pool: int = 10
    """Candidates kept by relevance before ranking (k1 of MemRL)."""
    gate: float | None = None
    """Strict lower bound of the cosine, whatever ranks; default: the embedder's (``embedders.gate_of``), as receipts
    and health() tell."""
    relevance: Literal["cosine", "hybrid"] = "cosine"
    """cosine of the keys; hybrid: 3/4 of it, and 1/4 how many of the words that tell the nearest keys apart are
    there."""
    margin: float = 2.0
    """Candidates this much less relevant than the most relevant one are left out (2: none)."""
    epsilon: float = 0.0
    """Probability of showing k random members of the pool instead of the best."""
    q_init: float | Literal["low", "middle", "high"] = "middle"
    """Starting value of a memory; the words place it in the reward range, so that it fits any."""

    def __post_init__(self) -> None:
        self._plain()
        if self.k < 0 or self.pool < max(1, self.k):
            raise BadInput(
                "no usable k and pool",
                got=(self.pool, self.k),
                expected="(pool, k) with pool >= 1 and pool >= k >= 0",
                where=where_of(self),
                code="bad_policy",
            )
        if isinstance(self.q_init, str) and self.q_init not in ("low", "middle", "high"):
            expected = "a number, low, middle or high"
            raise BadInput(
                "unknown start value", got=self.q_init, expected=expected, where=where_of(self), code="bad_policy"
            )
        if self.relevance not in ("cosine", "hybrid"):
            raise BadInput(
                "unknown relevance",
                got=self.relevance,
                expected="cosine or hybrid",
                where=where_of(self),
                code="bad_policy",
            )
        within(self, 0.0, 1.0, "epsilon")

    def _plain(self) -> None:
        """Settings as a receipt keeps them; ``BadInput`` for those that could not be read from it again to settle."""
        with coded("bad_policy"):
            typed = configs.typed(self, where_of(self))
        for name, value in typed.items():
            if isinstance(value, float) and math.isnan(value):
                raise BadInput(f"{name} is not a number", got=value, where=where_of(self), code="bad_policy")
            object.__setattr__(self, name, value)


@lru_cache(maxsize=256)
def with_gate(policy: Policy, gate: float) -> Policy:
    """The policy with the gate of an embedder: made once, for every recall comes here."""
    made = copy(policy)
    object.__setattr__(made, "gate", gate)
    return made


def within(policy: Policy, low: float, high: float, *names: str, inside: bool = False) -> None:
    """``BadInput`` where a setting is not in ``low..high``; ``inside``: nor at its ends."""
    for name in names:
        x = getattr(policy, name)
        if not (low < x < high if inside else low <= x <= high):
            expected = f"above {low:g}" if inside else f"{low:g}..{high:g}"
            raise BadInput(
                f"{name} is out of range", got=x, expected=expected, where=where_of(policy), code="bad_policy"
            )


@contextmanager
def coded(code: str) -> Iterator[None]:
    """Errors of what knows nothing of memories get the code that their callers know."""
    try:
        yield
    except BadInput as error:
        error.code = error.code or code
        raise


def where_of(policy: Policy) -> str:
    """A policy as errors name it."""
    return f"policy {policy.name!r}"


def start_value(policy: Policy, reward_range: tuple[float, float]) -> float:
    """The starting value of a memory in units of reward."""
    lo, hi = reward_range
    if isinstance(policy.q_init, str):
        return {"low": lo, "middle": (lo + hi) / 2, "high": hi}[policy.q_init]
    return float(policy.q_init)


def least_step(policy: Policy) -> float:
    """No outcome of weight 1 moves a value by a smaller step; 0: values are plain means, or are not learned."""
    alpha = getattr(policy, "alpha", 0.0)  # of a rule of one's own it may mean anything
    return alpha if isinstance(alpha, int | float) and 0.0 < alpha <= 1.0 else 0.0


def value_bounds(policy: Policy, reward_range: tuple[float, float]) -> tuple[float, float]:
    """Where a starting value may lie: the reward range, or what the rule makes of it."""
    wider = rule_of(policy).bounds
    return reward_range if wider is None else wider(policy, reward_range)


# ----------------------------------------------------------------------------------------------------------- the module
@dataclass(frozen=True)
class Rule:
    """A rule's module, with the default of what it leaves out."""

    module: ModuleType
    rank: Callable[..., Any]
    credit: Callable[..., Any] | None
    walk: Callable[..., tuple[int, bool]] | None
    bars: Callable[..., Any] | None
    bounds: Callable[..., tuple[float, float]] | None
    candidates: str
    sources: bool
    bodies: bool
    history: bool
    pairs: bool


def rule_of(policy: Policy) -> Rule:
    """The rule that a policy belongs to."""
    return _rule(type(policy))


@lru_cache(maxsize=64)
def _rule(kind: type[Policy]) -> Rule:
    module = sys.modules.get(kind.__module__)
    if module is None or getattr(module, "Config", None) is not kind or not callable(getattr(module, "rank", None)):
        raise BadInput(
            "not the policy of a rule",
            got=kind.__qualname__,
            where=kind.__module__,
            code="bad_policy",
            expected="a class Config(Policy) of a file that has rank(config, pool), see evolvent.memory.rule",
        )
    parts: dict[str, Any] = {name: getattr(module, name, None) for name in ("credit", "walk", "bars", "bounds")}
    candidates = getattr(module, "CANDIDATES", "near")
    if candidates not in ("near", "any", "none"):
        raise BadInput(
            "unknown candidates", got=candidates, expected="near, any or none", where=module.__name__, code="bad_policy"
        )
    parts |= {name: getattr(module, name.upper(), False) for name in ("sources", "bodies", "history", "pairs")}
    return Rule(module=module, rank=module.rank, candidates=candidates, **parts)


# ----------------------------------------------------------------------------------------- what it is given and returns
class Pairs(NamedTuple):
    """Questions and memories that were shown at them, P of them, oldest first; and the candidates of now."""

    question_P: Sequence[str]  # which question; those of now: ""
    case_P: Sequence[Id]  # which memory
    query_PD: np.ndarray  # unit vectors of the questions, float32
    key_PD: np.ndarray  # unit vectors of the memories' keys, float32
    success_P: np.ndarray  # 1 success, 0 failure, 1/2 neither
    reward_P: np.ndarray  # what came of it, scaled to [0, 1]; of now: nothing
    # of now: the candidates, the question's vector [D], those of their keys [N, D], success [N]
    asked: tuple[Sequence[Id], np.ndarray, np.ndarray, np.ndarray] | None = None

    def rows(self, mask_P: np.ndarray) -> Pairs:
        """Those of a mask."""
        at: list[int] = np.flatnonzero(mask_P).tolist()
        return Pairs(
            [self.question_P[i] for i in at],
            [self.case_P[i] for i in at],
            self.query_PD[at],
            self.key_PD[at],
            self.success_P[at],
            self.reward_P[at],
            self.asked,
        )

    def first(self, n: int) -> Pairs:
        """The oldest ``n``."""
        return self.rows(np.arange(len(self.case_P)) < n)

    def now(self) -> Pairs:
        """The candidates of now as pairs without an outcome."""
        assert self.asked is not None
        ids, query_D, key_ND, success_N = self.asked
        query_ND = np.repeat(query_D[None], len(ids), axis=0)
        return Pairs([""] * len(ids), ids, query_ND, key_ND, success_N, np.zeros(len(ids)))


class Past(NamedTuple):
    """An outcome of a memory: how relevant it was to the task there, the reward, and for how much of it it answers.

    ``told``: what the agent did was told, so that the weight is by use.
    """

    relevance: float
    reward: float
    weight: float
    told: bool = False


class Candidates(NamedTuple):
    """The candidates of one recall, N of them, most relevant first."""

    ids: Sequence[Id]
    relevance: np.ndarray  # float64 [N]
    q_N: np.ndarray  # learned values, float64 [N]
    rows: Sequence[Loaded]  # value, its statistics, start and source of each
    sources: Mapping[str, tuple[float, float]]  # of each source: memories that were tried, and what they realised
    reward_range: tuple[float, float]
    k: int  # how many are wanted
    frozen: bool  # nothing is tried out
    history: Mapping[Id, Sequence[Past]] = MappingProxyType({})  # by id: its newest outcomes, newest first
    pairs: Pairs | None = None  # uses of memories; None: not asked for

    @property
    def share_N(self) -> np.ndarray:
        """Learned values as shares of the reward range, 0 failure and 1 success: the same under any scale of rewards.

        Float64 ``[N]``; outside 0..1 where values may leave the range (``bounds``).
        """
        lo, hi = self.reward_range
        return (self.q_N - lo) / (hi - lo)


class Ranking(NamedTuple):
    """What a rule makes of N candidates; what is left out is zero, or does not happen."""

    score: np.ndarray  # float64 [N]
    z_sim: np.ndarray | None = None  # the part of similarity, scaled
    z_value: np.ndarray | None = None  # the part of value, scaled
    bonus: np.ndarray | None = None  # what a measured effect adds to the value
    value: np.ndarray | None = None  # the value that counted; default: the learned one
    best: Sequence[int] | None = None  # rows to show, best first; default: the highest scores
    effects: Sequence[Effect] = ()  # measured effects
    omit: Sequence[float] | None = None  # [N] probability of leaving it out once it is selected, not as the first
    omit_first: Sequence[float] | None = None  # [N] the same, as the first
    harmful: frozenset[int] = frozenset()  # rows of what is known to harm


def checked_ranking(ranking: Any, n: int, k: int, rule: str) -> Ranking:
    """What ``rank`` answered of ``n`` candidates, as a receipt can hold it.

    Raises:
        BadInput: no ``Ranking``; not N numbers; rows that are no candidates, come twice, or are more than ``k``;
            probabilities outside 0..1.
    """
    problem, got = "", ranking
    if not isinstance(ranking, Ranking):
        problem, got = "rank returned no Ranking", type(ranking).__name__
    else:
        for name in ("score", "z_sim", "z_value", "bonus", "value"):
            column = getattr(ranking, name)
            if column is None and name != "score":
                continue
            if not isinstance(column, np.ndarray) or column.shape != (n,) or np.isnan(column).any():
                problem, got = f"{name} is not an array of {n} numbers", column
        best = [] if ranking.best is None else list(ranking.best)
        if len(best) > k or len(set(best)) < len(best) or not set(best) <= set(range(n)):
            problem, got = f"best is not at most {k} different rows of {n}", best
        for name in ("omit", "omit_first"):
            chances = getattr(ranking, name)
            if chances is not None and not (len(chances) == n and all(0.0 <= p <= 1.0 for p in chances)):
                problem, got = f"{name} is not {n} probabilities", chances
    if problem:
        raise BadInput(
            problem,
            got=got,
            where=f"rank of the memory rule {rule!r}",
            do="see evolvent/memory/rule.py",
            code="bad_rule",
        )
    return ranking


class Shown(NamedTuple):
    """A memory that a recall selected: shown, or left out on purpose; ``propensity``: the probability of showing it.

    ``dropped``: it was handed out and is not in the prompt, for want of room or for reasons of the agent's.
    """

    id: Id
    shown: bool
    propensity: float
    dropped: bool = False


class Settled(NamedTuple):
    """One outcome of one recall, and what was known before it."""

    reward: float
    items: Sequence[Shown]
    values: Mapping[Id, Loaded]  # of the items and of their ancestors
    depths: Mapping[Id, Mapping[Id, int]]  # by memory shown: links back to itself (0) and to each ancestor in reach
    child_value: float  # how far above failure the memory is that was written from this attempt, 0 without one
    weights: Mapping[Id, float]  # by memory shown: how much it answers for the action, 0..1
    reward_range: tuple[float, float]
    first: Id | None = None  # the first in the prompt, where ``items`` are some of what was shown
    recalled: Mapping[Id, float] = MappingProxyType({})  # learned values at the recall: later news changes none of them

    @property
    def used(self) -> list[Id]:
        """Those that were shown."""
        return [item.id for item in self.items if item.shown]


class Change(NamedTuple):
    """What one outcome changes of one memory."""

    memory: Id
    rule: str  # "shown", "omitted" (only statistics change; weight 0: it was handed out and dropped) or "ancestor"
    q_before: float
    q_after: float
    target: float  # what the value moved towards
    step: float = 0.0  # share of the old value that was replaced
    weight: float = 1.0  # how much it answers for the outcome
    ipw: float = 1.0  # weight in the statistics of with and without it; 0: says nothing about them
    decay: float = 1.0  # factor on those statistics before
    depth: int = 0  # links back from what was shown

    def event(self, objective: str, stage: str, reward: float) -> Event:
        """The row that is written of it."""
        m, rule, before, after, target, step, weight, ipw, decay, depth = self
        return Event(m, objective, stage, rule, step, weight, ipw, decay, depth, reward, target, before, after)


def checked_changes(changes: Iterable[Change], known: Container[Id], rule: str) -> list[Change]:
    """What ``credit`` answered, as a ledger can hold it.

    Raises:
        BadInput: no ``Change``; of a memory that is not in ``known``; what is no number (of Python) or not finite.
    """
    made = list(changes)
    for change in made:
        problem = ""
        if not isinstance(change, Change):
            problem = "credit returned no Change"
        elif change.memory not in known:
            problem = "credit pays a memory that was neither shown nor led to what was shown"
        elif not (_numbers(numbers := change[2:]) and all(map(math.isfinite, numbers))):
            problem = "credit returned something else than finite numbers"
        if problem:
            where = f"credit of the memory rule {rule!r}"
            raise BadInput(problem, got=change, where=where, do="see evolvent/memory/rule.py", code="bad_rule")
    return made


def _numbers(these: tuple[Any, ...]) -> bool:
    # their types first: every settle comes here, and only a rule of one's own has others
    return {*map(type, these)} <= _USUAL or all(isinstance(x, (int, float)) for x in these)


def reach(decay: float) -> int:
    """How many links back credit matters that falls by ``decay`` a link."""
    if decay <= 0.0:
        return 0
    return 64 if decay >= 0.9 else int(math.log(_NEGLIGIBLE) / math.log(decay))
