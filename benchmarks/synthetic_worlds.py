"""Two synthetic worlds in which the right credit for memories is known: a bandit world and a provenance world.

Both are made of prepared vectors, so that similarity is a dial and not a property of some embedder; everything else
(store, recall, settle) is the real library. ``benchmarks/memory_trial.py`` runs a policy in them.

The bandit world asks whether learned values find the memory that helps among memories that merely look right. The
provenance world asks whether credit reaches a memory that no reward ever touches, through what was written under it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from evolvent.core.config import config_hash
from evolvent.core.errors import BadInput
from evolvent.core.seeding import rng

# cosine of a vector to the centre of its cluster: tasks, the good memory, and the ranges for the others
TASK, GOOD, NEARER, FARTHER = 0.9, 0.8, (0.85, 0.95), (0.5, 0.75)
HELDOUT_PER_CLUSTER = 4


class VectorTable:
    """An ``Embedder`` that knows the vectors ``vec_ND`` (float32, unit norm) of N different texts."""

    def __init__(self, name: str, texts: Sequence[str], vec_ND: np.ndarray) -> None:
        self.id = f"table:{name}"
        self.dim = int(vec_ND.shape[1])
        self._row = {text: i for i, text in enumerate(texts)}
        self._vec_ND = vec_ND
        if len(self._row) != len(vec_ND):
            raise BadInput("texts and vectors differ in number", got=(len(self._row), len(vec_ND)), where="VectorTable")

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors of known texts: float32 ``[N, dim]``.

        Raises:
            BadInput: a text that is not in the table.
        """
        unknown = [text for text in texts if text not in self._row]
        if unknown:
            raise BadInput("a text without a vector", got=unknown[0], expected="texts of this world", where=self.id)
        return self._vec_ND[[self._row[text] for text in texts]]


# ------------------------------------------------------------------------------------------------ bandit world
@dataclass(frozen=True)
class BanditOptions:
    """Settings of the bandit world.

    Success has probability ``p1`` with the good memory in sight and ``p0`` without it, less a penalty for each
    misleading memory in sight, clipped to 0..1; a useless memory changes nothing.
    """

    clusters: int = 10
    """Kinds of task; each has one good procedure."""
    tasks_per_cluster: int = 6
    """Tasks of the stream in each cluster; all come once in every pass, in another order."""
    passes: int = 10
    """Passes over the stream."""
    bank_size: int = 100
    """Memories in all; those that belong to no cluster are background with random vectors."""
    misleading: int = 3
    """Memories of each cluster that hold a wrong procedure."""
    useless: int = 4
    """Memories of each cluster that neither help nor harm."""
    more_similar: float = 0.0
    """Share of the misleading memories that are more similar to the tasks than the good one."""
    companions: int = 0
    """Memories with the very vector of the good one: similarity shows them together."""
    companion_penalty: float = 0.0
    """What a companion in sight costs; 0: it is merely useless."""
    p1: float = 0.9
    """Success with the good memory."""
    p0: float = 0.4
    """Success without."""
    penalty: float = 0.2
    """What each misleading memory in sight costs."""
    reward_noise: float = 0.0
    """Standard deviation of noise on the reward, which stays within 0..1."""
    judge_error: float = 0.0
    """Probability that the reward reports the opposite."""
    drift: float = 0.0
    """Share of clusters in which, at half time, good and first misleading procedure change roles."""
    dim: int = 64
    """Length of the vectors."""


@dataclass(frozen=True)
class Planted:
    """One memory of the bank; ``cluster`` is -1 for background, ``slot`` counts within cluster and role."""

    cluster: int
    role: str
    slot: int
    key: str
    body: str


@dataclass(frozen=True)
class BanditTask:
    """One task; ``index`` is its place among all tasks of the stream (or of the held-out ones)."""

    index: int
    cluster: int
    text: str


