"""Attempts and evidence in their file; and the memory that is told, at once or in the end."""

import sqlite3

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evolvent.core.errors import BadInput
from evolvent.memory.maintenance.verify import verify
from evolvent.memory.memory import Memory
from evolvent.serve.attempts import NEAR_S, Attempts, Commit
from evolvent.serve.telling import tell, words
from evolvent.serve.verdicts import IDLE_S, Evidence


@pytest.fixture
def kept(tmp_path):
    attempts = Attempts(tmp_path / "a.attempts")
    yield attempts
    attempts.close()


def command(code, at=0.0, command="make check", kind="command"):
    source = "tests" if kind == "command" else "proxy"
    return Evidence(0, None, kind, source, "ci", None, "", {"command": command, "code": code}, at)


def person(reward, at=0.0):
    return Evidence(0, None, "person", "human", "ann", reward, at=at)


def test_evidence_finds_its_attempt_by_what_who_says_it_knows(kept):
    first = kept.open("s", "job", "r1", 0.0, session="x", repo="/a")
    second = kept.open("s", "next", "r2", 10.0, session="y", repo="/b")
    assert kept.open("s", "job", "r3", 20.0) == first and kept.of("s", first, 20.0).receipts == ("r1", "r3")
    for about in ({"attempt": second}, {"receipt": "r2"}, {"session": "y"}, {"repo": "/b"}):
        assert kept.add("s", about, command(0, 30.0))[0].attempt == second
        assert kept.add("other", about, command(0, 30.0))[0].attempt is None  # of another tenant
    assert kept.add("s", {"repo": "/c"}, command(0, 30.0))[0].attempt is None
    assert kept.add("s", {"repo": "/b"}, command(0, 31.0 + NEAR_S))[0].attempt is None
    nowhere = kept.open("s", "nowhere", "r4", 40.0)
    assert kept.add("s", {"repo": "/c"}, command(0, 50.0))[0].attempt == nowhere  # it did not say where it works
    assert kept.of("s", nowhere, 50.0).repo == "/c"
    with pytest.raises(BadInput, match="unknown attempt"):
        kept.of("other", first, 0.0)
    assert [one.id for one in kept.newest("s", 50.0, limit=2)] == [nowhere, second]
    assert [one.id for one in kept.newest("s", 50.0, before=second)] == [first]


def test_said_again_under_its_key_it_is_there_once_and_never_otherwise(kept):
    id_ = kept.open("s", "job", "r1", 0.0)
    first, new = kept.add("s", {"attempt": id_}, command(0), "k")
    assert new and kept.add("s", {"attempt": id_}, command(0, at=5.0), "k") == (first, False)
    with pytest.raises(BadInput, match="the key is used"):
        kept.add("s", {"attempt": id_}, command(1), "k")
    assert kept.add("other", {"attempt": id_}, command(1), "k")[1]
    with pytest.raises(sqlite3.IntegrityError, match="never changed"):
        kept._db.execute("UPDATE evidence SET reward = 'true'")


def test_commits_that_came_since_belong_to_the_attempt_and_a_revert_finds_them(kept):
    old = Commit("c0", 0.0)
    assert kept.commits("s", "/a", [old], 5.0, "ci") == []  # what was there at first belongs to nobody
    first = kept.open("s", "job", "r1", 10.0, repo="/a")
    mine, pulled = Commit("c1", 20.0), Commit("c2", 3.0)
    kept.commits("s", "/a", [pulled, mine, old], 30.0, "ci")
    assert kept.of("s", first, 30.0).commits == ("c1",)
    second = kept.open("s", "next", "r2", 40.0, repo="/a")
    back, again = Commit("c3", 50.0, "c1"), Commit("c4", 60.0, "c3")
    assert kept.commits("s", "/b", [back], 60.0, "ci") == []  # another repository
    assert kept.commits("s", "/a", [back, mine], 60.0, "ci") == [first]
    assert kept.commits("s", "/a", [back, mine], 60.0, "ci") == []  # seen
    assert kept.of("s", first, 60.0).verdict.reward is False
    assert kept.commits("s", "/a", [again], 70.0, "ci") == [first]
    assert [one.kind for one in kept.of("s", first, 70.0).evidence] == ["reverted", "reapplied"]
    assert kept.of("s", first, 70.0).verdict.state == "open" and kept.of("s", second, 70.0).evidence == ()


def test_what_is_said_of_a_commit_before_it_is_known_reaches_its_attempt(kept):
    kept.commits("s", "/a", [Commit("c0", 0.0)], 0.0, "ci")
    id_ = kept.open("s", "job", "r1", 10.0, repo="/a")
    assert kept.add("s", {"commit": "c1"}, command(0, 20.0))[0].attempt is None
    kept.commits("s", "/a", [Commit("c1", 15.0)], 30.0, "ci")
    assert kept.of("s", id_, 30.0).verdict.reward is True and kept.due(30.0) == [("s", id_)]


def test_runs_of_the_repository_before_the_attempt_are_what_it_is_compared_with(kept):
    kept.add("s", {"repo": "/a"}, command(1, 0.0))
    id_ = kept.open("s", "job", "r1", 10.0, repo="/a")
    kept.add("s", {"repo": "/a"}, command(0, 20.0))
    verdict = kept.of("s", id_, 20.0).verdict
    assert (verdict.reward, verdict.weight, verdict.evidence) == (True, 1.0, (2,))


@pytest.fixture
def memory():
    with Memory(embedder="hash:64") as made:
        made.remember("fix the build", "look at the log first")
        yield made


def outcomes(memory, receipt):
    return [(o["reward"], o["source"], o["counts"]) for o in memory.explain(receipt).data["outcomes"]]


