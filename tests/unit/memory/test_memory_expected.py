"""memlift: expected success by hand, names that words hide, siblings under a key, outcomes of other tasks."""

import itertools
import json
import math

import numpy as np
import pytest

from evolvent.core.errors import BadInput
from evolvent.memory.embedders import Function, gate_of, load
from evolvent.memory.events import Loaded, Value
from evolvent.memory.memory import Memory
from evolvent.memory.policies import from_params, preset, to_dict
from evolvent.memory.rule import Candidates, Past
from evolvent.memory.rules import memlift

# unit vectors in a plane; a task has the cosine of its name with the lesson's own question
ANGLES = {"own question": 1.0, "near question": 0.8, "strange question": 0.4}


def vectors(texts):
    cosine = np.array([ANGLES.get(text, 0.0) for text in texts])
    return np.stack([cosine, np.sqrt(1.0 - cosine**2)], axis=1)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def memory(request, tmp_path):
    path = tmp_path / "a.db" if request.param == "sqlite" else request.getfixturevalue("postgres_store")()
    with Memory(path, policy=preset("memlift", k=1, gate=0.2), embedder=Function("plane", vectors), seed=3) as opened:
        yield opened


def pool_of(relevance, history=None, span=(0.0, 1.0), rows=None, sources=None, k=2, frozen=False):
    rows = rows or [Loaded(Value(span[1]), span[1], False, "self", "") for _ in relevance]
    ids = list(range(1, len(rows) + 1))
    q_N = np.array([row.value.q for row in rows])
    return Candidates(ids, np.array(relevance), q_N, rows, sources or {}, span, k, frozen, history or {})


CONFIG = memlift.Config(gate=0.5, length=0.2, hide=0.5)  # so the length is .1 of the cosine


def test_the_posterior_by_hand():
    """Two outcomes of the second, at its task and .1 off; the source has two tried memories that realised 1 in all."""
    pool = pool_of((0.9, 0.8), {2: [Past(0.8, 1.0, 1.0), Past(0.7, 0.0, 0.5)]}, sources={"self": (2.0, 1.0)})
    record, e = (4.0 * 1.0 + 1.0) / 6.0, np.exp(-1.0)
    own = (4.0 * record + 1.0) / (4.0 + 1.0 + 0.5 * np.exp(-0.5))  # what is twice as far counts for its own record
    second = (3.0 * own + 1.0) / (3.0 + 1.0 + 0.5 * e)
    # or the older, failed one was of another rate: under uniform priors 1/2 and 1/(1 + c), against both of one rate
    c = 0.5 * e
    one, both = 0.1 / 2.0 / (1.0 + c), 0.9 * math.gamma(2.0) * math.gamma(1.0 + c) / math.gamma(3.0 + c)
    second = (one * (3.0 * own + 1.0) / 4.0 + both * second) / (one + both)
    second *= e  # the first is .1 nearer, and nothing speaks against it
    np.testing.assert_allclose(memlift.expected(CONFIG, pool), [record, second])


@pytest.mark.parametrize("span", [(0.0, 1.0), (-1.0, 1.0), (0.0, 100.0), (-5.0, -1.0)])
def test_the_order_does_not_depend_on_the_scale_of_rewards(span):
    lo, hi = span
    history = {1: [Past(0.9, lo, 1.0)] * 3, 3: [Past(0.85, hi, 1.0), Past(0.7, lo, 1.0)]}
    ranking = memlift.rank(CONFIG, pool_of((0.9, 0.88, 0.85), history, span, k=3, sources={"self": (3.0, lo + 2 * hi)}))
    unit = {
        id_: [Past(p.relevance, (p.reward - lo) / (hi - lo), p.weight) for p in past] for id_, past in history.items()
    }
    same = memlift.rank(CONFIG, pool_of((0.9, 0.88, 0.85), unit, k=3, sources={"self": (3.0, 2.0)}))
    assert ranking.best == same.best
    np.testing.assert_allclose(ranking.score, same.score)
    np.testing.assert_allclose(ranking.value, lo + (hi - lo) * same.value)


