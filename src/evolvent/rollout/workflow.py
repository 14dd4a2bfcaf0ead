"""Several agents in one attempt: in every turn they speak one after another, and the last one's words are the action.

Source: Flex-MG of MARFT (Liao et al. 2025, arXiv 2504.16129), a Markov game with a dependency function D(i, j): agent j
reads what agent i said in this turn. D must be without circles; agents speak in an order that follows it (``order``).
Every agent acts with weights of its own (the adapter of its name) on one base. The reward of a turn is the last
agent's; ``Episode.turn_T`` says which decisions are one turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput
from evolvent.core.protocols import Env, Task, Turn
from evolvent.core.seeding import seed_tree
from evolvent.rollout.players import Ask, Budget, Player, Said, Speaker, allowed, keep_call, no_room

PROFILES = {
    "checker": "An answer is proposed. Give the right answer.",
    "critic": "An answer is proposed. Say what is wrong with it.",
    "planner": "Say how to find the answer.",
}
"""What agents of these names are told where nothing else is said; others are told nothing."""


@dataclass(frozen=True)
class Member:
    """An agent: its name (also its adapter's), whose words of this turn it reads, and what it is told first."""

    name: str
    reads: tuple[str, ...] = ()
    profile: str = ""


@dataclass(frozen=True)
class Workflow:
    """Agents and who reads whom; the last in order acts on the environment."""

    members: tuple[Member, ...]

    def __post_init__(self) -> None:
        names = [member.name for member in self.members]
        if not names or len(set(names)) != len(names) or not all(name.isidentifier() for name in names):
            raise BadInput("agents need distinct names", got=names, expected="one identifier each", where="--agents")
        for member in self.members:
            unknown = [name for name in member.reads if name not in names]
            if unknown:
                raise BadInput("an agent reads nobody", got=unknown, expected=names, where=f"--agents, {member.name}")
        self.order()

    @property
    def names(self) -> tuple[str, ...]:
        """In the order of speaking."""
        return tuple(name for layer in self.order() for name in layer)

    def depends(self, i: str, j: str) -> bool:
        """D(i, j): whether agent j reads what agent i said in this turn."""
        return i in self.visible(j)

    def visible(self, name: str) -> tuple[str, ...]:
        """Whose words of this turn an agent reads."""
        return self.member(name).reads

    def member(self, name: str) -> Member:
        """The agent of that name."""
        return next(member for member in self.members if member.name == name)

    def order(self) -> list[list[str]]:
        """Layers: those of one do not read one another, and read earlier layers only.

        Raises:
            BadInput: agents that wait for one another.
        """
        left, layers = list(self.members), list[list[str]]()
        while left:
            waiting = {member.name for member in left}
            layer = [member.name for member in left if not waiting & set(member.reads)]
            if not layer:
                raise BadInput(
                    "agents wait for one another", got=sorted(waiting), where="--agents", expected="an order"
                )
            layers.append(layer)
            left = [member for member in left if member.name not in layer]
        return layers


def workflow(words: Sequence[str]) -> Workflow:
    """Agents as they are written on the command line: ``name``, ``name<a+b`` and either with ``: what it is told``.

    Without ``<`` an agent reads all that stand before it; ``name<`` reads nobody.
    """
    members: list[Member] = []
    for word in words:
        head, told, profile = word.partition(":")
        name, chosen, reads = (part.strip() for part in head.partition("<"))
        seen = tuple(r.strip() for r in reads.split("+") if r.strip()) if chosen else tuple(m.name for m in members)
        members.append(Member(name, seen, profile.strip() if told else PROFILES.get(name, "")))
    return Workflow(tuple(members))


def converse(
    env: Env, task: Task, speaker: Speaker, team: Workflow, *, seed: int, group: str, budget: Budget = Budget(),
    transcript: bool = False,
) -> Player:  # fmt: skip
    """One attempt by a team; see ``players.play`` for what the arguments and the record have in common.

    Args:
        env: the environment, used by this attempt alone.
        task: what to attempt.
        speaker: turns what an agent is shown into tokens.
        team: the agents.
        seed: of the draws.
        group: attempts that are compared with one another.
        budget: limits; ``turns`` counts those of the environment, the tokens are those of all agents.
        transcript: agents also see what was shown and said in earlier turns.
    """
    episode = Episode(task.id, env=env.name, seed=seed, group=group, meta={"kind": task.kind})
    record, past = _Record(episode), ""
    turn, stop = env.reset(task, task.seed), ""
    n_turns, final = 0, cast("str | None", None)
    keep_call(episode, turn)
    while not turn.done and not stop:
        said: dict[str, str] = {}
        episode.turn = n_turns
        for name in team.names:
            acts = name == team.names[-1]
            context = _see(episode, env, turn, speaker, team, name, past, said)
            choices = allowed(speaker, turn.admissible or ()) if acts else ()
            room, stop = _room(env, task, budget, episode, n_turns, len(context), choices)
            if stop:
                break
            answer = yield Ask(context, seed_tree(seed, episode.n_steps), room, env.stop, choices, name)
            said[name] = turn.admissible[answer.choice] if choices and turn.admissible else answer.text.strip()
            record.decision(name, said[name], answer, choices)
        if stop:
            break
        heard = f"{past}{_told(turn.observation, said)}\n"
        turn = env.step(said[team.names[-1]])
        past = heard if transcript or turn.follows else ""
        keep_call(episode, turn, team.names[-1])
        episode.add_reward(turn.reward)
        final = str(turn.info.get("action", said[team.names[-1]]))
        n_turns += 1
    if turn.truncated and not stop:
        _see(episode, env, turn, speaker, team, team.names[0], past, {})
    record.close()
    # where it was cut off, an agent that writes freely comes next, or else the one that acts
    commands = turn.admissible or () if (stop or turn.truncated) and len(team.names) == 1 else ()
    episode.end(
        terminated=turn.terminated, truncated=bool(stop) or turn.truncated, success=turn.success, valid=turn.valid,
        stop=stop or str(turn.info.get("stop", "env")), answer=final, choices=allowed(speaker, commands),
    )  # fmt: skip
    return episode


class _Record:
    """Writes decisions and what is known of their tokens into an episode."""

    def __init__(self, episode: Episode) -> None:
        self.episode = episode
        self._notes: list[tuple[int, dict[str, np.ndarray]]] = []

    def decision(self, agent: str, text: str, said: Said, choices: tuple[np.ndarray, ...]) -> None:
        self.episode.act(
            text, agent=agent, token_ids=said.token_ids, logp=said.logp, choices=choices, finish=said.finish
        )
        self._notes.append((len(said.token_ids), said.notes))

    def close(self) -> None:
        """Notes are kept where every decision has them: free words and choices are not told the same of."""
        known = [set(notes) for _, notes in self._notes]
        for name in set[str].intersection(*known) if known else ():
            self.episode.note(name, np.concatenate([notes[name] for _, notes in self._notes]))
        if any("action_logp" in notes for _, notes in self._notes):
            columns = [notes.get("action_logp", np.full(n, np.nan)) for n, notes in self._notes]
            starts = np.cumsum([0, *(n for n, _ in self._notes)])
            logp = self.episode.logp
            for i, column in enumerate(columns):
                if np.isnan(column).any():  # free words: as a whole as likely as all their tokens
                    columns[i] = np.full(len(column), logp[starts[i] : starts[i + 1]].sum())
            self.episode.note("action_logp", np.concatenate(columns))


def _room(
    env: Env, task: Task, budget: Budget, episode: Episode, n_turns: int, seen: int, choices: Sequence[np.ndarray]
) -> tuple[int, str]:
    """Tokens that the next answer may have, and the limit that is reached, if one is.

    Raises:
        EnvError: a limit before anything was said.
    """
    stop = budget.spent(n_turns, episode.n_tokens)
    wanted = max((len(ids) for ids in choices), default=budget.answer or env.max_tokens)
    room = min(wanted, *budget.left(episode.n_tokens, seen))
    # an allowed action is said whole or not at all
    stop = stop or ("context" if room < (wanted if choices else 1) else "")
    if stop and episode.n_steps == 0:
        raise no_room(task, seen, wanted, budget)
    return room, stop


def _see(
    episode: Episode, env: Env, turn: Turn, speaker: Speaker, team: Workflow, name: str, past: str, said: dict[str, str]
) -> np.ndarray:
    """Record what an agent sees: its profile, the task, the words it reads; returns the tokens."""
    member = team.member(name)
    heard = {other: said[other] for other in said if other in member.reads}
    shown = replace(turn, observation=past + _told(turn.observation, heard))
    head = f"{member.profile}\n\n" if member.profile else ""
    ids = speaker.first(cast("Env", _Seat(env, head + env.instructions)), shown)
    episode.observe(shown.observation, agent=name, token_ids=ids, parent=-1)
    return ids


def _told(observation: str, said: dict[str, str]) -> str:
    return "\n".join([observation, *(f"{name}: {words}" for name, words in said.items())])


@dataclass(frozen=True)
class _Seat:
    """An environment as one agent is introduced to it."""

    env: Env
    instructions: str

    def __getattr__(self, name: str) -> Any:
        return getattr(self.env, name)
