"""BFCL's conversations: several requests one after another on files, orders, trips; the state in the end is judged.

``bfcl_turns:multi_turn_base,n=20``. After each request the answer is calls, whose results are shown, until it holds
none: then comes the next request. The classes behind the functions and the checker are those of the wheel ``bfcl-eval``
(``envs.text.bfcl`` says more), run in the sandbox. Reward 1 where after every request the state is that of the gold
calls and their results were seen. Ten answers to one request without an end fail (the leaderboard allows 20).
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

from evolvent.core.conversation import calls_text
from evolvent.core.errors import BadInput
from evolvent.core.protocols import Correction, Task, Turn
from evolvent.envs.text._text import known, playing
from evolvent.envs.text.bfcl import Bfcl
from evolvent.envs.text.bfcl_guest import Judge, as_text
from evolvent.envs.text.bfcl_items import rows, wheel
from evolvent.formulas.call_match import Call
from evolvent.formulas.call_text import read_calls
from evolvent.sandbox import GuestError

CATEGORIES = ("multi_turn_base", "multi_turn_miss_func", "multi_turn_miss_param", "multi_turn_long_context")
_DOCS = {
    "GorillaFileSystem": "gorilla_file_system",
    "MathAPI": "math_api",
    "MessageAPI": "message_api",
    "TwitterAPI": "posting_api",
    "TicketAPI": "ticket_api",
    "TradingBot": "trading_bot",
    "TravelAPI": "travel_booking",
    "VehicleControlAPI": "vehicle_control",
}
_HEAD = """Do what is asked by calling functions. Answer with a JSON list of calls and nothing else, such as \
[{"name": "get_weather", "arguments": {"city": "Ulm", "days": 3}}]; their results follow, and you may call again. \
Answer [] when the request is done, or where no function fits or a required value is not said: then the next comes.