def test_without_outcomes_the_nearest_comes_first_and_of_equals_the_newest():
    assert memlift.rank(CONFIG, pool_of((0.9, 0.9, 0.85), k=3)).best == [1, 0, 2]


def test_what_promises_less_than_half_of_the_best_is_hidden_until_that_fails():
    assert memlift.rank(CONFIG, pool_of((0.9, 0.8))).best == [0]  # e^-1
    failed = {1: [Past(0.9, 0.0, 1.0)]}
    assert memlift.rank(CONFIG, pool_of((0.9, 0.8), failed)).best == [1, 0]


def test_the_nearest_does_not_keep_what_outcomes_speak_for_out_of_reach():
    """However far behind: a note that helped at this very task is shown, whatever stands nearer and fails."""
    for gap in (0.1, 0.3, 0.39):
        history = {1: [Past(0.99, 0.0, 1.0)] * 8, 2: [Past(0.99 - gap, 1.0, 1.0)] * 8}
        assert memlift.rank(CONFIG, pool_of((0.99, 0.99 - gap), history, k=1)).best == [1]
        history[1] = [Past(0.99, float(i % 3 == 0), 1.0) for i in range(16)]  # it fails in two of three
        assert memlift.rank(CONFIG, pool_of((0.99, 0.99 - gap), history, k=1)).best == [1]


def test_what_helped_elsewhere_does_not_stand_before_what_was_said_about_this_task():
    """Two notes that succeeded at many tasks, as far from them as from this one; a nearer one was not tried yet."""
    history = {2: [Past(0.8, 1.0, 1.0)] * 16, 3: [Past(0.78, 1.0, 1.0)] * 16}
    pool = pool_of((0.95, 0.8, 0.78), history, k=1, sources={"self": (8.0, 7.0)})
    assert memlift.rank(CONFIG, pool).best == [0]
    history[1] = [Past(0.95, 0.0, 1.0)] * 4
    assert memlift.rank(CONFIG, pool_of((0.95, 0.8, 0.78), history, k=1, sources={"self": (8.0, 7.0)})).best == [1]


# ------------------------------------------------------------------------------- two answers to one question
def under(*keys, q=1.0):
    return [Loaded(Value(q), q, False, "self", key) for key in keys]


@pytest.mark.parametrize("span", [(0.0, 1.0), (-5.0, 5.0)])
@pytest.mark.parametrize("weight", [0.5, 1.0])
def test_an_answer_that_failed_is_not_shown_beside_another_to_the_same_question(span, weight):
    """The next of another key takes its place; where it did not fail, or not at such tasks, nothing is left out."""
    lo, hi = span
    near = (1.0, 1.0, 0.98)

    def best(keys, outcomes, k=2):
        return memlift.rank(CONFIG, pool_of(near, {1: outcomes}, span, under(*keys, q=hi), k=k)).best

    failed = [Past(1.0, lo, weight, True)]
    assert best("aab", failed) == [1, 2]
    assert memlift.rank(CONFIG, pool_of((0.9, 0.9, 0.88), {1: failed}, span, under(*"aab", q=hi))).best == [1, 2]
    assert best("abb", failed, k=3) == [1, 2, 0], "under other keys"
    assert best(("", "", ""), failed, k=3) == [1, 2, 0], "no keys are known"
    assert best("aab", [Past(1.0, hi, weight, True)], k=3) == [1, 0, 2], "it succeeded"
    assert best("aab", [Past(1.0, lo, weight)], k=3) == [1, 2, 0], "what the agent did is not told"
    assert set(best("aab", [Past(0.2, lo, weight, True)], k=3)) == {0, 1, 2}, "it failed at other tasks"


