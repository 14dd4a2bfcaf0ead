"""Policies: what all rules have in common, and how a rule is found by name, by file, and from what a receipt says.

A policy is the ``Config`` of a rule (``memory/rule.py``): ``preset("memrl", k=5)``, or that of a rule in your own file.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import math
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from evolvent.core import config as configs
from evolvent.core import outside
from evolvent.core.errors import BadInput, closest

_OWN = "evolvent.memory.rules"
# receipts of versions whose policy was one flat record: what they said of learning, and the rule that does it now
_BEFORE = {"none": "rag", "ema": "memrl", "provenance": "memq", "lift": "memlift"}


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
                where=_where(self),
                code="bad_policy",
            )
        if isinstance(self.q_init, str) and self.q_init not in ("low", "middle", "high"):
            expected = "a number, low, middle or high"
            raise BadInput(
                "unknown start value", got=self.q_init, expected=expected, where=_where(self), code="bad_policy"
            )
        if self.relevance not in ("cosine", "hybrid"):
            raise BadInput(
                "unknown relevance",
                got=self.relevance,
                expected="cosine or hybrid",
                where=_where(self),
                code="bad_policy",
            )
        within(self, 0.0, 1.0, "epsilon")

    def _plain(self) -> None:
        """Settings as a receipt keeps them; ``BadInput`` for those that could not be read from it again to settle."""
        with _coded("bad_policy"):
            told = configs.typed(self, _where(self))
        for name, value in told.items():
            if isinstance(value, float) and math.isnan(value):
                raise BadInput(f"{name} is not a number", got=value, where=_where(self), code="bad_policy")
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
            raise BadInput(f"{name} is out of range", got=x, expected=expected, where=_where(policy), code="bad_policy")


@contextmanager
def _coded(code: str) -> Iterator[None]:
    """Errors of what knows nothing of memories get the code that their callers know."""
    try:
        yield
    except BadInput as error:
        error.code = error.code or code
        raise


def _where(policy: Policy) -> str:
    return f"policy {policy.name!r}"


# -------------------------------------------------------------------------------------------------- finding a rule
@dataclass(frozen=True)
class Rule:
    """A rule's module, with the default of what it leaves out; see ``memory/rule.py``."""

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
    told: dict[str, Any] = {name: getattr(module, name, None) for name in ("credit", "walk", "bars", "bounds")}
    candidates = getattr(module, "CANDIDATES", "near")
    if candidates not in ("near", "any", "none"):
        raise BadInput(
            "unknown candidates", got=candidates, expected="near, any or none", where=module.__name__, code="bad_policy"
        )
    told |= {name: getattr(module, name.upper(), False) for name in ("sources", "bodies", "history", "pairs")}
    return Rule(module=module, rank=module.rank, candidates=candidates, **told)


@lru_cache
def names() -> tuple[str, ...]:
    """The rules of the package."""
    places = importlib.import_module(_OWN).__path__  # pkgutil would take a folder that cannot be read for an empty one
    return tuple(sorted(f[:-3] for place in places for f in os.listdir(place) if f.endswith(".py") and f[0] != "_"))


def preset(name: str, /, **overrides: Any) -> Policy:
    """The policy of a rule, ``"memrl"`` or ``"my_rule.py"``, with some settings changed.

    Raises:
        BadInput: unknown rule or setting; the message names the closest.
    """
    module = _module(name, "preset")
    known = {f.name for f in fields(module.Config)}
    for field in overrides:
        if field not in known:
            raise BadInput(
                "unknown field of a policy", got=field, expected=closest(field, sorted(known)), code="bad_policy"
            )
    return module.Config(**overrides)


def preset_for(name: str, config: Any) -> Policy:
    """``preset(name)`` with those fields of the dataclass ``config`` that a policy has too."""
    known = {f.name for f in fields(_module(name, "preset").Config)} - {"name"}
    return preset(name, **{f.name: getattr(config, f.name) for f in fields(config) if f.name in known})


def _module(name: str, where: str) -> ModuleType:
    at = outside.pointer(name) if isinstance(name, str) else None
    if at is not None:
        with _coded("bad_rule"):
            return outside.load(at, "a rule of the memory", ("Config",))[0]
    if name not in names():
        raise BadInput(
            "unknown policy of a memory",
            got=name,
            expected=closest(str(name), names()),
            where=where,
            code="unknown_policy",
        )
    return importlib.import_module(f"{_OWN}.{name}")


# ------------------------------------------------------------------------------------------------ in and out of JSON
def to_dict(policy: Policy) -> dict[str, Any]:
    """Every effective setting as JSON values, and which rule they belong to: its name, or its module and file."""
    module = rule_of(policy).module
    package, _, name = module.__name__.rpartition(".")
    at = {"rule": name} if package == _OWN else {"rule": module.__name__, "file": str(_file(module))}
    return at | configs.to_json(policy)


@lru_cache(maxsize=256)
def to_params(policy: Policy) -> str:
    """``to_dict`` as it stands in a receipt."""
    return json.dumps(to_dict(policy), sort_keys=True)


@lru_cache(maxsize=256)
def from_params(params: str) -> Policy:
    """The policy of a receipt.

    Raises:
        BadInput: its rule cannot be found again, or no longer has these settings.
    """
    told = json.loads(params)
    if "rule" in told:
        module = _found(told.pop("rule"), told.pop("file", None))
    else:
        module = importlib.import_module(f"{_OWN}.{_BEFORE[told['update']]}")
        known = {f.name for f in fields(module.Config)}
        told = {name: value for name, value in told.items() if name in known}
    retired = getattr(module, "RETIRED", frozenset[str]())
    with _coded("rule_lost"):
        return configs.from_json(module.Config, {name: value for name, value in told.items() if name not in retired})


