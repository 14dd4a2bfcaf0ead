"""Awareness in conversations with calls: two lines of notes that stand in for all that was said before.

Before each answer the agent writes what was done and learned and, behind "Next:", what remains, out of its notes so far
and what came since; the call is then made from these notes, the request and the functions alone.

It is an environment in place of another (``AttemptSettings.world``): notes and calls are decisions with fresh prompts,
so that attempts, records, credit and training stay what they are. A way of rendering could not be trained, and two
agents of a team would each be shown the past.

Who may be wrapped has ``gold(task)`` (calls, request by request), ``tools``, ``listed(tools)``, ``written(calls)`` and,
if it can, ``known()``: what was shown so far, in short.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from evolvent.core.protocols import Task, Turn
from evolvent.formulas.call_match import Call, match
from evolvent.formulas.call_text import read_calls

Sees = Literal["history", "awareness", "empty", "gold"]
"""What a call is made from: all that was said; notes of the agent's own; no notes; notes out of what is true."""
WEIGHTS = {"structure": 0.1, "call": 0.3, "success": 1.0, "efficiency": 0.1}
"""Of the four rewards; ours: those of the paper are not known."""
TOKENS = 64
_MOST = 120  # letters of calls and results where an environment does not say in short what is known
_WRITE = "Notes: what is known, and what to call next.\n\n"


@dataclass(frozen=True)
class Situation:
    """What notes are written from, and the functions: notes so far, what came since, the request in it."""

    before: str
    news: str
    request: str
    tools: Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Head:
    """What a prompt and its answer need of an environment."""

    instructions: str
    labels: tuple[str, str]
    stop: tuple[str, ...]
    max_tokens: int


def asked_notes(now: Situation) -> tuple[Head, str]:
    """The prompt for notes."""
    return Head(_WRITE, ("Notes", "Done"), ("\n\n",), TOKENS), f"{now.before}\n{now.news}"


def asked_call(env: Any, now: Situation, notes: str) -> tuple[Head, str]:
    """The prompt for a call, from notes."""
    head = f"{env.instructions}{env.listed(now.tools)}\n\n"
    return Head(head, ("Done", env.labels[1]), env.stop, env.max_tokens), f"{notes}\n{env.labels[0]}: {now.request}"


def notes_of(done: str, left: Sequence[Call]) -> str:
    """Two lines: what was done and learned, and the functions that remain to be called."""
    return f"{done or 'nothing'}\nNext: {', '.join(call['name'] for call in left) or 'nothing'}"


class Aware:
    """A world of calls whose agent ``sees`` something else than all that was said, and is paid by four rewards.

    ``call`` is paid at the end of each request, the others at the end of the conversation; each is in 0…1 in all. Gold
    calls are read to judge and, where it ``sees`` gold, to write its notes; otherwise nothing that is shown knows them.
    ``right`` says which requests were answered with the gold calls.
    """

    def __init__(self, env: Any, sees: Sees) -> None:
        self._env, self._sees, self._head, self._writes = env, sees, env, False
        self.conversation = sees == "history"
        self.reward_range = (0.0, sum(WEIGHTS.values()))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._head if name in Head.__annotations__ else self._env, name)

    def reset(self, task: Task, seed: int = 0) -> Turn:
        """The first request, or the prompt for notes on it."""
        turn = self._env.reset(task, seed)
        self._gold: list[list[Call]] = self._env.gold(task)
        self._said: list[list[Call]] = [[]]
        self._formed, self._trace, self._notes = list[bool](), "", ""
        self.right = [False] * len(self._gold)
        self.now = Situation("nothing", f"{self._env.labels[0]}: {turn.key}", turn.key, tuple(self._env.tools))
        return self._shown(turn)

    def step(self, action: str) -> Turn:
        """Take notes, and ask for the call; or carry out an answer, and ask for the next notes."""
        if self._writes:
            self._notes, self._writes = action, False
            self._head, text = asked_call(self._env, self.now, action)
            return Turn(text, key=self.now.request, info={"action": action, "rewards": {"call": 0.0}})
        turn, calls = self._env.step(action), list(read_calls(action).calls)
        self._said[-1] += calls
        lines = self._sees != "awareness" or (self._notes.count("\n") == 1 and "\nNext:" in self._notes)
        self._formed.append(lines and (self._fits(calls) if calls else "".join(action.split()) == "[]"))
        at, paid = len(self._said) - 1, {"call": 0.0}
        if turn.key or turn.done:
            self.right[at] = match(self._said[at], self._gold[at]).right
            paid["call"] = self.right[at] / len(self._gold)
        paid |= self._at_end(turn) if turn.done else {}
        news = f"{self._env.labels[1]}: {action}\n"
        news += turn.observation if turn.follows else f"{self._env.labels[0]}: {turn.key}"
        self._trace = " ".join(f"{self._trace} {action} {turn.observation if turn.follows else ''}".split())[-_MOST:]
        if turn.key and not turn.done:
            self._said.append([])
        self.now = Situation(self._notes, news, turn.key or self.now.request, tuple(self._env.tools))
        reward = sum(WEIGHTS[kind] * value for kind, value in paid.items())
        info = {**turn.info, "rewards": paid}
        return self._shown(replace(turn, reward=reward, info=info))

    def left(self) -> list[Call]:
        """The gold calls of this request that are still to be made."""
        return self._gold[len(self._said) - 1][len(self._said[-1]) :]

    def gold_notes(self) -> str:
        """Notes out of what results have shown and of the gold calls of this request that remain."""
        known = self._env.known() if hasattr(self._env, "known") else self._trace
        return notes_of(known, self.left())

    def _shown(self, turn: Turn) -> Turn:
        if self._sees == "history" or turn.done:
            return turn
        if self._sees == "awareness":
            self._writes = True
            self._head, text = asked_notes(self.now)
        else:
            notes = self.gold_notes() if self._sees == "gold" else ""
            self._head, text = asked_call(self._env, self.now, notes)
        return replace(turn, observation=text, follows=False)

    def _fits(self, calls: Sequence[Call]) -> bool:
        known = {tool["name"]: set(tool["parameters"].get("properties", {})) for tool in self.now.tools}
        return all(call["name"] in known and set(call["arguments"]) <= known[call["name"]] for call in calls)

    def _at_end(self, turn: Turn) -> dict[str, float]:
        made, wanted = sum(map(len, self._said)), sum(map(len, self._gold))
        return {
            "structure": sum(self._formed) / len(self._formed),
            "success": float(turn.success),
            "efficiency": min(made, wanted) / max(made, wanted, 1),
        }