def test_a_failed_answer_comes_back_when_its_rival_fails_more():
    history = {1: [Past(1.0, 0.0, 1.0, True)]}
    assert memlift.rank(CONFIG, pool_of((1.0, 1.0), history, rows=under("a", "a"))).best == [1]
    history[2] = [Past(1.0, 0.0, 1.0, True)] * 2
    assert memlift.rank(CONFIG, pool_of((1.0, 1.0), history, rows=under("a", "a"))).best[0] == 0


def test_a_correction_stands_alone_at_its_question_and_explain_says_why(memory):
    wrong = memory.remember("own question", "SELECT gross", source="reviewer", merge=None)
    failed = memory.recall("own question", k=3)
    memory.settle(failed, 0.0, action="SELECT gross")
    right = memory.remember("own question", "SELECT net", source="reviewer", merge=None)
    other = memory.remember("near question", "SELECT tax", source="reviewer", merge=None)
    recall = memory.recall("own question", k=3)
    assert set(recall.ids) == {right, other}
    assert f"not selected: {right} under its key promises more" in str(memory.explain(recall))
    memory.settle(recall, 1.0, action="SELECT net")
    assert wrong not in memory.recall("own question", k=3).ids


@pytest.mark.parametrize("facts", [2, 5])
def test_facts_that_are_read_together_stay_whatever_comes_of_it(facts):
    """Under one key, written one after the other; outcomes are chance, and what the agent did is not told."""
    chance = np.random.default_rng(facts)
    with Memory(embedder="hash") as memory:
        for i in range(facts):
            memory.remember("user preferences", f"fact {i}: likes {i}", merge=None)
            memory.settle(memory.recall("user preferences", k=5), 0.0)
        for _ in range(20):
            memory.settle(memory.recall("user preferences", k=5), float(chance.random() < 0.8))
        assert len(memory.recall("user preferences", k=5).items) == facts


@pytest.mark.parametrize("gap", [0.1, 0.3, 0.6])
@pytest.mark.parametrize("span", [(0.0, 1.0), (-5.0, 5.0)])
def test_what_always_fails_does_not_keep_an_untried_note_far(gap, span):
    """The prior falls with the distance behind the nearest that is worth anything."""
    lo, hi = span
    rows = [Loaded(Value(lo, n=16, sum_r=16 * lo), hi, False, "self", ""), Loaded(Value(hi), hi, False, "other", "")]
    pool = pool_of((0.95, 0.95 - gap), {1: [Past(0.95, lo, 1.0)] * 16}, span, rows, k=1)
    assert memlift.rank(CONFIG, pool).best == [1]


def test_a_lone_note_that_always_fails_gives_way_to_an_untried_one(memory):
    memory.remember("own question", "wrong")
    memory.remember("strange question", "right")
    shown = []
    for _ in range(12):
        recall = memory.recall("own question")
        shown.append(recall.items[0].body)
        memory.settle(recall, 1.0 if shown[-1] == "right" else 0.0)
    assert shown[0] == "wrong" and shown[-4:] == ["right"] * 4, shown


def test_many_recalls_at_once_are_what_they_are_one_by_one(memory):
    """More than are asked for together, each with a receipt of its own."""
    for question in ANGLES:
        memory.settle(memory.recall(question), 1.0)
        memory.remember(question, f"lesson of the {question}")
    tasks = [list(ANGLES)[i % 3] for i in range(70)]
    one = [memory.recall(task).ids for task in tasks]
    many = memory.recall_many(tasks)
    assert [recall.ids for recall in many] == one
    assert [int(recall.id[1:]) for recall in many] == [*range(int(many[0].id[1:]), int(many[0].id[1:]) + 70)]


