"""The benchmark of recall: its texts keep their promises, its contestants are what they are called."""

import math

import pytest
from speed import _recall_texts as texts
from speed import recall as bench

from evolvent.memory.embedders import Hashing


@pytest.mark.parametrize("size", [100, 400])
def test_every_query_is_asked_once_and_its_keys_are_in_the_bank(size):
    asked = []
    for keys, some in texts.banks(size):
        assert len(keys) == len(set(keys)) == size
        asked += some
        for query in some:
            assert query.right <= set(keys) and query.text not in keys
    assert sorted(asked) == sorted(texts.queries()) and len(asked) > 600


def test_a_group_lies_in_one_half_and_both_halves_have_every_stratum():
    halves = {q.group: q.half for q in texts.queries() if q.right}
    assert all(halves[q.group] == q.half for q in texts.queries() if q.right)
    for stratum in {q.stratum for q in texts.queries()}:
        assert {q.half for q in texts.queries() if q.stratum == stratum} == {0, 1}, stratum


def test_a_wording_without_a_common_word_has_none():
    """Words of five letters and more, cut to five, are content words for this purpose."""
    for group in texts.cases()["groups"]:
        if "far" in group and "near" in group and group["domain"] != "software":
            stems = [{w[:5] for w in bench._words(group[name]) if len(w) > 4} for name in ("key", "far")]
            shared = stems[0] & stems[1] - {"befor", "after", "again", "since"}
            assert not shared, (group["key"], shared)


def test_other_keys_are_different_answer_nothing_and_are_the_same_at_every_size():
    many = texts.fillers(3000)
    assert len(set(many)) == 3000 and many[:500] == texts.fillers(500)
    assert not {key for q in texts.queries() for key in q.right} & set(many)


def test_bm25_by_hand():
    """Two documents of two words; idf = ln(1 + (2 - 1 + .5) / 1.5) = ln 2; norm = k1, so a hit scores ln 2."""
    assert bench.bm25(["red car", "blue car"], ["red bus", "a car", "nothing"]) == [[0], [0, 1], []]
    rare, common = math.log1p((3 - 1 + 0.5) / 1.5), math.log1p((3 - 2 + 0.5) / 2.5)
    assert rare > 2 * common  # one rare word beats two common ones of which one is there
    assert bench.bm25(["red car", "blue car", "blue bus"], ["red blue"])[0][0] == 0


def test_fusion_by_hand():
    """1/61 + 1/63 beats 1/62 + 1/62 by a hair, one list alone loses."""
    assert bench.fused([5, 6, 7], [8, 6, 5]) == [5, 6, 8, 7]


def test_it_runs_small_and_its_rates_are_counted_right():
    result = bench.measured(sizes=(400,), embedder=Hashing(64), policies={"rag": "rag"})
    cosine, memory = result["rates"]["400 cosine"], result["rates"]["400 rag"]
    for stratum, rates in cosine.items():
        same = {"n", "recall_at_1", "recall_at_3", "recall_at_10", "precision", "shown", "empty"} & rates.keys()
        assert {k: rates[k] for k in same} == pytest.approx({k: memory[stratum][k] for k in same}, abs=0.02), stratum
    assert cosine["near"]["recall_at_3"] > 0.7 and cosine["all"]["recall_at_1"] <= cosine["all"]["recall_at_3"]
    assert cosine[texts.NOTHING[0]]["precision"] == 0.0 and "mrr" not in cosine[texts.NOTHING[0]]


def test_a_gate_shows_less_of_everything():
    known = bench.Known(Hashing(64))
    by_gate = list(bench.gates(known, 400, (-1.0, 0.3, 0.9)).values())
    assert [g["empty"] for g in by_gate] == sorted(g["empty"] for g in by_gate) and by_gate[0]["empty"] == 0.0
    assert by_gate[0]["junk"][texts.NOTHING[1]] == 3.0 and by_gate[1]["right"] >= by_gate[2]["right"]


def test_the_short_form_tells_what_was_measured(monkeypatch):
    monkeypatch.setattr(bench.embedders, "load", lambda: Hashing(64))
    result = bench.run(sizes=(400,))
    rates = result["details"][0]["rates"]
    assert set(result["right_among_three"]) == {f"400 {name}" for name in ("cosine", "bm25", "fusion", "memory")}
    assert result["right_first"]["400 memory"] == rates["400 memory"]["all"]["recall_at_1"]
    assert result["checks"]["within_.97_of_the_best"] == (result["over_best"]["400"] >= 0.97)
    shown = [rates["400 memory"][s]["shown"] for s in texts.NOTHING]
    assert result["shown_where_nothing_fits"]["400 memory"] == pytest.approx(sum(shown) / 2, abs=0.006)
