"""Attempts as coroutines: each asks the model and goes on when it is answered; what waits is answered as one batch.

A *player* is a generator that yields an ``Ask`` for every decision, is sent a ``Said``, and returns its ``Episode``.
One attempt by one agent is ``play``; a workflow of several agents is another player. ``run_players`` lets any number of
them go on side by side: in lockstep, or on threads, so that a slow tool holds up nobody but its own attempt. Draws come
from the seed in each ``Ask``, so the numbers do not depend on who waited together.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ALL_COMPLETED, FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from evolvent.core.episode import Episode
from evolvent.core.errors import EnvError
from evolvent.core.protocols import Env, Task, Turn
from evolvent.core.reward_kinds import keep_reward
from evolvent.core.seeding import seed_tree

PATIENCE_S = 0.01
"""How long the model waits, once somebody asks, for others to ask too: a batch costs little more than one."""


@dataclass(frozen=True, eq=False)
class Ask:
    """A decision that is wanted: int32 tokens ``context [P]`` and, if it is a choice, those of the allowed actions.

    ``room`` is the number of tokens that the answer may have; ``adapter`` says whose weights answer,
    ``None`` = the frozen base.
    """

    context: np.ndarray
    seed: int
    room: int
    stop: tuple[str, ...] = ()
    choices: tuple[np.ndarray, ...] = ()
    adapter: str | None = "policy"


@dataclass(frozen=True, eq=False)
class Said:
    """The answer: its tokens *as sampled* ``[K]``, what is known of each of them, and the index if it was a choice.

    ``finish`` is "stop" or "length"; ``notes`` are numbers per token for ``Episode.note``.
    """

    text: str
    token_ids: np.ndarray
    logp: np.ndarray
    finish: str = "stop"
    choice: int = -1
    notes: dict[str, np.ndarray] = field(default_factory=dict[str, np.ndarray])


Player = Generator[Ask, Said, Episode]


class Speaker(Protocol):
    """How situations become tokens (see ``rollout.speaker``)."""

    def first(self, env: Env, turn: Turn) -> np.ndarray:
        """The whole context of a decision: instructions and situation, int32 ``[P]``."""
        ...

    def more(self, env: Env, turn: Turn, last: int) -> np.ndarray:
        """What a new situation adds to a conversation whose last token is ``last``, int32 ``[P]``."""
        ...

    def command(self, text: str) -> np.ndarray:
        """The tokens of an allowed action, int32 ``[K]``."""
        ...


@dataclass(frozen=True)
class Budget:
    """What one attempt may cost; reaching a limit truncates it, and ``Episode.stop`` says which."""

    turns: int = 0
    """Decisions; 0 = as many as the environment allows."""
    tokens: int = 0
    """Sampled tokens over all decisions; 0 = no limit."""
    context: int = 0
    """Tokens of context and answer together; 0 = no limit."""
    answer: int = 0
    """Tokens of one free answer; 0 = what the environment asks for."""

    def spent(self, turns: int, tokens: int) -> str:
        """The limit that is reached, or nothing."""
        if self.turns and turns >= self.turns:
            return "turns"
        return "tokens" if self.tokens and tokens >= self.tokens else ""

    def left(self, tokens: int, context: int) -> tuple[int, int]:
        """Tokens that an answer may have, by the budget of tokens and by that of the context."""
        free = 1 << 31
        return self.tokens - tokens if self.tokens else free, self.context - context if self.context else free


def play(
    env: Env, task: Task, speaker: Speaker, *, seed: int, group: str, budget: Budget = Budget(),
    transcript: bool = False,
) -> Player:  # fmt: skip
    """One attempt by one agent.

    Args:
        env: the environment, used by this attempt alone.
        task: what to attempt.
        speaker: turns what the environment shows into tokens.
        seed: of the draws; the environment starts from the task's own seed.
        group: attempts that are compared with one another.
        budget: limits.
        transcript: the conversation goes on from turn to turn; otherwise every decision starts from a fresh prompt,
            but where the environment is a conversation itself and shows only its newest message (``conversation``).

    The observation where an attempt was cut off is the last node, so that a critic can value it; ``final_choices``
    are the tokens of what was allowed there. ``finish_T`` says how each completion ended. ``answer`` is the last
    action, as the environment read it where it tells (``info["action"]``). What the environment pays besides,
    ``info["rewards"] = {kind: number}``, is kept by ``core.reward_kinds``.
    """
    transcript = transcript or getattr(env, "conversation", False)
    episode = Episode(task.id, env=env.name, seed=seed, group=group, meta={"kind": task.kind})
    answer: str | None = None
    turn, stop, notes = env.reset(task, task.seed), "", dict[str, list[np.ndarray]]()
    paid: list[Mapping[str, Any]] = []
    keep_call(episode, turn)
    while not turn.done:
        fresh = not (transcript or turn.follows) or episode.n_steps == 0
        context = _see(episode, env, turn, speaker, fresh=fresh)
        choices = allowed(speaker, turn.admissible or ())
        stop = budget.spent(episode.n_steps, episode.n_tokens)
        # an allowed action is said whole or not at all
        wanted = max((len(ids) for ids in choices), default=budget.answer or env.max_tokens)
        room = min(wanted, *budget.left(episode.n_tokens, len(context)))
        if stop or room < (wanted if choices else 1):
            if episode.n_steps == 0:
                raise no_room(task, len(context), wanted, budget)
            stop = stop or "context"
            break
        said = yield Ask(context, seed_tree(seed, episode.n_steps), room, env.stop, choices)
        action = said.text.strip() if turn.admissible is None else turn.admissible[said.choice]
        episode.act(action, token_ids=said.token_ids, logp=said.logp, choices=choices, finish=said.finish)
        for name, values in said.notes.items():
            notes.setdefault(name, []).append(values)
        turn = env.step(action)
        episode.add_reward(turn.reward)
        answer = str(turn.info.get("action", action))
        paid.append(turn.info.get("rewards", {}))
        keep_call(episode, turn)
    if turn.truncated and not stop:
        _see(episode, env, turn, speaker, fresh=not (transcript or turn.follows))
    commands = turn.admissible or () if stop or turn.truncated else ()
    for name, columns in notes.items():
        episode.note(name, np.concatenate(columns))
    keep_paid(episode, paid)
    episode.end(
        terminated=turn.terminated, truncated=bool(stop) or turn.truncated, success=turn.success, valid=turn.valid,
        stop=stop or str(turn.info.get("stop", "env")), answer=answer, choices=allowed(speaker, commands),
    )  # fmt: skip
    return episode


def keep_paid(episode: Episode, paid: Sequence[Mapping[str, Any]]) -> None:
    """Keep the kinds of reward that an environment told after each decision, ``{kind: number}``.

    A kind that comes with every decision has a number for each; one that comes with the last alone is the attempt's.

    Raises:
        EnvError: a kind that comes now and then.
        BadInput: something that is not a finite number.
    """
    for kind in dict.fromkeys(kind for told in paid for kind in told):
        values = [told[kind] for told in paid if kind in told]
        if len(values) == len(paid):
            keep_reward(episode, kind, values)
        elif len(values) == 1 and kind in paid[-1]:
            keep_reward(episode, kind, values[0])
        else:
            raise EnvError(
                "a kind of reward that comes now and then", got=f"{kind!r} {len(values)} times, {len(paid)} decisions",
                expected="after every decision, or with the last alone", where=episode.env, do="pay 0 in between",
            )  # fmt: skip


def keep_call(episode: Episode, turn: Turn, agent: str = "agent") -> None:
    """Record the call of a tool by ``agent`` that an environment tells of, ``info["call"]``, and, by ``info["tools"]``,
    that there are tools.
    """
    episode.offers_tools |= "tools" in turn.info
    call = turn.info.get("call")
    if call:
        episode.tool(call["name"], call["arguments"], call["result"], outcome=call["outcome"], agent=agent)


def allowed(speaker: Speaker, commands: Sequence[str]) -> tuple[np.ndarray, ...]:
    """The tokens of each command, int32 ``[K]``; where one begins another, all end with a line break.

    Token by token nobody could tell "take the jar" from the beginning of "take the jar from the shelf".
    """
    ids = tuple(speaker.command(text) for text in commands)
    whole = sorted({tuple(each.tolist()) for each in ids})  # in order, what begins another stands right before one
    if any(after[: len(one)] == one for one, after in pairwise(whole)):
        ids = tuple(speaker.command(f"{text}\n") for text in commands)
    return ids


def run_players(
    players: Sequence[Player],
    answer: Callable[[Sequence[Ask]], Sequence[Said]],
    *,
    workers: int = 0,
    overlap: bool = False,
    heard: Callable[[int], None] = lambda done: None,
) -> list[Episode | EnvError]:
    """Let all players go on until each has returned its episode.

    Args:
        players: attempts.
        answer: the model: answers a batch of asks in order.
        workers: threads on which environments work; 0 = all in lockstep, so that who is answered together, and with it
            every bit of the numbers, does not depend on the clock.
        overlap: in lockstep, each environment works on a thread of its own, and the model waits for all of them.
        heard: called with the number of finished attempts.

    Returns:
        In the order of ``players``: the episode, or the error of an environment that broke.
    """
    results: list[Episode | EnvError | None] = [None] * len(players)
    sent: dict[int, Said | None] = dict.fromkeys(range(len(players)))
    running: dict[Future[Ask | Episode | EnvError], int] = {}
    finished = 0
    with ThreadPoolExecutor(max(1, workers or len(players))) as pool:
        while sent or running:
            if workers or overlap:
                running |= {pool.submit(_advance, players[i], said): i for i, said in sent.items()}
                wait(running, return_when=FIRST_COMPLETED if workers else ALL_COMPLETED)
                ready, _ = wait(running, timeout=PATIENCE_S if workers else 0)
                moved = {running.pop(future): future.result() for future in ready}
            else:
                moved = {i: _advance(players[i], said) for i, said in sent.items()}
            asks: dict[int, Ask] = {}
            for i in sorted(moved):
                outcome = moved[i]
                if isinstance(outcome, Ask):
                    asks[i] = outcome
                else:
                    results[i] = outcome
                    finished += 1
            heard(finished)
            sent = dict(zip(asks, answer(list(asks.values())), strict=True)) if asks else {}
    return [result for result in results if result is not None]


def no_room(task: Task, context: int, wanted: int, budget: Budget) -> EnvError:
    """The error of an attempt in which nothing could be said; tokens of the first context, and of the answer."""
    return EnvError(
        "not even the first answer fits", got=f"a prompt of {context} tokens, an answer of up to {wanted}",
        expected=f"together at most {budget.context or budget.tokens} tokens", where=f"task {task.id}",
        do="shorten the prompt or the answer (--answer), or take a model with a longer context",
    )  # fmt: skip


def _advance(player: Player, said: Said | None) -> Ask | Episode | EnvError:
    try:
        return next(player) if said is None else player.send(said)
    except StopIteration as done:
        return done.value
    except EnvError as error:
        return error


def _see(episode: Episode, env: Env, turn: Turn, speaker: Speaker, *, fresh: bool) -> np.ndarray:
    """Record what is seen; returns the whole context."""
    ids = (
        speaker.first(env, turn)
        if fresh
        else speaker.more(env, turn, int(episode.step_tokens(episode.n_steps - 1)[-1]))
    )
    node = episode.observe(turn.observation, token_ids=ids, parent=-1 if fresh else None)
    return ids if fresh else episode.tokens_to(node)
