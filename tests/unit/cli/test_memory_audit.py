"""The audit against stores whose faults are known, and the page that is made of it."""

import re
from itertools import combinations, pairwise

import numpy as np
import pytest

from evolvent.cli.memory.audit import audit
from evolvent.cli.memory.duplicates import near_bodies
from evolvent.cli.memory.look import _tell
from evolvent.cli.memory.story import story
from evolvent.evaluate.live import Live
from evolvent.evaluate.pages.audit_page import render
from evolvent.memory.memory import Memory
from evolvent.memory.policies import preset
from evolvent.runs.memory.summary import top_memories

TASK = "red-eye flights from Newark"


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def memory(request, tmp_path):
    path = tmp_path / "a.db" if request.param == "sqlite" else request.getfixturevalue("postgres_store")()
    chosen = preset("memlift", gate=-1.0, hide=0.0, pool=9, k=2)
    with Memory(path, policy=chosen, embedder="hash:64", sync="normal") as opened:
        yield opened


def settled(memory, task, reward, source="env", show=None, policy=None):
    recall = memory.recall(task, policy=policy)
    memory.shown(recall, [show] if show else [])
    memory.settle(recall, reward, source=source)
    return recall


def test_values_of_every_stage_are_reported(memory):
    tried, new = memory.remember("a", "one"), memory.remember("b", "two")
    for stage, rewards in (("draft", [1.0]), ("refine", [0.0, 0.0])):
        for reward in rewards:
            recall = memory.recall("a", stage=stage)
            memory.shown(recall, [tried])
            memory.settle(recall, reward, source="tests")
    audited = audit(memory)
    assert audited["coverage"] == audited["nonzero"] == 0.5 and audited["updates_per_item"] == 1.5
    assert {name: (s["tried"], s["updates"]) for name, s in audited["stages"].items()} == {
        "draft": (1, 1),
        "refine": (1, 2),
    }
    assert [row["id"] for row in audited["untried"]] == [new]
    assert [(row["id"], row["stage"]) for row in audited["most_valuable"]] == [(tried, "draft")]
    (mine,) = audited["credit"]["by_memory"].values()
    assert (mine["memories"], mine["active"], mine["tried"]) == (2, 2, 1)
    first, second = memory.items()
    assert (first.stage, first.n) == ("refine", 2) and first.value < 0.5 and (second.stage, second.n) == ("", 0)
    source = memory.health()["sources"][first.source]
    worth = [s["mean_value"] for s in audited["stages"].values()]
    assert (source["items"], source["tried"]) == (2, 1) and source["mean_value"] == pytest.approx(sum(worth) / 2)


def test_what_does_harm_and_what_came_of_it_is_found(memory):
    good = memory.remember(TASK, "use the local hour", source="reviewer")
    bad = memory.remember(TASK, "ignore the task", source="web")
    for _ in range(10):
        settled(memory, TASK, 1.0, show=good)
        under = settled(memory, TASK, 0.0, show=bad)
    child = memory.remember(TASK + " in May", "made of it", parents=under)
    grandchild = memory.remember(TASK + " in June", "made of that", parents=[child])
    audited = audit(memory, untrusted=["nobody"])
    assert [(row["id"], row["source"]) for row in audited["harmful"]["worst"]] == [(bad, "web")]
    assert audited["poisoned"]["nearest"] == [
        {"id": child, "root": bad, "why": "harmful", "depth": 1},
        {"id": grandchild, "root": bad, "why": "harmful", "depth": 2},
    ]
    assert audited["most_valuable"][0]["id"] == good
    assert audited["least_valuable"][0]["id"] == bad
    assert any(bad in line for line in audited["warnings"])
    memory.quarantine([bad], "injected")
    audited = audit(memory)
    assert (
        audited["harmful"]["memories"] == 0
        and audited["poisoned"]["memories"] == 0
        and audited["poisoned"]["roots"] == 3
    )
    memory.restore([grandchild], "checked by hand")
    assert audit(memory)["poisoned"]["nearest"][0]["why"] == "quarantined"
    assert audit(memory, untrusted=["reviewer"])["poisoned"]["roots"] == 3