class Bandit:
    """The bandit world of one seed: a planted bank, a stream of tasks, and what really helps.

    Attributes: ``bank``, the memories in the order to store them (shuffled, so that age says nothing); ``tasks`` of the
    stream and ``heldout`` ones, in order of cluster; ``embedder`` for ``Memory``.

    Raises:
        BadInput: an option is out of range, or the bank is smaller than what the clusters need.
    """

    def __init__(self, options: BanditOptions, seed: int) -> None:
        self.options, self.seed = _checked(options), seed
        self.centre_text = [f"centre {c}" for c in range(options.clusters)]
        make = rng(seed, "bandit", "vectors")
        centre_CD = _unit(make.normal(size=(options.clusters, options.dim)))
        texts, vectors = list(self.centre_text), list(centre_CD)
        self.tasks: list[BanditTask] = []
        self.heldout: list[BanditTask] = []
        for name, into, each in (
            ("task", self.tasks, options.tasks_per_cluster),
            ("heldout", self.heldout, HELDOUT_PER_CLUSTER),
        ):
            for cluster in range(options.clusters):
                for _ in range(each):
                    into.append(BanditTask(len(into), cluster, f"{name} {len(into)}"))
                    texts.append(into[-1].text)
                    vectors.append(_at(centre_CD[cluster], TASK, make))
        planted: list[Planted] = []
        for cluster in range(options.clusters):
            for role, slot, vector in _members(options, centre_CD[cluster], make):
                planted.append(_plant(len(planted), cluster, role, slot))
                texts.append(planted[-1].key)
                vectors.append(vector)
        self.n_clustered = len(planted)
        background = make.normal(size=(options.bank_size - len(planted), options.dim))
        for _ in range(len(background)):
            planted.append(_plant(len(planted), -1, "background", 0))
            texts.append(planted[-1].key)
        vec_ND = np.concatenate([np.array(vectors), _unit(background)]).astype(np.float32)
        self.embedder = VectorTable(f"bandit-{config_hash(options)}-{seed}", texts, vec_ND)
        order = rng(seed, "bandit", "order").permutation(len(planted))
        self.bank = [planted[i] for i in order]
        self._by_body = {m.body: m for m in planted}
        drifting = rng(seed, "bandit", "drift").permutation(options.clusters)
        self._drifting = set(drifting[: round(options.drift * options.clusters)].tolist())

    def rows(self) -> list[dict[str, Any]]:
        """The bank as rows for ``Memory.remember_many``."""
        return [{"key": m.key, "body": m.body, "merge": None} for m in self.bank]

    def stream(self) -> Iterable[tuple[int, BanditTask]]:
        """``(pass number from 0, task)`` in the order in which tasks arrive."""
        for number in range(self.options.passes):
            for i in rng(self.seed, "bandit", "pass", number).permutation(len(self.tasks)).tolist():
                yield number, self.tasks[i]

    def drifted(self, pass_number: int) -> bool:
        """Whether half time has passed."""
        return self.options.drift > 0.0 and pass_number >= self.options.passes // 2

    def role(self, body: str, cluster: int, pass_number: int) -> str:
        """What a memory is for tasks of a cluster: good, misleading, companion, useless or background."""
        m = self._by_body[body]
        if m.cluster != cluster:
            return "background"
        if self.drifted(pass_number) and cluster in self._drifting and m.slot == 0:
            return {"good": "misleading", "misleading": "good"}.get(m.role, m.role)
        return m.role

    def planted(self, body: str) -> Planted:
        """The memory with this body."""
        return self._by_body[body]

    def chance(self, task: BanditTask, bodies: Iterable[str], pass_number: int) -> float:
        """Probability of success when the agent sees these memories."""
        o = self.options
        roles = [self.role(body, task.cluster, pass_number) for body in bodies]
        p = o.p1 if "good" in roles else o.p0
        p -= o.penalty * roles.count("misleading") + o.companion_penalty * roles.count("companion")
        return min(1.0, max(0.0, p))

    def reward(self, chance: float, task: BanditTask, pass_number: int) -> float:
        """A reward for an attempt with this probability of success, with noise and the judge's errors.

        The random numbers belong to task and pass, not to the policy: policies are compared under the same luck.
        """
        dice = rng(self.seed, "bandit", "reward", task.index, pass_number)
        success, wrong, noise = dice.random() < chance, dice.random() < self.options.judge_error, dice.normal()
        return min(1.0, max(0.0, float(success != wrong) + self.options.reward_noise * noise))

    def luck(self) -> np.ndarray:
        """Difficulty of each task of the stream, float64 ``[N]`` in 0..1: it is solved while its chance is above."""
        return rng(self.seed, "bandit", "luck").random(len(self.tasks))


def _checked(o: BanditOptions) -> BanditOptions:
    need = o.clusters * (1 + o.misleading + o.useless + o.companions)
    shares = {k: v for k, v in asdict(o).items() if isinstance(v, float) and k != "reward_noise" and not 0 <= v <= 1}
    if shares:
        raise BadInput("shares and probabilities lie in 0..1", got=shares, where="BanditOptions")
    if min(o.clusters, o.tasks_per_cluster, o.passes) < 1 or o.dim < 2 or o.reward_noise < 0:
        raise BadInput("sizes are at least 1, dim at least 2, noise at least 0", got=asdict(o), where="BanditOptions")
    if o.drift > 0 and o.misleading < 1:
        raise BadInput("drift needs a misleading memory that becomes good", got=o.misleading, where="BanditOptions")
    if o.bank_size < need:
        raise BadInput(
            "the bank is too small", got=o.bank_size, expected=f">= {need} for these clusters", where="BanditOptions"
        )
    return o


def _members(o: BanditOptions, centre_D: np.ndarray, make: np.random.Generator) -> list[tuple[str, int, np.ndarray]]:
    """Role, slot and vector of the memories of one cluster."""
    good = _at(centre_D, GOOD, make)
    out = [("good", 0, good)] + [("companion", i, good) for i in range(o.companions)]
    nearer = round(o.more_similar * o.misleading)
    for i in range(o.misleading):
        out.append(("misleading", i, _at(centre_D, make.uniform(*(NEARER if i < nearer else FARTHER)), make)))
    out += [("useless", i, _at(centre_D, make.uniform(*FARTHER), make)) for i in range(o.useless)]
    return out


