"""What an attempt earned: the one score that pays, rewards of single decisions, success; nothing is made up."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput
from evolvent.traces.events import Attempt, Event, number

_COMPARE = {">=": operator.ge, "<=": operator.le, "==": operator.eq, ">": operator.gt, "<": operator.lt}


@dataclass(frozen=True)
class Flags:
    """What the person who imports decides.

    Attributes:
        reward: name of the score that pays, where there are several.
        success: when an attempt succeeded, e.g. ">=0.5"; default: as the file says, or a reward of 0 or 1.
        task_key: where in a document the name of its task stands, e.g. metadata.task.
        group: which attempts at a task are compared: those of one policy, or all.
        reasoning: put what the model thought into the text of its actions.
    """

    reward: str = ""
    success: str = ""
    task_key: str = ""
    group: Literal["policy", "task"] = "policy"
    reasoning: bool = False


@dataclass(frozen=True)
class Options(Flags):
    """Likewise, with ``outcomes`` told beside the files, by the name of an attempt."""

    outcomes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])

    def succeeded(self, reward: float) -> bool:
        """Whether ``reward`` is a success by ``--success``.

        Raises:
            BadInput: no comparison with a number.
        """
        sign = next((sign for sign in _COMPARE if self.success.startswith(sign)), "")
        try:
            return _COMPARE[sign](reward, float(self.success[len(sign) :]))
        except (KeyError, ValueError) as error:
            expected = 'a comparison such as ">=0.5"'
            raise BadInput("not a condition", got=self.success, expected=expected, where="--success") from error

    def paying(self, scores: Mapping[str, float]) -> float | None:
        """The score that pays: the one that ``--reward`` names, else ``reward``, else the only one."""
        only = next(iter(scores)) if len(scores) == 1 else ""
        return scores.get(self.reward or ("reward" if "reward" in scores else only))


def pay(episode: Episode, attempt: Attempt, options: Options, decided: Sequence[tuple[Event, int]]) -> str:
    """Rewards and the end; what nobody said is not made up: without an outcome nothing is to be learned from it.

    Returns:
        "missing" where there is none.
    """
    told = options.outcomes.get(attempt.key) or options.outcomes.get(episode.id) or {}
    scores = _numbers(attempt.scores, attempt)
    own = _numbers({"reward": attempt.reward}, attempt)
    steps = [(event, node, paid) for event, node in decided if (paid := _of_step(event, options)) is not None]
    by_name, by_total = options.paying(scores), own.get("reward")
    offers = [by_name, by_total] if options.reward else [by_total]
    if attempt.reward is None:  # one that is no number is not made up from another score
        offers.append(by_name)
    reward = next((n for n in (number(told.get("reward")), *offers) if n is not None), None)
    _say_unpaid(attempt, options, scores, reward, told="reward" in told)
    claims = [one for one in (told.get("success"), attempt.success) if one is not None]
    success = next((one for one in claims if isinstance(one, bool)), None)
    if claims and success is None:
        attempt.repairs.add("success that is neither true nor false, left out", attempt.where)
    for event, node, value in steps:
        if number(event.reward) is None and event.kind == "decision":  # the other one is in its node
            episode.add_reward(value, node)
    if reward is None and success is not None and not steps:
        reward = float(success)
    if options.success and (reward is not None or steps):
        success = options.succeeded(episode.total_reward if reward is None else reward)
    elif success is None and reward in (0.0, 1.0):
        success = bool(reward)
    if reward is not None and not steps and episode.n_steps:
        episode.add_reward(reward)
    episode.rewards_by_kind = {**scores, **own}
    paid = reward is not None or success is not None or bool(steps)
    if not paid:
        attempt.repairs.add("attempts without an outcome: nothing is learned from them", attempt.where, fault=False)
    episode.end(
        terminated=paid and not attempt.limit,
        truncated=bool(attempt.limit),
        success=success,
        source=f"import:{attempt.format}" if success is not None else "",
        valid=attempt.valid and paid,
        stop=attempt.limit or attempt.stop,
    )
    return "" if paid else "missing"


def _numbers(given: Mapping[str, Any], attempt: Attempt) -> dict[str, float]:
    """The scores that are numbers; a judge that failed or said NaN is no outcome, ``None`` nobody's fault."""
    found = {str(name): n for name, value in given.items() if (n := number(value)) is not None}
    if lost := sum(value is not None for value in given.values()) - len(found):
        attempt.repairs.add("scores that are no numbers, left out", attempt.where, lost)
    return found


def _say_unpaid(
    attempt: Attempt, options: Options, scores: Mapping[str, float], reward: float | None, *, told: bool
) -> None:
    if options.reward and options.reward not in scores and not told and (scores or reward is not None):
        what = "attempts without the score that --reward names"
        what += "" if reward is None else ": their own reward pays"
    elif reward is None and scores:
        what = "several scores: name one with --reward"
    else:
        return
    attempt.repairs.add(what, attempt.where, fault=False)


def _of_step(event: Event, options: Options) -> float | None:
    """What paid one decision."""
    own = number(event.reward)
    return options.paying(event.scores) if own is None else own
