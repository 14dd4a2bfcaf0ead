"""What a recall lets in: the cosine decides, words only order; with the real embedder and questions in other words."""

import math

import numpy as np
import pytest

from evolvent import Memory
from evolvent.memory import embedders
from evolvent.memory.policies import preset
from evolvent.memory.relevance import coverage, hybrid

# the memory's key, and the same need in other words: no content word in common
PAIRS = (
    ("How do I reset my password?", "I forgot my login credentials and can't get in"),
    ("The app crashes right after opening", "Your program closes itself the second I launch it"),
    ("Invoice shows the wrong company name", "Our firm is misspelled on the bill you sent"),
    ("Substitute for eggs in a cake", "I'm baking for a vegan, what replaces the binder?"),
    ("Why is my bread dough not rising?", "The loaf stays flat even after hours in a warm place"),
    ("Lost luggage at the airport", "My suitcase never showed up on the carousel after landing"),
    ("Train from Paris to Amsterdam", "Getting by rail from the French capital to the Netherlands"),
    ("Sort a dictionary by value in Python", "Order the entries of a dict according to what they map to"),
    ("Renew a prescription online", "I'm out of my tablets and want more without a visit"),
    ("Find a dentist open at the weekend", "My tooth hurts and it is Saturday"),
    ("Card was stolen, block it", "Somebody took my wallet and could pay with it"),
    ("Pay off a mortgage early", "Can I clear the house loan ahead of schedule?"),
)
OTHERS = [
    f"{verb} {what} {where}"
    for verb in ("How do I export", "Best spices for", "Opening hours of", "What is the fee for", "Add logging to")
    for what in ("the usage report", "salmon", "an eye examination", "a pension plan", "a message queue")
    for where in ("in the mobile app", "for six guests", "during the holidays", "for minors", "in Go")
]
UNRELATED = ("Who composed the opera about a barber?", "Rules for castling in chess", "How old is the universe?")


@pytest.fixture(scope="module")
def memory():
    with Memory(sync="normal") as made:
        made.remember_many([{"key": key, "body": f"answer to {key}"} for key in [*(k for k, _ in PAIRS), *OTHERS]])
        yield made


def found(memory, policy):
    recalls = [(key, memory.recall(question, k=3, policy=policy, frozen=True)) for key, question in PAIRS]
    return sum(key in [item.key for item in recall.items] for key, recall in recalls)


def test_a_paraphrase_is_found_as_well_as_by_similarity_alone(memory):
    assert found(memory, "memlift") >= found(memory, "rag") - 1 and found(memory, "memlift") >= 10


def test_what_fits_nothing_gets_nothing(memory):
    assert sum(len(memory.recall(task, frozen=True).items) for task in UNRELATED) <= 1


@pytest.mark.parametrize(
    ("right", "task", "wrong"),
    [
        (
            "Return shoes that do not fit",
            "The boots I bought from you are too small",
            "How do I polish the boots I bought?",
        ),
        (
            "Reschedule a surgery",
            "I can't come in for my operation on that date",
            "On what date does my contract come in force?",
        ),
        (
            "Memory leak in a long-running service",
            "The daemon eats more and more RAM until it is killed",
            "Until when is the daemon of the printer supported?",
        ),
        (
            "Grow tomatoes on a balcony",
            "Vegetables in pots when you only have an apartment",
            "When do you only pay for an apartment in cash?",
        ),
    ],
)
def test_the_nearest_stays_however_many_keys_share_words_with_the_task(right, task, wrong):
    many = [wrong, *(f"{wrong} ({i})" for i in range(30))]  # more than a pool holds, all more relevant by their words
    with Memory(sync="normal") as memory:
        memory.remember_many([{"key": key, "body": key, "merge": None} for key in [right, *many, *OTHERS]])
        assert memory.recall(task, k=1, policy="rag").items[0].key == right
        for relevance in ("cosine", "hybrid"):
            recall = memory.recall(task, policy=preset("memlift", relevance=relevance), frozen=True)
            pool = [row["key"] for row in memory.explain(recall).data["pool"]]
            assert right in pool and len(pool) <= memory.policy.pool


def test_similarity_is_the_cosine_and_relevance_what_ranks(memory):
    key, task = PAIRS[0]
    recall = memory.recall(task, policy=preset("memlift", relevance="hybrid"), frozen=True)
    item = next(i for i in recall.items if i.key == key)
    a, b = memory.embedder.embed([key, task])
    assert (
        item.similarity == pytest.approx(float(np.dot(a, b)), abs=1e-5)
        and item.similarity > 0.25 == memory.health()["gate"]
    )
    assert item.relevance < item.similarity, "hardly a word in common"
    explained = next(row for row in memory.explain(recall).data["pool"] if row["id"] == item.id)
    assert (explained["similarity"], explained["relevance"]) == (item.similarity, item.relevance)
    plain = memory.recall(task, policy="memrl", frozen=True).items[0]
    assert plain.similarity == plain.relevance
    assert all(i.similarity > 0.5 for i in memory.recall(task, policy=preset("memlift", gate=0.5)).items)


def test_words_that_all_of_the_nearest_have_tell_nothing():
    """By hand: of three keys, a word of one weighs ln(1 + 2.5 / 1.5)³, of two ln(1 + 1.5 / 2.5)³, and so on."""
    keys = ["red eye flights in may", "long haul flights in may", "flights in june"]
    one, two, all_ = (math.log1p((3 - n + 0.5) / (n + 0.5)) ** 3 for n in (1, 2, 3))
    none = math.log1p(3.5 / 0.5) ** 3
    total = one + two + 2 * all_
    want = [1.0, (two + 2 * all_) / total, 2 * all_ / total]
    assert coverage("red flights in May", keys) == pytest.approx(want)
    assert coverage("zebra may", keys)[0] == pytest.approx(two / (two + none))
    assert hybrid("red flights in may", keys, np.array([0.4, 0.6, 0.2])) == pytest.approx(
        [0.3 + 0.25, 0.45 + 0.25 * want[1], 0.15 + 0.25 * want[2]], abs=1e-6
    )
    assert coverage("zebra", keys).tolist() == [0.0, 0.0, 0.0] and coverage("?", keys).tolist() == [0.0, 0.0, 0.0]


def test_a_rare_word_decides_between_keys_that_share_the_constants():
    keys = [f"{what} flights of United in May" for what in ("long-haul", "red-eye", "cancelled", "late")]
    with Memory(sync="normal") as memory:
        memory.remember_many([{"key": key, "body": key, "merge": None} for key in keys])
        words = preset("memlift", relevance="hybrid")
        assert memory.recall("Red-eye flights out of Newark in February", policy=words).items[0].key == keys[1]


def test_a_gate_belongs_to_its_embedder_and_a_receipt_tells_it():
    class Shifted(embedders.Hashing):
        gate = 0.75

        def __init__(self):
            super().__init__(64)
            del self.__dict__["gate"]

    assert embedders.measured_gate(embedders.load()) == pytest.approx(embedders.load().gate, abs=0.01)
    with Memory(embedder=Shifted(), sync="normal") as memory:
        memory.remember("alpha beta gamma delta", "body")
        assert memory.recall("alpha beta zeta eta").items == () and memory.recall("alpha beta gamma delta").items
        assert memory.explain("r1").data["params"]["gate"] == memory.health()["gate"] == 0.75
        assert memory.recall("alpha beta zeta eta", policy=preset("memlift", gate=0.1)).items


def test_a_random_recall_compares_nothing(memory):
    explained = memory.explain(memory.recall("anything", policy="random")).data["pool"]
    assert all(row["similarity"] is None for row in explained)
