"""Calls of your own functions: tools and a request, answered with calls as JSON, judged by the calls that were right.

``functions:fc/`` is a folder of ``evolvent data functions``. An attempt is one answer, a JSON list of calls:

    [{"name": "book_table", "arguments": {"restaurant": "Harbour", "day": "2026-12-24"}}]

One object, a Markdown fence, ``<tool_call>`` tags and text before it are read, too (``formulas.call_text``); ``[]``, or
text without a call, is a refusal. The reward is 1 where the calls are the right ones, in any order, with exactly their
arguments; one that only repeats the schema's default counts as left out. The reviewer hands over the right calls.

``names=random`` draws names of functions and parameters anew for each task, ``names=swapped`` exchanges those of the
functions: whoever reads descriptions loses nothing. Held out are conversations and, beside them, functions that no
training row knows; ``held=seen`` or ``held=unseen`` asks about one of them. ``pick=nearest`` shows the one tool that an
embedder finds, or none, so that a model only fills in arguments. With ``judge=FILE:FN`` rows without a
verdict are tasks, too, and the function (as of ``evolvent data functions --judge``) says what each answer earns.
"""

from __future__ import annotations

import dataclasses
import functools
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evolvent.core.errors import BadInput
from evolvent.core.protocols import Correction, Task, Turn
from evolvent.data.asking import INSTRUCTIONS, LABELS, STOP, own
from evolvent.data.calls import written
from evolvent.data.gather import Judge, asked, judge_of, verdict_of
from evolvent.data.masking import mask, swap
from evolvent.data.pickers import Case
from evolvent.data.rows import Row, read_rows
from evolvent.data.schemas import Tool
from evolvent.envs.text._picking import asks, showing
from evolvent.envs.text._text import TextEnv, check_request, drawn, known, named, playing
from evolvent.formulas.call_match import Call, Match, judgement, match, same_value
from evolvent.formulas.call_text import read_calls

NAMES, HELD = ("own", "random", "swapped"), ("all", "seen", "unseen")
ROWS = "rows.jsonl"
_OF = {"all": ("heldout", "unseen"), "seen": ("heldout",), "unseen": ("unseen",)}
_MOST = 400
"""Tokens of the longest answer that is allowed."""


def make(
    variant: str, *, names: str = "own", held: str = "all", pick: str = "all", judge: str = "", seed: int = 0
) -> Functions:
    """Calls of functions from a folder of ``evolvent data functions``.

    Args:
        variant: the folder, or its rows.jsonl.
        names: "own"; "random", drawn anew for each task; or "swapped" between the functions of a task.
        held: held-out tasks: "all", of functions that were "seen" in training, or of "unseen" ones.
        pick: the tools that are shown: "all"; the one whose description is "nearest", or that has most "words" in
            common with the request; none below a threshold chosen on rows for training, which is a refusal.
        judge: FILE:FN that judges answers where nobody has said what is right; "" = such rows are no tasks.
        seed: of the names.

    Raises:
        BadInput: no such folder, or it holds no rows that can be judged.
    """
    where = f"functions:{variant}"
    known(names, NAMES, "kind of names", where)
    known(held, HELD, "held-out part", where)
    path = source(variant)
    rows = [row for row in read_rows(path) if row.because or judge]
    if not rows:
        raise BadInput(
            "no row says which calls are right",
            got=str(path),
            expected="rows with a verdict",
            where=where,
            do="evolvent data functions with --accept or --judge, or judge=FILE:FN here",
        )
    return Functions(rows, names, held, pick=pick, judge=judge_of(judge, where) if judge else None, seed=seed)


def source(variant: str, **options: Any) -> Path:
    """The file of the rows, absolute; ``options`` are the others of ``make``.

    Raises:
        BadInput: there is none.
    """
    path = Path(variant).expanduser()
    path = path / ROWS if path.is_dir() else path
    if not path.is_file():
        do = "evolvent data functions tools.json calls.jsonl --out fc/ makes one"
        raise BadInput("no rows", got=variant, expected=f"a folder with {ROWS}", where=f"functions:{variant}", do=do)
    return path.resolve()


