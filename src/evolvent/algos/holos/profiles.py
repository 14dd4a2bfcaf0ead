"""Agents as profiles: made where a capability lacks agents, equipped by MMR, woken when they are asked.

    MMR    argmax over tools t of  lam rel(t) - (1 - lam) max over those chosen s of sim(t, s)

An agent's tools are lessons: solved questions that it carries in a memory of its own. Nothing else is awake of it until
it is asked; a profile and the file of its memory are all that there is of a dormant agent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from evolvent.core.errors import BadInput
from evolvent.core.protocols import Embedder, Env, Task
from evolvent.core.seeding import rng, seed_tree
from evolvent.memory.memory import Memory
from evolvent.runs.memory.attempt import Agent, attempt


@dataclass(frozen=True)
class Profile:
    """What the market knows of an agent; ``vector`` is the mean of its skills, of length 1."""

    id: str
    owner: str
    skills: tuple[str, ...]
    price: int
    tools: tuple[str, ...] = ()
    vector: tuple[float, ...] = ()


def mmr(relevance_N: ArrayLike, similarity_NN: ArrayLike, picks: int, lam: float) -> list[int]:
    """The tools chosen by maximal marginal relevance, in order; ties to the lowest index.

    Source: Carbonell and Goldstein 1998, The use of MMR, diversity-based reranking.
    """
    rel, sim, chosen = np.asarray(relevance_N, np.float64), np.asarray(similarity_NN, np.float64), list[int]()
    for _ in range(min(picks, len(rel))):
        score = lam * rel - (1.0 - lam) * (sim[:, chosen].max(1) if chosen else 0.0)
        score[chosen] = -np.inf
        chosen.append(int(score.argmax()))
    return chosen


def gap(vocabulary: Sequence[str], profiles: Sequence[Profile], candidates: int) -> dict[str, int]:
    """How many agents each capability lacks, those that lack none left out."""
    has = {name: sum(name in profile.skills for profile in profiles) for name in vocabulary}
    return {name: candidates - count for name, count in has.items() if count < candidates}


def generate(vocabulary: Sequence[str], candidates: int, skills: int, price: int, seed: int) -> list[Profile]:
    """Profiles until every capability has so many agents; each new one takes what lacks most, ties drawn."""
    found = list[Profile]()
    while lacking := gap(vocabulary, found, candidates):
        draw = rng(seed, "profile", len(found)).permutation(len(lacking))
        order = sorted(zip(lacking, draw, strict=True), key=lambda one: (-lacking[one[0]], one[1]))
        taken, name = tuple(sorted(skill for skill, _ in order[:skills])), f"agent{len(found)}"
        found.append(Profile(name, f"owner{len(found)}", taken, price))
    return found


def equip(profile: Profile, tasks: Sequence[Task], embedder: Embedder, picks: int, lam: float) -> Profile:
    """The profile with the tools that MMR chooses for each of its skills among solved tasks, and its vector.

    A tool's relevance is its cosine with the mean of the skill's tasks.
    """
    vec_ND, tools = embedder.embed([task.text for task in tasks]), list[str]()
    mean_KD = np.array([_unit(vec_ND[[task.kind == skill for task in tasks]].mean(0)) for skill in profile.skills])
    for mean_D in mean_KD:
        tools += [tasks[i].id for i in mmr(vec_ND @ mean_D, vec_ND @ vec_ND.T, picks, lam)]
    vector = tuple(_unit(mean_KD.mean(0)).round(6).tolist())
    return replace(profile, tools=tuple(dict.fromkeys(tools)), vector=vector)


def _unit(vec_D: np.ndarray) -> np.ndarray:
    return vec_D / max(float(np.linalg.norm(vec_D)), 1e-12)


def learned(profile: Profile, tasks: Mapping[str, Task], env: Env, seed: int) -> list[tuple[str, str]]:
    """What an agent's own reviewer says to the tasks that are its tools, right or not: question and answer."""
    said = [(tasks[tool], env.review(tasks[tool], seed_tree(seed, "reviewer", profile.id))) for tool in profile.tools]
    return [(task.text, correction.body) for task, correction in said if correction is not None]


def answered(
    env: Env, task: Task, agent: Agent, lessons: Sequence[tuple[str, str]], path: Path, embedder: Embedder
) -> dict[str, Any]:
    """Wake an agent, let it answer a question with its memory, and put it to sleep: answer, whether right, tokens.

    Raises:
        BadInput: the environment broke.
    """
    with closing(Memory(path, policy="rag", embedder=embedder, reward_range=env.reward_range, sync="normal")) as memory:
        if not memory.count():
            with memory.transaction():  # all of them, or none where it is killed
                for key, body in lessons:
                    memory.remember(key, body, source="reviewer")
        found = attempt(env, task, agent, memory, seed=task.seed, learn=False)
    if found.error is not None:
        raise BadInput("a question could not be asked", got=str(found.error), where=f"task {task.id}") from found.error
    tokens = found.tokens + found.prompt_tokens
    return {"answer": found.action, "right": found.success, "tokens": tokens}
