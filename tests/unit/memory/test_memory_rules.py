"""A rule of one's own: ranked and credited by a file, settled by another process, and what happens when it is gone."""

import dataclasses
import subprocess
import sys
import textwrap
from typing import Any

import numpy as np
import pytest

from evolvent.catalogue import credit_rule, entries
from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput
from evolvent.memory.maintenance.verify import verify
from evolvent.memory.memory import Memory
from evolvent.memory.policies import Policy, from_params, names, preset, rule_of, to_params
from evolvent.testing.credit import check_credit

OWN = '''
"""Newest first; a value is the best reward ever seen."""
from dataclasses import dataclass

import numpy as np

from evolvent.memory.ledger import Known, ledger_of
from evolvent.memory.policies import Policy
from evolvent.memory.rule import Change, Ranking

LEVEL, UNBIASED = "memory", None


@dataclass(frozen=True)
class Config(Policy):
    """Settings."""
    name: str = "best"
    gate: float = -1.0
    marks: tuple[int, ...] = (1, 2)
    bonus: float = 0.0


def rank(config, pool):
    return Ranking(np.array(pool.ids, np.float64))


def credit(config, settled):
    changes = []
    for m in settled.used:
        q, r = settled.values[m].value.q, settled.reward + config.bonus
        changes.append(Change(m, "shown", q, max(q, r), r, step=1.0))
    return changes


def assign(episodes, config=Config(), known=Known()):
    return ledger_of(credit, episodes, config, known)
'''


@pytest.fixture
def own(tmp_path):
    path = tmp_path / "best.py"
    path.write_text(OWN)
    return path


def test_a_rule_of_a_file_ranks_and_credits(own, tmp_path):
    policy = preset(str(own), k=1, q_init="low")
    with Memory(tmp_path / "a.db", policy=policy, embedder="hash:32") as memory:
        memory.remember("task", "old")
        new = memory.remember("another task", "new")
        recall = memory.recall("task")
        assert recall.ids == [new] and recall.policy == "best"
        assert [c.q_after for c in memory.settle(recall, 0.75)] == [0.75]
        assert memory.settle(memory.recall("task"), 0.25)[0].q_after == 0.75
        assert memory.rebuild_values() == 0 and verify(memory) == []
        assert memory.explain(recall).to_dict()["params"]["marks"] == [1, 2]
        assert memory.recall("task", policy="memrl").policy == "memrl", "others go on beside it"
    assert from_params(to_params(policy)) == policy


SETTLE = """
    import sys
    from evolvent.memory.memory import Memory
    with Memory(sys.argv[1]) as memory:
        print(memory.settle(sys.argv[2], 0.5)[0].q_after)
"""


def test_another_process_settles_by_the_file_and_says_when_it_is_gone(own, tmp_path):
    def settle():
        command = [sys.executable, "-c", textwrap.dedent(SETTLE), str(tmp_path / "a.db"), recall.id]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    with Memory(tmp_path / "a.db", policy=preset(str(own), bonus=0.25, q_init="low"), embedder="hash:32") as memory:
        memory.remember("task", "body")
        recall = memory.recall("task")
    hidden = own.rename(own.with_suffix(".txt"))
    done = settle()
    assert done.returncode and "the rule of this receipt cannot be found" in done.stderr and str(own) in done.stderr
    with Memory(tmp_path / "a.db") as memory:
        assert verify(memory) == [] and not memory.explain(recall.id).to_dict()["outcomes"], "nothing was written"
    hidden.rename(own)
    done = settle()
    assert (done.stdout.strip(), done.returncode) == ("0.75", 0), done.stderr


def test_a_rule_of_a_file_makes_ledgers(own):
    rule = credit_rule(f"{own}:assign")
    assert check_credit(rule) and rule.LEVEL == "memory"


def test_what_is_no_rule_is_refused(tmp_path):
    class Config(Policy):
        """Not beside a rank."""

    with pytest.raises(BadInput, match="not the policy of a rule"):
        Memory(policy=Config("mine"))
    with pytest.raises(BadInput, match="not the policy of a rule"):
        Memory(policy=Policy("plain"))
    bare = tmp_path / "bare.py"
    bare.write_text("from evolvent.memory.policies import Policy\nclass Config(Policy):\n    pass\n")
    with pytest.raises(BadInput, match="not the policy of a rule"):
        Memory(policy=preset(str(bare), name="bare"))
    with pytest.raises(BadInput, match="memrl"):
        Memory(policy="memr")


@pytest.mark.parametrize("rule", names())
@pytest.mark.parametrize("odd", [None, True, "x", [], {}, (1, 2), float("nan")])
def test_settings_that_no_receipt_could_give_back_are_refused_before_there_is_one(rule, odd):
    for field in dataclasses.fields(preset(rule)):
        fits = (odd is None and "None" in str(field.type)) or type(odd).__name__ == field.type
        if fits and odd == odd:  # NaN is a float, and no setting
            continue
        with pytest.raises(BadInput) as refused:
            Memory(policy=preset(rule, **{field.name: odd}), embedder="hash:32")
        assert refused.value.code == "bad_policy", (field.name, refused.value)


def test_settings_are_kept_as_plain_numbers():
    policy: Any = preset("memlift", k=np.int64(2), alpha=1, gate=np.float32(0.25), omit=0)
    assert [(type(x), x) for x in (policy.k, policy.alpha, policy.gate)] == [(int, 2), (float, 1.0), (float, 0.25)]
    assert to_params(policy) == to_params(preset("memlift", k=2, alpha=1.0, gate=0.25, omit=0.0))
    with Memory(policy=policy, embedder="hash:32") as memory:
        memory.remember("task", "body")
        assert memory.settle(memory.recall("task"), 1.0)


