"""The part of an attempt that reads recorded steps of an expert, found by thought and aligned (TRAD).

Two members decide: the one called ``THINKER`` says what it would do and why, beside whole trajectories of similar
tasks; the one that acts sees the steps whose thoughts are nearest to that, with their neighbours, and its own last
steps. A memory holds the steps: key = thought, body = command, and in the metadata ``trajectory``, ``step``,
``situation``, ``kind`` (of the task), ``thought`` (whether there is one) and ``found`` (whether it can be recalled).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from evolvent.core.episode import Episode
from evolvent.core.protocols import Completion, Engine, Env, Renderer, Task, Turn
from evolvent.memory.items import Recall, Recalled
from evolvent.memory.memory import Memory
from evolvent.play.experience import Use
from evolvent.play.receipts import Decision, record, undecided
from evolvent.play.workflow import Member, Workflow

THINKER = "Thought"
STEP, WHOLE = "step", "trajectory"
"""Kinds of memory: a step of a trajectory; a trajectory, which holds all its steps."""
TEAM = Workflow(
    (
        Member(THINKER, (), "Say in one short sentence what to do next and why.", adapter=None, label=THINKER),
        Member("agent", (THINKER,), adapter=None),
    )
)


@dataclass(frozen=True)
class Step:
    """What was seen, thought and done."""

    situation: str
    thought: str
    action: str


@dataclass(frozen=True)
class Trajectory:
    """A task that was solved, in words, its kind, and its steps."""

    id: str
    task: str
    kind: str
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Alignment:
    """What is shown, and how."""

    k: int = 2
    back: int = 1
    forward: int = 2
    by: Literal["thought", "trajectory"] = "thought"
    """Steps by thought; or whole trajectories by the words of the task, as the thinker sees them."""
    marks: bool = True
    """Say how far each step is from the one that was found."""
    history: int = 3
    """Last steps of the attempt that are shown."""
    same_kind: bool = True
    """Only trajectories of tasks of the same kind."""
    greedy: bool = True
    """Take the likeliest command; otherwise the one that was drawn."""
    chars: int = 8000
    """Characters of trajectories in a prompt. Of a whole one that does not fit the first steps are shown; what is not
    shown is not recorded."""


@dataclass
class Thought(Decision):
    """A decision, and what was thought before it; ``recall`` is all that was found, under the first of its receipts."""

    thought: str = ""


@dataclass
class Aligned:
    """One attempt with a library of trajectories; nothing is learned, receipts are settled with what came of it.

    The first six arguments are those of ``play.experience.Experience``; without a memory there are thoughts and the own
    last steps alone, and ``use`` and ``learns`` are not asked.
    """

    env: Env
    task: Task
    memory: Memory | None
    use: Use
    seed: int
    learns: bool
    library: Mapping[str, Trajectory]
    how: Alignment
    steps: list[Thought] = field(default_factory=list[Thought])
    _whole: str | None = None
    _receipts: list[Recall] = field(default_factory=list[Recall])
    _new: list[tuple[Recall, tuple[str, ...]]] = field(default_factory=list[tuple[Recall, tuple[str, ...]]])
    _earned: float | None = None
    _last: Turn | None = None

    # ------------------------------------------------------------------------------------------- while it goes on
    def recall(self, turn: Turn, key: str, seed: int, said: Mapping[str, str] | None) -> str:
        """Examples and the last steps: for the thinker whole trajectories, for the one that acts aligned steps."""
        if said is None:
            self.steps.append(Thought(key))
            return self._trajectories(seed) + self._now(False)
        step = self.steps[-1]
        step.thought = " ".join(said.get(THINKER, "").split())
        if self.how.by == "trajectory":
            return self._trajectories(seed) + self._now(False)
        return self._aligned(step, seed) + self._now(self.how.marks)

    def choose(self, turn: Turn, answer: Completion, seed: int, episode: Episode) -> tuple[str, Completion]:
        """The action: of admissible commands the likeliest, where commands are not drawn."""
        step = self.steps[-1]
        step.action, step.at = answer.text.strip(), episode.n_steps
        if turn.admissible is not None:
            best = answer.choice
            if self.how.greedy and answer.scores_N is not None:
                best = int(np.argmax(answer.scores_N))
            step.action = turn.admissible[best]
            if best != answer.choice:
                answer = Completion(step.action, np.zeros(0, np.int32), np.zeros(0, np.float32), choice=best)
        for recall, ids in self._new:
            record(episode, recall, ids)
        self._new.clear()
        return step.action, answer

    def stopped(self) -> None:
        """The last thought led to no decision."""
        if undecided(self.steps):
            for recall, _ in self._new:
                assert self.memory is not None
                self.memory.shown(recall, ())
            self._new.clear()

    def ended(self, turn: Turn) -> None:
        """Where the attempt ended."""
        self._last = turn

    # ------------------------------------------------------------------------------------------- when it is over
    def reflect(self, episode: Episode, engine: Engine, renderer: Renderer) -> str:
        """What came of it; there is nothing to think of."""
        low, high = self.env.reward_range
        self._earned = min(max(episode.total_reward, low), high)
        return ""

    def learn(self) -> None:
        """Settle the receipts: the outcome is on record, values do not move."""
        if self.memory is None or self._earned is None or self._last is None:
            return
        with self.memory.transaction():
            for recall in self._receipts:
                self.memory.settle(recall, self._earned, source="env", valid=self._last.valid)

    # ------------------------------------------------------------------------------------------- what is shown
    def _trajectories(self, seed: int) -> str:
        """Whole trajectories of the tasks whose words are nearest, nearest last; found once an attempt."""
        if self._whole is None:
            self._whole = ""
            if self.memory is not None:
                kind = {"kind": self.task.kind} if self.how.same_kind else None
                found = self._asked(asked(self.task, self.steps[0].key), self.how.k, WHOLE, kind, seed)
                texts: list[tuple[Recalled, str]] = []
                for item in found:
                    texts.append((item, self._begun(item, self.how.chars - sum(len(text) for _, text in texts))))
                fitting = self._fitting([(item, text) for item, text in texts if text], found)
                self._whole = "".join(text for _, text in reversed(fitting))
        return self._whole

    def _aligned(self, step: Thought, seed: int) -> str:
        """The steps whose thoughts are nearest, one of each trajectory, with their neighbours; earliest first."""
        if self.memory is None or not step.thought:
            return ""
        left = {t.id for t in self.library.values() if not self.how.same_kind or t.kind == self.task.kind}
        items: dict[str, tuple[Recall, Recalled]] = {}
        while left and len(items) < self.how.k:  # the nearest of all; then of the other trajectories, and so on
            found = self._asked(step.thought, 1, STEP, {"trajectory": {"in": sorted(left)}, "found": True}, seed)
            if not found:
                break
            name = str(found[0].metadata["trajectory"])
            items[name] = (found, found[0])
            left.discard(name)
        hits = [Hit(name, int(item.metadata["step"]), item.similarity) for name, (_, item) in items.items()]
        texts: dict[str, str] = {}
        for name, (found, item) in items.items():  # nearest first: what does not fit is farther
            one = self.library[name]
            steps = window(int(item.metadata["step"]), len(one.steps), self.how.back, self.how.forward)
            offsets = {at: offset if self.how.marks else None for at, offset in steps}
            fitting = self._fitting([(item, example(self.env, one, offsets))], found, texts)
            if fitting:
                texts[name] = fitting[0][1]
        every = [item for _, item in items.values()]
        if items:
            step.recall = replace(next(iter(items.values()))[0], items=tuple(every))
        step.shown = tuple(item.id for item in every if item.metadata["trajectory"] in texts)
        return "".join(texts[hit.trajectory] for hit in first_of_each(hits, self.how.k) if hit.trajectory in texts)

    def _asked(self, text: str, k: int, kind: str, where: Any, seed: int) -> Recall:
        assert self.memory is not None
        found = self.memory.recall(text, k=k, kinds=[kind], filter=where, seed=seed, frozen=True, is_test=True)
        self._receipts.append(found)
        return found

    def _fitting(
        self, texts: Sequence[tuple[Recalled, str]], found: Recall, before: Mapping[str, str] | None = None
    ) -> list[tuple[Recalled, str]]:
        """Those that there is room for, in order; the receipt says which."""
        left = self.how.chars - sum(map(len, (before or {}).values()))
        fitting: list[tuple[Recalled, str]] = []
        for item, text in texts:
            if len(text) <= left:
                fitting.append((item, text))
                left -= len(text)
        ids = tuple(item.id for item, _ in fitting)
        assert self.memory is not None
        self.memory.shown(found, ids)
        self._new.append((found, ids))
        return fitting

    def _begun(self, item: Recalled, room: int) -> str:
        """A whole trajectory; where there is no room for it, as many of its first steps as there is room for."""
        one = self.library[str(item.metadata["trajectory"])]
        texts = (example(self.env, one, dict.fromkeys(range(n))) for n in range(len(one.steps), 0, -1))
        return next((text for text in texts if len(text) <= room), "")

    def _now(self, marks: bool) -> str:
        """The task at hand and its last steps, up to where the situation of now follows."""
        now = len(self.steps) - 1
        before = history(now, self.how.history)
        lines = [
            step_text(self.env, Step(one.key, one.thought, one.action), at - now if marks else None)
            for at, one in ((at, self.steps[at]) for at in before)
        ]
        return f"Now. Task: {self.task.text}\n{''.join(lines)}{mark(0) if marks else ''}"


def asked(task: Task, situation: str) -> str:
    """A task in words, with the situation in which it begins: what whole trajectories are found by."""
    return f"{task.text} {situation}"


def mark(offset: int) -> str:
    """How far a step is from the one in question, before its words."""
    return f"[step {offset:+d}] " if offset else "[step 0] "


def example(env: Env, one: Trajectory, offsets: Mapping[int, int | None]) -> str:
    """Steps of a trajectory in words, each with its offset to the one that was found (None: unmarked)."""
    lines = [step_text(env, one.steps[at], offset) for at, offset in offsets.items()]
    return f"Example. Task: {one.task}\n{''.join(lines)}\n"


def step_text(env: Env, step: Step, offset: int | None) -> str:
    """A step in words, with its order mark."""
    question, answer = env.labels
    thought = f"{THINKER}: {step.thought}\n" if step.thought else ""
    return f"{'' if offset is None else mark(offset)}{question}: {step.situation}\n{thought}{answer}: {step.action}\n"


def library_of(memory: Memory) -> dict[str, Trajectory]:
    """The trajectories that a memory holds as a whole."""
    items = memory.items()
    steps: dict[str, dict[int, Step]] = {}
    for item in items:
        if item.kind == STEP:
            about = item.metadata
            thought = item.key if about["thought"] else ""
            steps.setdefault(about["trajectory"], {})[about["step"]] = Step(about["situation"], thought, item.body)
    return {
        item.metadata["trajectory"]: Trajectory(
            item.metadata["trajectory"],
            item.body,
            item.metadata["kind"],
            tuple(step for _, step in sorted(steps[item.metadata["trajectory"]].items())),
        )
        for item in items
        if item.kind == WHOLE
    }


# ------------------------------------------------------------------------------------------------ which steps, in order
class Hit(NamedTuple):
    """A step that was found: its trajectory, its number in it (from 0), the cosine of its thought."""

    trajectory: str
    step: int
    cosine: float


def first_of_each(hits: Iterable[Hit], k: int) -> list[Hit]:
    """The nearest hit of each trajectory, of the ``k`` nearest of them; earliest step first.

    Of equal cosines the first trajectory by name comes first, then the earlier step.
    """
    found: dict[str, Hit] = {}
    for hit in sorted(hits, key=lambda hit: (-hit.cosine, hit.trajectory, hit.step)):
        if len(found) == k:
            break
        found.setdefault(hit.trajectory, hit)
    return sorted(found.values(), key=lambda hit: (hit.step, hit.trajectory))


def window(at: int, length: int, back: int, forward: int) -> list[tuple[int, int]]:
    """Steps ``at - back .. at + forward`` of a trajectory of ``length``, with offsets to ``at``; cut at its ends."""
    return [(step, step - at) for step in range(max(0, at - back), min(length - 1, at + forward) + 1)]


def history(now: int, length: int) -> list[int]:
    """The own steps before step ``now`` that are shown: ``length``, or as many as there are."""
    return list(range(max(0, now - length), now))
