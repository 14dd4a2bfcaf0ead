"""How to rank, explore and learn: one frozen record and the presets of the published systems.

Sources: rag, memp, memrl = MemRL (arXiv 2601.03192, table 8; MemP there is the same code without value learning);
memq = MemQ (arXiv 2605.08374; its full text was not available: values from a study note, see ``memq``);
memlift is our own.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal

from evolvent.core.errors import BadInput


@dataclass(frozen=True)
class Policy:
    """Settings of recall and settle. ``PRESETS`` holds named ones; ``preset("memrl", k=5)`` changes some fields."""

    name: str
    rank: Literal["none", "random", "similarity", "zscore", "linear", "lift"] = "similarity"
    """none: show nothing; random: k memories whatever the task; similarity: the k most similar; zscore: MemRL's blend
    of pool z-scores; linear: ``(1 - weight) sim + weight q`` (MemQ); lift: ours, see ``memory/lift.py``."""
    update: Literal["none", "ema", "provenance", "lift"] = "none"
    """none; ema: every shown memory moves by ``alpha (r - q)``; provenance: the error also goes back to ancestors;
    lift: running mean with a floor on the step, credit by use, omission statistics, and provenance."""
    objective: str = "success"
    """Which learned value ranks; settle(objective=…) feeds it."""
    k: int = 3
    """Memories shown at most."""
    pool: int = 10
    """Candidates kept by similarity before ranking (k1 of MemRL)."""
    gate: float = 0.3
    """Strict lower bound of the cosine, whatever ranks. It belongs to the embedder: .3 suits all-MiniLM-L6-v2; see
    health()."""
    relevance: Literal["cosine", "hybrid"] = "cosine"
    """cosine of the keys; hybrid: the mean of the cosine and of how much of the task's rare words the key covers."""
    margin: float = 2.0
    """Candidates this much less relevant than the most relevant one are left out (2: none); never the nearest by
    cosine."""
    weight: float = 0.5
    """Share of the value in the score: 0 similarity only, 1 value only."""
    epsilon: float = 0.0
    """Probability of showing k random members of the pool instead of the best."""
    q_init: float | Literal["low", "middle", "high"] = "middle"
    """Starting value of a memory; the words place it in the reward range, so that it fits any."""
    alpha: float = 0.3
    """Step size (for lift: its floor)."""
    gamma: float = 0.0
    """Discount of the new memory's value, and of each link back."""
    trace: float = 0.0
    """Trace decay of each link back (lambda of MemQ)."""
    omit: float = 0.0
    """Probability of leaving out a selected memory (not the best one); falls as ``omit n0 / (n0 + omissions)``."""
    omit_n0: float = 20.0
    """Omissions at which the omission rate has halved."""
    omit_harmful: float = 0.9
    """Probability of leaving out a selected memory that is known to harm, and the most for one that may harm. A frozen
    recall shows neither."""
    strength: float = 4.0
    """Pseudo-outcomes behind a source's prior, and behind the starting value of the running mean."""
    decay: float = 1.0
    """Factor on a memory's older lift statistics at each new outcome: below 1 old evidence fades (drift)."""
    spread_floor: float = 0.1
    """Smallest spread of values (share of the reward range) that is scaled up to 1 when ranking by lift."""


PRESETS: dict[str, Policy] = {
    "none": Policy("none", rank="none"),
    "random": Policy("random", rank="random"),
    "rag": Policy("rag", rank="similarity", gate=-1.0, weight=0.0),
    # MemP as run by the MemRL authors: the same memories, gate and k, no values
    "memp": Policy("memp", rank="zscore", weight=0.0, update="none"),
    # table 8: alpha .3, weight .5, k1/k2 10/5 or 5/3, Q 0 for rewards of -1/+1, i.e. the middle of the range
    "memrl": Policy("memrl", rank="zscore", update="ema", weight=0.5, alpha=0.3, q_init="middle"),
    # alpha .1-.5, gamma .3-.8, lambda .5-.9, weight 0-.7, epsilon 0-.1 in its README; Q starts at 0 (our reading)
    "memq": Policy(
        "memq", rank="linear", update="provenance", weight=0.5, epsilon=0.1, q_init=0.0, alpha=0.3, gamma=0.5, trace=0.5
    ),
    # chosen in surrogate and synthetic worlds, see LOG.md; gate and margin belong to the embedder
    "memlift": Policy(
        "memlift", rank="lift", update="lift", relevance="hybrid", gate=0.3, margin=0.15, weight=0.5, q_init="high",
        alpha=0.3, gamma=1.0, trace=0.3, omit=0.2, omit_n0=20.0,
    ),
}  # fmt: skip


def preset(name: str, **overrides: Any) -> Policy:
    """A named policy with some fields changed.

    Raises:
        BadInput: unknown preset or field; the message names the closest.
    """
    if name not in PRESETS:
        raise BadInput(
            "unknown policy", got=name, expected=", ".join(PRESETS), where="preset", do=_closest(name, PRESETS)
        )
    known = {f.name for f in fields(Policy)}
    for field in overrides:
        if field not in known:
            do = _closest(field, known)
            raise BadInput("unknown field of a policy", got=field, expected=", ".join(sorted(known)), do=do)
    return replace(PRESETS[name], **overrides)