def intact(params: str, name: str) -> bool:
    """Whether a receipt's settings are as they were written, as far as that shows without the rule of another file."""
    try:
        told = json.loads(params)
        if json.dumps(told, sort_keys=True) != params or told["name"] != name:
            return False
        if "rule" not in told:  # an older version may have written fewer fields, never others
            lift = preset("memlift")
            known = {f.name for f in fields(lift)} | rule_of(lift).module.RETIRED | {"rank", "update"}
            return told["update"] in _BEFORE and told.keys() <= known and bool(from_params(params))
        return "file" in told or bool(from_params(params))
    except (ValueError, TypeError, KeyError):
        return False


@lru_cache(maxsize=256)
def pays_all_shown(params: str) -> bool:
    """Whether settling such a receipt changes every memory that was shown: the learning rules of the package do."""
    return "file" not in json.loads(params) and rule_of(from_params(params)).credit is not None


def _found(name: str, file: str | None) -> ModuleType:
    """The module of a rule of a receipt."""
    if file is None:
        return _module(name, "a receipt")
    loaded = sys.modules.get(name)
    if loaded is not None and str(_file(loaded)) == file:
        return loaded
    spec = importlib.util.find_spec(name) if importlib.util.find_spec(name.partition(".")[0]) else None
    if spec is not None and (spec.origin == file or not Path(file).is_file()):
        return importlib.import_module(name)
    if Path(file).is_file():
        with _coded("bad_rule"):
            return outside.load(outside.Pointer(file, "Config", ""), "a rule of the memory", ())[0]
    raise BadInput(
        "the rule of this receipt cannot be found",
        got=f"module {name}, file {file}",
        where="settle",
        expected="the file, or an installed module of that name",
        code="rule_lost",
        do="put the rule back where it was and settle again; nothing was written, the receipt stays open",
    )


def _file(module: ModuleType) -> Path | None:
    found = getattr(module, "__file__", None)
    return Path(found).resolve() if found else None


# ------------------------------------------------------------------------------------------------------ reward range
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


def reward_bounds(given: Any) -> tuple[float, float]:
    """A reward range as two floats.

    Raises:
        BadInput: not two finite numbers, the lower one first, or too near or far from each other to compute with.
    """
    pair = tuple(given) if isinstance(given, Sequence) and not isinstance(given, str | bytes) else ()
    if len(pair) == 2 and all(isinstance(x, int | float) and not isinstance(x, bool) for x in pair):
        lo, hi = float(pair[0]), float(pair[1])
        if 1e-100 <= hi - lo <= 1e100:  # its square is a number too
            return lo, hi
    expected = "(failure, success), finite, 1e-100 to 1e100 apart"
    raise BadInput(
        "reward_range is not a range",
        got=given,
        expected=expected,
        where="Memory(reward_range=…)",
        code="bad_reward_range",
    )


def named(policy: str | Policy) -> Policy:
    """The policy, or that of a name; ``BadInput`` for anything else."""
    if isinstance(policy, str):
        policy = preset(policy)
    if not isinstance(policy, Policy):
        do = f"give an instance: policy={policy.__name__}(…)" if isinstance(policy, type) else ""
        raise BadInput("not a policy", got=policy, expected="the name of a rule, or a Policy", do=do, code="bad_policy")
    return policy


def check(policy: str | Policy, reward_range: tuple[float, float]) -> Policy:
    """The policy, or that of a name, when it can learn from rewards in this range.

    Raises:
        BadInput: not the policy of a rule, a rule that could not be found again when a receipt is settled, or settings
            that would starve: with a start at the reward of failure and no exploration, the first memory that is tried
            stays ahead of all that were not (10 arms, rewards 0 and 1, start 0: the best is picked 9 % of the time;
            start 1: 94 %).
    """
    policy = named(policy)
    rule = rule_of(policy)
    if not rule.module.__name__.startswith(f"{_OWN}."):
        _lasting(policy, rule.module)
    lo, hi = reward_bounds(reward_range)
    q0 = start_value(policy, reward_range)
    if not math.isfinite(q0):
        raise BadInput("q_init is not finite", got=q0, where=_where(policy), code="bad_policy")
    learns = rule.credit is not None and (rule.history or getattr(policy, "weight", 0.0) > 0)
    if learns and not lo < q0 <= hi and policy.epsilon <= 0:
        raise BadInput(
            "these settings starve: memories that were never tried can never win",
            got=f"q_init {q0:g} with rewards {lo:g}..{hi:g} and no exploration",
            expected=f"{lo:g} < q_init <= {hi:g}, or epsilon > 0",
            where=_where(policy),
            do="q_init='high' (optimistic), q_init='middle', or epsilon=0.1",
            code="bad_policy",
        )
    return policy


def _lasting(policy: Policy, module: ModuleType) -> None:
    """``BadInput`` when another process could not settle what this policy recalled."""
    if module.__name__ == "__main__" or _file(module) is None:
        raise BadInput(
            "the rule has no file of its own",
            got=f"module {module.__name__}",
            where=_where(policy),
            expected="a file with Config, rank and credit that other processes can load too",
            do="move it out of the script: Memory(policy=my_rule.Config()), or policy='my_rule.py'",
            code="bad_policy",
        )
    try:
        hash(policy)
        same = from_params(to_params(policy)) == policy
    except TypeError:
        same = False
    if not same:
        raise BadInput(
            "the settings do not come back from JSON",
            got=policy,
            where=_where(policy),
            expected="fields of numbers, texts, tuples and None",
            code="bad_policy",
        )