def test_what_never_helped_is_not_among_the_most_valuable(memory):
    """A value begins high: after two failures it may still stand above what helped four times of five."""
    good, bad = (memory.remember(TASK, body, value=value) for body, value in (("a", 0.5), ("b", 1.0)))
    for i in range(2):
        settled(memory, TASK, 0.0, show=bad, policy=preset("memrl", alpha=0.1))
        for reward in (1.0, float(i)):
            settled(memory, TASK, reward, show=good)
    values = {item.id: item.value for item in memory.items()}
    assert values[bad] > 0.8, "or the test is about nothing"
    assert [row["id"] for row in audit(memory)["most_valuable"]] == [good]
    assert [row["id"] for row in top_memories(memory)[0]] == [good]
    assert top_memories(memory)[0][0]["why"].startswith("right in 3 of 4 attempts")


def test_the_terminal_tells_shares_in_per_cent_and_counts_in_words(memory, tmp_path, capsys):
    a = memory.remember(TASK, "a")
    memory.remember("windy hours at JFK", "b")
    settled(memory, TASK, 0.0, "tests", a)
    page = tmp_path / "audit.html"
    _tell(Live(plain=True), audit(memory))
    page.write_text(render(story(memory)))
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["memories", "with", "an", "outcome", "50", "%"] in lines
    assert ["memories", "with", "a", "value", "that", "moved", "50", "%"] in lines
    assert next(line for line in lines if line[:1] == ["tests"])[-2:] == ["100", "%"]
    assert ["near", "duplicates", "0"] in lines and "after 1 outcome (" in str(memory.explain(a))
    assert ">50 %<" in page.read_text()


def test_counts_are_those_of_the_store(memory):
    a = memory.remember(TASK, "a")
    b = memory.remember("windy hours at JFK", "b")
    memory.remember("seats of United", "c")
    settled(memory, TASK, 1.0, "tests", a)
    settled(memory, TASK, 0.5, "judge", a)
    open_ = memory.recall(TASK)
    memory.shown(open_, [b])
    memory.recall(TASK, is_test=True)
    broken = memory.recall(TASK)
    memory.settle(broken, None, source="judge", valid=False)
    memory.shown(broken, [])
    audited = audit(memory)
    assert audited["never_shown"] == 1
    assert (audited["items"], audited["recalls"], audited["test_recalls"], audited["settled"]) == (3, 5, 1, 2)
    assert audited["coverage"] == pytest.approx(1 / 3) and audited["invalid_outcomes"] == 1
    assert audited["unsettled"]["receipts"] == 1 and audited["unsettled"]["oldest"][0]["id"] == open_.id
    credit = audited["credit"]["by_outcome"]
    outcomes = [
        {"recalled": "r1", "reward": 1.0, "source": "tests"},
        {"recalled": "r2", "reward": 0.5, "source": "judge"},
    ]
    moved = {c.reward: abs(c.q_after - c.q_before) for r in outcomes for c in memory.settle(**r)}
    assert credit["judge"]["outcomes"] == 2 and credit["judge"]["invalid"] == 1
    assert credit["judge"]["share"] == pytest.approx(moved[0.5] / sum(moved.values()))
    assert audited["growth"]["memories"][-1] == 3 and audited["growth"]["receipts"][-1] == 5
    memory.rollback("r2", "the judge was wrong")
    credit = audit(memory)["credit"]["by_outcome"]
    assert credit["judge"]["share"] == 0.0 and credit["judge"]["outcomes"] == 2


def test_judges_that_give_most_of_the_credit_are_named(memory):
    a = memory.remember(TASK, "a", value=0.5)
    for source, reward in (("tests", 0.5), ("judge", 1.0), ("proxy", 1.0)):
        settled(memory, TASK, reward, source, a)
    assert any("judges and proxies" in line for line in audit(memory)["warnings"])


def test_what_was_replaced_by_nothing_is_named(memory):
    old = memory.remember(TASK, "old")
    new = memory.remember(TASK, "new", supersedes=old)
    assert audit(memory)["replaced_by_nothing"] == []
    memory.quarantine([new], "wrong", descendants=False)
    audited = audit(memory)
    assert audited["replaced_by_nothing"] == [{"id": old, "by": new, "which_is": "quarantined"}]
    assert any(old in line for line in audited["warnings"])