def test_a_recall_without_any_gate_is_explained():
    with Memory(policy=preset("rag", gate=-np.inf), embedder="hash:32") as memory:
        memory.remember("task", "body")
        assert "1 were candidates" in str(memory.explain(memory.recall("something else")))


def test_a_rule_file_that_cannot_be_loaded_has_a_code(tmp_path, own):
    broken = tmp_path / "broken.py"
    broken.write_text("1 / 0\n")
    for name in (broken, tmp_path / "missing.py", f"{own}:nothing"):
        with pytest.raises(BadInput) as refused:
            Memory(policy=str(name))
        assert refused.value.code == "bad_rule"
    with pytest.raises(BadInput) as refused:
        preset("memlift", omit=1.0)
    assert refused.value.code == "bad_policy"
    with pytest.raises(BadInput) as refused:
        from_params(to_params(preset("rag")).replace('"margin"', '"margins"'))
    assert refused.value.code == "rule_lost"


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("None", "no Ranking"),
        ("Ranking(np.zeros(1))", "score"),
        ("Ranking(np.full(2, np.nan))", "score is not an array of 2"),
        ("Ranking([1.0, 0.0])", "score is not an array"),
        ("Ranking(np.zeros(2), best=[7])", "different rows of 2"),
        ("Ranking(np.zeros(2), best=[0, 0])", "best"),
        ("Ranking(np.zeros(2), best=[0, 1])", "at most 1"),
        ("Ranking(np.zeros(2), omit=[2.0, 0.0])", "omit is not"),
    ],
)
def test_a_rank_that_no_receipt_can_hold_is_reported(tmp_path, answer, message):
    path = tmp_path / "odd.py"
    path.write_text(OWN.replace("return Ranking(np.array(pool.ids, np.float64))", f"return {answer}"))
    with Memory(policy=preset(str(path), k=1, q_init="low"), embedder="hash:32") as memory:
        memory.remember_many([{"key": "task one", "body": "a"}, {"key": "task two", "body": "b"}])
        with pytest.raises(BadInput, match=message):
            memory.recall("task")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("(m, 0.5)", "no Change"),
        ('Change(m + 99, "shown", q, q, r)', "neither shown nor led"),
        ('Change(m, "shown", q, float("nan"), r)', "than finite"),
        ('Change(m, "shown", q, q, r, weight=float("inf"))', "than finite"),
        ('Change(m, "shown", q, None, r)', "than finite"),
        ('Change(m, "shown", q, np.float32(1), r)', "than finite"),
    ],
)
def test_credit_that_no_ledger_can_hold_is_reported_and_nothing_is_written(tmp_path, change, message):
    path = tmp_path / "odd.py"
    path.write_text(OWN.replace('Change(m, "shown", q, max(q, r), r, step=1.0)', change))
    with Memory(policy=preset(str(path), q_init="low"), embedder="hash:32") as memory:
        memory.remember("task", "a")
        recall = memory.recall("task")
        with pytest.raises(BadInput, match=message):
            memory.settle(recall, 1.0)
        assert not memory.explain(recall.id).to_dict()["outcomes"]


def test_settings_that_json_cannot_hold_are_refused(own, tmp_path):
    loose = tmp_path / "loose.py"
    loose.write_text(OWN.replace("tuple[int, ...] = (1, 2)", "object = print"))
    with pytest.raises(BadInput):
        Memory(policy=preset(str(loose)))


def test_the_rules_of_memories_are_credit_rules():
    listed = {entry.name for entry in entries("credit") if entry.constants["LEVEL"] == "memory"}
    assert listed == {"memrl", "memq", "memlift", "evokernel", "memento", "memory_omission"}
    assert all(credit_rule(name).Config is type(preset(name)) for name in listed - {"memory_omission"})
    assert rule_of(preset("rag")).credit is None


def test_the_ledger_of_a_store_has_what_was_settled_there(tmp_path):
    with Memory(tmp_path / "a.db", policy="memrl", embedder="hash:32") as memory:
        memory.remember("task", "body")
        ids, receipt = memory.recall("task").ids, memory.recall("task").id
    episode = Episode("t")
    episode.recall(receipt, ids)
    episode.act("x", reward=1.0)
    episode.end(terminated=True)
    with Memory(tmp_path / "a.db", policy="memrl") as memory:
        assert memory.credit([episode]).values("memory").tolist() != [0.0], "not settled is not 0"
        memory.settle(receipt, 1.0)
        assert memory.credit([episode]).values("memory").tolist() == [0.65 - 0.5]
        assert memory.credit([episode], "speed").get("memory", episode=0, unit=ids[0]) is None
        assert memory.credit([]).size("memory") == 0
        with pytest.raises(BadInput, match="not an Episode"):
            memory.credit(["m1"])  # type: ignore[list-item]
    with (
        Memory(tmp_path / "a.db", policy="memrl", scope="other") as memory,
        pytest.raises(BadInput, match="unknown receipt"),
    ):
        memory.credit([episode])


def test_a_rule_without_values_tells_none(tmp_path):
    for name, there in (("rag", False), ("memrl", True)):
        with Memory(tmp_path / f"{name}.db", policy=preset(name, gate=-1.0), embedder="hash:64") as memory:
            memory.remember("a task", "a lesson")
            assert ("value" in memory.recall("a task")[0].why) == there
