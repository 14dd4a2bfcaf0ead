"""The part of an attempt that has a guide: its outline is seen, its items are read by name, and it is written (MUSE).

Two members decide: ``READER`` sees the names of all items and says which to read; the one that acts sees these, and all
patterns. A memory holds three stores by the kind of its items: ``STRATEGY`` (key = name, body = pattern), ``PROCEDURE``
(key = the situation where the task began, body = how it is done, and what was done) and ``TOOL`` (key = name of the
tool, body = instruction), with ``item`` (its name) and ``of`` (the application) in the metadata. Nothing is compared.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from evolvent.core.episode import Episode
from evolvent.core.protocols import Completion, Engine, Env, Renderer, Request, Task, Turn
from evolvent.core.seeding import seed_tree
from evolvent.memory.items import Item
from evolvent.memory.memory import Memory
from evolvent.play.experience import Use
from evolvent.play.receipts import Decision, record, undecided
from evolvent.play.workflow import Member, Workflow

STRATEGY, PROCEDURE, TOOL = "strategy", "procedure", "tool"
PATTERNS = 10
"""Patterns, at most; the paper's."""
READER = "Guide"
TEAM = Workflow(
    (
        Member(
            READER,
            (),
            "Name the guides to read before this is answered, as they are listed.",
            adapter=None,
            label="Guides to read",
        ),
        Member("agent", (), adapter=None),
    )
)
ASKED, DONE = "What is a boat for three days?", "price of a day * 3"
OUTLINE = "Guides:\n- hire: Price of a hire; What a hire needs\n- birds: Feed a bird\n\n"
ENTRY = "Price of a hire\n1. Count the days.\n2. Look up the price of a day.\n3. Multiply."
"""An example of ours: a task, an outline, and an item; a small model reads and writes in the form that it sees."""
WRITE = "This is right. A guide for such tasks: a short name, then three short steps."
Ask = Callable[[str, str, str], str]


@dataclass(frozen=True)
class Reading:
    """How much is read and written."""

    read: int = 2
    """Items for a decision."""
    chars: int = 4000
    """Characters of items in a prompt; what does not fit is neither shown nor recorded."""
    words: int = 100
    """Tokens of what is written."""


@dataclass
class Analysis:
    """Why the try before failed, in the model's words."""

    text: str = ""


class Instructed:
    """A world in which what was learned of a tool follows every result of it."""

    def __init__(self, env: Env, instructions: Mapping[str, str]) -> None:
        self._env, self._instructions = env, instructions

    def step(self, action: str) -> Turn:
        """Act; the instruction stands behind the result of a call."""
        turn = self._env.step(action)
        call = turn.info.get("call")
        if not call or call["name"] not in self._instructions:
            return turn
        return replace(turn, observation=f"{turn.observation}\n{self._instructions[call['name']]}")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._env, name)


