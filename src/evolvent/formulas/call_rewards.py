"""Rewards of function calls: how well predicted calls match the right ones, and composites with task and efficiency.

A call is a pair ``(name, {parameter: value})``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from evolvent.core.errors import BadInput

Call = tuple[str, Mapping[str, Any]]


def call_match(right: Sequence[Call], predicted: Sequence[Call]) -> float:
    """Correctness of function calls in [-3, 3] (ToolRL, arXiv 2504.13958).

        S     = J(names) + sum over right calls of the best unused prediction of that name: J(keys) + #equal values
        S_max = 1 + sum over right calls (1 + #parameters)          result = 6 S / S_max - 3

    J is the Jaccard index of multisets. Right calls are matched greedily in their order. Equal calls in another order
    are no exact match but can still earn 3. Where no call was due the result is 0, whatever was predicted.
    """
    if not right:
        return 0.0
    if [(n, dict(p)) for n, p in right] == [(n, dict(p)) for n, p in predicted]:
        return 3.0
    score = jaccard([n for n, _ in right], [n for n, _ in predicted])
    unused = list(range(len(predicted)))
    for name, wanted in right:
        best, at = 0.0, -1
        for i in unused:
            if predicted[i][0] == name:
                given = predicted[i][1]
                equal = sum(key in given and given[key] == value for key, value in wanted.items())
                worth = jaccard(list(wanted), list(given)) + equal
                if at < 0 or worth > best:
                    best, at = worth, i
        if at >= 0:
            unused.remove(at)
            score += best
    most = 1.0 + sum(1 + len(wanted) for _, wanted in right)
    return 6.0 * score / most - 3.0


def call_reward(right: Sequence[Call], predicted: Sequence[Call] | None, *, well_formed: bool) -> float:
    """Format (0 or 1) plus correctness in [-3, 3] (ToolRL); calls that could not be parsed (``None``) are worth -3."""
    return float(well_formed) + (-3.0 if predicted is None else call_match(right, predicted))


def jaccard(a: Sequence[Hashable], b: Sequence[Hashable]) -> float:
    """Shared over all elements of two multisets; two empty ones are equal (1)."""
    x, y = Counter(a), Counter(b)
    return (x & y).total() / (x | y).total() if x or y else 1.0


def dialogue_reward(
    *,
    parsed: float,
    matched: float,
    solved: float,
    calls: int,
    calls_needed: int,
    weights: tuple[float, float, float, float] = (0.1, 0.4, 1.0, 0.1),
) -> float:
    """Composite reward of a dialogue with function calls: valid form, right calls, task solved, less redundant calls.

    PARL-MT (arXiv 2509.23206) names the four parts; its weights could not be read, the defaults are ours.

    Args:
        parsed: share of the turns in the required form, 0 to 1.
        matched: how well the calls do what the right ones do, 0 to 1.
        solved: whether the final state is the goal, 0 or 1.
        calls: calls made.
        calls_needed: calls of the reference, at least 1.
        weights: of the four parts in this order.
    """
    if calls_needed < 1 or calls < 0:
        raise BadInput("counts of calls", got=(calls, calls_needed), where="formulas.call_rewards.dialogue_reward")
    form, call, task, thrift = weights
    excess = max(0, calls - calls_needed) / calls_needed
    return form * parsed + call * matched + task * solved - thrift * excess
