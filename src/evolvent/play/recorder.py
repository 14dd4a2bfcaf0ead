"""Writes an attempt into its ``Episode`` while it happens: decisions, tool calls, rewards, why it ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from evolvent.core.episode import Episode
from evolvent.core.errors import EnvError
from evolvent.core.protocols import Completion, Env, Prompt, Task, Turn
from evolvent.core.reward_kinds import keep_reward


class Recorder:
    """The record of an attempt that begins with ``turn``.

    ``finish`` says of each answer how it ended: one that was cut off is ``"length"``. The answer of the attempt is the
    last action, as the environment read it where it tells (``info["action"]``), or null where it is empty. What the
    environment pays besides, ``info["rewards"] = {kind: number}``, is kept by ``core.reward_kinds``; calls of tools
    that it tells of, ``info["call"]``, are nodes.
    """

    def __init__(self, env: Env, task: Task, turn: Turn, *, seed: int, group: str) -> None:
        self.env = env
        self.episode = Episode(task.id, env=env.name, seed=seed, group=group, meta={"kind": task.kind, "finish": []})
        self._notes: list[tuple[int, Mapping[str, np.ndarray]]] = []
        self._paid: list[Mapping[str, Any]] = []
        self._turns: list[int] = []
        self._call(turn, "agent")

    def decision(self, agent: str, text: str, answer: Completion, choices: Sequence[Prompt], turn: int) -> None:
        """What an agent said in a turn of the environment."""
        tokens = [ids for ids in choices if not isinstance(ids, str)] if len(answer.token_ids) else []
        self.episode.act(text, agent=agent, token_ids=answer.token_ids, logp=answer.logp, choices=tokens)
        self.episode.meta["finish"].append(answer.finish)
        self._notes.append((len(answer.token_ids), answer.notes))
        self._turns.append(turn)

    def outcome(self, turn: Turn, action: str, agent: str) -> None:
        """What the environment made of an action."""
        self._call(turn, agent)
        self.episode.add_reward(turn.reward)
        self.episode.meta["answer"] = str(turn.info.get("action", action)) or None
        self._paid.append(turn.info.get("rewards", {}))

    def cut(self, choices: Sequence[Prompt]) -> None:
        """The attempt is cut off where these actions were allowed."""
        self.episode.meta["choices"] = [np.asarray(ids).tolist() for ids in choices if not isinstance(ids, str)]

    def ends(self, turn: Turn, stop: str) -> Episode:
        """Close the record; ``stop`` is the limit that was reached, if one was."""
        episode = self.episode
        self._keep_notes()
        self._keep_paid()
        episode.meta["stop"], episode.meta["turns"] = stop or str(turn.info.get("stop", "env")), self._turns
        episode.end(
            terminated=turn.terminated, truncated=bool(stop) or turn.truncated, success=turn.success, valid=turn.valid
        )
        return episode

    def _call(self, turn: Turn, agent: str) -> None:
        if "tools" in turn.info:
            self.episode.meta["calls"] = []
        call = turn.info.get("call")
        if call:
            self.episode.tool(call["name"], call["arguments"], call["result"], agent=agent)
            self.episode.meta.setdefault("calls", []).append(call["outcome"])

    def _keep_notes(self) -> None:
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

    def _keep_paid(self) -> None:
        """Keep the kinds of reward that the environment told after each turn: whose action it was has been paid.

        A kind that comes with every turn has a number for each decision; one that comes with the last alone is the
        attempt's.

        Raises:
            EnvError: a kind that comes now and then.
            BadInput: something that is not a finite number.
        """
        paid, acted = self._paid, {turn: at for at, turn in enumerate(self._turns)}
        for kind in dict.fromkeys(kind for told in paid for kind in told):
            values = [told[kind] for told in paid if kind in told]
            if len(values) == len(paid):
                column_T: list[Any] = [0.0] * len(self._turns)
                for turn, value in enumerate(values):
                    column_T[acted[turn]] = value
                keep_reward(self.episode, kind, column_T)
            elif len(values) == 1 and kind in paid[-1]:
                keep_reward(self.episode, kind, values[0])
            else:
                raise EnvError(
                    "a kind of reward that comes now and then", got=f"{kind!r} {len(values)} times, {len(paid)} turns",
                    expected="after every turn, or with the last alone", where=self.env.name, do="pay 0 in between",
                )  # fmt: skip
