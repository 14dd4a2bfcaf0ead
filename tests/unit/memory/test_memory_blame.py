"""Blame: which memory caused an outcome, on planted stores; nothing is named where nothing was planted."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from evolvent import Memory
from evolvent.cli import main
from evolvent.core.errors import BadInput
from evolvent.memory.blame import _causes, blame

TASK = "How do I restart the payment service?"


def planted(path, bodies, others=66):
    """A store with the notes in question beside many others; the receipt of a recall that showed them, settled as 0."""
    memory = Memory(path, embedder="hash", policy="rag", seed=1)
    rows = [{"key": f"Where is the manual of machine {i}?", "body": f"shelf {i}"} for i in range(others)]
    memory.remember_many(rows)
    ids = memory.remember_many([{"key": TASK, "body": body, "merge": None} for body in bodies])
    recall = memory.recall(TASK, k=len(bodies))
    assert sorted(recall.ids) == sorted(ids)
    memory.settle(recall, 0.0)
    return memory, recall.id, dict(zip(bodies, ids, strict=True))


def agent(bad, *, good=0.9, base=0.1, seed=0):
    """Succeeds with probability ``good``, or ``base`` where all of one group of ``bad`` notes are in the prompt."""
    rng = np.random.default_rng(seed)

    def attempt(task, notes):
        assert task == TASK
        said = {note.body for note in notes}
        return float(rng.random() < (base if any(set(group) <= said for group in bad) else good))

    return attempt


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(
    ("bad", "causes"),
    [
        ([["b"]], {"b"}),
        ([["a"]], {"a"}),
        ([["b", "c"]], {"b", "c"}),  # only together
        ([["a"], ["d"]], {"a", "d"}),  # each for itself: no single one mends it
        ([], set()),
    ],
)
def test_what_was_planted_is_named_and_nothing_else(tmp_path, bad, causes, seed):
    memory, receipt, ids = planted(tmp_path / "a.db", ["a", "b", "c", "d"])
    with memory:
        before = [(i.id, i.value, i.status) for i in memory.items()]
        found = blame(memory, receipt, agent(bad, seed=seed), budget=400)
        assert set(found.causes) == {ids[body] for body in causes}, str(found)
        assert found.attempts <= 400 and found.repeated and json.loads(json.dumps(found.to_dict()))
        assert [(i.id, i.value, i.status) for i in memory.items()] == before


@pytest.mark.parametrize(
    ("named", "causes"),
    [
        ([], ()),
        ([("m1",), ("m3",)], ("m1", "m3")),
        ([("m1", "m2")], ("m1", "m2")),
        ([("m1", "m2"), ("m2", "m3"), ("m2", "m4")], ("m2",)),
        ([("m1", "m2"), ("m3", "m4")], ("m1", "m2", "m3", "m4")),
    ],
)
def test_a_memory_in_all_pairs_that_mend_it_is_the_cause(named, causes):
    assert _causes(named) == causes


def test_one_poisoned_note_of_three_costs_few_attempts(tmp_path):
    memory, receipt, ids = planted(tmp_path / "a.db", ["a", "b", "c"])
    with memory:
        found = blame(memory, receipt, agent([["b"]], good=1.0, base=0.0))
        assert found.causes == (ids["b"],) and found.attempts <= 60, str(found)
        assert "Named as a cause: " + ids["b"] in str(found)


def test_the_agent_of_the_page_through_the_command_line(tmp_path, capsys):
    page = (Path(__file__).parents[3] / "docs" / "blame.md").read_text("utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.S)
    parts = "model = lambda prompt: prompt\ncheck = lambda task, answer: task in answer and 'A: b' not in answer\n"
    (tmp_path / "my_agent.py").write_text(parts + code)
    memory, receipt, ids = planted(tmp_path / "a.db", ["a", "b", "c"])
    memory.close()
    main(["memory", "blame", str(tmp_path / "a.db"), receipt, "--agent", f"{tmp_path}/my_agent.py:attempt", "--json"])
    assert json.loads(capsys.readouterr().out)["causes"] == [ids["b"]]
    main(["memory", "blame", str(tmp_path / "a.db"), receipt, "--agent", f"{tmp_path}/my_agent.py", "--quarantine"])
    assert "restore" in capsys.readouterr().out
    with Memory(tmp_path / "a.db") as memory:
        assert memory.get(ids["b"]).status == "quarantined" and memory.get(ids["a"]).status == "active"


def test_what_was_written_under_its_influence_is_told(tmp_path):
    memory, receipt, ids = planted(tmp_path / "a.db", ["a", "b"])
    with memory:
        child = memory.remember("another task", "made of b", parents=[ids["b"]])
        found = blame(memory, receipt, agent([["b"]]))
        assert found.causes == (ids["b"],) and found.descendants == (child,)


def test_without_an_agent_other_receipts_speak_and_it_is_said(tmp_path):
    memory, receipt, _ = planted(tmp_path / "a.db", ["a", "b"])
    with memory:
        found = blame(memory, receipt)
        assert not found.causes and not found.repeated and "weaker" in str(found) and "never left out" in str(found)


def test_an_attempt_may_take_a_seed_which_is_that_of_its_round(tmp_path):
    memory, receipt, _ = planted(tmp_path / "a.db", ["a", "b"])
    seeds = []

    def attempt(task, notes, seed):
        seeds.append(seed)
        return 0.5

    with memory:
        blame(memory, receipt, attempt, budget=30)
    assert len(seeds) == 30 and len(set(seeds)) == 10


def test_interrupted_it_tells_what_it_knows(tmp_path):
    memory, receipt, _ = planted(tmp_path / "a.db", ["a", "b"])
    calls = []

    def attempt(task, notes):
        calls.append(1)
        if len(calls) == 20:
            raise KeyboardInterrupt
        return 1.0

    with memory:
        found = blame(memory, receipt, attempt)
        assert found.stopped and found.attempts == 19 and "interrupted" in str(found)


@pytest.mark.parametrize("reward", [float("nan"), 2.0, "1", None])
def test_what_is_no_reward_is_refused(tmp_path, reward):
    memory, receipt, _ = planted(tmp_path / "a.db", ["a", "b"])
    with memory, pytest.raises(BadInput, match="no reward"):
        blame(memory, receipt, lambda task, notes: reward)


def test_the_tokens_that_an_agent_tells_are_added_up(tmp_path):
    memory, receipt, _ = planted(tmp_path / "a.db", ["a", "b"])
    with memory:
        found = blame(memory, receipt, lambda task, notes: (1.0, np.int64(100 * len(notes))), budget=30)
        assert (found.attempts, found.tokens) == (30, 10 * 200 + 20 * 100) and "30 attempts at the task, 4,000" in str(
            found
        )
        assert json.loads(json.dumps(found.to_dict()))["tokens"] == 4000
        assert blame(memory, receipt, agent([]), budget=30).tokens is None
        for used in (-1, 1.5, True, "many"):
            with pytest.raises(BadInput, match="no count of tokens"):
                blame(memory, receipt, lambda task, notes, used=used: (1.0, used))


def test_what_cannot_be_asked_is_refused(tmp_path):
    memory, receipt, _ = planted(tmp_path / "a.db", ["a", "b"])

    def broken(task, notes):
        raise RuntimeError("no server")

    with memory:
        with pytest.raises(BadInput, match="no server"):
            blame(memory, receipt, broken)
        with pytest.raises(BadInput, match="too few attempts"):
            blame(memory, receipt, agent([]), budget=20)
        empty = memory.recall("x", k=0)
        with pytest.raises(BadInput, match="nothing was shown"):
            blame(memory, empty.id, agent([]))
        with pytest.raises(BadInput, match="not a receipt"):
            blame(memory, memory.remember("y", "z"), agent([]))
        for level in (0, 1, 2):
            with pytest.raises(BadInput, match="not a share"):
                blame(memory, receipt, agent([]), level=level)
        for odd in ("text", lambda task: 1.0):
            with pytest.raises(BadInput, match="no agent that can be called"):
                blame(memory, receipt, odd)


def test_json_with_a_quarantine_is_one_document(tmp_path, capsys):
    memory, receipt, ids = planted(tmp_path / "a.db", ["a", "b"])
    memory.close()
    (tmp_path / "bad.py").write_text("def attempt(task, notes):\n    return float(all(n.body != 'b' for n in notes))\n")
    command = ["memory", "blame", str(tmp_path / "a.db"), receipt, "--agent", f"{tmp_path}/bad.py"]
    main(command)
    assert f"evolvent memory quarantine {tmp_path}/a.db {ids['b']}" in capsys.readouterr().out
    main([*command, "--quarantine", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert found["quarantine"]["statuses"] == [[ids["b"], "active", "quarantined"]]
