"""Memento: an estimate ranks once it predicts held-out questions better than the cosine, and not before."""

import zlib

import numpy as np
import pytest

from evolvent.core.errors import BadInput
from evolvent.memory.memory import Memory
from evolvent.memory.policies import preset
from evolvent.memory.rule import Pairs
from evolvent.memory.rules import memento

TOPICS, CASES = 4, 24


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def opened(request, tmp_path):
    made = []

    def make(**settings):
        path = (
            tmp_path / f"{len(made)}.db" if request.param == "sqlite" else request.getfixturevalue("postgres_store")()
        )
        made.append(Memory(path, policy=preset("memento", **{"k": 1, "every": 8, **settings}), embedder="hash:64"))
        return made[-1]

    yield make
    for memory in made:
        memory.close()


def filled(memory):
    for i in range(CASES):
        memory.remember(f"topic{i % TOPICS} thing {i}", f"body {i}", polarity="success" if i % 2 else "failure")
    return memory


def used(memory, n, worth, first=0):
    """Rewards of ``n`` uses, each at a question of its own."""
    got = []
    for t in range(first, first + n):
        recall = memory.recall(f"topic{t % TOPICS} question {t * 7919 % 1009}")
        got.append(float(worth(recall.items[0])))
        memory.settle(recall, got[-1])
    return got


def right(item):
    return item.polarity == "success"


@pytest.mark.parametrize("learn", ["kernel", "classifier"])
def test_what_helps_is_learned_and_the_cosine_alone_does_not(opened, learn):
    plain, taught = (used(filled(opened(learn=how)), 160, right) for how in ("no", learn))
    assert np.mean(taught[-40:]) > 0.9 and np.mean(plain[-40:]) < 0.7


@pytest.mark.parametrize("learn", ["kernel", "classifier"])
def test_until_it_beats_the_cosine_cases_come_by_cosine(opened, learn):
    memory, plain = filled(opened(learn=learn)), filled(opened(learn="no"))
    noise = np.random.default_rng(0).integers(0, 2, 40).tolist()
    for t in range(12):  # too few questions are held out
        a, b = (m.recall(f"topic{t % TOPICS} question {t}") for m in (memory, plain))
        assert a.ids == b.ids and [i.score for i in a] == [i.relevance for i in a]
        memory.settle(a, noise[t])
        plain.settle(b, noise[t])


def pairs(questions, cases, rewards, signal, dim=8):
    """Uses whose case vector tells the reward by ``signal``."""
    rng = np.random.default_rng(1)
    query = rng.normal(size=(len(cases), dim)).astype(np.float32)
    key = rng.normal(size=(len(cases), dim)).astype(np.float32)
    key[:, 0] = signal * np.sign(query[:, 0]) * (2 * np.array(rewards) - 1)
    query /= np.linalg.norm(query, axis=1, keepdims=True)
    return Pairs(questions, cases, query, key, np.full(len(cases), 0.5), np.array(rewards, float))


def test_whole_questions_are_held_out_and_an_estimate_that_tells_nothing_does_not_rank():
    n = 240
    questions, rewards = [f"q{i // 2}" for i in range(n)], [i // 2 % 2 for i in range(n)]
    config = memento.Config(learn="classifier")
    assert memento.better(config, pairs(questions, list(range(n)), rewards, signal=6.0))
    # with rows of one question on both sides it would learn each question by heart
    result = pairs(questions, list(range(n)), rewards, signal=0.0)
    by_heart = result._replace(
        query_PD=np.repeat(result.query_PD[::2], 2, axis=0), key_PD=np.repeat(result.key_PD[::2], 2, axis=0)
    )
    assert not memento.better(config, by_heart)
    held = [zlib.crc32(q.encode()) % memento.HELD_OUT == 0 for q in questions]
    few = [i for i in range(n) if not held[i]] + [i for i in range(n) if held[i]][:4]
    assert not memento.better(
        config,
        result._replace(
            question_P=[questions[i] for i in few],
            case_P=few,
            query_PD=result.query_PD[few],
            key_PD=result.key_PD[few],
            success_P=result.success_P[few],
            reward_P=result.reward_P[few],
        ),
    )


def test_the_same_store_ranks_the_same_again_and_a_voided_outcome_is_not_learned_from(tmp_path):
    path = tmp_path / "a.db"
    policy = preset("memento", learn="classifier", k=2, every=8)
    with Memory(path, policy=policy, embedder="hash:64") as memory:
        used(filled(memory), 96, right)
        first = [(i.id, i.score) for i in memory.recall("topic1 anything", frozen=True)]
    memento._model.cache_clear()
    with Memory(path, policy=policy, embedder="hash:64") as memory:
        again = memory.recall("topic1 anything", frozen=True)
        assert [(i.id, i.score) for i in again] == first
        assert [i.score for i in again] != [i.relevance for i in again], "the estimate ranks"


def test_an_empty_memory_and_a_first_recall_are_fine_and_settings_are_checked(opened):
    memory = opened(learn="kernel")
    assert not memory.recall("anything")
    memory.remember("a", "b")
    assert len(memory.recall("anything")) == 1
    for wrong in ({"learn": "deep"}, {"every": 0}, {"width": 0.0}, {"ridge": -1.0}):
        with pytest.raises(BadInput):
            preset("memento", **wrong)
