"""Berkeley Function-Calling Leaderboard, single turn: call the right function, or none, judged as officially.

BFCL (Patil et al., ICML 2025, https://gorilla.cs.berkeley.edu/leaderboard.html; items of v4, Apache-2.0) asks for the
calls that a request needs, given the functions there are. ``bfcl:simple_python+multiple+irrelevance,n=60`` holds out 60
items, as many of each category as there are to have; what is left is there to choose a threshold on or to remember
(``train``): it is a test set, and what was trained on half of it is no score of the leaderboard.

Verdicts are those of the official checker (``formulas.call_match``). The prompt is ours (``data.asking``), answers are
JSON; calls in Python's syntax are read as well. In the categories ``irrelevance`` right is an answer without a call,
also one that cannot be read; in ``live_relevance`` any call. Four live items cannot be answered rightly, by the
official checker either.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from itertools import chain, zip_longest

from evolvent.core.errors import BadInput
from evolvent.core.protocols import Correction, Task, Turn
from evolvent.data.asking import INSTRUCTIONS, LABELS, STOP, own
from evolvent.data.pickers import Case
from evolvent.envs.text._picking import asks, showing
from evolvent.envs.text._text import TextEnv, check_request, drawn, known, named, playing
from evolvent.envs.text.bfcl_items import CALL, CATEGORIES, REFUSE, Item, items
from evolvent.formulas.call_match import Match, judgement, match_accepted
from evolvent.formulas.call_text import Answer, read_calls


def make(
    variant: str = "simple_python+multiple+irrelevance",
    *,
    n: int = 0,
    pick: str = "all",
    folder: str = "",
    max_tokens: int = 200,
) -> Bfcl:
    """Items of some categories of BFCL v4, downloaded with pip at first use.

    Args:
        variant: categories joined by "+": simple_python, multiple, parallel, parallel_multiple, irrelevance, and
            live_simple, live_multiple, live_parallel, live_parallel_multiple, live_irrelevance, live_relevance.
        n: held-out items in all, always the same ones; 0 = half of each category.
        pick: the functions that are shown: "all"; the one whose description is "nearest", or that has most "words" in
            common with the request; none below a threshold chosen on items for training, which is a refusal.
        folder: where the wheel ``bfcl-eval`` lies or goes to; default: ``data/bfcl`` in the cache.
        max_tokens: longest answer.

    Raises:
        BadInput: no such category, or fewer items than ``n``. EvolventError: the wheel cannot be had, or is another.
    """
    names = list(dict.fromkeys(filter(None, variant.split("+"))))
    for name in names or [variant]:
        known(name, CATEGORIES, "category", f"bfcl:{variant}")
    if max_tokens < 1:
        raise BadInput("no room for an answer", got=max_tokens, expected="max_tokens ≥ 1", where="envs.bfcl.make")
    every = items(folder)
    return Bfcl({name: every[name] for name in names}, n, max_tokens, pick)


class Bfcl(TextEnv):
    """One request, one answer; reward 1 where its calls are right.

    Args:
        pool: items by category.
        n: held out in all; 0 = half of each category.
        max_tokens: longest answer.
        pick: which functions are shown.
    """

    labels = LABELS
    stop = STOP
    instructions = INSTRUCTIONS

    def __init__(self, pool: Mapping[str, Sequence[Item]], n: int, max_tokens: int = 200, pick: str = "all") -> None:
        self.name, self.max_tokens = f"bfcl-{'+'.join(pool)}", max_tokens
        self._items = {one.name: one for group in pool.values() for one in group}
        held = {one.name for one in _held_out(pool, n)}
        asked = {self._items[name].group for name in held}
        rest = [name for name, one in self._items.items() if name not in held and one.group not in asked]
        self._split = {"heldout": [name for name in self._items if name in held], "train": rest}
        self._show = showing(pick, self._cases, self.name)

    def _cases(self) -> list[Case]:
        rest = [self._items[name] for name in self._split["train"]]
        return [(one.question, one.tools, one.category not in REFUSE) for one in rest]

    def tasks(self, split: str, n: int, seed: int) -> list[Task]:
        """``n`` items in drawn order; used up, they come again. A request stands in one split alone."""
        check_request(split, n, f"{self.name}.tasks")
        names = self._split[split]
        if n and not names:
            raise BadInput("no items are left", got=split, where=self.name, do="take a smaller n, or more categories")
        order = drawn(names, n, random.Random(f"bfcl/{split}/{seed}")) if n else []
        return named((self._task(self._items[name], split, seed) for name in order), len(names))

    def _task(self, item: Item, split: str, seed: int) -> Task:
        meta = {"item": item.name} | ({} if item.answer is None else {"answer": json.dumps(item.answer)})
        return Task(f"bfcl/{item.name}", item.question, item.category, split, seed, meta)

    def item(self, task: Task) -> Item:
        """What is behind a task: functions and gold.

        Raises:
            BadInput: a task of another environment.
        """
        if (name := task.meta.get("item")) not in self._items:
            raise BadInput("not a task of this world", got=task.id, expected="one of env.tasks(…)", where=self.name)
        return self._items[str(name)]

    def reset(self, task: Task, seed: int = 0) -> Turn:
        """Functions, then the request; ``seed`` changes nothing. ``info["tools"]`` names the functions."""
        self._item = one = self.item(task)
        info = {"tools": [tool["name"] for tool in one.tools]}
        turn = asks(self._show(one.question, one.tools), one.messages, one.question)
        self._turn = replace(turn, info=info)
        return self._turn

    def step(self, action: str) -> Turn:
        """Judge the answer; the attempt ends.

        ``info`` holds the calls as read (``calls``; ``action`` as JSON), the ``form`` they had, what ``differs``, and
        ``rewards``: ``name`` and ``arguments`` apart, whether anything was ``called``, and whether an answer began as a
        call and was ``broken``, which officially is a right refusal.
        """
        playing(self._turn, self.name)
        said = read_calls(action)
        said = replace(said, calls=tuple(own(said.calls, self._item.tools)))
        found = _judged(self._item, said)
        calls = json.loads(json.dumps(said.calls))
        info = {
            "action": json.dumps(calls, ensure_ascii=False),
            "calls": calls,
            "form": said.form,
            "differs": [json.loads(json.dumps(asdict(one))) for one in found.differs],
            "rewards": {
                "name": float(found.name_right),
                "arguments": float(found.arguments_right),
                "called": float(bool(said.calls)),
                "broken": float(said.form == "broken"),
            },
            "judged": judgement(said.calls, self._item.answer, found, right=found.right),
        }
        text = "Right." if found.right else f"Wrong: {'; '.join(one.words() for one in found.differs)}."
        self._turn = Turn(text, reward=float(found.right), terminated=True, success=found.right, info=info)
        return self._turn

    def review(self, task: Task, seed: int) -> Correction | None:
        """Right calls; nothing where any call would do, or none can be right."""
        calls = self.item(task).answer
        return None if calls is None else Correction(json.dumps(calls, ensure_ascii=False), source="gold")


def _held_out(pool: Mapping[str, Sequence[Item]], n: int) -> list[Item]:
    """Items of each category in turn, so that all have as many as there are to have, drawn once for ever."""
    orders = [random.Random(f"bfcl/{name}").sample(group, len(group)) for name, group in pool.items()]
    if not n:
        return [one for order in orders for one in order[: len(order) // 2]]
    total = sum(map(len, orders))
    if not 0 < n <= total:
        raise BadInput("number of items", got=n, expected=f"1 to {total}, or 0: half of each", where="envs.bfcl.make")
    return [one for one in chain.from_iterable(zip_longest(*orders)) if one is not None][:n]


def _judged(item: Item, said: Answer) -> Match:
    if item.category in CALL:
        called = bool(said.calls)
        return Match(called, called, called)
    return match_accepted(said.calls, item.gold if item.category not in REFUSE else [], item.tools)
