"""One attempt at one task, the only loop there is: see, recall, decide, act; recorded as an ``Episode``.

Memory, tools, budgets and several agents are parts of it that combine; whatever answers requests can play it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from evolvent.core.errors import EnvError
from evolvent.core.protocols import Env, Prompt, Renderer, Request, Task
from evolvent.core.seeding import seed_tree
from evolvent.play.recorder import Recorder
from evolvent.play.settings import AttemptSettings, Budget
from evolvent.play.sight import Sight
from evolvent.play.together import Player

if TYPE_CHECKING:
    from evolvent.play.experience import Recalls


def play(
    env: Env,
    task: Task,
    settings: AttemptSettings,
    *,
    seed: int,
    group: str = "",
    world: int | None = None,
    experience: Recalls | None = None,
) -> Player:
    """One attempt, as a coroutine that returns its episode.

    The observation where an attempt was cut off is the last node, so that a critic can value it, with the actions that
    were allowed there.

    Args:
        env: the environment, used by this attempt alone.
        task: what to attempt.
        settings: how it goes.
        seed: of the draws.
        group: attempts that are compared with one another.
        world: seed of the environment; the task's own by default.
        experience: what is recalled, and how it is used.

    Raises:
        EnvError: the environment broke, or not even the first answer fits the budget.
    """
    env = settings.world(env)
    turn = env.reset(task, task.seed if world is None else world)
    record = Recorder(env, task, turn, seed=seed, group=group, accounts=settings.accounts)
    episode, team = record.episode, settings.team.speaking
    sight, stop = Sight(env, settings, episode, recalls=experience is not None), ""
    while not turn.done:
        said: dict[str, str] = {}
        for member in team:
            acts, draws = member is team[-1], seed_tree(seed, episode.n_steps)
            examples = experience.recall(turn, sight.key(turn), draws, said if acts else None) if experience else ""
            prompt = sight.prompt(member, turn, said, examples)
            choices = allowed(settings.renderer, turn.admissible or ()) if acts else ()
            room, stop = _room(record, settings.budget, prompt, choices)
            if stop:
                break
            chat = sight.chat(member, turn, said, examples)
            answer = yield Request(prompt, draws, room, env.stop, choices, member.weights, chat)  # ACT
            action = turn.admissible[answer.choice] if choices and turn.admissible else answer.text.strip()
            if experience and acts:
                action, answer = experience.choose(turn, answer, draws, episode)
            said[member.name] = action
            record.decision(member, action, answer, choices)
            sight.said(answer)
        if stop:
            if experience:
                experience.stopped()
            break
        turn = sight.follows(turn, env.step(said[team[-1].name]), said, answer)  # STEP
        record.outcome(turn, said[team[-1].name], team[-1].name)
    if turn.truncated and not stop:
        sight.prompt(team[0], turn, {})
    # where it was cut off, an agent that writes freely comes next, or else the one that acts
    commands = turn.admissible or () if (stop or turn.truncated) and len(team) == 1 else ()
    if experience:
        experience.ended(turn)
    return record.ends(turn, stop, allowed(settings.renderer, commands))


def allowed(renderer: Renderer, commands: Sequence[str]) -> tuple[Prompt, ...]:
    """Each command as a prompt's continuation; where one begins another, all end with a line break.

    Otherwise, token by token, "take the jar" would look like the beginning of "take the jar from the shelf".
    """
    ids = tuple(renderer.command(text) for text in commands)
    # in order, what begins another stands right before one
    whole = sorted({tuple(each if isinstance(each, str) else each.tolist()) for each in ids})
    if any(after[: len(one)] == one for one, after in pairwise(whole)):
        ids = tuple(renderer.command(f"{text}\n") for text in commands)
    return ids


def _room(record: Recorder, budget: Budget, prompt: Prompt, choices: Sequence[Prompt]) -> tuple[int, str]:
    """Tokens that the next answer may have, and the limit that is reached, if one is.

    Raises:
        EnvError: a limit before anything was said.
    """
    n_tokens, seen = record.episode.n_tokens, 0 if isinstance(prompt, str) else len(prompt)
    stop = budget.spent(record.actions, n_tokens)
    tokens = [0 if isinstance(ids, str) else len(ids) for ids in choices]
    wanted = max(tokens, default=budget.answer or record.env.max_tokens)
    room = min(wanted, *budget.left(n_tokens, seen))
    # an allowed action is said whole or not at all
    stop = stop or ("context" if room < (wanted if choices else 1) else "")
    if stop and record.episode.n_steps == 0:
        raise EnvError(
            "not even the first answer fits",
            got=f"a prompt of {seen} tokens, an answer of up to {wanted}",
            expected=f"together at most {budget.context or budget.tokens} tokens",
            where=f"task {record.episode.task_id}",
            do="shorten the prompt or the answer (--answer), or take a model with a longer context",
        )
    return room, stop
