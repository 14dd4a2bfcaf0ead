"""Writes an attempt into its ``Episode`` while it happens: decisions, tool calls, rewards, why it ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from evolvent.core.episode import Episode
from evolvent.core.errors import EnvError
from evolvent.core.protocols import Completion, Env, Prompt, Task, Turn
from evolvent.core.reward_kinds import keep_reward
from evolvent.core.strict_json import plain
from evolvent.play.workflow import Member

_WORDS = 300  # characters kept of what a world says to an action


class Recorder:
    """Records an attempt that begins with ``turn``.

    The answer of the attempt is the last action, as parsed by the environment if it reports it (``info["action"]``).
    Further rewards, ``info["rewards"] = {kind: number}``, are recorded by ``core.reward_kinds``; also whether there are
    tools, ``info["tools"]``, and calls of them, ``info["call"]``. What it says of the last action, ``info["words"]``,
    stands in the episode's ``meta``, and so does, for each action, what it says of calls beside the right ones,
    ``info["judged"]`` (``formulas.call_match.judgement``).
    """

    def __init__(self, env: Env, task: Task, turn: Turn, *, seed: int, group: str, accounts: bool = False) -> None:
        self.env, self.actions, self._accounts = env, list[str](), accounts
        self.episode = Episode(task.id, env=env.name, seed=seed, group=group, meta={"kind": task.kind})
        self._answer: str | None = None
        self._notes: list[tuple[int, Mapping[str, np.ndarray]]] = []
        self._paid: list[tuple[int, Mapping[str, Any]]] = []
        self._call(turn, "agent")

    def decision(self, member: Member, text: str, answer: Completion, choices: Sequence[Prompt]) -> None:
        """What a member said; allowed actions are kept as tokens where there are such.

        With ``accounts`` its component and what the decision took are recorded, too. What an engine counts as 0 tokens
        of a prompt it has not counted.
        """
        if self._accounts:
            self.episode.component(member.name, implementation=member.implementation, agent=member.name)
        tokens = [ids for ids in choices if not isinstance(ids, str)] if len(answer.token_ids) else []
        self.episode.turn = len(self.actions)
        self.episode.act(
            text, agent=member.name, token_ids=answer.token_ids, logp=answer.logp, choices=tokens, finish=answer.finish
        )
        if self._accounts:
            told = {"prompt": answer.prompt_tokens, "cached": answer.cached_tokens}
            told |= {"completion": answer.sampled or len(answer.token_ids)}
            counted = told if answer.prompt_tokens else {}
            self.episode.spend(**counted, seconds=answer.seconds or None)
        self._notes.append((len(answer.token_ids), answer.notes))

    def outcome(self, turn: Turn, action: str, agent: str) -> None:
        """What the environment made of an action."""
        self._call(turn, agent)
        self.episode.add_reward(turn.reward)
        self._answer = str(turn.info.get("action", action))
        self._paid.append((self.episode.n_steps - 1, turn.info.get("rewards", {})))
        self.episode.meta.pop("words", None)
        if text := turn.info.get("words"):  # of what was run: the compiler's, a failed call's
            self.episode.meta["words"] = str(text)[:_WORDS]
        if (judged := turn.info.get("judged")) is not None:
            self.episode.meta.setdefault("judged", []).append(plain(judged, f"{self.env.name}: judged"))
        self.actions.append(action)

    def ends(self, turn: Turn, stop: str, choices: Sequence[Prompt]) -> Episode:
        """Close the record.

        Args:
            turn: where it ended.
            stop: the limit that was reached, if one was.
            choices: what was allowed where it was cut off.
        """
        self._write_notes()
        self._write_paid()
        self.episode.end(
            terminated=turn.terminated,
            truncated=bool(stop) or turn.truncated,
            success=turn.success,
            valid=turn.valid,
            stop=stop or str(turn.info.get("stop", "env")),
            answer=self._answer,
            choices=[ids for ids in choices if not isinstance(ids, str)],
        )
        return self.episode

    def _call(self, turn: Turn, agent: str) -> None:
        self.episode.offers_tools |= "tools" in turn.info
        call = turn.info.get("call")
        if call:
            self.episode.tool(call["name"], call["arguments"], call["result"], outcome=call["outcome"], agent=agent)

    def _write_notes(self) -> None:
        """Record notes that every decision has; free text and listed actions have different ones."""
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

    def _write_paid(self) -> None:
        """Record the kinds of reward that the environment reported after each turn; the acting agent gets them.

        A kind that comes with every turn has a number for each decision; one that comes with the last alone is the
        attempt's.

        Raises:
            EnvError: a kind that comes now and then.
            BadInput: something that is not a finite number.
        """
        paid = self._paid
        for kind in dict.fromkeys(kind for _, rewards in paid for kind in rewards):
            values = [(at, rewards[kind]) for at, rewards in paid if kind in rewards]
            if len(values) == len(paid):
                column_T: list[Any] = [0.0] * self.episode.n_steps
                for at, value in values:
                    column_T[at] = value
                keep_reward(self.episode, kind, column_T)
            elif len(values) == 1 and kind in paid[-1][1]:
                keep_reward(self.episode, kind, values[0][1])
            else:
                raise EnvError(
                    "a kind of reward that comes now and then",
                    got=f"{kind!r} {len(values)} times, {len(paid)} turns",
                    expected="after every turn, or with the last alone",
                    where=self.env.name,
                    do="pay 0 in between",
                )