def preset_for(name: str, config: Any) -> Policy:
    """``preset(name)`` with those fields of the dataclass ``config`` that a policy has too."""
    known = {f.name for f in fields(Policy)}
    return preset(name, **{f.name: getattr(config, f.name) for f in fields(config) if f.name in known})


def start_value(policy: Policy, reward_range: tuple[float, float]) -> float:
    """The starting value of a memory in units of reward."""
    lo, hi = reward_range
    if isinstance(policy.q_init, str):
        return {"low": lo, "middle": (lo + hi) / 2, "high": hi}[policy.q_init]
    return float(policy.q_init)


def reward_bounds(given: Any) -> tuple[float, float]:
    """A reward range as two floats.

    Raises:
        BadInput: not two finite numbers, the lower one first.
    """
    pair = tuple(given) if isinstance(given, Sequence) and not isinstance(given, str | bytes) else ()
    if len(pair) == 2 and all(isinstance(x, int | float) and not isinstance(x, bool) for x in pair):
        lo, hi = float(pair[0]), float(pair[1])
        if math.isfinite(lo) and math.isfinite(hi) and lo < hi:
            return lo, hi
    raise BadInput(
        "reward_range is not a range", got=given, expected="(failure, success), finite", where="Memory(reward_range=…)"
    )


def value_bounds(policy: Policy, reward_range: tuple[float, float]) -> tuple[float, float]:
    """Where values are clipped to: the reward range, widened by ``1 / (1 - gamma)`` where values bootstrap.

    Without it a hub of the provenance graph can collect several changes from one outcome and leave any range.
    """
    lo, hi = reward_range
    if policy.update != "provenance" or policy.gamma <= 0.0:
        return lo, hi
    wide = 1.0 / (1.0 - min(policy.gamma, 0.99))
    return min(lo, lo * wide), max(hi, hi * wide)


def check(policy: Policy, reward_range: tuple[float, float]) -> Policy:
    """``policy`` itself when it can learn from rewards in this range.

    Raises:
        BadInput: a field is out of range, or the policy would starve: with a start at the reward of failure and no
            exploration, the first memory that is tried stays ahead of all that were not (10 arms, rewards 0 and 1,
            start 0: the best is picked 9 % of the time; start 1: 94 %).
    """
    if not isinstance(policy, Policy):
        raise BadInput("not a policy", got=policy, expected="the name of a preset, or a Policy")
    where = f"policy {policy.name!r}"
    lo, hi = reward_bounds(reward_range)
    if policy.k < 0 or policy.pool < max(1, policy.k):
        raise BadInput("pool is smaller than k", got=(policy.pool, policy.k), expected="pool >= k >= 0", where=where)
    words = {
        "rank": ("none", "random", "similarity", "zscore", "linear", "lift"),
        "update": ("none", "ema", "provenance", "lift"),
    }
    for name, allowed in words.items():
        if getattr(policy, name) not in allowed:
            raise BadInput(f"unknown {name}", got=getattr(policy, name), expected=allowed, where=where)
    if isinstance(policy.q_init, str) and policy.q_init not in ("low", "middle", "high"):
        raise BadInput("unknown start value", got=policy.q_init, expected="a number, low, middle or high", where=where)
    for name in ("weight", "epsilon", "alpha", "gamma", "trace", "omit", "omit_harmful", "decay"):
        x = getattr(policy, name)
        if not 0.0 <= x <= 1.0:
            raise BadInput(f"{name} is out of range", got=x, expected="0..1", where=where)
    if policy.omit >= 1.0 or policy.omit_harmful >= 1.0:
        raise BadInput(
            "an omission rate of 1 shows nothing", got=(policy.omit, policy.omit_harmful), expected="below 1"
        )
    for name in ("omit_n0", "strength", "spread_floor"):
        if not (math.isfinite(getattr(policy, name)) and getattr(policy, name) > 0):
            raise BadInput(f"{name} is out of range", got=getattr(policy, name), expected="above 0", where=where)
    if math.isnan(policy.gate):
        raise BadInput("gate is not a number", got=policy.gate, expected="a cosine, -1..1", where=where)
    q0 = start_value(policy, reward_range)
    learns = policy.update != "none" and policy.weight > 0 and policy.rank not in ("none", "random", "similarity")
    if not math.isfinite(q0):
        raise BadInput("q_init is not finite", got=q0, where=where)
    if learns and not lo < q0 <= hi and policy.epsilon <= 0:
        raise BadInput(
            "these settings starve: memories that were never tried can never win",
            got=f"q_init {q0:g} with rewards {lo:g}..{hi:g} and no exploration",
            expected=f"{lo:g} < q_init <= {hi:g}, or epsilon > 0",
            where=where,
            do="q_init='high' (optimistic), q_init='middle', or epsilon=0.1",
        )
    return policy


def to_dict(policy: Policy) -> dict[str, Any]:
    """Every effective setting as JSON values, in the order of the fields."""
    return asdict(policy)


def _closest(word: str, choices: Any) -> str:
    near = difflib.get_close_matches(word, list(choices), 1)
    return f"did you mean {near[0]!r}?" if near else ""