def _plant(number: int, cluster: int, role: str, slot: int) -> Planted:
    # neither key nor body says what the memory is worth
    return Planted(cluster, role, slot, f"case {number}", f"procedure {number}")


def _unit(x: np.ndarray) -> np.ndarray:
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def _at(centre_D: np.ndarray, cosine: float, make: np.random.Generator) -> np.ndarray:
    """A unit vector with this cosine to the centre, in a random direction."""
    side = make.normal(size=centre_D.shape)
    side = _unit(side - (side @ centre_D) * centre_D)
    return cosine * centre_D + np.sqrt(1.0 - cosine**2) * side


# ------------------------------------------------------------------------------------------------ provenance world
@dataclass(frozen=True)
class ChainOptions:
    """Settings of the provenance world. An attempt at a topic passes ``depth`` stages and is rewarded at the last.

    At each stage one memory is shown; success has probability ``p0 + (p1 - p0) × share of stages with a good one``.
    """

    topics: int = 5
    """Independent chains."""
    depth: int = 4
    """Stages of each."""
    attempts: int = 60
    """Attempts at each topic."""
    wrong_edges: float = 0.0
    """Probability that a memory's parent is the wrong one of the stage before."""
    p1: float = 0.9
    """Success when every stage had its good memory."""
    p0: float = 0.1
    """Success when none had."""
    dim: int = 32
    """Length of the vectors; at least topics × depth."""


@dataclass(frozen=True)
class Link:
    """A memory of the provenance world; ``parent`` is the body of the memory it was written under, or ``None``."""

    topic: int
    stage: int
    good: bool
    key: str
    body: str
    parent: str | None


class Chain:
    """The provenance world of one seed: every stage of a topic has a good and a bad memory with the same key.

    Attributes: ``stages``, memories by stage, to be stored one after the other; ``embedder`` for ``Memory``.
    """

    def __init__(self, options: ChainOptions, seed: int) -> None:
        if min(options.topics, options.attempts) < 1 or options.depth < 2 or not 0 <= options.wrong_edges <= 1:
            raise BadInput("an option is out of range", got=asdict(options), where="ChainOptions")
        self.options, self.seed = options, seed
        make = rng(seed, "chain", "world")
        texts = [self.text(t, s) for t in range(options.topics) for s in range(options.depth)]
        if len(texts) > options.dim:
            raise BadInput(
                "dim is too small", got=options.dim, expected=f">= {len(texts)} stages", where="ChainOptions"
            )
        # orthogonal: no stage ever recalls a memory of another
        vec_ND = np.linalg.qr(make.normal(size=(options.dim, options.dim)))[0][: len(texts)].astype(np.float32)
        self.embedder = VectorTable(f"chain-{config_hash(options)}-{seed}", texts, vec_ND)
        self.stages = [
            [self._link(topic, stage, good, make) for topic in range(options.topics) for good in _either(make)]
            for stage in range(options.depth)
        ]
        self._good = {link.body: link.good for stage in self.stages for link in stage}

    def _link(self, topic: int, stage: int, good: bool, make: np.random.Generator) -> Link:
        above = good != bool(make.random() < self.options.wrong_edges)
        parent = _body(topic, stage - 1, above) if stage else None
        return Link(topic, stage, good, self.text(topic, stage), _body(topic, stage, good), parent)

    def text(self, topic: int, stage: int) -> str:
        """What the agent is asked at a stage."""
        return f"topic {topic} stage {stage}"

    def rows(self, stage: int, ids: Mapping[str, str]) -> list[dict[str, Any]]:
        """Rows of a stage for ``Memory.remember_many``; ``ids`` maps bodies of the stage before to memory ids."""
        common = {"merge": None, "polarity": "success"}  # each came out of a stage that was passed
        return [
            {"key": m.key, "body": m.body, "parents": [ids[m.parent]] if m.parent else [], **common}
            for m in self.stages[stage]
        ]

    def chance(self, shown: Sequence[Sequence[str]]) -> float:
        """Probability of success; ``shown`` holds the bodies in sight at each stage."""
        o = self.options
        right = sum(any(self._good[body] for body in bodies) for bodies in shown)
        return o.p0 + (o.p1 - o.p0) * right / o.depth

    def reward(self, chance: float, topic: int, attempt: int) -> float:
        """1 or 0, with random numbers that belong to topic and attempt."""
        return float(rng(self.seed, "chain", "reward", topic, attempt).random() < chance)

    def is_good(self, body: str) -> bool:
        """Whether a memory is the good one of its stage."""
        return self._good[body]


def _body(topic: int, stage: int, good: bool) -> str:
    return f"way {'b' if good == (topic % 2 == 0) else 'a'} through stage {stage} of topic {topic}"


def _either(make: np.random.Generator) -> list[bool]:
    return [True, False] if make.random() < 0.5 else [False, True]