@pytest.mark.parametrize("good", [3, 16])
@pytest.mark.parametrize("other", ["untried", "tried"])
def test_what_worked_for_long_and_fails_now_gives_way_soon(good, other):
    """An answer that changed: two failures are enough, however many successes came before."""
    row = Loaded(Value(0.5, n=good + 2, sum_r=float(good)), 1.0, False, "self", "")
    rows = [row, Loaded(Value(1.0), 1.0, False, "self", "")]
    history = {1: [*[Past(0.9, 0.0, 1.0)] * 2, *[Past(0.9, 1.0, 1.0)] * good][:16]}
    if other == "tried":
        history[2] = [Past(0.9, 1.0, 1.0)]
    assert memlift.rank(CONFIG, pool_of((0.9, 0.9), history, rows=rows, k=1, sources={"self": (9.0, 7.0)})).best == [1]


def test_a_start_that_was_given_is_the_prior_and_not_the_record_of_the_source():
    rows = [Loaded(Value(0.2), 0.2, True, "self", ""), Loaded(Value(1.0), 1.0, False, "self", "")]
    pool = pool_of((0.9, 0.9), rows=rows, sources={"self": (40.0, 20.0)})
    np.testing.assert_allclose(memlift.expected(CONFIG, pool), [0.2, 24.0 / 44.0])


def seen(memory, task):
    (item,) = memory.recall(task).items
    return item


def test_a_lesson_that_failed_beside_strange_questions_is_worth_more_at_its_own(memory):
    memory.remember("own question", "SELECT net", source="reviewer")
    for _ in range(8):
        memory.settle(memory.recall("strange question"), 0.0)
    there, here = seen(memory, "strange question"), seen(memory, "own question")
    assert there.value < 0.35 < 0.45 < here.value, (there.value, here.value)


def test_history_survives_a_new_version_and_leaves_out_what_was_voided(memory):
    id_ = memory.remember("own question", "SELECT net")
    for _ in range(6):
        memory.settle(memory.recall("own question"), 0.0)
    failed = seen(memory, "own question").value
    elsewhere = seen(memory, "strange question").value
    memory.update(id_, "said better", body="SELECT net AS net")
    assert seen(memory, "own question").value == pytest.approx(failed)
    assert seen(memory, "strange question").value == pytest.approx(elsewhere), "where its outcomes came from is known"
    memory.rollback("r1", "wrong judge")
    assert seen(memory, "own question").value == 1.0


# ------------------------------------------------------------------------------- names that words hide
DEVICES = ("tablet", "headset", "printer", "router", "laptop", "scanner")
AIRLINES = ("Lufthansa", "Qantas", "Ryanair", "Iberia", "Finnair", "Avianca")
WORDS = {
    DEVICES: ("the {} does not connect to wifi", "the {} won't go online", "no network on my {}"),
    AIRLINES: ("checked baggage allowance with {}", "how heavy may my suitcase be on {}", "luggage limit flying {}"),
}


@pytest.mark.parametrize("names", [DEVICES, AIRLINES])
@pytest.mark.parametrize("embedder", ["all-MiniLM-L6-v2", "hash"])
def test_words_do_not_outvote_the_name_more_than_similarity_lets_them(names, embedder):
    """Each name was asked about in one wording; asked in the others, the default finds as many as similarity does."""
    found, gate = {}, gate_of(load(embedder))
    for arm in ("memlift", "rag"):
        with Memory(policy=preset(arm, k=3, gate=gate), embedder=embedder) as memory:
            ids = {
                name: memory.remember(WORDS[names][i % 3].format(name), f"for {name}") for i, name in enumerate(names)
            }
            asked = [(n, w) for i, n in enumerate(names) for j, w in enumerate(WORDS[names]) if j != i % 3]
            recalls = [(ids[name], memory.recall(words.format(name)).ids) for name, words in asked]
            found[arm] = (sum(r[:1] == [id_] for id_, r in recalls), sum(id_ in r for id_, r in recalls))
    assert found["memlift"][0] >= found["rag"][0] and found["memlift"][1] >= found["rag"][1] - 1, found


