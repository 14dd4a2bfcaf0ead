"""Attempts that part on the way: some start from the task, others repeat the beginning of one and go on by themselves.

Paper: Dong et al. 2025 (AEPO, arXiv 2510.14545), with the constants of the released code. One attempt at each
task is made first; its entropies say how many of the ``group`` start afresh. Then, turn by turn, each attempt that goes
on may branch once; what is left of the budget in the end are attempts from the task. Which attempts part where depends
on the seed and on what was sampled, never on who answered first.

A branch is a whole attempt: it begins with the decisions of the one it came from, tokens and log-probabilities as
sampled there. Both stand in one record, their beginning once (``core.branches``). The environment is brought there by
the same actions from the same seed; it has to show the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from evolvent.core.branches import Branch, branches, graft
from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput, EnvError
from evolvent.core.protocols import Completion, Env, Request, Task
from evolvent.core.seeding import rng
from evolvent.play.together import Player
from evolvent.runs.language.run import LanguageRun

FIRST = 20
"""Tokens of a turn whose entropy counts."""


@dataclass(frozen=True)
class Branching:
    """When attempts part."""

    whole: int = 0
    """Attempts that start from the task; 0 = as many as the entropies of the first one say."""
    threshold: float = 0.5
    """Score from which on a turn is tried again."""
    weight: float = 0.2
    """Of what a turn's entropy has gained on that at the task."""
    penalty: float = 0.05
    """Of turns in a row with branches."""


@dataclass(frozen=True)
class _Job:
    """Attempt ``number`` at ``task``: afresh, or from ``origin`` after some turns."""

    task: int
    number: int
    origin: Episode | None = None
    of: int = 0
    turns: int = 0


class _Made:
    """The attempts of an update, by (task, number); those whose environment broke are missing."""

    def __init__(self, run: LanguageRun) -> None:
        self.run = run
        self.episodes: dict[tuple[int, int], Episode] = {}
        self.jobs: dict[tuple[int, int], _Job] = {}

    def make(self, jobs: Sequence[_Job]) -> None:
        """Make some more, side by side."""
        if not jobs:
            return
        order = iter(jobs)

        def player(env: Env, task: Task, seed: int, group: str) -> Player:
            return self._one(next(order), self.run.attempt(env, task, seed, group))

        self.run.collect(player, which=[(job.task, job.number) for job in jobs])

    def _one(self, job: _Job, player: Player) -> Player:
        if job.origin is None:
            episode = yield from player
        else:
            episode = yield from branched(player, job.origin, job.turns)
        self.episodes[job.task, job.number] = episode
        self.jobs[job.task, job.number] = job
        return episode

    def attempts(self) -> list[Episode]:
        """All of them in order, those that parted as branches of one record."""
        place: dict[tuple[int, int], tuple[Episode, int]] = {}
        for key, episode in sorted(self.episodes.items(), key=lambda item: item[0]):
            job = self.jobs[key]
            place[key] = (episode, 0)
            if job.origin is not None:
                tree, of = place[job.task, job.of]
                place[key] = tree, graft(tree, episode, of=of, steps=job.turns)
        views = {id(tree): branches(tree) for tree, _ in place.values()}
        return [views[id(tree)][number] for tree, number in place.values()]


def collect_branching(run: LanguageRun, how: Branching) -> tuple[list[Episode], dict[str, float]]:
    """``group`` attempts at each of ``prompts`` tasks, some of which share a beginning.

    Returns:
        The attempts, task by task, those that share a beginning as branches of one record; and ``branched``, the share
        that parted from another.

    Raises:
        BadInput: decisions without entropies: whole actions by likelihood.
        EnvError: an environment showed something else when the same actions were repeated.
    """
    budget, tasks = run.config.group, range(run.config.prompts)
    made = _Made(run)
    used = dict.fromkeys(tasks, min(how.whole, budget) or 1)
    made.make([_Job(n, g) for n in tasks for g in range(used[n])])
    if not how.whole:
        for (n, _), first in list(made.episodes.items()):
            entropy = turn_entropies(first, run.model.n_vocab)
            used[n] = whole_attempts(entropy[0], fmean(entropy), budget)
        made.make([_Job(n, g) for n in tasks for g in range(1, used[n])])
    streak = dict.fromkeys(tasks, 0)
    turns = 1
    while any(n_left < budget for n_left in used.values()) and any(e.n_steps > turns for e in made.episodes.values()):
        jobs = [job for n in tasks for job in _branches(made, how, n, turns, used[n], streak[n])]
        for n in tasks:
            new = sum(job.task == n for job in jobs)
            used[n] += new
            streak[n] = streak[n] + 1 if new else 0
        made.make(jobs)
        turns += 1
    made.make([_Job(n, g) for n in tasks for g in range(used[n], budget)])
    episodes = made.attempts()
    return episodes, {"branched": fmean(isinstance(e, Branch) and e.number > 0 for e in episodes)}


