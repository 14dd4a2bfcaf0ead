"""One random world: what is asked, what is known, how the agent reads it, drawn from a seed; and a run through it.

Texts are sentences (``random_world_texts.py``), so that relevance is what an embedder and the memory make of them; the
agent is a formula, so that the probability of success of every attempt is known exactly. Luck is drawn in advance and
is the same whatever memory goes through the world.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from random_world_texts import ADVICE, DOMAINS, OVERVIEW, names, wording

from evolvent.core.seeding import rng

HELDOUT = 60  # tasks after the stream, memory frozen


@dataclass(frozen=True)
class Options:
    """Settings of a world, all drawn by ``draw``."""

    domain: str
    entities: int
    topics: int
    wordings: int
    depends: Literal["both", "topic", "entity"]  # what the right answer depends on
    structure: Literal["one", "facts", "both", "substitutes"]  # which notes a task needs
    facts: int  # facts: notes under one key, of which a task needs one; substitutes: right notes of a case
    one_key: bool  # notes of a case stand under one key; else each under a wording of its own
    coverage: float  # share of cases that are known at the start
    wrong: float  # share of notes that are wrong, also of corrections
    outdated: float  # share of cases with an older note that is wrong now
    corrected: float  # share of told failures after which a note is written
    own: float  # share of told successes after which the agent writes what it did
    drift: float  # share of cases whose answer changes at half time
    base: float
    gain: float  # what the right notes add
    loss: float  # share of the base that following a wrong note costs
    half: float  # share of the gain of one of two notes that are both needed
    agent: Literal["reads", "first", "confused"]
    front: float  # weight of an applicable note against the one before it
    confusion: float  # share of the gain that each note costs that is not right
    told: float  # share of outcomes that are told
    delay: int  # tasks until they are
    action: bool  # what the agent did is told, too
    zipf: bool  # some cases come often
    k: int
    bank: int  # notes at the start, those about other things included
    tasks: int
    embedder: Literal["all-MiniLM-L6-v2", "hash"]


def draw(seed: int) -> Options:
    """The settings of a world."""
    r = rng(seed, "random worlds", "options")
    entities = round(float(np.exp(r.uniform(np.log(2), np.log(30)))))
    structure = str(r.choice(["one", "one", "facts", "both", "substitutes"]))
    depends = "entity" if structure == "facts" else str(r.choice(["both", "both", "topic", "entity"]))
    facts, topics = int(r.integers(2, 6)), int(r.integers(2, 7))
    if structure == "facts":
        topics = facts = min(facts, topics)
    agent = str(r.choice(["reads", "first", "confused"] if structure == "one" else ["reads", "confused"]))
    base = float(r.uniform(0.02, 0.6))
    settings: dict[str, Any] = {
        "domain": str(r.choice(sorted(DOMAINS))),
        "entities": entities,
        "topics": topics,
        "wordings": int(r.integers(1, 11)),
        "depends": depends,
        "structure": structure,
        "facts": facts if structure in ("facts", "substitutes") else 1,
        "one_key": bool(r.random() < 0.5) or structure == "facts",
        "coverage": float(r.uniform(0.3, 1.0)),
        "wrong": float(r.uniform(0.0, 0.4)) * bool(r.random() < 0.7),
        "outdated": float(r.uniform(0.0, 0.3)) * bool(r.random() < 0.5),
        "corrected": float(r.uniform(0.2, 0.9)) * bool(r.random() < 0.6),
        "drift": float(r.uniform(0.2, 0.7)) * bool(r.random() < 0.25),
        "base": base,
        "gain": float(r.uniform(0.15, 0.98 - base)),
        "loss": float(r.uniform(0.0, 1.0)),
        "half": float(r.choice([0.0, 0.3])),
        "agent": agent,
        "front": float(r.uniform(0.2, 1.0)),
        "confusion": float(r.uniform(0.05, 0.25)) if agent == "confused" else 0.0,
        "told": float(r.uniform(0.1, 1.0)),
        "delay": int(r.integers(1, 201)) if r.random() < 0.5 else 0,
        "action": bool(r.random() < 0.5),
        "zipf": bool(r.random() < 0.5),
        "k": int(r.integers(1, 6)),
        "bank": round(float(np.exp(r.uniform(np.log(20), np.log(2000))))),
        "tasks": int(r.integers(200, 501)),
        "embedder": "hash" if r.random() < 0.25 else "all-MiniLM-L6-v2",
        "own": float(r.uniform(0.2, 1.0)) * bool(r.random() < 0.5),
    }
    return Options(**settings)


Case = tuple[int, int]  # (entity, topic); -1: whatever it is


class Note(NamedTuple):
    """What a note says: of which case and part, and which answer (0: the first right one, -1: never right)."""

    key: str
    body: str
    case: Case | None  # None: about something else
    part: int = 0
    answer: int = -1


class Task(NamedTuple):
    """A task: its text, its case and the parts that it needs."""

    text: str
    case: Case
    parts: tuple[int, ...]


class Read(NamedTuple):
    """One way in which an attempt can go: how likely it is, its probability of success, and the notes followed."""

    weight: float
    success: float
    followed: tuple[Note, ...]


class World:
    """One world of a seed."""

    def __init__(self, options: Options, seed: int, luck: int = 0) -> None:
        self.options, self.seed, o = options, seed, options
        make = rng(seed, "random worlds", "texts")
        chosen = make.permutation(names(o.domain))[: o.entities].tolist()
        self.names, self.topics = chosen, make.permutation(len(DOMAINS[o.domain][1]))[: o.topics].tolist()
        asked = [(e, t) for e in range(len(chosen)) for t in range(o.topics)]
        self.cases = list(dict.fromkeys(self.case(e, t) for e, t in asked))
        self.answer: dict[Case, int] = dict.fromkeys(self.cases, 0)
        self._advice: dict[tuple[Case, int, int], str] = {}
        self.start = self._written(make)
        place = make.permutation(len(asked))
        weight = 1.0 / (1.0 + place) if o.zipf else np.ones(len(asked))
        order = make.choice(len(asked), o.tasks + HELDOUT, p=weight / weight.sum())
        self.tasks = [self._task(*asked[i], int(make.integers(o.wordings))) for i in order.tolist()]
        changed = make.permutation(len(self.cases))[: round(o.drift * len(self.cases))].tolist()
        self.changed = [self.cases[i] for i in changed]
        self.luck = rng(seed, "random worlds", "luck", luck).random((o.tasks, 6))

    def case(self, entity: int, topic: int) -> Case:
        """What the answer to a question depends on."""
        depends = self.options.depends
        return (-1 if depends == "topic" else entity, -1 if depends == "entity" else topic)

    def _task(self, entity: int, topic: int, which: int) -> Task:
        o = self.options
        parts = (topic,) if o.structure == "facts" else (0, 1) if o.structure == "both" else (0,)
        return Task(self.wording(entity, topic, which), self.case(entity, topic), parts)

    def wording(self, entity: int, topic: int, which: int) -> str:
        """A question."""
        return wording(self.options.domain, self.topics[topic], which, self.names[entity])

    def advice(self, case: Case, part: int, answer: int) -> str:
        """The body of a note."""
        at = (case, part, answer)
        if at not in self._advice:
            r = rng(self.seed, "random worlds", "advice", *case, part, answer)
            about = self.names[case[0]] if case[0] >= 0 else self.options.domain
            said = ADVICE[int(r.integers(len(ADVICE)))].format(n=int(r.integers(100, 1000)), m=int(r.integers(10, 100)))
            self._advice[at] = f"{about}: {said}"
        return self._advice[at]

    def note(self, key: str, case: Case, part: int, answer: int) -> Note:
        """A note under a key."""
        return Note(key, self.advice(case, part, answer), case, part, answer)

    def _written(self, make: np.random.Generator) -> list[Note]:
        """Notes at the start, oldest first: those of the cases, in any order of cases, among others."""
        o, groups = self.options, list[list[Note]]()
        for case in self.cases:
            if make.random() >= o.coverage:
                continue
            parts = range(o.topics) if o.structure == "facts" else (0, 1) if o.structure == "both" else (0,)
            shared = self._key(case, make)
            for part in parts:
                for _ in range(o.facts if o.structure == "substitutes" else 1):
                    key = shared if o.one_key else self._key(case, make)
                    wrong, both = make.random() < o.wrong, make.random() < 0.5
                    group = [self.note(key, case, part, -1 - int(make.integers(3)))] if wrong else []
                    if not wrong or both:
                        group.append(self.note(key if make.random() < 0.5 else self._key(case, make), case, part, 0))
                    if make.random() < o.outdated:
                        group.insert(0, self.note(self._key(case, make), case, part, -9))
                    groups.append(group)
        others = max(0, o.bank - sum(map(len, groups)))
        groups += [[note] for note in self._others(others, make)]
        return [note for i in make.permutation(len(groups)).tolist() for note in groups[i]]

    def _key(self, case: Case, make: np.random.Generator) -> str:
        o, (entity, topic) = self.options, case
        if o.structure == "facts":
            return OVERVIEW[self.seed % len(OVERVIEW)].format(e=self.names[entity])
        entity = int(make.integers(len(self.names))) if entity < 0 else entity
        topic = int(make.integers(o.topics)) if topic < 0 else topic
        return self.wording(entity, topic, int(make.integers(o.wordings)))

    def _others(self, n: int, make: np.random.Generator) -> list[Note]:
        """Notes about other domains."""
        rest = [d for d in sorted(DOMAINS) if d != self.options.domain]
        every = [(d, t, e) for d in rest for t in range(len(DOMAINS[d][1])) for e in names(d)]
        picked = make.choice(len(every), n, replace=n > len(every)).tolist()
        return [Note(wording(d, t, 0, e), f"{e}: ask the desk", None) for d, t, e in (every[i] for i in picked)]

    def texts(self) -> list[str]:
        """Every text that is embedded."""
        return list(dict.fromkeys([note.key for note in self.start] + [task.text for task in self.tasks]))

    def turn(self) -> None:
        """Half time: some answers change."""
        for case in self.changed:
            self.answer[case] += 1

    def lesson(self, task: Task, followed: Sequence[Note], luck: np.ndarray) -> Note:
        """What is written after a task: of the notes that were followed one, else what somebody thinks to be right."""
        o = self.options
        if followed:
            return followed[int(luck[5] * len(followed))]._replace(key=task.text)
        part = task.parts[int(luck[5] * len(task.parts))]
        wrong = luck[4] < o.wrong
        return self.note(task.text, task.case, part, -1 - int(luck[4] * 1e4) % 3 if wrong else self.answer[task.case])

    # ------------------------------------------------------------------------------------------------- the agent
    def reads(self, task: Task, shown: Sequence[Note]) -> list[Read]:
        """What an agent makes of notes, in their order: every way, with its probability."""
        o, now = self.options, self.answer[task.case]
        if o.agent == "first":
            shown = shown[:1]
            if not shown:
                return [Read(1.0, o.base, ())]
            right = shown[0].case == task.case and shown[0].part in task.parts and shown[0].answer == now
            return [Read(1.0, o.base + o.gain if right else o.base * (1.0 - o.loss), tuple(shown))]
        ways = [(1.0, 0, 0, ())]  # (weight, right parts, wrong parts, followed)
        for part in task.parts:
            fit = [note for note in shown if note.case == task.case and note.part == part]
            weights = o.front ** np.arange(len(fit))
            picked = [(w, note) for w, note in zip((weights / weights.sum()).tolist(), fit, strict=True)] if fit else []
            ways = (
                [
                    (weight * w, right + (note.answer == now), wrong + (note.answer != now), (*followed, note))
                    for weight, right, wrong, followed in ways
                    for w, note in picked
                ]
                if picked
                else ways
            )
        useless = sum(not (n.case == task.case and n.part in task.parts and n.answer == now) for n in shown)
        return [Read(w, self._success(r / len(task.parts), bad, useless), f) for w, r, bad, f in ways]

    def _success(self, right: float, wrong: int, useless: int) -> float:
        o = self.options
        if wrong:
            return o.base * (1.0 - o.loss)
        gain = o.gain if right == 1.0 else o.half * o.gain if right > 0.0 else 0.0
        return o.base + gain * (1.0 - o.confusion) ** useless

    def chance(self, task: Task, shown: Sequence[Note]) -> float:
        """Probability of success."""
        return sum(way.weight * way.success for way in self.reads(task, shown))

    def best(self, task: Task, known: set[tuple[Case, int, int]]) -> float:
        """The same with the best notes there are."""
        now = self.answer[task.case]
        have = sum((task.case, part, now) in known for part in task.parts) / len(task.parts)
        return self._success(have if self.options.k >= len(task.parts) else min(have, 0.5), 0, 0)


class Subject(Protocol):
    """What goes through a world: a memory, or a stand-in for one."""

    def write(self, notes: Sequence[Note]) -> None: ...

    def recall(self, task: str, frozen: bool = False) -> tuple[Any, list[Note]]: ...

    def settle(self, receipt: Any, reward: float, action: str | None) -> None: ...


def run(world: World, subject: Subject) -> dict[str, Any]:
    """Expected success of a subject: over the stream, in its last third, and frozen after it; beside the best there is.

    Also ``none``: without any note.
    """
    o, chances, best = world.options, list[float](), list[float]()
    known = set[tuple[Case, int, int]]()

    def write(notes: Sequence[Note]) -> None:
        subject.write(notes)
        known.update((note.case, note.part, note.answer) for note in notes if note.case is not None)

    write(world.start)
    late: deque[tuple[int, Any]] = deque()
    for t, task in enumerate(world.tasks[: o.tasks]):
        if o.drift and t == o.tasks // 2:
            world.turn()
        receipt, shown = subject.recall(task.text)
        ways = world.reads(task, shown)
        chances.append(sum(way.weight * way.success for way in ways))
        best.append(world.best(task, known))
        luck = world.luck[t]
        way = ways[min(int(np.searchsorted(np.cumsum([w.weight for w in ways]), luck[0])), len(ways) - 1)]
        reward = float(luck[1] < way.success)
        if luck[2] < o.told:
            action = " ".join(note.body for note in way.followed) or f"own attempt at {task.text}"
            due = (receipt, reward, action if o.action else None)
            written = luck[3] < (o.own if reward else o.corrected)
            note = world.lesson(task, way.followed if reward else (), luck) if written else None
            late.append((t + o.delay, (due, note)))
        while late and late[0][0] <= t:
            due, note = late.popleft()[1]
            subject.settle(*due)
            if note is not None:
                write([note])
    frozen = [
        (world.chance(task, subject.recall(task.text, frozen=True)[1]), world.best(task, known))
        for task in world.tasks[o.tasks :]
    ]
    third = o.tasks - o.tasks // 3
    return {
        "stream": float(np.mean(chances)),
        "late": float(np.mean(chances[third:])),
        "frozen": float(np.mean([x for x, _ in frozen])),
        "none": o.base,
        "best": {
            "stream": float(np.mean(best)),
            "late": float(np.mean(best[third:])),
            "frozen": float(np.mean([x for _, x in frozen])),
        },
    }