@pytest.mark.parametrize(("facts", "reward"), list(itertools.product((3, 5), (1.0, 0.0))))
def test_facts_under_one_key_are_not_rivals(facts, reward):
    """Each is written, recalled and settled before the next is written."""
    with Memory(embedder="hash") as memory:
        for i in range(facts):
            memory.remember("user preferences", f"fact {i}: likes {i}", merge=None)
            memory.settle(memory.recall("user preferences", k=5), reward)
        assert len(memory.recall("user preferences", k=5).items) == facts


def test_what_is_hidden_is_said_to_be():
    with Memory(embedder="hash") as memory:
        memory.remember("reset the router", "hold the button")
        memory.remember("reset the old router in the basement of the annex", "unplug it")
        recall = memory.recall("reset the router")
        text = str(memory.explain(recall))
        assert len(recall.items) == 1 and "hidden: promises under 20% of the best" in text, text


@pytest.mark.parametrize("policy", ["memrl", "rag", "memq"])
def test_a_rule_that_hides_nothing_says_so_of_nothing(policy):
    with Memory(policy=preset(policy, gate=-1.0), embedder="hash") as memory:
        for i in range(5):
            memory.remember(f"reset the router {i}", f"hold button {i}", merge=None)
        text = str(memory.explain(memory.recall("reset the router", k=2)))
        assert text.count("not selected: k=2, 2 others promised") == 3 and "hidden" not in text


@pytest.mark.parametrize(
    ("k", "policy", "said"),
    [
        (1, preset("memlift"), {"not selected: k=1, 1 other promised more": 4, "hidden: promises under 20%": 1}),
        (3, preset("memlift", hide=0.0), {"k=3, 3 others promised more": 1, "as much or more and came first": 2}),
        (2, preset("memq", epsilon=1.0), {"not selected: 2 of 6 were drawn by chance, to explore": 4}),
    ],
)
def test_what_is_not_selected_is_told_the_rule(k, policy, said):
    with Memory(policy=policy, embedder="hash") as memory:
        for where in ("red", "blue", "green", "old", "new", "old old new"):
            memory.remember(f"pump in the {where} hall", f"valve {where}", merge=None)
        text = str(memory.explain(memory.recall("pump in the red hall", k=k)))
        assert {part: text.count(part) for part in said} == said, text


@pytest.mark.parametrize(("n", "gate", "said"), [(4, 0.0, "4 passed the gate 0"), (4, -1.0, "4 were candidates")])
@pytest.mark.parametrize("policy", ["memlift", "memq"])
def test_the_bound_of_the_pool_is_told(n, gate, said, policy):
    for notes in (n, 12):
        with Memory(policy=preset(policy, gate=gate), embedder="hash") as memory:
            for i in range(notes):
                memory.remember(f"pump {i} of the hall", f"valve {i}", merge=None)
            text = str(memory.explain(memory.recall("pump of the hall")))
            assert (said if notes == n else "the nearest 10") in text, text


@pytest.mark.parametrize("q_init", ["low", -1.0, 2.0])
def test_a_start_that_would_starve_is_refused(q_init):
    with pytest.raises(BadInput, match="starve"):
        Memory(policy=preset("memlift", q_init=q_init), embedder="hash")


def test_of_notes_that_promise_nothing_the_nearest_comes_first():
    rows = [Loaded(Value(0.0), 0.0, True, "self", "") for _ in range(2)]
    assert memlift.rank(CONFIG, pool_of((0.9, 0.6), rows=rows)).best == [0, 1]


@pytest.mark.parametrize("name", ["omit", "omit_harmful", "hazard"])
def test_a_probability_of_one_is_refused_by_name(name):
    with pytest.raises(BadInput, match=f"{name} of 1 .*\n  got: 1.0\n  expected: below 1"):
        preset("memlift", **{name: 1.0})


def test_a_setting_that_means_nothing_any_more_is_read():
    result = to_dict(preset("memlift", k=2))
    assert from_params(json.dumps(result | {"discount": 0.9, "trust": 0.2})) == preset("memlift", k=2)