def test_duplicates_are_grouped(memory):
    body = "SELECT count(*) FROM flights WHERE carrier = 'DL' AND month = 5 AND dep_time IS NULL AND origin = 'JFK'"
    a = memory.remember("flights of Delta in May that left from JFK after noon today", body)
    b = memory.remember("flights of Delta in May that left from JFK after noon today", body.lower())
    c = memory.remember("flights of Delta in May that left from JFK after noon today", "avoid the index of tailnum")
    d = memory.remember("an altogether different question", body)
    memory.archive(memory.remember("flights of Delta in May that left from JFK after noon now", body + " "), "old")
    audited = audit(memory)["duplicates"]
    assert audited["near"]["largest"] == [[a, b]] and audited["near"]["memories"] == 2
    assert audited["same_body"]["largest"] == [[a, d]] and audited["complete"]
    assert c not in str(audited)
    assert audit(memory, near=-1.0)["duplicates"]["near"]["largest"] == [[a, b, d]]


@pytest.mark.parametrize("near", [0.5, 0.9, 1.0])
def test_near_bodies_are_exact(near):
    rng = np.random.default_rng(3)
    texts = {}
    for i in range(200):
        words = rng.choice(["a", "b", "c", "d", "e", "f"], size=rng.integers(0, 12)).tolist()
        texts[str(i)] = " ".join(words)
        words[int(rng.integers(len(words) + 1)) :] = ["z"]
        texts[f"{i}'"] = " ".join(words)

    def pairs(text):
        words = ["", *text.split(), ""]
        return set(pairwise(words))

    found = [frozenset(pair) for pair in near_bodies(texts.items(), near)]
    want = {
        frozenset((x, y))
        for x, y in combinations(texts, 2)
        if 2 * len(pairs(texts[x]) & pairs(texts[y])) >= near * (len(pairs(texts[x])) + len(pairs(texts[y])))
    }
    assert set(found) == want and len(found) == len(want) and want


def test_the_page_shows_what_it_is_given_as_text_only(memory):
    nasty = '<script>alert(1)</script> "quoted" & \x1b[31m </title>'
    root = memory.remember(nasty, nasty, source="<b>web</b>")
    for reward in (1.0, 0.0, 1.0):
        under = settled(memory, nasty, reward, "judge", root)
    child = memory.remember(nasty + " again", "child", parents=under, polarity="success")
    settled(memory, nasty, 0.5, "env", child, preset("memq", gate=-1.0, epsilon=0.0, q_init="middle"))
    memory.quarantine([child], "<i>reason</i>")
    memory.rollback("r3", "x")
    page = render(story(memory))
    assert "<script" not in page and "<b>web" not in page and "<i>reason" not in page and "\x1b" not in page
    assert not re.search(r"https?://|url\(", page.split("</style>")[1])
    for part in (
        "Value over time",
        "What was shown when",
        "Provenance",
        "Where the credit comes from",
        "Growth",
        "Acts",
    ):
        assert f"<h2>{part}</h2>" in page
    assert page.count('class="bad-ring"') == 2  # in the key, and around the child
    assert "void" in page and page.count("ancestor, reward") >= 1
    strip = page.split("What was shown when")[1].split("</svg>", 4)
    assert sum(part.count(f"<title>{root} from") for part in strip) == 3


def test_an_updated_memory_keeps_its_value_and_its_line_in_the_page(memory):
    first = memory.remember("count delta flights", "way")
    for reward in (1.0, 1.0, 0.0):
        settled(memory, "count delta flights", reward, show=first)
    second = memory.update(first, "a better way", body="other way")
    settled(memory, "count delta flights", 1.0, show=second)
    audited = story(memory)
    (chart,) = audited["charts"]["most valuable"]
    assert (chart["id"], chart["value"], chart["events"]) == (second, memory.items()[0].value, 4)
    assert {node["value"] for node in audited["graph"]["nodes"]} == {chart["value"]}


def test_the_page_of_an_empty_memory(memory):
    page = render(story(memory))
    assert "Nothing looks wrong" in page and "Provenance" not in page


def test_the_page_of_a_large_memory_is_bounded(memory):
    with memory.transaction():
        memory.remember_many([{"key": f"task {i} of {i % 7}", "body": f"body {i}"} for i in range(600)])
        for i in range(150):
            recall = memory.recall(f"task {i} of {i % 7}")
            memory.settle(recall, float(i % 3 == 0))
            memory.remember(f"task {i} again", f"lesson {i}", parents=recall, polarity="success")
    audited = story(memory)
    assert len(audited["graph"]["nodes"]) == 48 and audited["graph"]["more"] > 0
    assert len(audited["strip"]["rows"]) == 36 and len(audited["strip"]["columns"]) == 96
    assert len(render(audited)) < 600_000
