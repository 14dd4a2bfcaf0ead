"""Policies by name, by file, and from a receipt: ``preset("memrl", k=5)``, or that of a rule in your own file.

A policy is the ``Config`` of a rule; what a rule is says ``memory/rule.py``.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import math
import os
import sys
from collections.abc import Sequence
from dataclasses import fields
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

from evolvent.core import config as configs
from evolvent.core import outside
from evolvent.core.errors import BadInput, closest

# rules of one's own and older programs have these from here
from evolvent.memory.rule import Policy as Policy
from evolvent.memory.rule import coded, where_of
from evolvent.memory.rule import rule_of as rule_of
from evolvent.memory.rule import start_value as start_value
from evolvent.memory.rule import within as within

_OWN = "evolvent.memory.rules"
# receipts of versions whose policy was one flat record: what they said of learning, and the rule that does it now
_BEFORE = {"none": "rag", "ema": "memrl", "provenance": "memq", "lift": "memlift"}


# -------------------------------------------------------------------------------------------------- finding a rule
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
        with coded("bad_rule"):
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
    stored = json.loads(params)
    if "rule" in stored:
        module = _found(stored.pop("rule"), stored.pop("file", None))
    else:
        module = importlib.import_module(f"{_OWN}.{_BEFORE[stored['update']]}")
        known = {f.name for f in fields(module.Config)}
        stored = {name: value for name, value in stored.items() if name in known}
    retired = getattr(module, "RETIRED", frozenset[str]())
    with coded("rule_lost"):
        return configs.from_json(module.Config, {name: value for name, value in stored.items() if name not in retired})


def intact(params: str, name: str) -> bool:
    """Whether a receipt's settings are as they were written, as far as that shows without the rule of another file."""
    try:
        stored = json.loads(params)
        if json.dumps(stored, sort_keys=True) != params or stored["name"] != name:
            return False
        if "rule" not in stored:  # an older version may have written fewer fields, never others
            lift = preset("memlift")
            known = {f.name for f in fields(lift)} | rule_of(lift).module.RETIRED | {"rank", "update"}
            return stored["update"] in _BEFORE and stored.keys() <= known and bool(from_params(params))
        return "file" in stored or bool(from_params(params))
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
        with coded("bad_rule"):
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
        raise BadInput("q_init is not finite", got=q0, where=where_of(policy), code="bad_policy")
    learns = rule.credit is not None and (rule.history or getattr(policy, "weight", 0.0) > 0)
    if learns and not lo < q0 <= hi and policy.epsilon <= 0:
        raise BadInput(
            "these settings starve: memories that were never tried can never win",
            got=f"q_init {q0:g} with rewards {lo:g}..{hi:g} and no exploration",
            expected=f"{lo:g} < q_init <= {hi:g}, or epsilon > 0",
            where=where_of(policy),
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
            where=where_of(policy),
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
            where=where_of(policy),
            expected="fields of numbers, texts, tuples and None",
            code="bad_policy",
        )