"""


def make(variant: str = "multi_turn_base", *, n: int = 0, folder: str = "", steps: int = 10) -> BfclTurns:
    """Conversations of some categories of BFCL v4, downloaded with pip at first use.

    Args:
        variant: categories joined by "+": multi_turn_base, multi_turn_miss_func (a function comes later),
            multi_turn_miss_param (a value comes later), multi_turn_long_context.
        n: held-out conversations in all, always the same ones; 0 = half of each category.
        folder: where the wheels ``bfcl-eval`` and ``mpmath`` lie or go to; default: ``data/bfcl`` in the cache.
        steps: answers to one request.

    Raises:
        BadInput: no such category, or fewer conversations than ``n``. EvolventError: a wheel cannot be had, or is
            another. NoSandbox: nothing here confines a program.
    """
    names = list(dict.fromkeys(filter(None, variant.split("+"))))
    for name in names or [variant]:
        known(name, CATEGORIES, "category", f"bfcl_turns:{variant}")
    if steps < 2:
        raise BadInput("too few answers to a request", got=steps, expected="2 or more", where="envs.bfcl_turns.make")
    place = wheel(folder)
    return BfclTurns({name: _conversations(place, name) for name in names}, n, place, steps)


@dataclass(frozen=True)
class Conversation:
    """One item: requests, the functions from the first turn on, those that come later by turn, gold calls by turn."""

    name: str
    category: str
    entry: Mapping[str, Any]
    requests: Sequence[str]
    tools: Sequence[Mapping[str, Any]]
    later: Mapping[int, Sequence[Mapping[str, Any]]]
    gold: Sequence[Sequence[str]]

    @property
    def question(self) -> str:
        """The first request."""
        return self.requests[0]

    @property
    def group(self) -> str:
        """Its number: the categories tell the same stories."""
        return self.name.rpartition("_")[2]

    @property
    def answer(self) -> None:
        """No one answer is right."""


class BfclTurns(Bfcl):
    """One conversation an attempt; a step is an answer.

    Args:
        pool: conversations by category.
        n: held out in all; 0 = half of each category.
        wheel: of ``bfcl-eval``.
        steps: answers to one request.
    """

    instructions = _HEAD
    labels = ("Request", "Calls")
    conversation = waits = True

    def __init__(self, pool: Mapping[str, Sequence[Any]], n: int, wheel: Path, steps: int) -> None:
        super().__init__(pool, n)
        self.name = f"bfcl_turns-{'+'.join(pool)}"
        self._wheel, self._most = wheel, steps
        self._judge: Judge | None = None

    def conversation_of(self, task: Task) -> Conversation:
        """What is behind a task.

        Raises:
            BadInput: a task of another environment.
        """
        return cast("Conversation", self.item(task))

    def reset(self, task: Task, seed: int = 0) -> Turn:
        """Functions and the first request; ``seed`` changes nothing."""
        self.close()
        self._row = self.conversation_of(task)
        self._judge = Judge(self._wheel, self._row.entry)
        self._said: list[list[list[str]]] = [[]]
        self._answers, self._tools = 0, list(self._row.tools)
        self._turn = Turn(_shown(self._row.question, self._tools), key=self._row.question)
        return self._turn

    def step(self, action: str) -> Turn:
        """Do the calls and show what they come to, or go on to the next request.

        ``info`` holds the calls as read (``action`` as JSON) and their ``form``; in the end the official ``error``, or
        what stopped the process in the sandbox.
        """
        playing(self._turn, self.name)
        assert self._judge is not None
        read, self._answers = read_calls(action), self._answers + 1
        info = {"action": json.dumps(read.calls, ensure_ascii=False), "form": read.form}
        try:
            if read.calls and self._answers < self._most:
                calls = [as_text(call, [tool["name"] for tool in self._tools]) for call in read.calls]
                self._said[-1].append(calls)
                results = self._judge.execute(calls)
                self._turn = Turn("\n".join(f"Result: {one}" for one in results), follows=True, info=info)
            elif read.calls:
                self._turn = self._ended("multi_turn:force_terminated", info)
            elif len(self._said) == len(self._row.requests):
                self._turn = self._ended(self._judge.judged(self._said, self._row.gold), info)
            else:
                self._turn = self._next(info)
        except GuestError as stopped:
            self._turn = self._ended(f"sandbox: {stopped.kind}", info, valid=stopped.kind != "harness")
        return self._turn

    def _ended(self, error: str, info: Mapping[str, Any], valid: bool = True) -> Turn:
        self.close()
        right, text = not error, f"Wrong: {error}." if error else "Right."
        more = {**info, "error": error}
        return Turn(text, reward=float(right), terminated=True, success=right, valid=valid, info=more)

    def _next(self, info: Mapping[str, Any]) -> Turn:
        number, self._answers = len(self._said), 0
        self._said.append([])
        new = self._row.later.get(number, ())
        self._tools += new
        request = self._row.requests[number] or "There are more functions now. What about it?"
        return Turn(_shown(request, new), key=request, info=info)

    @property
    def tools(self) -> Sequence[Mapping[str, Any]]:
        """The functions on offer, after ``reset``."""
        return self._tools

    def gold(self, task: Task) -> list[list[Call]]:
        """The gold calls, request by request."""
        return [list(read_calls(f"[{', '.join(calls)}]").calls) for calls in self.conversation_of(task).gold]

    @staticmethod
    def listed(tools: Sequence[Mapping[str, Any]]) -> str:
        """Functions, a line of JSON each."""
        return "\n".join(json.dumps({k: one[k] for k in ("name", "description", "parameters")}) for one in tools)

    written = staticmethod(calls_text)

    def review(self, task: Task, seed: int) -> Correction | None:
        """The gold calls, one line a request, in Python's syntax."""
        lines = [f"[{', '.join(calls)}]" for calls in self.conversation_of(task).gold]
        return Correction("\n".join(lines), source="gold")

    def close(self) -> None:
        """End the process in the sandbox."""
        if self._judge is not None:
            self._judge.close()
            self._judge = None


def _shown(request: str, tools: Sequence[Mapping[str, Any]]) -> str:
    return f"{request}\nFunctions:\n{BfclTurns.listed(tools)}" if tools else request


@lru_cache(maxsize=len(CATEGORIES))
def _conversations(place: Path, category: str) -> list[Conversation]:
    with zipfile.ZipFile(place) as archive:
        path = f"BFCL_v4_{category}.json"
        gold = {row["id"]: row["ground_truth"] for row in rows(archive, f"bfcl_eval/data/possible_answer/{path}")}
        docs = {name: rows(archive, f"bfcl_eval/data/multi_turn_func_doc/{file}.json") for name, file in _DOCS.items()}
        return [_conversation(row, category, docs, gold[row["id"]]) for row in rows(archive, f"bfcl_eval/data/{path}")]


def _conversation(
    row: Mapping[str, Any],
    category: str,
    docs: Mapping[str, Sequence[Mapping[str, Any]]],
    gold: Sequence[Sequence[str]],
) -> Conversation:
    tools = [tool for name in row["involved_classes"] for tool in docs[name]]
    missed: Mapping[str, Sequence[str]] = row.get("missed_function", {})
    later = {int(turn): [tool for tool in tools if tool["name"] in names] for turn, names in missed.items()}
    kept_back = {tool["name"] for new in later.values() for tool in new}
    requests = ["\n".join(one["content"] for one in turn) for turn in row["question"]]
    first = [tool for tool in tools if tool["name"] not in kept_back]
    return Conversation(row["id"], category, row, requests, first, later, gold)
