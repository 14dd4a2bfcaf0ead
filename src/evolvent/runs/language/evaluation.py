"""What attempts of a language agent came to, and what chance would have come to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Any

import numpy as np

from evolvent import envs
from evolvent.core.episode import Episode
from evolvent.core.protocols import Env, Task, Turn
from evolvent.core.reward_kinds import reward_kinds, reward_total
from evolvent.core.rounding import differ
from evolvent.formulas.pass_at_k import pass_at_k
from evolvent.formulas.statistics import clustered_bootstrap
from evolvent.play.settings import as_it_is
from evolvent.runs.account.calls import fits, graded, shares
from evolvent.runs.language.baselines import borrowed, play, random_command


def summarise(episodes: Sequence[Episode], broken: Sequence[str] = (), lowest: float = 0.0) -> dict[str, Any]:
    """Mean return of the valid attempts with a 95 % bootstrap interval, and means of what else there is.

    Args:
        episodes: attempts that came to an end.
        broken: tasks of those that did not: no success, and the ``lowest`` return. Left out they would make what is
            judged look better, wherever an answer is what breaks the environment.
        lowest: bound of the returns.

    ``n`` counts attempts, ``tasks`` the different tasks that they were at. The interval resamples tasks: several
    attempts at one say more of that one and nothing of others. Of a single task there is no interval.

    ``cut_mean`` is the share of answers that were cut off by their length, ``flat_mean`` the share of groups in which
    all attempts earned the same (nothing to learn from, for rules that compare), ``reward_KIND_mean`` the total of a
    kind of reward besides the task's own. Where there are tools: ``calls_mean``, calls an attempt, and
    ``failed_calls_mean``, the share of them that came back with an error. Where calls are judged, one answer a task:
    ``called``, their shares (``runs.account.calls``).
    """
    valid = [e for e in episodes if e.valid]
    returns = np.array([*(e.total_reward for e in valid), *(lowest for _ in broken)], dtype=np.float64)
    tasks = [*(e.task_id for e in valid), *broken]
    low, high = clustered_bootstrap(returns, tasks) if tasks else (np.nan, np.nan)
    finish = [how for e in valid for how in e.finish_T if how]
    groups: dict[str, list[float]] = {}
    for e in valid:
        groups.setdefault(e.group, []).append(e.total_reward)
    flat = [not differ(g) for g in groups.values() if len(g) > 1]
    metrics: dict[str, Any] = {
        "value": _mean(returns),
        "ci95": [float(low), float(high)],
        "n": len(tasks),
        "tasks": len(set(tasks)),
        "broken": len(broken),
        "success_mean": _mean([*(bool(e.success) for e in valid), *(False for _ in broken)]),
        "length_mean": _mean([e.n_steps for e in valid]),
        "tokens_mean": _mean([e.n_tokens for e in valid]),
        "cut_mean": _mean([how == "length" for how in finish]),
        "flat_mean": _mean(flat),
    }
    verdicts = [one for e in valid for one in e.meta.get("judged", ()) if fits(one)]
    if verdicts and len(set(tasks)) == len(tasks) == len(verdicts):
        metrics["called"] = shares([graded(one) for one in verdicts])
    for kind in dict.fromkeys(kind for e in valid for kind in reward_kinds(e)):
        metrics[f"reward_{kind}_mean"] = _mean([reward_total(e, kind) for e in valid if kind in reward_kinds(e)])
    if all(e.outcomes is None for e in valid):
        return metrics
    calls = [how not in ("ok", "cut") for e in valid for how in e.outcomes or ()]
    return metrics | {"calls_mean": len(calls) / len(valid), "failed_calls_mean": _mean(calls)}


def passed(episodes: Sequence[Episode], broken: Sequence[str], attempts: int) -> dict[str, Any]:
    """Success within some of ``attempts`` at each task: pass@1, which is avg@k, pass@2, 4, 8, … and pass@k.

    Each is the mean over tasks of its unbiased estimate (``formulas.pass_at_k``) with a bootstrap interval over tasks.
    What broke is a failure; attempts that are not valid do not count, and tasks with fewer valid ones than are asked
    for are left out there: ``tasks`` says how many remain.
    """
    right: dict[str, list[bool]] = {task: [] for task in broken}
    for task, success in [*((e.task_id, bool(e.success)) for e in episodes if e.valid), *((t, False) for t in broken)]:
        right.setdefault(task, []).append(success)
    found: dict[str, Any] = {}
    for k in sorted({1, attempts, *(2**i for i in range(1, attempts.bit_length()) if 2**i < attempts)}):
        values = [pass_at_k(len(some), sum(some), k) for some in right.values() if len(some) >= k]
        low, high = clustered_bootstrap(values, range(len(values))) if values else (np.nan, np.nan)
        found[str(k)] = {"value": _mean(values), "ci95": [float(low), float(high)], "tasks": len(values)}
    return {"attempts": attempts, "pass_at": found}


def outcome(rows: Sequence[Mapping[str, Any]], greedy: Mapping[str, Any], sampled: Mapping[str, Any]) -> dict[str, Any]:
    """What a run came to, for ``summary.json``: its last evaluations beside chance and the model before learning, which
    its log tells.
    """
    chance = next((row for row in rows if row.get("phase") == "random"), {})
    before = next((row for row in rows if row.get("phase") == "eval"), {})
    score = {"name": "held-out return, greedy", "value": greedy["value"], "ci95": greedy["ci95"]}
    names = ("value", "ci95", "success_mean", "n", "tasks", "broken")
    return {
        # steps that were discarded or had nothing to learn from train nothing
        "policy_updates": sum(row.get("updates", 0.0) > 0 for row in rows if "update" in row),
        "score": score | {"higher_is_better": True},
        "baseline": {"name": "random actions", **{k: chance.get(k) for k in names}},
        "before": {k: before.get(k) for k in names},
        "sampled": sampled,
        "greedy": greedy,
        "seconds": rows[-1]["t"],
        "broken": sum(int(row.get("broken") or 0) for row in rows if "update" in row),
    }


def random_play(spec: str, tasks: Sequence[Task], seed: int, world: Callable[[Env], Env] = as_it_is) -> dict[str, Any]:
    """``summarise`` of an attempt at each of ``tasks`` by chance: commands drawn uniformly; where any text is allowed,
    answers to other tasks, or none where tasks do not carry theirs. ``world``: as in ``AttemptSettings``.
    """
    with closing(world(envs.load(spec))) as env:
        other = borrowed(tasks) if any("answer" in task.meta for task in tasks) else random_command

        def chance(turn: Turn, draws: np.random.Generator) -> str:
            return random_command(turn, draws) if turn.admissible else other(turn, draws)

        return summarise(play(env, tasks, chance, seed=seed))


def _mean(values: Sequence[float] | np.ndarray) -> float | None:
    return float(np.mean(values)) if len(values) else None