# ------------------------------------------------------------------------------------------------ one try
@dataclass
class Guided:
    """One try: the outline for the one that reads, what was named for the one that acts, and what was learned of it.

    ``analysis`` is of the try before, and left for the next one. A second try (``retry``) has no guide; where no other
    follows (``last``) a reviewer is asked. The first six arguments are those of ``play.experience.Experience``.
    """

    env: Env
    task: Task
    memory: Memory | None
    use: Use
    seed: int
    learns: bool
    how: Reading
    analysis: Analysis
    retry: bool
    last: bool
    steps: list[Decision] = field(default_factory=list[Decision])
    _new: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    _earned: float | None = None
    _last: Turn | None = None

    # ------------------------------------------------------------------------------------------- while it goes on
    def recall(self, turn: Turn, key: str, seed: int, said: Mapping[str, str] | None) -> str:
        """Names of the guide items for the one that reads; patterns and the texts that it named for the other."""
        items = self._items()
        guide = [item for item in items if item.kind == PROCEDURE]
        if said is None:
            question, _ = self.env.labels
            label = TEAM.member(READER).label
            return f"{OUTLINE}{question}: {ASKED}\n{label}: Price of a hire\n\n{_outline(guide)}"
        step = Decision(key)
        self.steps.append(step)
        advice = "".join(f"- {item.key}: {item.body}\n" for item in items if item.kind == STRATEGY)
        if self.retry and self.analysis.text:
            advice += f"- The last try failed: {self.analysis.text}\n"
        return (f"Mind:\n{advice}\n" if advice else "") + self._fetched(step, guide, said.get(READER, ""), seed)

    def choose(self, turn: Turn, answer: Completion, seed: int, episode: Episode) -> tuple[str, Completion]:
        """The action as it was drawn; what was read goes on record."""
        step = self.steps[-1]
        step.action = answer.text.strip() if turn.admissible is None else turn.admissible[answer.choice]
        step.at = episode.n_steps
        if step.recall is not None:
            record(episode, step.recall, step.shown)
        return step.action, answer

    def stopped(self) -> None:
        """The last reading led to no decision."""
        step = undecided(self.steps)
        if step and step.recall is not None and self.memory is not None:
            self.memory.shown(step.recall, ())

    def ended(self, turn: Turn) -> None:
        """Where the try ended."""
        self._last = turn

    def _items(self) -> list[Item]:
        return [] if self.memory is None else self.memory.items()

    def _fetched(self, step: Decision, guide: Sequence[Item], named: str, seed: int) -> str:
        """The items whose names were said, in the order of saying, as far as there is room."""
        wanted = named_items(guide, named, self._kind)[: self.how.read]
        if not wanted or self.memory is None:
            return ""
        names = {_name(item) for item in guide if item.id in wanted}
        step.recall = self.memory.recall(
            step.key,
            k=sum(_name(item) in names for item in guide),
            kinds=[PROCEDURE],
            seed=seed,
            frozen=True,
            filter={"item": {"in": sorted(names)}},
            is_test=not self.learns,
        )
        room, texts = self.how.chars, dict[str, str]()
        by_id = {item.id: item for item in step.recall}
        for item in (by_id[id] for id in wanted if id in by_id):
            text = f"{READER} {item.metadata['item']}:\n{item.body}\n\n"
            if len(text) <= room:
                texts[item.id] = text
                room -= len(text)
        step.shown = tuple(texts)
        self.memory.shown(step.recall, step.shown)
        return "".join(texts.values())

    # ------------------------------------------------------------------------------------------- when it is over
    def reflect(self, episode: Episode, engine: Engine, renderer: Renderer) -> str:
        """Write what the outcome taught; nothing is kept before ``learn``. A word about it."""
        turn = self._last
        if self.memory is None or turn is None or not self.steps:
            return ""
        low, high = self.env.reward_range
        self._earned = min(max(episode.total_reward, low), high)
        if not (self.learns and turn.valid):
            return ""
        ask = functools.partial(self._written, engine, renderer)
        written = [self._tools(episode, ask)]
        if not turn.success:
            happened = turn.info.get("words") or turn.observation
            self.analysis.text = " ".join(ask(f"It failed: {happened}\nWhy, in one sentence:", "why", "\n").split())
            written.append("why it failed")
            correction = self.env.review(self.task, seed_tree(self.seed, "review")) if self.last else None
            if correction is not None:
                ask = functools.partial(self._written, engine, renderer, done=correction.body)
                written.append(self._procedure(ask, correction.body, correction.source))
        else:
            written.append(self._procedure(ask, self._done, "self"))
            if self.retry and self.analysis.text:
                written.append(self._pattern(ask))
        return ", ".join(filter(None, written))

    def learn(self) -> None:
        """Write the stores and settle what was read: one transaction, in which no model is called."""
        if self.memory is None or self._earned is None or self._last is None:
            return
        with self.memory.transaction():
            for row in self._new:
                write_item(self.memory, row)
            for step in self.steps:
                if step.recall is not None:
                    self.memory.settle(
                        step.recall, self._earned, source="env", valid=self._last.valid, action=step.action
                    )

    @property
    def _done(self) -> str:
        """What was done, decision by decision."""
        return " / ".join(step.action for step in self.steps)

    def _task_and(self, done: str) -> str:
        """The task with what was done, as the world writes it."""
        question, answer = self.env.labels
        return f"{question}: {self.steps[0].key}\n{answer}: {done}"

    def _written(self, engine: Engine, renderer: Renderer, end: str, what: str, stop: str, *, done: str = "") -> str:
        question, answer = self.env.labels
        example = f"{question}: {ASKED}\n{answer}: {DONE}\n\n{WRITE}\nName: {ENTRY}\n\n" if WRITE in end else ""
        prompt = renderer.plain(f"{example}{self._task_and(done or self._done)}\n\n{end}")
        seed = seed_tree(self.seed, what)
        return engine([Request(prompt, seed, self.how.words, (stop,), adapter=None)])[0].text.strip()

    def _procedure(self, ask: Ask, done: str, source: str) -> str:
        mine = [_name(item) for item in self._items() if item.kind == PROCEDURE and _application(item) == self._kind]
        known = f" There are: {'; '.join(mine)}; the same name replaces one." if mine else ""
        said = ask(f"{WRITE}{known}\nName:", "procedure", "\n\n")
        name, steps = named(said)
        if not name:
            return ""
        # the example comes last: with the steps behind it a small model writes steps behind its own answer
        body = f"{steps}\n\n{self._task_and(done)}".strip()
        self._new.append(
            {
                "kind": PROCEDURE,
                "key": self.steps[0].key,
                "body": body,
                "name": name,
                "of": self._kind,
                "source": source,
            }
        )
        return f"guide item {name}"

    def _pattern(self, ask: Ask) -> str:
        end = "This one was right. What to mind in any such trouble: a short name, then one sentence.\nName:"
        said = ask(f"The first try failed: {self.analysis.text}\n{end}", "strategy", "\n\n")
        name, text = named(said)
        if not (name and text):
            return ""
        self._new.append({"kind": STRATEGY, "key": name, "body": text, "name": name, "of": ""})
        return f"pattern {name}"

    def _tools(self, episode: Episode, ask: Ask) -> str:
        """An instruction for each tool that did not do what was asked of it."""
        calls = [node for node in episode.nodes if node.kind == "tool"]
        failed = {n.data["name"]: n.text for n in calls if n.data["outcome"] not in ("ok", "cut")}
        for name, result in failed.items():
            said = ask(f"{name} said: {result}\nWhat to mind when calling {name}, in one sentence:", name, "\n")
            if said:
                self._new.append({"kind": TOOL, "key": name, "body": said, "name": name, "of": ""})
        return f"instruction for {' and '.join(failed)}" if failed else ""

    @property
    def _kind(self) -> str:
        return self.task.kind or self.env.name


