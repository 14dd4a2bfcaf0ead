"""Value worlds: advice whose effect on success is known, and a loop of tasks that a memory goes through in them.

Prepared vectors stand in for an embedder and a coin for the model; store, recall and settle are the real library.
Every kind of task has a base rate of success, which advice in sight raises or lowers. In a *planted* world the advice
is there from the start; in a *stream* it is written as in the README: a reviewer's correction after a failure, which
may be wrong, and the agent's own success, with what it recalled as parents.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from synthetic_worlds import VectorTable

from evolvent.core.config import config_hash
from evolvent.core.seeding import rng
from evolvent.memory.memory import Memory
from evolvent.memory.policies import Policy

DIM, BLOCKS = 48, 14  # length of vectors, points of a curve


@dataclass(frozen=True)
class Options:
    """Settings of a value world; probabilities of success are clipped to 0..1."""

    base: float = 0.4
    """Success without advice."""
    gain: float = 0.4
    """What right advice adds."""
    loss: float = 0.2
    """What wrong advice takes."""
    kinds: int = 6
    questions: int = 6
    """Different questions of a kind."""
    tasks: int = 420
    right: int = 1
    """Right, wrong and useless advice of each kind in a planted world."""
    wrong: int = 2
    useless: int = 2
    companions: int = 0
    """Advice with the very key of the right one, which costs ``companion_loss``, or adds it, beside the right one."""
    companion_loss: float = 0.0
    common: float = 0.0
    """Cosine of the centres of any two kinds: above 0 advice for one kind is recalled for the others too."""
    nearer: bool = False
    """Wrong advice is nearer to the tasks than right advice."""
    nearest: bool = False
    """Right advice is nearer than any other."""
    mistaken: float | None = None
    """Share of corrections that are wrong: a stream; none: a planted world."""
    follows: Literal["all", "one", "first"] = "all"
    """all: the best and the worst advice in sight count; one: the first with probability ½, else any other in sight;
    first: that alone."""
    drift: bool = False
    """At half time right advice turns wrong in every kind, and new advice arrives."""
    judge_error: float = 0.0
    delay: int = 0
    """Tasks until an outcome is known."""
    missing: float = 0.0
    """Share of outcomes that never come."""
    long: float = 0.0
    """Share of prompts in which one memory less has room; these tasks succeed half as often."""
    k: int = 3


class Advice(NamedTuple):
    """What a memory says: of which kind, what it is (right, wrong, useless, companion), and by which definition."""

    kind: int
    role: str
    version: int


class Agent(Protocol):
    """What goes through a world: a memory, or a stand-in for one."""

    def write(self, key: str, body: str, parents: Any, source: str) -> None: ...

    def see(self, question: str, room: int) -> tuple[Any, list[str]]: ...

    def learn(self, receipt: Any, reward: float | None, action: str | None) -> None: ...


class World:
    """One world of one seed: keys, vectors and luck, the same whatever policy goes through it."""

    def __init__(self, options: Options, seed: int) -> None:
        self.options, self.seed = options, seed
        make = rng(seed, "value", "vectors")
        self.texts: list[str] = []
        self.vectors: list[np.ndarray] = []
        self.keys: list[list[str]] = []
        shared = _unit(make.normal(size=DIM)) if options.common else np.zeros(DIM)
        for kind in range(options.kinds):
            centre = _unit(make.normal(size=DIM))
            if options.common:
                centre = _unit(centre - (centre @ shared) * shared)
            centre = math.sqrt(options.common) * shared + math.sqrt(1.0 - options.common) * centre
            self.keys.append(
                [self._text(f"kind{kind} question{kind}x{i}", centre, 0.9, make) for i in range(options.questions)]
            )
        self.start = [self._plant(kind, 0, make) for kind in range(options.kinds)]
        self.later = [self._plant(kind, 1, make) for kind in range(options.kinds)] if options.drift else []
        self.embedder = VectorTable(
            f"value-{config_hash(options)}-{seed}", self.texts, np.array(self.vectors, np.float32)
        )
        self.order = rng(seed, "value", "tasks").integers(0, options.kinds * options.questions, options.tasks).tolist()
        self.luck = rng(seed, "value", "luck").random((options.tasks, 8))

    def _text(self, text: str, centre: np.ndarray, cosine: float, make: np.random.Generator) -> str:
        side = make.normal(size=DIM)
        side = _unit(side - (side @ centre) * centre)
        self.texts.append(text)
        self.vectors.append(cosine * centre + np.sqrt(1.0 - cosine**2) * side)
        return text

    def _plant(self, kind: int, version: int, make: np.random.Generator) -> list[tuple[str, str]]:
        """Keys and bodies of the advice of a kind: in a planted world."""
        o = self.options
        if o.mistaken is not None:
            return []
        centre = _unit(np.mean([self.vectors[self.texts.index(t)] for t in self.keys[kind]], axis=0))
        many = {"right": o.right, "wrong": 0 if version else o.wrong, "useless": 0 if version else o.useless}
        near_by = {"wrong": o.nearer, "right": o.nearest}
        rows = []
        for role, n in many.items():
            for i in range(n):
                near = 0.9 if near_by.get(role) else make.uniform(0.7, 0.85)
                key = self._text(f"kind{kind} case{version}{role[0]}{i}", centre, near, make)
                rows.append((key, body_of(Advice(kind, role, version), i)))
        if rows and not version:
            rows += [(rows[0][0], body_of(Advice(kind, "companion", 0), i)) for i in range(o.companions)]
        order = make.permutation(len(rows))
        return [rows[i] for i in order]

    def effect(self, advice: Advice, version: int) -> float:
        """What advice of the right kind changes, when this definition holds."""
        o = self.options
        if advice.role == "right":
            return o.gain if advice.version == version else -o.loss
        return {"wrong": -o.loss, "companion": -max(0.0, o.companion_loss), "useless": 0.0}[advice.role]


def body_of(advice: Advice, name: int | str) -> str:
    """The text of advice: what it is stands in it for the world; a memory makes nothing of it."""
    return f"do {advice.role}{advice.kind}v{advice.version} then {name}"


def advice_of(body: str) -> Advice:
    """What a text advises."""
    head = body.split()[1]
    role = head.rstrip("0123456789v")
    kind, version = head[len(role) :].split("v")
    return Advice(int(kind), role, int(version))


def _unit(x: np.ndarray) -> np.ndarray:
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


# ---------------------------------------------------------------------------------------------------------- the agents
class WithMemory:
    """The real ``Memory``, in a store in memory.

    ``use``: it is given what the agent did. ``answers``: what is written is of one kind; else of a kind for each text,
    so that none is another answer to the same question.
    """

    def __init__(self, world: World, policy: Policy, *, use: bool = True, answers: bool = True) -> None:
        self.policy, self.use, self.answers = policy, use, answers
        self.memory = Memory(policy=policy, embedder=world.embedder, seed=world.seed, sync="normal")

    def write(self, key: str, body: str, parents: Any, source: str) -> None:
        polarity = "success" if source == "self" else "neutral"
        kind = "case" if self.answers else body.replace(" ", "-")
        self.memory.remember(key, body, kind=kind, parents=parents, polarity=polarity, source=source)

    def see(self, question: str, room: int) -> tuple[Any, list[str]]:
        recall = self.memory.recall(question)
        if len(recall.items) > room:
            self.memory.shown(recall, recall.ids[:room])
        return recall, [item.body for item in recall.items[:room]]

    def learn(self, receipt: Any, reward: float | None, action: str | None) -> None:
        self.memory.settle(receipt, reward, action=action if self.use else None)


class Oracle:
    """Knows what helps: it sees the right advice as soon as there is any, and nothing else."""

    def __init__(self, world: World) -> None:
        self.world, self.bodies, self.version = world, [], 0

    def write(self, key: str, body: str, parents: Any, source: str) -> None:
        self.bodies.append(body)

    def see(self, question: str, room: int) -> tuple[Any, list[str]]:
        kind = question.split()[0][len("kind") :]
        good = [b for b in self.bodies if advice_of(b) == Advice(int(kind), "right", self.version)]
        more = [b for b in self.bodies if advice_of(b)[:2] == (int(kind), "companion")]
        return None, good[:1] + (more if self.world.options.companion_loss < 0.0 else [])

    def learn(self, receipt: Any, reward: float | None, action: str | None) -> None:
        pass


# ------------------------------------------------------------------------------------------------------------ the loop
def run(world: World, agent: Agent) -> dict[str, Any]:
    """An agent through a world.

    Returns:
        success: mean probability of success. regret, late, after: mean shortfall to what the best advice in the store
        would have given: over all tasks, the last third, and the sixth that follows the drift. seen: memories in sight.
        curve: regret in each fourteenth of the tasks.
    """
    o, chances, best, seen = world.options, [], [], 0
    stored = [dict.fromkeys(body for _, body in rows) for rows in world.start]
    for rows in world.start:
        for key, body in rows:
            agent.write(key, body, (), "bank")
    waiting: deque[tuple[int, Any, float | None, str | None]] = deque()
    for t, which in enumerate(world.order):
        version = int(o.drift and t >= o.tasks // 2)
        if isinstance(agent, Oracle):
            agent.version = version
        if version and t == o.tasks // 2:
            for kind, rows in enumerate(world.later):
                for key, body in rows:
                    stored[kind][body] = None
                    agent.write(key, body, (), "bank")
        kind, number = divmod(which, o.questions)
        question, luck = world.keys[kind][number], world.luck[t]
        long = luck[0] < o.long
        receipt, bodies = agent.see(question, o.k - long)
        followed, p = _chance(world, kind, bodies, version, luck)
        top = o.base + max((0.0, *(world.effect(advice_of(b), version) for b in stored[kind])))
        top += _complement(world, list(map(advice_of, stored[kind])), version)
        chances.append(min(1.0, max(0.0, p)) * (0.5 if long else 1.0))
        best.append(min(1.0, top) * (0.5 if long else 1.0))
        seen += len(bodies)
        ok = luck[1] < chances[-1]
        reward = None if luck[2] < o.missing else float(ok != (luck[3] < o.judge_error))
        waiting.append((t + o.delay, receipt, reward, followed if o.mistaken is not None else None))
        while waiting and waiting[0][0] <= t:
            _, shown, earned, done = waiting.popleft()
            if earned is not None:
                agent.learn(shown, earned, done)
        if o.mistaken is not None:
            body = _lesson(world, kind, number, bool(ok), followed, version, luck)
            if body is not None:
                stored[kind][body[0]] = None
                agent.write(question, body[0], receipt if body[1] == "self" else (), body[1])
    regret = np.array(best) - np.array(chances)
    half, n = o.tasks // 2, o.tasks
    return {
        "success": float(np.mean(chances)),
        "regret": float(regret.mean()),
        "late": float(regret[-(n // 3) :].mean()),
        "after": float(regret[half : half + n // 6].mean()) if o.drift else None,
        "seen": seen / n,
        "curve": [round(float(block.mean()), 4) for block in np.array_split(regret, BLOCKS)],
    }


def _chance(world: World, kind: int, bodies: Sequence[str], version: int, luck: np.ndarray) -> tuple[str | None, float]:
    """The advice that is followed, and the probability of success."""
    effects = [world.effect(a, version) if a.kind == kind else 0.0 for a in map(advice_of, bodies)]
    base = world.options.base
    if not bodies:
        return None, base
    if world.options.follows != "all":
        first = world.options.follows == "first" or luck[4] < 0.5
        i = 0 if first or len(bodies) == 1 else 1 + int(luck[5] * (len(bodies) - 1))
        return bodies[i], base + effects[i]
    top = int(np.argmax(effects))
    p = base + max(0.0, effects[top]) + min(0.0, *effects, 0.0)
    return bodies[top], p + _complement(world, [a for a in map(advice_of, bodies) if a.kind == kind], version)


def _complement(world: World, advice: Sequence[Advice], version: int) -> float:
    """What a companion adds beside right advice."""
    both = {"companion"} < {a.role for a in advice if a.role == "companion" or world.effect(a, version) > 0.0}
    return max(0.0, -world.options.companion_loss) if both else 0.0


def _lesson(
    world: World, kind: int, number: int, ok: bool, followed: str | None, version: int, luck: np.ndarray
) -> tuple[str, str] | None:
    """What is written after a task of a stream, and by whom: own success, or the reviewer's correction."""
    if ok:
        advice = Advice(kind, "right", version) if followed is None else advice_of(followed)
        return body_of(advice, f"q{number}"), "self"
    if luck[6] >= 0.8:  # the reviewer says nothing
        return None
    mistaken = luck[7] < (world.options.mistaken or 0.0)
    return body_of(Advice(kind, "wrong" if mistaken else "right", version), f"q{number}"), "reviewer"