def _branches(made: _Made, how: Branching, task: int, turns: int, used: int, streak: int) -> list[_Job]:
    """The branches of attempts at a task after ``turns`` decisions, within the budget."""
    run, jobs = made.run, list[_Job]()
    for (n, g), episode in sorted(made.episodes.items(), key=lambda item: item[0]):
        if n != task or episode.n_steps <= turns or used + len(jobs) >= run.config.group:
            continue
        entropy = turn_entropies(episode, run.model.n_vocab)
        draw = float(rng(run.config.seed, "branch", run.update, n, g, turns).random())
        gain = entropy[turns - 1] - entropy[0]
        if branch_score(draw, gain, streak, weight=how.weight, penalty=how.penalty) >= how.threshold:
            jobs.append(_Job(n, used + len(jobs), episode, g, turns))
    return jobs


def turn_entropies(episode: Episode, n_vocab: int) -> list[float]:
    """Entropy of the first tokens of each turn, summed, over the logarithm of the vocabulary's size.

    Raises:
        BadInput: they were not noted.
    """
    if "entropy" not in episode.notes:
        raise BadInput(
            "branching needs the entropy of every token",
            got="none",
            where="--act",
            expected="decisions that are sampled token by token",
            do="take --act trie",
        )
    turns = np.split(episode.notes["entropy"], np.cumsum(episode.tokens_per_step_T)[:-1])
    return [float(turn[:FIRST].sum()) / math.log(n_vocab) for turn in turns]


def branched(player: Player, origin: Episode, turns: int) -> Player:
    """``player``, its first ``turns`` decisions answered from the record of ``origin``.

    Raises:
        EnvError: it is asked something else than ``origin`` was, or is paid something else.
    """
    try:
        request = next(player)
        for step in range(turns):
            _check_same(request, origin, step)
            request = player.send(_said(origin, step, request))
        _check_same(request, origin, turns)
        while True:
            request = player.send((yield request))
    except StopIteration as done:
        episode: Episode = done.value
    if episode.n_steps <= turns or not np.array_equal(episode.rewards_T[:turns], origin.rewards_T[:turns]):
        raise _differs(origin, turns - 1, "an attempt that ended, or other rewards")
    return episode


def _said(origin: Episode, step: int, request: Request) -> Completion:
    """What was answered at a decision of the record."""
    end = int(origin.tokens_per_step_T[: step + 1].sum())
    span = slice(end - int(origin.tokens_per_step_T[step]), end)
    ids = origin.token_ids[span]
    taken = [i for i, choice in enumerate(request.choices) if np.array_equal(choice, ids)]
    notes = {name: column[span] for name, column in origin.notes.items()}
    text = next(node.text for node in origin.nodes if node.step == step)
    finish, choice = origin.finish_T[step], taken[0] if taken else -1
    return Completion(text, ids, origin.logp[span], finish=finish, choice=choice, notes=notes)


def _check_same(request: Request, origin: Episode, step: int) -> None:
    if not np.array_equal(request.prompt, origin.context_ids(step)):
        raise _differs(origin, step, "another situation")
    if [np.asarray(choice).tolist() for choice in request.choices] != origin.choices(step):
        raise _differs(origin, step, "other commands")


def _differs(origin: Episode, step: int, got: str) -> EnvError:
    return EnvError(
        "the same actions led elsewhere",
        got=got,
        expected="what the attempt had that is repeated",
        where=f"{origin.env}, task {origin.task_id}, decision {step}",
        do="branch nowhere (--whole as large as --group), or make the world depend on the task and its seed alone",
    )


def whole_attempts(root: float, later: float, budget: int, *, sensitivity: float = 0.5) -> int:
    """``floor(budget sigmoid(sensitivity (root - later))) + 1``, between 1 and ``budget``: attempts that start afresh.

    Args:
        root: entropy at the task itself.
        later: mean entropy over the turns of an attempt. Where it is larger, trying turns again tells more.
        budget: attempts in all.
        sensitivity: beta.
    """
    if budget < 1:
        raise BadInput("a budget of attempts", got=budget, expected=">= 1", where="algos.aepo")
    share = 1.0 / (1.0 + math.exp(-sensitivity * (root - later)))
    return max(1, min(budget, int(budget * share) + 1))


def branch_score(draw: float, gain: float, streak: int, *, weight: float = 0.2, penalty: float = 0.05) -> float:
    """``(draw + weight gain) max(0, 1 - penalty streak)``, cut to [0, 1]: a turn is tried again from a threshold on.

    Args:
        draw: uniform in [0, 1), so that without a gain a threshold of 0.5 branches half of the time.
        gain: entropy of the turn minus that at the task.
        streak: how many turns in a row attempts at this task have branched.
        weight: of the gain.
        penalty: of a branch right after a branch, which would pile attempts up on one path.
    """
    return min(1.0, max(0.0, (draw + weight * gain) * max(0.0, 1.0 - penalty * streak)))