def test_the_memory_is_settled_then_revised_and_told_again_it_stays(kept, memory):
    receipt = memory.recall("fix the build").id
    id_ = kept.open("s", "job", receipt, 0.0, repo="/a")

    def told(now):
        tell(memory, kept, "s", id_, now)
        tell(memory, kept, "s", id_, now)

    kept.add("s", {"attempt": id_}, command(1))
    told(1.0)
    assert outcomes(memory, receipt) == []
    kept.add("s", {"attempt": id_}, command(0))
    told(2.0)
    assert outcomes(memory, receipt) == [(1.0, "tests", True)] and memory.get("m1").n == 1
    kept.add("s", {"attempt": id_}, person(False))
    told(3.0)
    assert outcomes(memory, receipt) == [(1.0, "tests", False), (0.0, "human", True)]
    assert memory.get("m1").n == 1 and memory.get("m1").value < 1.0  # revised, not counted twice
    for number, (reward, stands) in enumerate([(None, (None, "human", True)), (True, (1.0, "human", True))]):
        kept.add("s", {"attempt": id_}, person(reward, 100.0 * number))
        told(4.0)
        assert outcomes(memory, receipt)[-1] == stands and memory.get("m1").n == number
    assert kept.due(1e12) == []
    assert "a person said: wrong (evidence 3)" in str(memory.bank.store.rows("SELECT detail FROM audit"))
    assert words(kept.of("s", id_, 3.0)).endswith("a person said: right (evidence 5)")
    assert verify(memory) == []


def test_a_weak_verdict_is_told_when_all_is_quiet(kept, memory):
    receipt = memory.recall("fix the build").id
    id_ = kept.open("s", "job", receipt, 0.0)
    kept.add("s", {"attempt": id_}, command(0, 10.0, kind="exit"))
    tell(memory, kept, "s", id_, 10.0)
    assert outcomes(memory, receipt) == [] and kept.due(11.0) == []
    assert kept.due(10.0 + IDLE_S) == [("s", id_)]
    tell(memory, kept, "s", id_, 10.0 + IDLE_S)
    assert outcomes(memory, receipt) == [(1.0, "proxy", True)]


def test_one_verdict_settles_every_receipt_of_the_attempt(kept, memory):
    receipts = [memory.recall("fix the build").id for _ in range(2)]
    for receipt in receipts:
        id_ = kept.open("s", "job", receipt, 0.0)
    kept.add("s", {"attempt": id_}, person(True))
    tell(memory, kept, "s", id_, 1.0)
    assert [outcomes(memory, receipt) for receipt in receipts] == [[(1.0, "human", True)]] * 2


def test_what_was_fixed_and_fails_again_as_before_is_no_success(kept):
    with Memory(embedder="hash:64") as memory:
        memory.remember("fix the build", "look at the log first")
        receipt = memory.recall("fix the build").id
        id_, counted = kept.open("s", "job", receipt, 0.0), list[int]()
        for at, code in enumerate((1, 0, 1, 0)):
            kept.add("s", {"attempt": id_}, command(code, 100.0 * at))
            tell(memory, kept, "s", id_, 100.0 * at)
            counted.append(memory.get("m1").n)
        assert counted == [0, 1, 0, 1] and verify(memory) == []


def test_a_claim_takes_nothing_back_that_was_settled_beside_the_server(kept):
    with Memory(embedder="hash:64") as memory:
        memory.remember("fix the build", "look at the log first")
        receipt = memory.recall("fix the build").id
        id_ = kept.open("s", "job", receipt, 0.0)
        memory.settle(receipt, True, source="tests")
        kept.add("s", {"attempt": id_}, Evidence(0, None, "claim", "proxy", "model", False))
        tell(memory, kept, "s", id_, 1.0)
        assert outcomes(memory, receipt) == [(1.0, "tests", True)]


SAID = st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["ok", "bad", "right", "wrong", "quiet"])), max_size=14)


@pytest.fixture(scope="module")
def twins(tmp_path_factory):
    """A file of attempts, a memory that is told at once, and one that is told in the end."""
    kept = Attempts(tmp_path_factory.mktemp("replay") / "a.attempts")
    with Memory(embedder="hash:64") as live, Memory(embedder="hash:64") as replayed:
        for one in (live, replayed):
            one.remember("fix the build", "look at the log first")
        yield kept, live, replayed
    kept.close()


@given(SAID)
@settings(max_examples=25, deadline=None)
def test_told_step_by_step_or_in_the_end_the_values_are_the_same(twins, said):
    """Replay: the evidence alone gives the ledger, in the order in which attempts were first settled."""
    kept, live, replayed = twins
    make = {
        "ok": lambda at: command(0, at),
        "bad": lambda at: command(1, at),
        "right": lambda at: person(True, at),
        "wrong": lambda at: person(False, at),
    }
    ids, order = list[str](), list[str]()
    for _ in range(3):
        receipt = live.recall("fix the build").id
        assert replayed.recall("fix the build").id == receipt
        ids.append(kept.open("s", f"job of {receipt}", receipt, 0.0))
    for at, (number, what) in enumerate(said):
        if what != "quiet":
            kept.add("s", {"attempt": ids[number]}, make[what](100.0 * at))
        tell(live, kept, "s", ids[number], 100.0 * at)
        if kept.of("s", ids[number], 0.0).verdict.state == "settled" and ids[number] not in order:
            order.append(ids[number])
    for id_ in order:
        tell(replayed, kept, "s", id_, 1e4)
    one, other = live.get("m1"), replayed.get("m1")
    assert one.n == other.n and one.value == pytest.approx(other.value, abs=1e-12)