# ------------------------------------------------------------------------------------------------ the stores
def named(said: str) -> tuple[str, str]:
    """Name and text of an entry as the model wrote it, on one line or several; the name has at most 60 characters."""
    head, _, rest = said.strip().partition("\n")
    if not rest:
        head, _, rest = head.partition(":")
    name = re.sub(r"\s+", " ", head).strip(" .:;\"'`*#-")[:60].strip()
    return name, rest.strip()


def named_items(guide: Sequence[Item], said: str, kind: str) -> list[str]:
    """Ids of the items whose names were said, in that order; of an application that was named alone, all its items.

    A long name comes before one that stands in it, and of two applications the one of ``kind``.
    """
    left, found = said.casefold(), dict[str, int]()
    for item in sorted(guide, key=lambda item: (-len(_name(item)), _application(item) != kind)):
        name = _name(item).casefold()
        at = left.find(name)
        if at >= 0:
            found[item.id] = at
            left = left.replace(name, " " * len(name), 1)
    of = {_application(item) for item in guide} - {_application(item) for item in guide if item.id in found}
    for item in guide:
        at = left.find(_application(item).casefold())
        if at >= 0 and _application(item) in of:
            found[item.id] = at
    return sorted(found, key=found.__getitem__)


def write_item(memory: Memory, row: Mapping[str, Any]) -> None:
    """An entry of a store; one of the same name is overwritten, and of too many patterns the oldest gives way."""
    kind, about = row["kind"], {"item": row["name"], "of": row["of"]}
    items = [item for item in memory.items() if item.kind == kind and _application(item) == row["of"]]
    same = [item for item in items if _name(item).casefold() == row["name"].casefold()]
    gone = same or (items[:1] if kind == STRATEGY and len(items) >= PATTERNS else [])
    memory.remember(
        row["key"],
        row["body"],
        kind=kind,
        polarity="success",
        source=row.get("source", "self"),
        metadata=about,
        merge=None,
        supersedes=gone[0].id if gone else None,
    )


def _name(item: Item) -> str:
    return str(item.metadata["item"])


def _application(item: Item) -> str:
    return str(item.metadata["of"])


def _outline(guide: Sequence[Item]) -> str:
    """The names of all items, by application."""
    names: dict[str, list[str]] = {}
    for item in guide:
        names.setdefault(_application(item), []).append(_name(item))
    rows = [f"- {application}: {'; '.join(items)}\n" for application, items in names.items()]
    return f"Guides:\n{''.join(rows)}\n"