class Functions(TextEnv):
    """One request, one answer, one grade; see the module."""

    name = "functions"
    instructions = INSTRUCTIONS
    labels = LABELS
    stop = STOP
    max_tokens = _MOST

    def __init__(
        self,
        rows: Sequence[Row],
        names: str,
        held: str,
        *,
        pick: str = "all",
        judge: Judge | None = None,
        seed: int = 0,
    ) -> None:
        self._names, self._seed, self._judge = names, seed, judge
        self._rows = {row.id: row for row in rows}
        self._split = {"train": [row for row in rows if row.split == "train"]}
        self._split["heldout"] = [row for row in rows if row.split in _OF[held]]
        self._functions = sorted({tool["name"] for row in rows for tool in row.tools})
        self._shown = functools.lru_cache(maxsize=4096)(self._renamed)
        self._show = showing(pick, self._cases, self.name)
        self._task: Task | None = None

    def tasks(self, split: str, n: int, seed: int) -> list[Task]:
        """Rows of a split in an order drawn by ``seed``; again in another order where there are fewer than ``n``.

        A task's kind is the function that is right, "none" where it is right to call none.

        Raises:
            BadInput: an unknown split, a negative ``n``, or nothing in it.
        """
        check_request(split, n, f"{self.name}.tasks")
        rows = self._split[split]
        if not n:
            return []
        if not rows:
            do = "more conversations, or other shares: evolvent data functions --heldout .3 --unseen .2"
            raise BadInput("no rows in this split", got=split, expected="at least one", where=self.name, do=do)
        made = [self._as_task(row, split, seed) for row in drawn(rows, n, random.Random(f"{split}/{seed}"))]
        return named(made, len(rows))

    def _as_task(self, row: Row, split: str, seed: int) -> Task:
        kind = row.gold[0]["name"] if row.gold else "none"
        facts = {"row": row.id, "split": row.split, "why none": row.kind if not row.gold else ""}
        return Task(row.id, self.row(row.id).request, kind, split, seed, facts)

    def row(self, id: str) -> Row:
        """A row as it is asked: with its names of this environment.

        Raises:
            BadInput: no such row.
        """
        if id not in self._rows:
            raise BadInput("not a task of this world", got=id, expected="one of env.tasks(…)", where=self.name)
        return self._shown(id)

    def _cases(self) -> list[Case]:
        rows = [self._shown(row.id) for row in self._split["train"] if row.because]
        return [(row.request, row.tools, bool(row.gold)) for row in rows]

    def _renamed(self, id: str) -> Row:
        row, draw = self._rows[id], random.Random(f"{self._seed}/{self._names}/{id}")
        if self._names == "random":
            return mask(row, draw, defaults=False)
        return swap(row, draw, self._functions) if self._names == "swapped" else row

    # ------------------------------------------------------------------------------------------------ one attempt
    def reset(self, task: Task, seed: int = 0) -> Turn:
        """The tools, one a line, what was said before, and the request."""
        row = self.row(str(task.meta.get("row", task.id)))
        self._task, self._turn = task, asks(self._show(row.request, row.tools), row.messages, row.request)
        return self._turn

    def step(self, action: str) -> Turn:
        """Judge an answer. ``info`` holds ``calls``, ``gold``, ``form`` (of the answer) and ``differs``, in words."""
        playing(self._turn, self.name)
        assert self._task is not None
        row = self.row(str(self._task.meta.get("row", self._task.id)))
        calls = answered(action)
        calls = None if calls is None else own(calls, row.tools)
        reward, found = self._graded(row, calls)
        differs = ["the answer cannot be read"] if calls is None else [one.words() for one in found.differs]
        info = {
            "action": written(calls) if calls is not None else action,
            "calls": list(calls or ()),
            "gold": [dict(call) for call in row.gold],
            "function_right": calls is not None and found.name_right,
            "arguments_right": calls is not None and found.arguments_right,
            "differs": differs,
            "judged": judgement(calls, row.gold if row.because else None, found, right=reward >= 1),
        }
        said = "Right." if reward >= 1 else f"Not right: {'; '.join(differs) or 'the judge says so'}."
        self._turn = Turn(said, None, reward, terminated=True, success=reward >= 1, key=row.request, info=info)
        return self._turn

    def _graded(self, row: Row, calls: Sequence[Call] | None) -> tuple[float, Match]:
        found = match(_without_defaults(calls or (), row.tools), _without_defaults(row.gold, row.tools))
        if row.because or self._judge is None:
            return float(calls is not None and found.right), found
        if calls is None:
            return 0.0, found
        told = self._judge(asked(dataclasses.replace(row, gold=tuple(calls), said="")))
        return float(verdict_of(told, self.name)), dataclasses.replace(found, differs=())

    # ------------------------------------------------------------------------------------------------ the reviewer
    def review(self, task: Task, seed: int) -> Correction | None:
        """The right calls; nothing where nobody has said which they are."""
        row = self.row(str(task.meta.get("row", task.id)))
        return Correction(written(row.gold)) if row.because else None


def answered(text: str) -> list[Call] | None:
    """The calls of an answer, none for a refusal; ``None`` where it is JSON that is no call, or was cut off."""
    found, bare = read_calls(text), "".join(text.rpartition("</think>")[2].split()).strip("`").removeprefix("json")
    odd = found.form == "none" and bare[:1] in ("[", "{") and bare != "[" and bare[:2] != "[]"
    return None if found.form == "broken" or odd else list(found.calls)


def _without_defaults(calls: Sequence[Call], tools: Sequence[Tool]) -> list[Call]:
    """Calls without arguments that only say what the schema's default is."""
    schemas = {tool["name"]: tool["parameters"].get("properties", {}) for tool in tools}
    made: list[Call] = []
    for call in calls:
        about = schemas.get(call["name"], {})
        said = call["arguments"].items()
        kept = {k: v for k, v in said if "default" not in about.get(k, {}) or not same_value(about[k]["default"], v)}
        made.append({"name": call["name"], "arguments": kept})
    return made
